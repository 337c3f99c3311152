"""The nouns: one frozen dataclass for each family of methods, and the public names that make them.

Standard library only. A method says what it works on (``unit``) and what it needs; the verbs are in ``solve``.
Adding a method is adding a row to ``METHODS``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from sarqc.errors import Refused

Saliency = Literal["identity", "saliency"]
Shift = Literal["none", "published", "full"]


def _check_number(name: str, value: float | None, highest: float = math.inf) -> None:
    if value is None or not math.isfinite(value) or value < 0 or value > highest:
        span = "0 or more" if math.isinf(highest) else f"between 0 and {highest:g}"
        raise Refused(f"{name} is {value}, but must be a number {span}", "method", f"Give {name} a value {span}.")


@dataclass(frozen=True)
class RoundToNearest:
    """Each weight goes to the nearest level of its group's grid; nothing is calibrated."""

    unit: ClassVar[str] = "layer"
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

    unit: ClassVar[str] = "layer"

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
    """

    unit: ClassVar[str] = "layer"
    needs: ClassVar[frozenset[str]] = frozenset({"gram", "abs_mean"})

    lam: float = 0.0
    saliency: Saliency = "saliency"
    mode: Literal["per_linear"] = "per_linear"
    include_identity: bool = True

    def __post_init__(self) -> None:
        _check_number("λ", self.lam)


Method = RoundToNearest | ColumnSolver | ScaleSearch


@dataclass(frozen=True)
class MethodEntry:
    """One row of ``METHODS``: how a public name becomes a method, and what a person may choose."""

    title: str
    make: Method
    tunes: tuple[str, ...]  # of "lam", "gamma"
    baseline: str  # the public name it is compared with
    options: tuple[str, ...] = field(default=())  # further recipe fields that mean something to it


METHODS: dict[str, MethodEntry] = {
    "rtn": MethodEntry("Round to nearest", RoundToNearest(), (), "rtn"),
    "awq": MethodEntry("AWQ", ScaleSearch(lam=0.0), (), "awq", ("include_identity",)),
    "rqc-gs": MethodEntry(
        "RQC scale search", ScaleSearch(lam=0.3, saliency="identity"), ("lam",), "awq", ("include_identity",)
    ),
    "sarqc-gs": MethodEntry("SARQC scale search", ScaleSearch(lam=0.3), ("lam",), "awq", ("include_identity",)),
    "gptq": MethodEntry("GPTQ, 1 % damping", ColumnSolver(lam=0.01), (), "gptq", ("static_groups",)),
    "rqc-gbs": MethodEntry("RQC column solver", ColumnSolver(lam=0.25), ("lam",), "gptq", ("static_groups",)),
    "sarqc-gbs": MethodEntry(
        "SARQC column solver",
        ColumnSolver(lam=0.25, gamma=0.1, saliency="saliency"),
        ("lam", "gamma"),
        "gptq",
        ("static_groups",),
    ),
    "gptaq": MethodEntry("GPTAQ", ColumnSolver(lam=0.01, shift="published"), (), "gptq", ("static_groups",)),
    "gptaq-full": MethodEntry(
        "GPTAQ, full shift", ColumnSolver(lam=0.01, shift="full", shift_strength=1.0), (), "gptq", ("static_groups",)
    ),
    "sarqc-gptaq": MethodEntry(
        "SARQC with GPTAQ",
        ColumnSolver(lam=0.25, gamma=0.1, saliency="saliency", shift="published"),
        ("lam", "gamma"),
        "gptaq",
        ("static_groups",),
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
