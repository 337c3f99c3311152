"""The state of a tuning run: its candidates, their results in each draw, and the progress as a document.

Nothing is measured here: ``stages.tuning`` does that. ``search.Search`` draws the conclusions.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from sarqc.documents import DrawGain, End, Next, Tuning, TuningRow, TuningTurn
from sarqc.engine.comparison import ModelComparison
from sarqc.engine.screening import Screening, in_question
from sarqc.engine.search import AHEAD, ENOUGH, SURE, Search, order_by_promise, rounded_up
from sarqc.engine.trials import TrialResult
from sarqc.plain import measured as or_none
from sarqc.quantization.methods import Method
from sarqc.recipe import BASELINE, Recipe
from sarqc.recipe.fields import DRAWS
from sarqc.study.evidence import Evidence, Verdict
from sarqc.study.gain import gains
from sarqc.study.paired import paired_difference, spans

_NEXT: dict[Verdict, Next] = {"better": "run", "equal": "keep", "worse": "keep", "unknown": "go_on"}


@dataclass(frozen=True)
class Candidate:
    """A method at a point."""

    name: str
    method: Method


@dataclass
class TuningState(ModelComparison):
    """The results of a tuning run so far; models are candidates by their positions: by λ, then the baselines."""

    screening: Screening
    references: Sequence[Candidate]  # the baselines, GPTQ 1 % first, rounding to nearest last
    gamma: float | None = None
    order: tuple[int, ...] = ()  # λ in question, the most promising first; none until they are settled
    durations: list[float] = field(default_factory=list)  # seconds of each model that was measured in this run
    new: int = 0  # models that were measured in this run
    draw_seconds: float = 0.0  # of the statistics of the last draw
    why: End = ""  # the reason of its end
    turns: list[TuningTurn] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.trials = [{} for _ in range(self.recipe.draws)]
        self.gamma = self.screening.base.gamma

    def settle(self) -> None:
        """Choose γ, and the λ in question, by the errors of layers so far."""
        gamma = self.screening.gamma()
        self.gamma, known = self.screening.gammas[gamma], self.screening.known(gamma)
        every = range(len(self.screening.lams))
        if not len(known):  # no layer saw a token of unseen text
            self.order = (*every,)
            return
        left = [int(at) for at in in_question(known, self.screening.layers)]
        self.order = order_by_promise(left, [float(known[:, at].mean()) for at in left])

    @property
    def candidates(self) -> list[Candidate]:
        points = self.screening.base.points(self.screening.lams, (self.gamma,))
        return [*(Candidate(self.recipe.method, point) for point in points), *self.references]

    @property
    def search(self) -> Search:
        """The conclusions from the measurements so far."""
        count, tuned = len(self.candidates), len(self.screening.lams)
        values = np.full((self.recipe.draws, count), np.nan)
        windows: np.ndarray | None = None
        for draw, by_index in enumerate(self.trials):
            for index, trial in by_index.items():
                if (divergence := trial.divergence) is not None:
                    if windows is None:
                        windows = np.full((*values.shape, len(divergence.log_ratios)), np.nan)
                    values[draw, index] = divergence.log_ratio.mean
                    windows[draw, index] = divergence.log_ratios
        every = range(tuned, count)
        return Search(
            values,
            self.order,
            tuple(every[:-1]),
            (every[-1],),
            None if windows is None else windows[:, [tuned]] - windows,
        )

    def end(self) -> End | None:
        """Return the reason to end even with time left; None without one."""
        lams = [candidate.method.lam for candidate in self.candidates]
        return self.search.end(lams, self.recipe.band, has_budget=self.budget.seconds is not None)

    def by_name(self, indices: Iterable[int]) -> list[list[int]]:
        """Return the same candidates, those of one method together: they are solved at once."""
        names, together = [candidate.name for candidate in self.candidates], dict[str, list[int]]()
        for index in indices:
            together.setdefault(names[index], []).append(index)
        return [*together.values()]

    def note(self, draw: int, index: int, trial: TrialResult) -> None:
        """Take the result of a candidate in a draw."""
        super().note(draw, index, trial)
        search = self.search
        if search.best is not None:
            self.note_draws(search.draws)

    def note_draws(self, whole: int) -> None:
        """Note the number of complete draws: a turning point if it has grown."""
        if whole > max((turn["draws"] for turn in self.turns), default=0):
            self.note_turn("draw", whole)

    def note_turn(self, what: Literal["screening", "screened", "draw", "end"], draws: int) -> None:
        """Note a turning point after so many complete draws."""
        search, lams = self.search, self.screening.lams
        left = {"not_reached"} if search.best is None else {"best", "as_good"}
        before = {lam for turn in self.turns for lam in turn["out"]}
        standing = {lam: search.standing(at) for at, lam in enumerate(lams)}
        self.turns.append(
            {
                "seconds": round(self.budget.spent(), 1),
                "what": what,
                "draws": draws,
                "leading": None if search.leading is None else lams[search.leading],
                "left": [lam for lam in lams if standing[lam] in left],
                "out": [lam for lam in lams if standing[lam] in {"ruled_out", "worse"} and lam not in before],
            }
        )

    def model_seconds(self) -> float:
        """Return the seconds of one more model: by those measured in this run, or stored results of several workers."""
        if self.budget.is_shared:
            return super().model_seconds()
        return sum(self.durations) / len(self.durations) if self.durations else 0.0

    def together(self) -> int:
        """Return the number of models to solve at once under a budget: as many as take a tenth of it."""
        assert self.budget.seconds is not None
        return max(1, int(self.budget.seconds / 10 / self.model_seconds())) if self.durations else 1

    def to_json(self) -> Tuning:
        """Return its progress; after its end the reason, and the next step."""
        search, tuned = self.search, range(len(self.screening.lams))
        measured = int(search.seen.sum())
        step: Next = self._next(search)
        return {
            "method": self.recipe.method,
            "gamma": self.gamma,
            "gammas": [self.screening.gammas[at] for at in self.screening.compared()],
            "gamma_errors": self.screening.of_gammas(),
            "screened": [len(self.screening.known(self._gamma_at())), self.screening.layers],
            "rows": self._rows(search),
            "best": search.best,
            "band": self._spans([search.standing(at) in ("best", "as_good") for at in tuned]),
            "suggested": self._spans([at in self.order for at in tuned]),
            "one_draw": self._gains_by_draw(search),
            "draws": search.draws,
            "measured": measured,
            "reused": measured - self.new,
            "planned": measured + (0 if self.why else self._remaining(search)),
            "seconds": round(self.budget.spent(), 1),
            "budget": self.budget.seconds,
            "turns": [*self.turns],
            "blocks": self.blocks,
            "end": self.why,
            "next": step,
            "evidence": None if (evidence := self._evidence(search)) is None else evidence.to_json(),
            "more_minutes": self._more_minutes(search) if self.why == "budget" else None,
            "recipe": self._next_recipe(step, search),
        }

    def _gamma_at(self) -> int:
        return self.screening.gammas.index(self.gamma)

    def _spans(self, mask: list[bool]) -> list[list[float]]:
        lams = self.screening.lams
        return [[lams[first], lams[last]] for first, last in spans(np.array(mask))]

    def _next(self, search: Search) -> Next:
        if not self.why or self.why == "yardstick":
            return ""
        evidence = self._evidence(search)
        return "go_on" if evidence is None else _NEXT[evidence.verdict]

    def _evidence(self, search: Search) -> Evidence | None:
        """Return the comparison of the best λ with GPTQ 1 %, for all compared λ at once."""
        return search.evidence(Path(self.recipe.test or "").name)

    def _remaining(self, search: Search) -> int:
        """Return the number of further models: of all draws, or as many as there is time for."""
        if not self.order:
            return self.recipe.draws * (len(self.screening.lams) + len(self.references))
        running = search.running or self.order
        indices = [*running, *search.baselines]
        every = int((~search.seen[:, indices]).sum()) + int((~search.seen[0, list(search.once)]).sum())
        return self.affordable(every)

    def _more_minutes(self, search: Search) -> float:
        """Return a budget in which a search that goes on from here would have compared enough, or two more draws."""
        seconds, left = self.model_seconds(), self.budget.seconds or 0.0
        if search.best is None or search.draws < SURE:
            lams, draws = (self.order or range(ENOUGH))[:ENOUGH], SURE
        else:
            lams, draws = search.compared[:AHEAD], search.draws + 2
        target = [*lams, *search.baselines]
        missing = len(target) * draws - int(search.seen[:draws, target].sum())
        needed = missing * seconds + 2 * self.draw_seconds if seconds else 3 * left
        return rounded_up(1.2 * needed / 60)

    def _gains_by_draw(self, search: Search) -> list[DrawGain]:
        leading = search.leading
        if leading is None or search.windows is None:
            return []
        draw_gains = []
        for draw, windows in enumerate(search.windows[:, leading]):
            if np.isfinite(windows).all():
                gain = paired_difference(windows, np.zeros(1))
                mean, low, high = (or_none(float(part)) for part in (gain.mean, gain.low, gain.high))
                draw_gains.append(DrawGain(row=leading, draw=draw, better=mean or 0.0, low=low, high=high))
        return draw_gains

    def _rows(self, search: Search) -> list[TuningRow]:
        ratios, kl, gptq, gain = (
            search.values[: max(1, search.draws)],
            self._kl(search),
            search.baselines[0],
            search.gains,
        )
        above = _distances_to_best(search, ratios)
        screened = self.screening.known(self._gamma_at())
        perplexity = self.run.original.perplexity
        rows: list[TuningRow] = []
        for index, candidate in enumerate(self.candidates):
            mean, error = _mean(ratios[:, index])
            worse = or_none(above[0][index])
            better = or_none(gain.mean[index])
            if better is not None:  # over all draws of the baseline, so that it and the difference agree
                mean = float(search.means[gptq]) - better
            is_tuned = index < len(self.screening.lams)
            rows.append(
                {
                    "method": candidate.name,
                    "lambda": candidate.method.lam if candidate.method.sweeps() else None,
                    "gamma": candidate.method.gamma,
                    "standing": search.standing(index),
                    "draws": int(search.seen[: max(1, search.draws), index].sum()),
                    "layer_error": float(screened[:, index].mean()) if is_tuned and len(screened) else None,
                    "log_ratio": mean,
                    "log_ratio_error": error,
                    "perplexity": None if mean is None or perplexity is None else perplexity.value * math.exp(mean),
                    "worse": worse,
                    "worse_low": or_none(above[1][index]),
                    "worse_high": or_none(above[2][index]),
                    "kl": _mean(kl[:, index])[0],
                    "kl_error": _mean(kl[:, index])[1],
                    "better": better,
                    "better_low": or_none(gain.low[index]),
                    "better_high": or_none(gain.high[index]),
                    "better_by_draw": [
                        float(value) for value in search.values[:, gptq] - search.values[:, index] if np.isfinite(value)
                    ],
                }
            )
        return rows

    def _kl(self, search: Search) -> np.ndarray:
        values = np.full_like(search.values, np.nan)
        for draw, by_index in enumerate(self.trials[: max(1, search.draws)]):
            for index, trial in by_index.items():
                if trial.divergence is not None:
                    values[draw, index] = trial.divergence.kl.mean
        return values

    def _next_recipe(self, step: Next, search: Search) -> dict[str, object] | None:
        if step == "":
            return None
        if step == "go_on":  # stored results cost nothing: it goes on where it stopped
            draws = min(DRAWS, max(self.recipe.draws, search.draws + 2))
            minutes = None if self.recipe.minutes is None else self._more_minutes(search)
            return self.recipe.model_copy(update={"minutes": minutes, "draws": draws}).to_json()
        plain = {
            name: Recipe.model_fields[name].default
            for name in ("kind", "sweep", "minutes", "draws", "band", "blocks", "block_fraction")
        }
        if step == "keep":
            chosen: dict[str, object] = {"method": BASELINE, "lam": None, "gamma": None}
        else:
            assert search.best is not None
            point = self.candidates[search.best].method
            chosen = {"lam": point.lam, "gamma": point.gamma}
        return self.recipe.model_copy(update=plain | chosen).to_json()


def _distances_to_best(search: Search, ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each candidate's distance above the best λ: mean and simultaneous interval, (K,) each; NaN where not
    known.
    """
    nothing = np.full(ratios.shape[1], np.nan)
    if search.best is None:
        return nothing, nothing, nothing
    others = [index for index in search.compared if index != search.best]
    below = gains(ratios, ratios[:, search.best])
    low, high = nothing.copy(), nothing.copy()
    windows = None
    if search.windows is not None:
        windows = search.windows[: search.draws, others] - search.windows[: search.draws, [search.best]]
    some = gains(ratios[:, others], ratios[:, search.best], None if windows is None else windows)
    low[others], high[others] = -some.high, -some.low
    return -below.mean, low, high


def _mean(values: np.ndarray) -> tuple[float | None, float | None]:
    difference = paired_difference(values[:, None], np.zeros((len(values), 1)))
    return or_none(float(difference.mean[0])), or_none(float(difference.error[0]))
