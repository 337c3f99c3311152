"""Methods as data: one frozen dataclass for each family, and the table of public names.

Without torch, so that pages can use it. Nothing outside this package asks for the class of a method: everything that
callers need is a member of ``Method``. A new method is a new row of ``METHODS``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from sarqc.errors import Refused
from sarqc.quantization.counts import (
    FACTORISING,
    OF_REFIT,
    RECORDED_SHARE,
    STARTED_OF_CANDIDATE,
    STARTED_OF_STEP,
    Count,
    Workload,
)

Unit = Literal["layer", "group", "block"]
Saliency = Literal["identity", "saliency"]
Aim = Literal["weights", "outputs", "float outputs", "block outputs"]
Weighing = Literal["one", "gamma", "ratio", "root"]
Shift = Literal["none", "published", "full"]
ScaleMode = Literal["per_linear", "foldable"]
Normalise = Literal["initial", "none"]
Range = Literal["minmax", "search", "joint"]
Order = Literal["natural", "activation"]
ExpertDamping = Literal["plain", "damped"]
WarmStart = Literal["none", "gptq", "column_solver"]
Stopping = Literal["none", "early"]

# Fields of methods that are no options: a row of ``METHODS`` sets them, “auto” may choose them, or, the last two, they
# are in no recipe.
_NO_OPTIONS = {"lam", "gamma", "saliency", "shift", "shift_strength", "block_size", "learning_rate"}

# Ranges that a search tries, as shares of a group's ends in fortieths: those that shrink at both ends alike. A joint
# search tries after these all other pairs of a lattice, then the neighbours of the best at two smaller steps.
PARTS = 40
SHRUNK = tuple(range(40, 15, -1))  # 1 down to 0.4
SHRINKS = tuple(parts / PARTS for parts in SHRUNK)
LATTICE = SHRUNK[::4]  # 1, 0.9 … 0.4
NEIGHBOURS = (2, 1)  # 0.05, 0.025
FEWEST_PARTS = 12  # 0.3
# Ranges that are tried beside the extremes' own.
RANGES_TRIED: dict[Range, int] = {
    "minmax": 0,
    "search": len(SHRUNK),
    "joint": len(SHRUNK) + len(LATTICE) * (len(LATTICE) - 1) + len(NEIGHBOURS) * 8,
}
ALPHAS = tuple(step / 20 for step in range(21))  # α of a scale search, which tries no scaling too
GAMMA = 0.5  # γ of the saliency in the drift term of methods that learn through a block
MOST_PASSES = 30  # of a refinement
MOST_ROUNDS = 10  # of a refit of scales
MOST_EPOCHS = 100  # of a distillation of scales
SEQUENCES_OF_A_STEP = 8  # of learned rounding
CHECKS = 20  # of learned rounding with early stopping, evenly over its steps


def _check_number(name: str, value: float | None, highest: float = math.inf) -> None:
    if value is None or math.isinf(value) or not 0 <= value <= highest:
        allowed = "0 or more" if math.isinf(highest) else f"between 0 and {highest:g}"
        what = f"{name} is {value}, but must be a number {allowed}"
        raise Refused(what, "method", f"Give {name} a value {allowed}.")


_MOST = {"refine": (MOST_PASSES, "passes of refinement"), "refit": (MOST_ROUNDS, "rounds of refitting")}


@dataclass(frozen=True)
class Method:
    """A method with all its values.

    Families are frozen subclasses in which every field has a default. The members below are all that the rest of the
    code knows of a method; a family overrides those that differ. A field may stand in for a property: ``lam: float =
    0.3`` in a family is its λ.
    """

    has_channel_scales: ClassVar[bool] = False  # so that codes, scales and zero points alone don't make the weights
    solver: ClassVar[str]  # module whose function ``solve`` is as in ``solving.Solver``; by name, as it needs torch
    reported: ClassVar[tuple[str, ...]] = ()  # fields that a report's ``chosen`` names
    weighed: ClassVar[Weighing] = "one"  # S as a function of saliency, see ``weighing``
    damps: ClassVar[bool] = False  # λ is added to the diagonal of a Gram; λ = 0 then damps nothing
    _choices: ClassVar[dict[str, tuple[str, ...]]]  # words that fields take, by field
    # Options that have no effect unless another field of the recipe has a value, or any where that is “”; and why.
    conditions: ClassVar[dict[str, tuple[str, str, str]]] = {}

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls).items()
        cls._choices = {name: get_args(hint) for name, hint in hints if get_origin(hint) is Literal}

    def __post_init__(self) -> None:
        values = vars(self)
        if "lam" in values:
            _check_number("λ", self.lam)
        for name, allowed in self._choices.items():
            if values[name] not in allowed:
                called = "warm start" if name == "warm_start" else name
                raise Refused(f"{called} is “{values[name]}”", "method", f"Choose one of {', '.join(allowed)}.")
        for name, (most, repetitions) in _MOST.items():
            if not 0 <= values.get(name, 0) <= most:
                what = f"{values[name]} {repetitions}"
                raise Refused(what, "method", f"Give a whole number between 0 and {most}.")

    @property
    def lam(self) -> float | None:
        """λ; None for a method without one."""
        return None

    @property
    def gamma(self) -> float | None:
        """γ; None for a method without one."""
        return None

    @property
    def alpha(self) -> float | None:
        """α of GPTAQ's shifted aim, ``shift_strength`` as a choice; None for a method without such an aim."""
        return None

    @property
    def saliency(self) -> Saliency:
        """S of the drift term: 1 with ``"identity"``, else by the size of the inputs."""
        return "identity"

    @property
    def aim(self) -> Aim:
        """Quantity that the method keeps near the float model's, beside the drift term.

        ``"weights"``: the weights alone, ‖Ŵ - W‖. ``"outputs"``: a linear's outputs on its own inputs, ‖(Ŵ - W) X‖.
        ``"float outputs"``: those on the float model's inputs, ‖Ŵ X - W X_float‖. ``"block outputs"``: the outputs of a
        block.
        """
        return "outputs"

    @property
    def weighing(self) -> Weighing:
        """Form of S as a function of saliency, up to a factor.

        ``"one"``: S = 1. ``"gamma"``: mean|x|^γ / mean|W|^(1-γ). ``"ratio"``: mean|x| / mean|W|. ``"root"``: the square
        root of the ratio.
        """
        return self.weighed if self.saliency == "saliency" else "one"

    @property
    def lam_is_damping(self) -> bool:
        """True if λ is the damping of GPTQ: the same share of the mean diagonal on every channel."""
        return self.damps and self.saliency == "identity"

    @property
    def unit(self) -> Unit:
        """Unit that is solved at once: a linear, the linears that read one tensor, or all linears of a block."""
        return "layer"

    @property
    def needs(self) -> frozenset[str]:
        """Inputs that the method needs: the statistics ``gram``, ``abs_mean`` and ``cross``; ``block``, the block
        itself; ``held_out``, the block's outputs on sequences that nothing is fitted to.
        """
        return frozenset()

    @property
    def has_free_scales(self) -> bool:
        """True if each weight is made of its code, scale and zero point alone, so that other scales can take over."""
        return self.unit == "layer" and not self.has_channel_scales

    def sweeps(self) -> bool:
        """Return True if the result depends on λ, so that there is a curve to draw."""
        return self.lam is not None

    def with_(self, **choices: object) -> Self:
        """Return this method with other values.

        Raises:
            Refused: If the method does not have a value of that name, or a value is not valid.
        """
        has = vars(self)
        if missing := next((name for name in choices if name not in has), None):
            what = f"{type(self).__name__} has no “{missing}”"
            raise Refused(what, "method", f"It has {', '.join(has) or 'nothing'}.")
        return replace(self, **choices)

    def points(self, lams: Sequence[float], gammas: Sequence[float | None] = (None,)) -> list[Self]:
        """Return this method at every λ and γ, γ outer and λ inner.

        A method without λ is repeated.

        Args:
            lams: Values of λ.
            gammas: Values of γ; None keeps the method's own.

        Raises:
            Refused: For a γ that the method does not have.
        """
        if not self.sweeps():
            return [self] * (len(lams) * len(gammas))
        if "gamma" not in vars(self) and any(gamma is not None for gamma in gammas):
            raise Refused(f"{type(self).__name__} has no γ to sweep", "sweep", "Leave the γ values out.")
        return [
            self.with_(lam=lam) if gamma is None else self.with_(lam=lam, gamma=gamma)
            for gamma in gammas
            for lam in lams
        ]

    def settled(self) -> dict[str, Any]:
        """Return the family and its values, as ``chosen`` of a report holds them.

        Values that affect speed alone are left out, and so is a plain fitting of the grid.
        """
        return {"method": type(self).__name__} | {name: getattr(self, name) for name in self.reported} | self.fitting()

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Return the fields of a recipe that the method takes by their names, beside those that “auto” may choose."""
        return tuple(field.name for field in fields(cls) if field.name not in _NO_OPTIONS)

    def plain_fitting(self) -> dict[str, Any]:
        """Return the options that fit the solver to a layer, plain; keys, labels and reports omit them then."""
        names = {*self.options()} - {*self.reported}
        return {field.name: field.default for field in fields(self) if field.name in names}

    def fitting(self) -> dict[str, Any]:
        """Return the options that fit the solver to a layer and are not plain."""
        plain = self.plain_fitting()
        return {name: getattr(self, name) for name, choice in plain.items() if getattr(self, name) != choice}

    def without_expert_damping(self) -> Self:
        """Return the method for a linear that every token reaches, as all do but those of experts."""
        return self

    def shortest(self) -> Self:
        """Return the method with its repetitions cut to one, which takes as much memory at once."""
        return self

    def why_not_packed(self) -> str | None:
        """Return the reason why codes, scales and zero points alone can't carry the result; None if they can."""
        return None

    def working_bytes(self, work: Workload) -> int:
        """Return the memory at the peak beside weights and statistics, in bytes."""
        rows, width = work.largest()
        refitting = OF_REFIT * width if self.fitting().get("refit") else 0  # normal equations of some rows, factors
        return 4 * (6 * rows + refitting) * width

    def recorded_bytes(self, work: Workload) -> int:
        """Return the memory of recordings of the method's operations on a GPU in bytes, see ``recorded.Recorder``."""
        return 0

    def count(self, work: Workload) -> Count:
        """Return the work beside the passes through the model and the Grams."""
        return work.started()


@dataclass(frozen=True)
class ExistingCodes(Method):
    """Codes of a quantized checkpoint, measured as a solver's would be; not a method of its own, without a row."""

    solver: ClassVar[str] = "sarqc.quantization.repair"


@dataclass(frozen=True)
class RoundToNearest(Method):
    """Rounding of each weight to the nearest level of its group's grid, without calibration.

    A searched ``range``, a refinement of the codes and a refit of the scales do need statistics: all weigh errors by
    the inputs.
    """

    solver: ClassVar[str] = "sarqc.quantization.round_to_nearest"

    range: Range = "minmax"
    refine: int = 0
    refit: int = 0

    @property
    def aim(self) -> Aim:
        return "outputs" if self.refine or self.refit else "weights"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"gram"}) if self.fitting() else frozenset()

    def count(self, work: Workload) -> Count:
        return work.started() + work.fitting(RANGES_TRIED[self.range], self.refine, self.refit)


@dataclass(frozen=True)
class ColumnSolver(Method):
    """GPTQ's column-by-column solver on the regularised Gram (paper, Algorithm 2).

    G = gram + lam · h̄ · diag(s²/mean s²). ``saliency="identity"`` takes s = 1, which is GPTQ with a damping of
    ``lam``; ``"saliency"`` takes s = abs_mean^gamma / mean|W|^(1-gamma).

    ``shift`` aims at the float layer's output on the float model's inputs, ‖Ŵ X - W X_float‖: ``"published"`` is
    GPTAQ's sequential form, in which each column passes part of the shift on to the later ones; ``"full"`` solves the
    plain problem for W* = W + shift_strength · W cross G⁻¹, which at strength 1 is that aim's own least squares.

    ``range``: a group's extremes, or the part of them with the smallest Σ_j G_jj (Q(w)_j - w_j)². ``order``: columns as
    they are stored, or by falling G_jj; groups are then static. ``refine``: passes of coordinate descent on recon + lam
    · sar afterwards, with a shift on the distance to W*. ``refit``: rounds in which the scales are fitted to the codes
    by the same objective, each followed by passes.

    ``expert_damping="damped"`` takes λ (1 + I/n) for a linear with I input channels that n tokens reached: about λ with
    many tokens, and a growing penalty as these become few, whose limit is rounding to nearest.

    ``first_order`` is β, the weight of FOEM's first-order term: each column's compensation is pulled back towards the
    original weight by this part, from GPTQ at 0 to no compensation at 1.

    Raises:
        Refused: If a value is not valid, or γ is given without saliency.
    """

    solver: ClassVar[str] = "sarqc.quantization.column_solver"
    reported: ClassVar[tuple[str, ...]] = ("lam", "gamma", "saliency", "static_groups")
    weighed: ClassVar[Weighing] = "gamma"
    damps: ClassVar[bool] = True
    begins_with_existing: ClassVar[bool] = False  # with the existing codes of a layer, not column by column

    lam: float = 0.01
    gamma: float | None = None
    saliency: Saliency = "identity"
    shift: Shift = "none"
    shift_strength: float = 0.25  # α of GPTAQ
    static_groups: bool = False  # scales from the original weights instead of the compensated working copy
    range: Range = "minmax"
    order: Order = "natural"
    refine: int = 0
    refit: int = 0
    expert_damping: ExpertDamping = "plain"
    first_order: float = 0.0  # β of FOEM
    block_size: int = 64  # columns between two trailing updates: speed only, never the result

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.saliency == "saliency":
            _check_number("γ", self.gamma, highest=1.0)
        elif self.gamma is not None:
            raise Refused("γ has no meaning without saliency", "method", "Leave γ out, or use sarqc-gbs.")
        _check_number("the shift's strength", self.shift_strength)
        _check_number("β", self.first_order, highest=1.0)

    @property
    def has_static_groups(self) -> bool:
        """True if scales come from the original weights: by choice, or because columns are taken out of order."""
        return self.static_groups or self.order != "natural"

    @property
    def improves_codes(self) -> bool:
        """True if refinement, of the codes alone or with a refit of the scales, follows the columns."""
        return self.refine > 0 or self.refit > 0

    def lam_for(self, n_tokens: int, width: int) -> float:
        """Return the λ for a linear with ``width`` input channels that a number of tokens reached.

        Without any token the Gram is 0 and no λ has a meaning: the method's own is returned.
        """
        if self.expert_damping == "plain" or n_tokens == 0:
            return self.lam
        return self.lam * (1 + width / n_tokens)

    def without_expert_damping(self) -> Self:
        return replace(self, expert_damping="plain")

    @property
    def aim(self) -> Aim:
        return "outputs" if self.shift == "none" else "float outputs"

    @property
    def alpha(self) -> float | None:
        return None if self.shift == "none" else self.shift_strength

    @property
    def needs(self) -> frozenset[str]:
        always = frozenset({"gram", "abs_mean"})
        return always if self.shift == "none" else always | {"cross"}

    def settled(self) -> dict[str, Any]:
        if self.shift == "none":
            return super().settled()
        return super().settled() | {"shift": self.shift, "shift_strength": self.shift_strength}

    def working_bytes(self, work: Workload) -> int:
        rows, width = work.largest()
        point = 4 * self.numbers_of_point(rows, width, work.group_size or width, shifted=self.shift != "none")
        factorising = FACTORISING * max(width for _, width in work.shapes) ** 2
        at_once = min(work.together, max(1, (work.budget_bytes - factorising) // point))
        filled = 4 * at_once * (width + rows) * width  # weights and factors of all points, while the last is factorised
        return max(factorising + filled, at_once * point)

    def recorded_bytes(self, work: Workload) -> int:
        again = [shape for shape, count in Counter(work.shapes).items() if count > 1]
        inputs = sum(4 * work.together * (rows + width) * width for rows, width in again)
        return 4 * min(work.budget_bytes // RECORDED_SHARE, inputs)  # up to three times as much is worked in

    def numbers_of_point(self, rows: int, width: int, group_size: int, *, shifted: bool) -> int:
        """Return the count of numbers in working precision that one linear (O, I) takes at one point.

        A shift needs targets of its own.
        """
        numbers = width * width + (9 * width + 3 * group_size) * rows
        if self.improves_codes:
            numbers += 3 * width * width + 6 * rows * width  # G, its copy in the order of turns, both aims, the pulls
        if self.refit:
            numbers += OF_REFIT * width * width
        return numbers + (width * width + 2 * rows * width if shifted else 0)

    def count(self, work: Workload) -> Count:
        cubes = sum(width**3 / 3 for _, width in work.shapes)
        solving = Count(solves=cubes + (1 + 2 * work.walks) * work.squares())
        return work.started() + (solving + work.fitting(RANGES_TRIED[self.range], self.refine, self.refit)).times(
            work.points
        )


@dataclass(frozen=True)
class FoundDescent(ColumnSolver):
    """Coordinate descent from the codes of an existing checkpoint on the objective of a column solver.

    By that objective the result is never worse than the codes it starts from.
    """

    begins_with_existing: ClassVar[bool] = True

    refine: int = 10

    @classmethod
    def of(cls, solver: ColumnSolver) -> FoundDescent:
        """Return the descent on the objective of this solver, with at least as many passes as its own refinement."""
        return cls(**vars(solver) | {"refine": max(solver.refine, cls.refine)})


@dataclass(frozen=True)
class ScaleSearch(Method):
    """AWQ's search for a per-channel scale s̃(α), judged by recon + lam · sar after min–max (paper, Algorithm 1).

    ``saliency`` chooses the S of the drift term: ``"saliency"`` is abs_mean/mean|W|, ``"identity"`` is 1.
    ``include_identity`` adds s̃ = 1, plain rounding, to the candidates, which the paper's grid lacks. ``mode``:
    ``"per_linear"`` gives each linear its own s̃ (the paper); ``"foldable"`` gives the linears that read the same
    tensor one s̃, chosen on the sum of their losses, whose inverse the operation before can take up. ``range``,
    ``refine`` and ``refit`` fit the grid of the winner, by the search's own objective; the candidates are compared on
    the plain grid, as in AWQ, which searches its scales first and clips afterwards.
    """

    solver: ClassVar[str] = "sarqc.quantization.scale_search"
    has_channel_scales: ClassVar[bool] = True
    weighed: ClassVar[Weighing] = "ratio"
    needs: ClassVar[frozenset[str]] = frozenset({"gram", "abs_mean"})
    reported: ClassVar[tuple[str, ...]] = ("lam", "saliency", "mode", "include_identity")

    lam: float = 0.0
    saliency: Saliency = "saliency"
    mode: ScaleMode = "per_linear"
    include_identity: bool = True
    range: Range = "minmax"
    refine: int = 0
    refit: int = 0

    @property
    def unit(self) -> Unit:
        return "layer" if self.mode == "per_linear" else "group"

    def recorded_bytes(self, work: Workload) -> int:
        if work.together == 1:
            return 0
        inputs = max(4 * (rows + width) * width for rows, width in work.shapes)
        return 4 * min(work.budget_bytes // RECORDED_SHARE, 2 * inputs)  # both shapes of an expert's linears

    def why_not_packed(self) -> str | None:
        if self.mode == "foldable":
            return None
        return "the format has no place for the channel scales of a search in mode per_linear"

    def count(self, work: Workload) -> Count:
        started = STARTED_OF_CANDIDATE * len(work.shapes)
        candidate = Count(losses=2 * work.squares(), rounded=work.weights(), started=started)
        fitting = work.fitting(RANGES_TRIED[self.range], self.refine, self.refit).times(work.points)
        return work.started() + candidate.times(len(ALPHAS) + 1) + fitting


@dataclass(frozen=True)
class LearnedMethod(Method):
    """Base of the methods that learn through a whole block.

    Minimises the mean squared error between the quantized block on the quantized prefix and the float block on the
    float prefix, plus lam · Σ ‖(Ŵ - W) diag(s)‖² over the block's linears; ``saliency="saliency"`` is s =
    (abs_mean/mean|W|)^½, ``"identity"`` is 1. ``normalise="initial"`` divides each of the two terms by its own value
    before the first step, ``"none"`` takes them as they are.
    """

    weighed: ClassVar[Weighing] = "root"
    aim: ClassVar[Aim] = "block outputs"
    unit: ClassVar[Unit] = "block"
    learns: ClassVar[str]  # its name in errors
    divergence_remedy: ClassVar[str]  # remedy where an objective is not finite

    lam: float = 0.0
    saliency: Saliency = "saliency"
    normalise: Normalise = "initial"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"gram", "abs_mean", "block"})


@dataclass(frozen=True)
class LearnedClipping(LearnedMethod):
    """OmniQuant, weight-only: two clipping strengths for each group of weights, learned through the whole block.

    ``epochs`` None: 20, and 40 at 2 bits.
    """

    solver: ClassVar[str] = "sarqc.quantization.learned_clipping"
    reported: ClassVar[tuple[str, ...]] = ("lam", "saliency", "epochs", "normalise")
    learns: ClassVar[str] = "learned clipping"
    divergence_remedy: ClassVar[str] = "Use a smaller learning rate"

    epochs: int | None = None
    learning_rate: float = 1e-2

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_number("the learning rate", self.learning_rate)
        if self.epochs is not None and self.epochs < 1:
            raise Refused(f"{self.epochs} epochs", "method", "Give at least one epoch.")

    def epochs_at(self, bits: int) -> int:
        """Return the number of passes over the calibration sequences at a bit width."""
        return self.epochs or (40 if bits == 2 else 20)

    def shortest(self) -> Self:
        return replace(self, epochs=1)

    def working_bytes(self, work: Workload) -> int:
        return 4 * 10 * work.block_weights

    def count(self, work: Workload) -> Count:
        """Return the work: a step forward and back for each sequence, and a measurement after each epoch."""
        epochs, tokens = work.points * self.epochs_at(work.bits), work.sequences * work.length
        return work.started() + Count(
            products=epochs * 8 * work.weights() * tokens,
            clipped=epochs * work.weights() * work.sequences,
            started=epochs * work.sequences * len(work.shapes) * STARTED_OF_STEP,
        )


@dataclass(frozen=True)
class LearnedRounding(LearnedMethod):
    """SignRound, the method of AutoRound: a learned offset for each weight and two range factors for each group.

    A weight goes to the level nearest to W/scale + V, V in [-0.5, 0.5]; a group's range is [f_low · min, f_high · max],
    f in [0.5, 1]. Steps follow the sign of the gradient on 8 sequences each, at a rate that falls linearly from
    1/``steps``. ``range="search"`` begins at the ranges with the smallest Σ_j G_jj (Q(w)_j - w_j)², and lets f fall to
    theirs. ``warm_start="gptq"`` begins at the codes of GPTQ 1 % on static groups with this ``range`` and ``order``: V
    is the difference to the nearest codes, clipped. ``warm_start="column_solver"`` begins at exactly the codes of the
    column solver on static groups with this ``lam``, ``saliency``, ``range``, ``order`` and ``refine``; at λ = 0 with
    the damping of GPTQ 1 %. V then moves a code by at most one level. ``stopping="early"`` measures the block's outputs
    on held-out sequences at every twentieth of the steps, and takes the state with the smallest error there.
    """

    solver: ClassVar[str] = "sarqc.quantization.learned_rounding"
    reported: ClassVar[tuple[str, ...]] = ("lam", "saliency", "steps", "normalise")
    learns: ClassVar[str] = "learned rounding"
    divergence_remedy: ClassVar[str] = "Look for very large outputs of the block"
    conditions: ClassVar[dict[str, tuple[str, str, str]]] = {
        "refine": ("warm_start", "column_solver", "which refines the codes of warm start column_solver alone"),
        "stopping": ("held_out_samples", "", "which makes all its steps without held-out samples"),
    }

    steps: int = 200
    warm_start: WarmStart = "none"
    range: Range = "minmax"
    order: Order = "natural"
    refine: int = 0
    stopping: Stopping = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.range == "joint":
            raise Refused(
                "learned rounding begins at ranges that shrink at both ends alike, and range is “joint”",
                "method",
                "Set range to search or minmax.",
            )
        if self.steps < 1:
            raise Refused(f"{self.steps} steps", "method", "Give at least one step.")
        if self.order != "natural" and self.warm_start == "none":
            raise Refused(
                f"learned rounding takes no columns in turn, so order “{self.order}” has no meaning",
                "method",
                "Leave order natural, or set warm_start to gptq or column_solver.",
            )
        if self.refine and self.warm_start != "column_solver":
            raise Refused(
                f"learned rounding refines the codes of the column solver alone, and refine is {self.refine}",
                "method",
                "Set refine to 0, or warm_start to column_solver.",
            )

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | ({"held_out"} if self.stopping == "early" else set())

    def starting_solver(self) -> ColumnSolver | None:
        """Return the solver of the initial codes; None for rounding to nearest."""
        if self.warm_start == "none":
            return None
        plain = ColumnSolver(lam=0.01, static_groups=True, range=self.range, order=self.order, refine=self.refine)
        if self.warm_start == "gptq" or self.lam == 0:
            return plain
        gamma = GAMMA if self.saliency == "saliency" else None
        return replace(plain, lam=self.lam, saliency=self.saliency, gamma=gamma)

    def shortest(self) -> Self:
        return replace(self, steps=1)

    def working_bytes(self, work: Workload) -> int:
        solver = self.starting_solver()
        starting = 0 if solver is None else solver.working_bytes(replace(work, together=1))
        return max(4 * 14 * work.block_weights, starting)

    def count(self, work: Workload) -> Count:
        """Return the work: steps forward and back, measurements, and the initial codes.

        Whole sequences are measured after each epoch, with early stopping at each check, held-out ones too. Where
        initial codes depend on λ, each point has its own.
        """
        passes = work.points * self.steps * min(SEQUENCES_OF_A_STEP, work.sequences)
        checked = 0
        if self.stopping == "early":
            checked = work.points * (min(CHECKS, self.steps) + 1) * (work.sequences + work.held_out)
        forward = 6 * passes + 2 * (checked or passes)
        learning = Count(
            products=forward * work.weights() * work.length,
            clipped=work.points * self.steps * work.weights(),
            started=passes * len(work.shapes) * STARTED_OF_STEP,
        )
        solver = self.starting_solver()
        starts = replace(work, points=work.points if self.warm_start == "column_solver" else 1)
        starting = starts.fitting(RANGES_TRIED[self.range], 0) if solver is None else solver.count(starts)
        return work.started() + learning + starting


@dataclass(frozen=True)
class Candidates:
    """Candidates of “auto”, and the measure that chooses among them.

    Attributes:
        by: ``"layer"``: each layer has its own point, chosen by the reconstruction error of a held-out part of the
            calibration sequences. ``"model"``: one λ for the whole model, chosen by the perplexity of that part.
        lams: Values of λ.
        gammas: Values of γ; None keeps the method's own.
        strengths: Values of α, the strength of GPTAQ's shift; (None,) without a shift.
    """

    by: Literal["layer", "model"]
    lams: tuple[float, ...] = ()
    gammas: tuple[float | None, ...] = (None,)
    strengths: tuple[float | None, ...] = (None,)

    def axes(self) -> dict[str, tuple[float, ...]]:
        """Return the values to choose from, by field of the method; fields without any are left out."""
        given = {"lam": self.lams, "gamma": self.gammas, "shift_strength": self.strengths}
        return {
            field: known
            for field, values in given.items()
            if (known := tuple(value for value in values if value is not None))
        }

    def points(self, base: Method, tuned: Sequence[str]) -> list[Method]:
        """Return the methods to compare, γ outermost and α innermost.

        Args:
            base: Method with the values that do not vary.
            tuned: Fields of the method that vary.
        """
        lams = self.lams if "lam" in tuned or base.lam is None else (base.lam,)
        pairs = base.points(lams, self.gammas if "gamma" in tuned else (base.gamma,))
        if "shift_strength" not in tuned:
            return pairs
        return [point.with_(shift_strength=strength) for point in pairs for strength in self.strengths]


@dataclass(frozen=True)
class MethodEntry:
    """A row of ``METHODS``: the method behind a public name, and its choices."""

    title: str
    make: Method
    tunes: tuple[str, ...]  # of ``documents.SIGNS``: choices of “auto”
    baseline: str  # the public name it is compared with
    auto: Candidates | None = None  # the paper's candidates; None if there is nothing to choose
    about: str = ""  # one line for a choice among methods
    also: str = ""  # a further, descriptive name; empty where the public name is one
    without: tuple[str, ...] = ()  # options of its family that it does not have

    @property
    def options(self) -> tuple[str, ...]:
        """Further recipe fields that mean something to it."""
        return tuple(name for name in self.make.options() if name not in self.without)

    def defaults(self) -> dict[str, Any]:
        """Return the possible choices with their default values."""
        return {name: getattr(self.make, name) for name in self.tunes + self.options}


_PUBLISHED = ("first_order",)  # without it GPTQ 1 % and GPTAQ stay as they were published
_SEARCHED = Candidates("model", tuple(step / 10 for step in range(1, 11)))
_SOLVED = Candidates("layer", (0.25, 0.5, 0.75), (0.1, 0.15, 0.35, 0.5))
_LEARNED_THROUGH = Candidates("model", (0.01, 0.05, 0.1, 0.15))
_SHIFTED = Candidates("layer", strengths=(0.0, 0.25, 0.5, 0.75, 1.0))

METHODS: dict[str, MethodEntry] = {
    "rtn": MethodEntry(
        "Round to nearest",
        RoundToNearest(),
        (),
        "rtn",
        about="Each weight to its nearest level; reads no text",
    ),
    "awq": MethodEntry(
        "AWQ",
        ScaleSearch(lam=0.0),
        (),
        "awq",
        about="Scales channels so that salient ones lose less",
    ),
    "rqc-gs": MethodEntry(
        "AWQ + identity penalty",
        ScaleSearch(lam=0.3, saliency="identity"),
        ("lam",),
        "awq",
        _SEARCHED,
        about="AWQ’s search with a penalty on all drift",
        also="awq+identity",
    ),
    "sarqc-gs": MethodEntry(
        "AWQ + saliency penalty",
        ScaleSearch(lam=0.3),
        ("lam",),
        "awq",
        _SEARCHED,
        about="AWQ’s search with a penalty on drift of salient weights",
        also="awq+saliency",
    ),
    "gptq": MethodEntry(
        "GPTQ 1 %",
        ColumnSolver(lam=0.01),
        (),
        "gptq",
        about="Column by column, each error passed on to the next",
        without=_PUBLISHED,
    ),
    "rqc-gbs": MethodEntry(
        "GPTQ + identity penalty",
        ColumnSolver(lam=0.25),
        ("lam",),
        "gptq",
        replace(_SOLVED, gammas=(None,)),
        about="GPTQ with a penalty on all drift",
        also="gptq+identity",
    ),
    "sarqc-gbs": MethodEntry(
        "GPTQ + saliency penalty",
        ColumnSolver(lam=0.25, gamma=0.1, saliency="saliency"),
        ("lam", "gamma"),
        "gptq",
        _SOLVED,
        about="GPTQ with a penalty on drift of salient weights",
        also="gptq+saliency",
    ),
    "gptaq": MethodEntry(
        "GPTAQ",
        ColumnSolver(lam=0.01, shift="published"),
        ("shift_strength",),
        "gptq",
        _SHIFTED,
        about="GPTQ that also mends what earlier blocks did",
        without=_PUBLISHED,
    ),
    "gptaq-full": MethodEntry(
        "GPTAQ, full shift",
        ColumnSolver(lam=0.01, shift="full", shift_strength=1.0),
        ("shift_strength",),
        "gptq",
        _SHIFTED,
        about="GPTAQ with its whole shift",
        without=_PUBLISHED,
    ),
    "sarqc-gptaq": MethodEntry(
        "GPTAQ + saliency penalty",
        ColumnSolver(lam=0.25, gamma=0.1, saliency="saliency", shift="published"),
        ("lam", "gamma", "shift_strength"),
        "gptaq",
        replace(_SOLVED, strengths=_SHIFTED.strengths),
        about="GPTAQ with a penalty on drift of salient weights",
        also="gptaq+saliency",
    ),
    "omniquant": MethodEntry(
        "OmniQuant",
        LearnedClipping(lam=0.0),
        (),
        "omniquant",
        about="Learns each group’s range through its block",
    ),
    "sarqc-omniquant": MethodEntry(
        "OmniQuant + saliency penalty",
        LearnedClipping(lam=0.05),
        ("lam",),
        "omniquant",
        _LEARNED_THROUGH,
        about="OmniQuant with a penalty on drift of salient weights",
        also="omniquant+saliency",
    ),
    "signround": MethodEntry(
        "SignRound",
        LearnedRounding(lam=0.0),
        (),
        "signround",
        about="Learns whether weights round up or down",
    ),
    "sarqc-signround": MethodEntry(
        "SignRound + saliency penalty",
        LearnedRounding(lam=0.05),
        ("lam",),
        "signround",
        _LEARNED_THROUGH,
        about="SignRound with a penalty on drift of salient weights",
        also="signround+saliency",
    ),
}


AS_FOUND = "as-found"
# How a quantized checkpoint is measured. It is not a row of ``METHODS``: it cannot be chosen for a model.
_EXISTING = MethodEntry(
    "As found",
    ExistingCodes(),
    (),
    AS_FOUND,
    about="The codes of a checkpoint that others have quantized, measured as they are",
)


def public_method(name: str) -> str:
    """Return the public name of a method given by its further name; any other text as it is.

    A blank stands for the plus, which it is in an address that was typed.
    """
    given = name.replace(" ", "+")
    return next((public for public, entry in METHODS.items() if entry.also and entry.also == given), name)


def entry_of(name: str) -> MethodEntry | None:
    """Return the row of a public name, including ``AS_FOUND``; None for a name that this version does not know."""
    return _EXISTING if name == AS_FOUND else METHODS.get(name)


def method(name: str, **choices: Any) -> Method:
    """Return the method of a public name, with ``lam``, ``gamma`` and options in place of its defaults.

    Args:
        name: Public or further name.
        **choices: Values by field of the method.

    Raises:
        Refused: For an unknown name, for a choice that the method does not have, and for NaN, infinite or negative
            numbers.
    """
    entry = METHODS.get(public_method(name))
    if entry is None:
        raise Refused(f"unknown method “{name}”", "method", f"Choose one of {', '.join(METHODS)}.")
    for choice in choices:
        if choice not in entry.defaults():
            has = ", ".join(entry.defaults()) or "nothing"
            raise Refused(f"{name} has no “{choice}” to choose", "method", f"It lets you choose {has}.")
    return entry.make.with_(**choices)
