"""The nouns: one frozen dataclass for each family of methods, and the public names that make them.

Standard library only. A method says what it works on (``unit``) and what it needs; the verbs are in ``solve``.
Adding a method is adding a row to ``METHODS``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

from sarqc.errors import Refused

Unit = Literal["layer", "group", "block"]
Saliency = Literal["identity", "saliency"]
Shift = Literal["none", "published", "full"]
ScaleMode = Literal["per_linear", "foldable"]
Normalise = Literal["initial", "none"]


def _check_number(name: str, value: float | None, highest: float = math.inf) -> None:
    if value is None or not math.isfinite(value) or value < 0 or value > highest:
        span = "0 or more" if math.isinf(highest) else f"between 0 and {highest:g}"
        raise Refused(f"{name} is {value}, but must be a number {span}", "method", f"Give {name} a value {span}.")


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise Refused(f"{name} is “{value}”", "method", f"Choose one of {', '.join(allowed)}.")


@dataclass(frozen=True)
class RoundToNearest:
    """Each weight goes to the nearest level of its group's grid; nothing is calibrated."""

    unit: ClassVar[Unit] = "layer"
    needs: ClassVar[frozenset[str]] = frozenset()


@dataclass(frozen=True)
class ColumnSolver:
    """GPTQ's column-by-column solver on the regularised Gram (paper, Algorithm 2).

    G = gram + lam · h̄ · diag(s²/mean s²). ``saliency="identity"`` takes s = 1, which is GPTQ with a damping of
    ``lam``; ``"saliency"`` takes s = abs_mean^gamma / mean|W|^(1-gamma).

    ``shift`` aims at the float layer's output on the float model's inputs, ‖Ŵ X - W X_float‖: ``"published"`` is
    GPTAQ's sequential form, in which each column passes part of the shift on to the later ones; ``"full"`` solves the
    plain problem for W* = W + shift_strength · W cross G⁻¹, which at strength 1 is that aim's own least squares.
    """

    unit: ClassVar[Unit] = "layer"

    lam: float = 0.01
    gamma: float | None = None
    saliency: Saliency = "identity"
    shift: Shift = "none"
    shift_strength: float = 0.25  # α of GPTAQ
    static_groups: bool = False  # scales from the original weights instead of the compensated working copy
    block_size: int = 64  # columns between two trailing updates: speed only, never the result

    def __post_init__(self) -> None:
        _check_number("λ", self.lam)
        if self.saliency == "saliency":
            _check_number("γ", self.gamma, highest=1.0)
        elif self.gamma is not None:
            raise Refused("γ has no meaning without saliency", "method", "Leave γ out, or take sarqc-gbs.")
        _check_number("the shift's strength", self.shift_strength)

    @property
    def needs(self) -> frozenset[str]:
        always = frozenset({"gram", "abs_mean"})
        return always if self.shift == "none" else always | {"cross"}


@dataclass(frozen=True)
class ScaleSearch:
    """AWQ's search for a per-channel scale s̃(α), judged by recon + lam · sar after min–max (paper, Algorithm 1).

    ``saliency`` chooses the S of the drift term: ``"saliency"`` is abs_mean/mean|W|, ``"identity"`` is 1.
    ``include_identity`` adds s̃ = 1, plain rounding, to the candidates, which the paper's grid lacks.
    ``mode``: ``"per_linear"`` gives each linear its own s̃ (the paper); ``"foldable"`` gives the linears that read the
    same tensor one s̃, chosen on the sum of their losses, whose inverse the operation before can take up.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"gram", "abs_mean"})

    lam: float = 0.0
    saliency: Saliency = "saliency"
    mode: ScaleMode = "per_linear"
    include_identity: bool = True

    def __post_init__(self) -> None:
        _check_number("λ", self.lam)
        _check_choice("mode", self.mode, get_args(ScaleMode))

    @property
    def unit(self) -> Unit:
        return "layer" if self.mode == "per_linear" else "group"


@dataclass(frozen=True)
class LearnedClipping:
    """OmniQuant, weight-only: two clipping strengths for each group of weights, learned through the whole block.

    Minimises the mean squared error between the quantized block on the quantized prefix and the float block on the
    float prefix, plus lam · Σ ‖(Ŵ - W) diag(s)‖² over the block's linears; ``saliency="saliency"`` is
    s = (abs_mean/mean|W|)^½, ``"identity"`` is 1. ``normalise="initial"`` divides each of the two terms by its own
    value before the first step, ``"none"`` takes them as they are. ``epochs`` None: 20, and 40 at 2 bits.
    """

    unit: ClassVar[Unit] = "block"
    needs: ClassVar[frozenset[str]] = frozenset({"gram", "abs_mean", "block"})

    lam: float = 0.0
    saliency: Saliency = "saliency"
    epochs: int | None = None
    learning_rate: float = 1e-2
    normalise: Normalise = "initial"

    def __post_init__(self) -> None:
        _check_number("λ", self.lam)
        _check_number("the learning rate", self.learning_rate)
        _check_choice("normalise", self.normalise, get_args(Normalise))
        if self.epochs is not None and self.epochs < 1:
            raise Refused(f"{self.epochs} epochs", "method", "Give at least one epoch.")

    def epochs_at(self, bits: int) -> int:
        """Passes over the calibration sequences at a bit width."""
        return self.epochs or (40 if bits == 2 else 20)


Method = RoundToNearest | ColumnSolver | ScaleSearch | LearnedClipping


@dataclass(frozen=True)
class Candidates:
    """What “auto” chooses among, and by what.

    by ``"layer"``: each layer its own pair, by the reconstruction error of a held-out part of the calibration
    sequences; by ``"model"``: one λ for the whole model, by the perplexity of that part.
    """

    by: Literal["layer", "model"]
    lams: tuple[float, ...]
    gammas: tuple[float | None, ...] = (None,)


@dataclass(frozen=True)
class MethodEntry:
    """One row of ``METHODS``: how a public name becomes a method, and what a person may choose."""

    title: str
    make: Method
    tunes: tuple[str, ...]  # of "lam", "gamma"
    baseline: str  # the public name it is compared with
    options: tuple[str, ...] = ()  # further recipe fields that mean something to it
    auto: Candidates | None = None  # the paper's candidates; None where there is nothing to choose


_SEARCH = ("mode", "include_identity")
_SOLVER = ("static_groups",)
_LEARNED = ("epochs", "normalise")
_SEARCHED = Candidates("model", tuple(step / 10 for step in range(1, 11)))
_SOLVED = Candidates("layer", (0.25, 0.5, 0.75), (0.1, 0.15, 0.35, 0.5))

METHODS: dict[str, MethodEntry] = {
    "rtn": MethodEntry("Round to nearest", RoundToNearest(), (), "rtn"),
    "awq": MethodEntry("AWQ", ScaleSearch(lam=0.0), (), "awq", _SEARCH),
    "rqc-gs": MethodEntry(
        "RQC scale search", ScaleSearch(lam=0.3, saliency="identity"), ("lam",), "awq", _SEARCH, _SEARCHED
    ),
    "sarqc-gs": MethodEntry("SARQC scale search", ScaleSearch(lam=0.3), ("lam",), "awq", _SEARCH, _SEARCHED),
    "gptq": MethodEntry("GPTQ, 1 % damping", ColumnSolver(lam=0.01), (), "gptq", _SOLVER),
    "rqc-gbs": MethodEntry(
        "RQC column solver", ColumnSolver(lam=0.25), ("lam",), "gptq", _SOLVER, replace(_SOLVED, gammas=(None,))
    ),
    "sarqc-gbs": MethodEntry(
        "SARQC column solver",
        ColumnSolver(lam=0.25, gamma=0.1, saliency="saliency"),
        ("lam", "gamma"),
        "gptq",
        _SOLVER,
        _SOLVED,
    ),
    "gptaq": MethodEntry("GPTAQ", ColumnSolver(lam=0.01, shift="published"), (), "gptq", _SOLVER),
    "gptaq-full": MethodEntry(
        "GPTAQ, full shift", ColumnSolver(lam=0.01, shift="full", shift_strength=1.0), (), "gptq", _SOLVER
    ),
    "sarqc-gptaq": MethodEntry(
        "SARQC with GPTAQ",
        ColumnSolver(lam=0.25, gamma=0.1, saliency="saliency", shift="published"),
        ("lam", "gamma"),
        "gptaq",
        _SOLVER,
        _SOLVED,
    ),
    "omniquant": MethodEntry("OmniQuant, weight-only", LearnedClipping(lam=0.0), (), "omniquant", _LEARNED),
    "sarqc-omniquant": MethodEntry(
        "SARQC with OmniQuant",
        LearnedClipping(lam=0.05),
        ("lam",),
        "omniquant",
        _LEARNED,
        Candidates("model", (0.01, 0.05, 0.1, 0.15)),
    ),
}


def method(name: str, **choices: Any) -> Method:
    """The method of a public name, with ``lam``, ``gamma`` and options in place of its defaults.

    Raises ``Refused`` for an unknown name, for a choice that the method does not have, and for NaN, infinite or
    negative numbers.
    """
    entry = METHODS.get(name)
    if entry is None:
        raise Refused(f"there is no method “{name}”", "method", f"Choose one of {', '.join(METHODS)}.")
    for choice in choices:
        if choice not in entry.tunes + entry.options:
            has = ", ".join(entry.tunes + entry.options) or "nothing"
            raise Refused(f"{name} has no “{choice}” to choose", "method", f"It lets you choose {has}.")
    return replace(entry.make, **choices)
