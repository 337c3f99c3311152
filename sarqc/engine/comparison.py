"""What tuning and a ladder have in common: models that are compared in several draws, as far as there is time."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field, replace

from sarqc.engine.budget import Budget
from sarqc.engine.measure import Measurements, keep_states, measure
from sarqc.engine.trials import Draw, TrialResult, TuningContext, draw_of
from sarqc.events import Event
from sarqc.recipe import Recipe


@dataclass
class Comparison:
    """What is known so far. Draws and models count from 0."""

    recipe: Recipe
    ground: TuningContext
    budget: Budget
    original: Measurements | None = field(default=None, init=False)  # the float model; None: not measured yet
    trials: list[dict[int, TrialResult]] = field(default_factory=list, init=False)  # [draw][model]

    @property
    def blocks(self) -> list[int] | None:
        """Blocks that are quantized; None for all."""
        blocks = self.ground.bench.loaded.checkpoint.of_blocks
        return None if blocks is None else list(blocks)

    def draw(self, number: int) -> Draw:
        """Return a draw by its number."""
        return draw_of(self.recipe, self.ground, number)

    def measure_float(self) -> Generator[Event, None, None]:
        """Measure the float model on the test text, and keep its states. Raises ``TimeUp``."""
        bench, states = self.ground.bench, self.ground.states
        plain = replace(self.ground.prepared, recipe=self.recipe.model_copy(update={"tasks": ()}))
        self.original = yield from self.budget.within(measure(bench, plain, "float", bench.model.key, states))
        yield from self.budget.within(keep_states(bench, plain, states))

    def note(self, draw: int, index: int, trial: TrialResult) -> None:
        """Take the result of a model in a draw."""
        self.trials[draw][index] = trial
        self.budget.count(trial.seconds)

    def model_seconds(self) -> float:
        """Return the seconds of one more model: the mean of those that were measured, as kept with them, or 0."""
        taken = [one.seconds for of_draw in self.trials for one in of_draw.values() if one.divergence is not None]
        return sum(taken) / len(taken) if taken else 0.0

    def affordable(self, models: int) -> int:
        """Return how many of so many models there is time for."""
        seconds, left = self.model_seconds(), self.budget.left()
        return models if not seconds or math.isinf(left) else max(0, min(models, int(left / seconds)))

    def trim(self) -> None:
        """Remove statistics beyond what the host keeps."""
        self.ground.statistics.trim(int(self.ground.bench.settings.statistics_gib * 2**30))
