"""Facts about one line of a study, as plain numbers; numpy only, without drawing and words.

Every comparison is *paired*: the same calibration draws for both sides, the difference per draw, then its mean and its
standard error over draws. Two draws differ by more than two neighbouring λ, so unpaired means would hide the effect.

Axes in comments: D calibration draws, L layers, G γ values, M λ values, T test items.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from itertools import product
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np

from sarqc.errors import NotFound
from sarqc.quantization.methods import entry_of
from sarqc.study.document import ArrayRef, Line, Result, Study
from sarqc.study.evidence import Evidence
from sarqc.study.paired import (
    Difference,
    geometric_mean,
    may_be_best,
    mean_over_draws,
    paired_difference,
    paired_items,
    paired_ratio,
    sweet_spots,
)

# The scale searches' λ=0 is AWQ, that of learned clipping is OmniQuant, that of learned rounding is SignRound, and the
# column solvers' identity λ=0.01 is GPTQ: the same computation, so a study need not hold those lines a second time.
# Public name → λ, and the lines that hold it.
BASELINE_POINTS: dict[str, tuple[float, tuple[str, ...]]] = {
    "gptq": (0.01, ("rqc-gbs",)),
    "gptaq": (0.01, ()),
    "awq": (0.0, ("sarqc-gs", "rqc-gs")),
    "omniquant": (0.0, ("sarqc-omniquant",)),
    "signround": (0.0, ("sarqc-signround",)),
}
P = ParamSpec("P")
Paired = TypeVar("Paired", bound=Difference)
IDENTITY_OF = {"sarqc-gbs": "rqc-gbs", "sarqc-gs": "rqc-gs"}


@dataclass(frozen=True)
class BaselinePoint:
    """The named point that a line is compared with; arrays over that point's own draws."""

    method: str
    lam: float
    held_by: str  # title of the line that contains it
    draws: tuple[int, ...]
    on_its_grid: bool  # fitted as the line's own is, and not the plain way
    perplexity: np.ndarray | None  # D
    accuracy: np.ndarray | None = None  # D
    correct: np.ndarray | None = None  # D T
    recon: np.ndarray | None = None  # D, of the selected layer or the mean over layers
    held_out: np.ndarray | None = None  # D
    drift: np.ndarray | None = None  # D


@dataclass(frozen=True)
class Quality:
    """A whole-model quantity of one line: means and differences."""

    mean: np.ndarray  # G M, over draws; of perplexities the geometric one
    to_baseline: Difference | None  # G M; intervals hold for all λ of a γ at once, see ``simultaneous``
    baseline_mean: float | None
    best: tuple[int | None, ...]  # per γ, the λ position with the best mean
    band: np.ndarray  # G M, a set that holds the truly best λ with probability 95 %, see ``sweet_spots``
    values: np.ndarray = field(repr=False)  # D G M
    items: int | None = None  # number of test items, if these were a sample beside the draws
    name: Literal["perplexity", "accuracy"] = "perplexity"

    @property
    def n_draws(self) -> int:
        """Number of draws in which it was measured at any point."""
        return int(np.isfinite(self.values).any(axis=(1, 2)).sum())

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The 95 % intervals of the differences to the baseline, around the means: G M each."""
        paired, best = self.to_baseline, self.best_point
        if paired is None:
            return None
        low, high = paired.low.copy(), paired.high.copy()
        if best is not None:
            difference = self._difference_at(paired, best)
            low[best], high[best] = difference.low, difference.high
        return self.mean + (low - paired.mean), self.mean + (high - paired.mean)

    def _difference_at(self, paired: Difference, at: tuple[int, int]) -> Difference:
        """Return the difference at a point: that of the best of several γ holds for the points of all."""
        among = int(_comparison_counts(paired).sum()) if at == self.best_point else paired.among
        return paired.chosen_of(among).at(at)

    def evidence(self, at: tuple[int, int], reference: str) -> Evidence | None:
        """Return the comparison of a point with the baseline; None where either was not measured.

        Its interval holds for all λ of its γ at once, and at the best of several γ for the points of all.
        """
        paired = self.to_baseline
        if paired is None or not np.isfinite(paired.mean[at]):
            return None
        return self.compare(self._difference_at(paired, at), reference, is_best=self.best[at[0]] == at[1])

    def compare(self, difference: Difference, reference: str, **facts: Any) -> Evidence:
        """Return a difference without axes as evidence: over the test items too where these were a sample."""
        if self.items and np.isfinite(difference.error):
            facts |= {"over": "draws and items"} if difference.draws > 1 else {"over": "items", "count": self.items}
        return Evidence.of_difference(difference, quantity=self.name, reference=reference, **facts)

    @property
    def best_point(self) -> tuple[int, int] | None:
        """Positions of γ and λ with the best mean; None where nothing was measured."""
        sign = 1 if self.name == "perplexity" else -1
        points = [(g, m) for g, m in enumerate(self.best) if m is not None]
        return min(points, key=lambda at: sign * float(self.mean[at]), default=None)


def simultaneous(difference: Paired) -> Paired:
    """Return differences to a baseline (… M) with intervals for all λ of a curve at once, of which any may be
    chosen."""
    counts = _comparison_counts(difference)
    return difference.chosen_of(int(counts.max()))


def _comparison_counts(difference: Difference) -> np.ndarray:
    """Return for each curve (… M) the number of points that are compared with a baseline, which may be one of them."""
    is_baseline = (difference.mean == 0) & ~(difference.error > 0)
    counts: np.ndarray = (np.isfinite(difference.mean) & ~is_baseline).sum(axis=-1)
    return counts


@dataclass(frozen=True)
class Selection:
    """Choice of “auto” in each draw and layer, with its candidates (C candidate γ, K candidate λ)."""

    by: str  # "layer" or "model"
    lams: tuple[float, ...]  # K
    gammas: tuple[float | None, ...]  # C
    lam: np.ndarray  # D L
    gamma: np.ndarray | None  # D L, None where there is no γ
    strength: np.ndarray | None  # D L, where α of GPTAQ's shift was chosen

    @property
    def pairs(self) -> np.ndarray:
        """Positions of γ and λ of the chosen candidates: D L 2; -1 without a choice."""
        lam = np.abs(self.lam[..., None] - np.array(self.lams)).argmin(axis=-1)
        gamma = np.zeros_like(lam)
        if self.gamma is not None and len(self.gammas) > 1:
            known = np.array([np.nan if value is None else value for value in self.gammas])
            gamma = np.abs(self.gamma[..., None] - known).argmin(axis=-1)
        return np.where(np.isfinite(self.lam)[..., None], np.stack([gamma, lam], axis=-1), -1)


@dataclass(frozen=True, eq=False)
class LineFacts:
    """All facts of the Lab about one line and one layer (or the mean of all layers)."""

    study: Study
    line: Line
    layer: int | None
    baseline: BaselinePoint | None
    perplexity: Quality | None
    accuracy: Quality | None
    recon: np.ndarray | None  # G M, relative reconstruction error on calibration text
    held_out: np.ndarray | None  # G M, the same on unseen text
    sar: np.ndarray | None  # G M
    drift: np.ndarray | None  # G M, ‖ΔW‖/‖W‖
    change: dict[str, np.ndarray]  # "recon", "held_out", "drift": relative change to the baseline, G M
    identity: LineFacts | None  # the same line without saliency, for the faint curves
    to_identity: Difference | None  # perplexity, saliency minus identity at equal λ, G M
    plain: LineFacts | None  # of a line on a better fitted grid, the same on the plain one
    to_plain: Difference | None  # perplexity, this grid minus the plain one at equal γ and λ, G M
    selection: Selection | None  # of a line whose λ was chosen by “auto”
    _once: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def once(self, name: Hashable, make: Callable[[], Result]) -> Result:
        """Return the result of ``make`` about these facts, computed once and cached."""
        if name not in self._once:
            self._once[name] = make()
        result: Result = self._once[name]
        return result

    def read(self, name: str, layer: int | None = None) -> np.ndarray | None:
        """Return a quantity of the line over all draws and layers, or of one layer, see ``Study.read``."""
        return self.study.read(self.line, name, layer)

    def selected(self, name: str) -> np.ndarray | None:
        """Return a quantity of the facts' layer, or the mean over all layers, see ``read_selected``."""
        return self.once(f"selected {name}", lambda: read_selected(self.study, self.line, name, self.layer))

    def of_baseline(self, name: str) -> np.ndarray | None:
        """Return a quantity of the baseline in the line's draws, D 1 1; None where it was not measured."""
        values: np.ndarray | None = getattr(self.baseline, name, None)
        if self.baseline is None or values is None:
            return None
        return _align(values, self.baseline.draws, self.line.draws)[:, None, None]

    @property
    def n_draws(self) -> int:
        return len(self.line.draws)

    @property
    def baseline_position(self) -> int | None:
        """Position of the baseline on the line's own λ axis; None if it is not a point of this line."""
        if self.baseline is None or self.line.selected or self.line.later or self.line.second != "gamma":
            return None
        if self.line.method == self.baseline.method:
            return 0
        holders = BASELINE_POINTS.get(self.baseline.method, (0.0, ()))[1]
        if self.line.method not in holders:
            return None
        return lam_index(self.line, self.baseline.lam)


def once(make: Callable[Concatenate[LineFacts, P], Result]) -> Callable[Concatenate[LineFacts, P], Result]:
    """Cache a function's results by facts and arguments, see ``LineFacts.once``."""

    @wraps(make)
    def cached(facts: LineFacts, /, *args: P.args, **named: P.kwargs) -> Result:
        return facts.once((make, *args, *named.items()), lambda: make(facts, *args, **named))

    return cached


def once_a_line(make: Callable[Concatenate[LineFacts, P], Result]) -> Callable[Concatenate[LineFacts, P], Result]:
    """Cache a function of facts that no layer changes once for each line, see ``Study.once``."""

    @wraps(make)
    def cached(facts: LineFacts, /, *args: P.args, **named: P.kwargs) -> Result:
        return facts.study.once(facts.line, (make, *args, *named.items()), lambda: make(facts, *args, **named))

    return cached


def has_lam(line: Line) -> bool:
    """Return True if the line's λ are values of λ: not chosen by “auto”, and not of a method without λ."""
    entry = entry_of(line.method)
    return line.selected is None and (entry is None or "lam" in entry.tunes)


def is_point(line: Line) -> bool:
    """Return True for a line without curves: one λ and one γ, or none."""
    return len(line.lams) == len(line.gammas) == 1


def lam_index(line: Line, lam: float) -> int | None:
    """Return the position of a λ on a line's axis; None if the axis does not have it."""
    for index, value in enumerate(line.lams if has_lam(line) else ()):
        if abs(value - lam) <= 1e-9 + 1e-6 * abs(lam):
            return index
    return None


def equal_points(line: Line, other: Line) -> list[int | None]:
    """Return for each λ of a line its position on another line; two lines of “auto” are compared as they are."""
    if line.selected and line.selected == other.selected:
        return [0]
    if line.later != other.later:
        return [None] * len(line.lams)
    return [lam_index(other, lam) for lam in line.lams] if has_lam(line) else [None] * len(line.lams)


def over_layers(array: np.ndarray | None) -> np.ndarray | None:
    """Return the mean D … of D L … over the layers that have a number; None without any."""
    mean = None if array is None else mean_over_draws(np.moveaxis(array, 1, 0))
    return mean if mean is not None and np.isfinite(mean).any() else None


def read_selected(study: Study, line: Line, name: str, layer: int | None) -> np.ndarray | None:
    """Return a quantity with the axes D L … of one layer, or its mean over the layers that have it.

    Returns:
        The quantity D …; None if no value is known.
    """
    if layer is None:
        return study.once(line, f"mean {name}", lambda: over_layers(study.read(line, name)))
    array = study.read(line, name, layer)
    return array if array is not None and np.isfinite(array).any() else None


def find_baseline(study: Study, line: Line, layer: int | None) -> BaselinePoint | None:
    """Return the point that a line is compared with, on the same grid rather than the plain one.

    It may be a point of any line of the study.

    A line is compared with its own grid's baseline, so that the effects of λ and of the grid are not mixed.
    """
    lam, holders = BASELINE_POINTS.get(line.baseline, (0.0, ()))
    alone = None if line.baseline_perplexity is None else np.array([line.baseline_perplexity])
    plain = [other for other in study.lines if other.bits == line.bits and not other.selected and not other.later]
    for fitting, method in product(([line.fitting] if line.fitting else []) + [{}], (line.baseline, *holders)):
        holder = next((other for other in plain if other.method == method and other.fitting == fitting), None)
        if holder is None:
            continue
        index = 0 if method == line.baseline else lam_index(holder, lam)
        if index is None:
            continue

        def read_whole(name: str, holder: Line = holder, index: int = index) -> np.ndarray | None:
            array = study.read(holder, name)
            return None if array is None else array[:, 0, index].copy()  # cached without the rest of the array

        def read_layer(name: str, holder: Line = holder, index: int = index) -> np.ndarray | None:
            array = read_selected(study, holder, name, layer)
            return None if array is None else array[:, 0, index]

        fields = {name: read_layer(name) for name in ("recon", "held_out", "drift")}
        for name in ("perplexity", "accuracy", "correct"):
            fields[name] = study.once(holder, f"{name} at {index}", partial(read_whole, name))
        if fields["perplexity"] is None or not np.isfinite(fields["perplexity"]).any():
            fields["perplexity"] = alone
        return BaselinePoint(line.baseline, lam, holder.spoken_title, holder.draws, bool(fitting), **fields)
    if alone is None:
        return None
    return BaselinePoint(line.baseline, lam, line.spoken_title, line.draws, bool(line.fitting), alone)


def _align(values: np.ndarray, draws: tuple[int, ...], other: tuple[int, ...]) -> np.ndarray:
    """Reorder rows of ``values`` from ``draws`` to ``other``; NaN for a draw that it lacks."""
    rows = [values[draws.index(seed)] if seed in draws else np.full(values.shape[1:], np.nan) for seed in other]
    return np.stack(rows)


def _quality(
    study: Study, line: Line, base: BaselinePoint | None, name: Literal["perplexity", "accuracy"]
) -> Quality | None:
    values, theirs, lower = study.read(line, name), None if base is None else getattr(base, name), name == "perplexity"
    if values is None or not np.isfinite(values).any():
        return None
    difference = baseline_mean = None
    average, compare = (geometric_mean, paired_ratio) if lower else (mean_over_draws, paired_difference)
    if base is not None and theirs is not None and np.isfinite(theirs).any():
        difference = simultaneous(compare(values, _align(theirs, base.draws, line.draws)[:, None, None]))
        baseline_mean = float(average(theirs))
    best, band = sweet_spots(values, lower_is_better=lower)
    return Quality(average(values), difference, baseline_mean, best, band, values, name=name)


def line_facts(study: Study, *, method: str, bits: int, layer: int | None, with_identity: bool = True) -> LineFacts:
    """Return all facts of the Lab about one line.

    Args:
        study: The study.
        method: Name of the line, as ``Line.name``.
        bits: Bit width.
        layer: Position of a layer; None for the mean over all layers.
        with_identity: Also compute the facts of the line without saliency and of the line on the plain grid.

    Raises:
        NotFound: For a line or a layer that the study does not have.
    """
    line = study.line(method, bits)
    if layer is not None and not 0 <= layer < len(study.layers):
        raise NotFound(f"no layer {layer}", f"study {study.id}", f"It has {len(study.layers)} layers, from 0.")
    base = find_baseline(study, line, layer)
    base_draws = base.draws if base else ()
    arrays = {name: read_selected(study, line, name, layer) for name in ("recon", "held_out", "sar", "drift")}

    # The quality of a model is the same whichever layer of it is shown.
    perplexity = study.once(line, "quality of perplexity", lambda: _quality(study, line, base, "perplexity"))
    accuracy = study.once(line, "quality of accuracy", lambda: _accuracy_quality(study, line, base))

    change: dict[str, np.ndarray] = {}
    for name in ("recon", "held_out", "drift"):
        ours, theirs = arrays[name], getattr(base, name, None)
        if ours is not None and theirs is not None:
            reference = _align(theirs, base_draws, line.draws)[:, None, None]
            both = np.isfinite(ours) & np.isfinite(reference)
            above = mean_over_draws(np.where(both, ours, np.nan))
            below = mean_over_draws(np.where(both, reference, np.nan))
            change[name] = above / np.where(below > 0, below, np.nan) - 1

    twins: list[tuple[LineFacts, Difference | None] | tuple[None, None]] = []
    for is_twin in (_is_identity_twin, _is_plain_twin):
        twin = next((other for other in study.lines if is_twin(other, line)), None) if with_identity else None
        if twin is None:
            twins.append((None, None))
            continue
        twin_facts = line_facts(study, method=twin.name, bits=bits, layer=layer, with_identity=False)
        twins.append((twin_facts, _against(line, perplexity, twin_facts)))
    (identity, to_identity), (plain, to_plain) = twins
    means = {name: None if array is None else mean_over_draws(array) for name, array in arrays.items()}
    return LineFacts(
        study,
        line,
        layer,
        base,
        perplexity,
        accuracy,
        **means,
        change=change,
        identity=identity,
        to_identity=to_identity,
        plain=plain,
        to_plain=to_plain,
        selection=read_selection(study, line),
    )


def _is_identity_twin(twin: Line, line: Line) -> bool:
    """Return True for the same solver without saliency, at the same width, grid and way in which λ was chosen."""
    same = twin.bits == line.bits and twin.selected == line.selected and twin.fitting == line.fitting
    same = same and twin.second == line.second == "gamma"
    return same and twin.later == line.later and twin.method == IDENTITY_OF.get(line.method)


def _is_plain_twin(twin: Line, line: Line) -> bool:
    """Return True for the same method at the same width and at the same values of γ, on the plain grid."""
    same = twin.bits == line.bits and twin.method == line.method and twin.selected == line.selected
    same = same and twin.second == line.second and twin.gammas == line.gammas and twin.later == line.later
    return bool(set(line.fitting) - {"first_order"}) and same and not twin.fitting


def read_selection(study: Study, line: Line) -> Selection | None:
    """Return the choice of “auto” for a line; None for other lines, and if it was not recorded."""
    lam, gamma = study.read(line, "selected_lambda"), study.read(line, "selected_gamma")
    if line.selected is None or lam is None or not line.candidate_lams:
        return None
    return Selection(
        line.selected,
        line.candidate_lams,
        line.candidate_gammas or (None,),
        lam,
        None if gamma is None or not np.isfinite(gamma).any() else gamma,
        study.read(line, "selected_strength"),
    )


def _accuracy_quality(study: Study, line: Line, base: BaselinePoint | None) -> Quality | None:
    quality, correct = _quality(study, line, base, "accuracy"), study.read(line, "correct")
    if quality is None or correct is None:
        return quality
    quality = replace(quality, band=_item_band(correct, quality.best), items=correct.shape[-1])
    if base is None or base.correct is None or correct.shape[-1] != base.correct.shape[-1]:
        return quality
    reference = _align(base.correct, base.draws, line.draws)  # D T
    shared = np.isfinite(reference).all(axis=-1) & np.isfinite(correct).all(axis=-1).any(axis=(1, 2))  # D
    if not shared.any():
        return quality
    difference = paired_items(correct[shared], reference[shared][:, None, None])
    return replace(quality, to_baseline=simultaneous(difference))


def _below(correct: np.ndarray, other: int) -> Difference:
    """Return the accuracy of another λ minus that of each (D M T), so that lower is better."""
    return paired_items(correct, correct[:, [other]]).scaled(-1)


def _item_band(correct: np.ndarray, best: tuple[int | None, ...]) -> np.ndarray:
    """Return per γ a set that holds the λ with the truly highest accuracy with probability 95 %: G M.

    Items and draws are samples. Every λ is compared in the draws that the best of the measured ones answered.
    """
    band = np.zeros(correct.shape[1:3], dtype=bool)
    for g, m in enumerate(best):
        if m is None:
            continue
        answered = np.isfinite(correct[:, g, m]).all(axis=-1)  # D
        if not answered.any():
            continue
        answers = correct[answered, g]  # D M T
        band[g] = may_be_best(partial(_below, answers), answers.shape[1])
        band[g, m] = True
    return band


def _against(line: Line, perplexity: Quality | None, twin: LineFacts) -> Difference | None:
    """Return a line minus its twin at equal λ and in equal draws; NaN where the twin has no such λ.

    The twin has the line's γ, or a single one that stands beside all of them.
    """
    if perplexity is None or twin.perplexity is None:
        return None
    theirs = _align(twin.perplexity.values, twin.line.draws, line.draws)  # D G' M'
    columns = equal_points(line, twin.line)
    nothing = np.full(theirs.shape[:2], np.nan)
    matched = np.stack([nothing if column is None else theirs[..., column] for column in columns], axis=-1)  # D G' M
    return paired_ratio(perplexity.values, matched)


def layer_slice(ref: ArrayRef, layer: int) -> tuple[int, int]:
    """Return offset and length in bytes of one layer of an array whose first axis is the layer."""
    size = int(np.prod(ref.shape[1:], dtype=np.int64)) * np.dtype(ref.dtype).itemsize
    return layer * size, size
