"""The state of a model's ladder: the results of each step in each draw, and the progress as a document.

Nothing is measured here: ``stages.ladder`` does that.
"""

from functools import cached_property
from pathlib import Path

import numpy as np

from sarqc.documents import LadderEnd, LadderNext, LadderRow, LadderRun
from sarqc.engine.comparison import ModelComparison
from sarqc.engine.ladder_steps import StepMethod, ladder_steps, left_out, run_after
from sarqc.engine.search import rounded_up
from sarqc.quantization.methods import METHODS
from sarqc.quantization.storage import Kind, bits_per_weight
from sarqc.study.paired import geometric_mean

_INTERVAL_DRAWS = 2  # draws
_RESERVE = 1.2  # of the minutes that are proposed, times those that were needed so far


class LadderState(ModelComparison):
    """The results of a ladder so far: trials are of the draws that were begun, by the positions of steps."""

    why: LadderEnd = ""  # the reason of its end

    @cached_property
    def steps(self) -> tuple[StepMethod, ...]:
        """The steps in their order."""
        return ladder_steps(self.recipe)

    def missing(self, draw: int) -> list[int]:
        """Return the steps that are not measured in a draw."""
        return [step for step in range(len(self.steps)) if step not in self.trials[draw]]

    def whole(self) -> int:
        """Return the number of draws in which every step was measured."""
        return sum(not self.missing(draw) for draw in range(len(self.trials)))

    def to_json(self) -> LadderRun:
        """Return its progress; after its end the reason, and the next step."""
        measured, best, step = sum(map(len, self.trials)), self._best(), self._next()
        more = self._more_minutes() if step == "go_on" else None
        perplexity = self.run.original.perplexity
        return {
            "model": Path(self.recipe.model).name,
            "bits": self.recipe.bits,
            "rows": [self._row(at, entry) for at, entry in enumerate(self.steps)],
            "left_out": left_out(self.recipe),
            "perplexity_float": None if perplexity is None else perplexity.value,
            "draws": self.whole(),
            "measured": measured,
            "planned": measured + (0 if self.why else self.affordable(self.recipe.draws * len(self.steps) - measured)),
            "seconds": round(self.budget.spent(), 1),
            "budget": self.budget.seconds,
            "blocks": self.blocks,
            "end": self.why,
            "next": step,
            "best": best,
            "more_minutes": more,
            "recipe": self._next_recipe(step, best, more),
        }

    def _row(self, at: int, step: StepMethod) -> LadderRow:
        trials = [by_step.get(at) for by_step in self.trials]
        kl = [None if trial is None or trial.divergence is None else trial.divergence.kl.mean for trial in trials]
        return {
            "step": step.step,
            "method": step.name,
            "fitting": step.method.fitting(),
            "lambda": step.method.lam if METHODS[step.name].make.sweeps() else None,
            "grid": step.grid,
            "bits_per_weight": self._bits_per_weight(step.grid),
            "perplexity": [None if trial is None else trial.perplexity for trial in trials],
            "kl": kl,
        }

    def _bits_per_weight(self, grid: Kind) -> float:
        shapes = [layer.shape for layer in self.ground.layers]
        return bits_per_weight(shapes, grid, self.recipe.bits, self.recipe.group_size)

    def _best(self) -> int | None:
        whole = [by_step for by_step in self.trials if len(by_step) == len(self.steps)]
        if not whole:
            return None
        values = np.array([[by_step[step].perplexity for step in range(len(self.steps))] for by_step in whole], float)
        return int(np.argmin(geometric_mean(values)))

    def _next(self) -> LadderNext:
        if not self.why:
            return ""
        return "go_on" if self.why == "budget" and self.whole() < _INTERVAL_DRAWS else "run"

    def _more_minutes(self) -> float:
        """Return a budget in which a ladder that goes on from here has its first intervals."""
        missing = _INTERVAL_DRAWS * len(self.steps) - sum(map(len, self.trials))
        needed = missing * self.model_seconds() if self.trials else 0.0
        return rounded_up(_RESERVE * (needed or 3 * (self.budget.seconds or 0.0)) / 60)

    def _next_recipe(self, step: LadderNext, best: int | None, more: float | None) -> dict[str, object] | None:
        if step == "go_on":  # stored results cost nothing: it goes on where it stopped
            return self.recipe.model_copy(update={"minutes": more}).to_json()
        return None if step == "" or best is None else run_after(self.recipe, self.steps[best]).to_json()
