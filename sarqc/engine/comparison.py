"""The common part of tuning and a ladder: models compared in several draws, as far as there is time."""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

from sarqc.engine.budget import Budget
from sarqc.engine.device_memory import rehearse
from sarqc.engine.measure import keep_states, measure
from sarqc.engine.run import RunContext
from sarqc.engine.trials import Draw, TrialResult, TuningContext, draw_of, ground_of
from sarqc.events import Event
from sarqc.quantization.methods import Method
from sarqc.recipe import Recipe


def begin(run: RunContext, points: Sequence[Method]) -> Generator[Event, None, tuple[TuningContext, Budget]]:
    """Try the largest layer at ``points``; return the context of all draws, and the time."""
    yield run.started_event({})
    yield from rehearse(run.bench, run.prepared, replace(run.job, inputs_from="float"), points)
    minutes = run.recipe.minutes
    budget = Budget(None if minutes is None else 60 * minutes, run.bench.store.claims.crew, run.started)
    return ground_of(run.bench, run.prepared, run.job.grids), budget


@dataclass
class ModelComparison:
    """The results so far. Draws and models count from 0."""

    run: RunContext
    ground: TuningContext
    budget: Budget
    trials: list[dict[int, TrialResult]] = field(default_factory=list, init=False)  # [draw][model]

    @property
    def recipe(self) -> Recipe:
        return self.run.recipe

    @property
    def blocks(self) -> list[int] | None:
        """Blocks that are quantized; None for all."""
        blocks = self.ground.bench.loaded.checkpoint.only_blocks
        return None if blocks is None else list(blocks)

    def draw(self, number: int) -> Draw:
        """Return a draw by its number."""
        return draw_of(self.recipe, self.ground, number)

    def measure_float(self) -> Generator[Event, None, None]:
        """Measure the float model on the test text, and keep its states. Raises ``TimeUp``."""
        bench, states = self.ground.bench, self.ground.states
        plain = replace(self.ground.prepared, recipe=self.recipe.model_copy(update={"tasks": ()}))
        self.run.original = yield from self.budget.within(measure(bench, plain, "float", bench.model.key, states))
        yield from self.budget.within(keep_states(bench, plain, states))

    def note(self, draw: int, index: int, trial: TrialResult) -> None:
        """Take the result of a model in a draw."""
        self.trials[draw][index] = trial
        self.budget.count(trial.seconds)

    def model_seconds(self) -> float:
        """Return the seconds of one more model: the mean of the measured ones, as stored with them, or 0."""
        seconds = [
            trial.seconds for by_index in self.trials for trial in by_index.values() if trial.divergence is not None
        ]
        return sum(seconds) / len(seconds) if seconds else 0.0

    def affordable(self, models: int) -> int:
        """Return the number of models, at most ``models``, that there is time for."""
        seconds, left = self.model_seconds(), self.budget.left()
        return models if not seconds or math.isinf(left) else max(0, min(models, int(left / seconds)))

    def trim(self) -> None:
        """Remove statistics beyond the limit of the host."""
        self.ground.statistics.trim(int(self.ground.bench.settings.statistics_gib * 2**30))
