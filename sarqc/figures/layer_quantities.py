"""What the map of layers can be coloured by: errors, drift, what “auto” chose, and tokens.

Each has one scale of colours for all λ and γ of a line, so that a colour means the same while λ moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sarqc.figures.drawing import CIVIDIS, SHADES, SLIM_BAR, Part
from sarqc.figures.numbers import lam_text, number, point_names, significant
from sarqc.study.facts import LineFacts, Selection, once_a_line
from sarqc.study.paired import mean_over_draws

# name in an address → what a card is called, in a list, on the bar of colours, in a sentence (empty: of choices); the
# first that a line has is shown without a wish
QUANTITIES = {
    "held_out": (
        "reconstruction error, unseen text",
        "error, unseen text",
        "error",
        "Relative reconstruction error on unseen text",
    ),
    "recon": (
        "reconstruction error, calibration text",
        "error, calibration text",
        "error",
        "Relative reconstruction error on calibration text",
    ),
    "drift": ("weight drift", "drift", "drift", "Relative weight drift"),
    "sar": ("penalty, L_sar", "penalty", "penalty", "Relative penalty, L_sar,"),
    "lambda": ("chosen λ", "chosen λ", "λ", ""),
    "gamma": ("chosen γ", "chosen γ", "γ", ""),
    "tokens": ("calibration tokens", "tokens", "tokens", "Calibration tokens"),
}
MOST_NAMED = 6  # candidates on a colour bar


@dataclass(frozen=True)
class Quantity:
    """One number for each layer, of a line; mean over the draws, or what was chosen most often."""

    name: str  # of QUANTITIES
    values: np.ndarray  # L G M, or L 1 1 where neither γ nor λ changes it
    samples: np.ndarray | None = None  # D L, where values are choices
    steps: tuple[float, ...] = ()  # what was chosen among, rising

    @property
    def title(self) -> str:
        return QUANTITIES[self.name][0]

    @property
    def follows(self) -> bool:
        """Whether it may change with γ and λ."""
        return self.name not in ("lambda", "gamma", "tokens")

    @property
    def stripe(self) -> str:
        """Whose number stands beside that of several experts together; empty where none is better or worse."""
        return {"tokens": "fewest", "lambda": "", "gamma": ""}.get(self.name, "worst")

    def pooled(self, layers: Sequence[int]) -> np.ndarray:
        """The number of several layers together (G M): their mean, or what most of them chose."""
        if self.samples is not None:
            return np.array([[_most_frequent(self.samples[:, layers])]])
        return mean_over_draws(self.values[list(layers)])

    def extreme(self, layers: Sequence[int]) -> tuple[np.ndarray, int]:
        """The worst of several layers at each point (G M), and the layer that is it most of the way."""
        part, sign = self.values[list(layers)], -1 if self.stripe == "fewest" else 1
        known = np.isfinite(part)
        if len(layers) == 1:  # as of every cell of a dense model
            return np.where(known[0], part[0], np.nan), layers[0]
        worst = sign * np.where(known, sign * part, -np.inf).max(axis=0)
        pick = np.where(known, sign * part, 0).mean(axis=(1, 2)).argmax()
        return np.where(np.isfinite(worst), worst, np.nan), layers[int(pick)]

    def text(self, value: float, layers: Sequence[int]) -> str:
        """A number as the pointer is told it, of these layers."""
        if not math.isfinite(value):
            return "not measured"
        if self.name == "tokens":
            return f"{number(value, 0)} tokens" if value else "no tokens"
        if self.samples is None:
            return significant(value)
        chosen = self.samples[:, list(layers)]
        known = chosen[np.isfinite(chosen)]
        choice = f"{self.sign} = {lam_text(value)}"
        return choice if known.size <= 1 else f"{choice}, {np.isclose(known, value).sum()} of {known.size} choices"

    @property
    def sign(self) -> str:
        """Of what “auto” chose."""
        return "λ" if self.name == "lambda" else "γ"

    def counts(self, known: np.ndarray) -> dict[float, int]:
        """Return how many of the numbers are each of the candidates."""
        return {step: int(np.isclose(known, step).sum()) for step in self.steps}

    def colours(self, values: np.ndarray) -> np.ndarray:
        """Numbers as places on the scale of colours: logarithms, or positions among the candidates."""
        if self.steps:
            near = np.abs(values[..., None] - np.array(self.steps)).argmin(axis=-1)
            return np.where(np.isfinite(values), near, np.nan)
        floor = np.finfo(np.float64).tiny
        return np.log10(np.where(np.isfinite(values), np.maximum(values, floor), np.nan))

    def scale(self, shown: np.ndarray, lams: Sequence[float]) -> Part:
        """A heatmap's scale for all that is shown (G M …), with its bar; zeros have the colour of the least.

        λ = 0 may be so far away that it would flatten the rest: what lies beyond the scale has the colour of its end,
        and the bar says so.
        """
        if self.steps:
            return {
                "zmin": -0.5,
                "zmax": len(self.steps) - 0.5,
                "colorscale": _flat(len(self.steps)),
                "colorbar": self._bar(*_named(self.steps)),
            }
        positive = [at for at, lam in enumerate(lams) if lam > 0] if self.follows else []
        spread = shown[:, positive or [0]]  # of all λ > 0, where there are any
        spread = spread[np.isfinite(spread) & (spread > 0)]
        low, high = (float(spread.min()), float(spread.max())) if spread.size else (0.1, 1.0)
        values = [low, math.sqrt(low * high), high]
        names = [number(value, 0) if self.name == "tokens" else f"{value:.2g}" for value in values]
        known = shown[np.isfinite(shown)]
        if known.size and known.max() > high * 1.001:
            names[-1] = f"≥ {names[-1]}"
        if known.size and known.min() < low * 0.999:
            names[0] = f"≤ {names[0]}"
        if high < low * 1.05:
            values, names = values[1:2], names[1:2]
        ends = {"zmin": math.log10(low), "zmax": math.log10(max(high, low * 1.01))}
        return {**ends, "colorscale": SHADES, "colorbar": self._bar([math.log10(one) for one in values], names)}

    def _bar(self, places: list[float], names: list[str]) -> Part:
        return slim_bar(places, names) | {
            "title": {"text": QUANTITIES[self.name][2], "side": "top", "font": {"size": 11}}
        }

    def aria(self, facts: LineFacts, values: np.ndarray, lam: int, called: str, name: Any) -> str:
        """One sentence about numbers (…) at a point; ``called`` is what they are of, ``name`` names one by position."""
        known = values[np.isfinite(values)]
        if not known.size:
            return f"Nothing was measured for {called}."
        if self.steps:
            said = [f"{lam_text(step)} in {count}" for step, count in self.counts(known).items() if count]
            return f"{self.sign} that “auto” chose most often in each of {called}: {', '.join(said)}."
        counts = self.name == "tokens"
        ends = [("least", int(np.nanargmin(values)))] if counts else []
        ends.append(("largest", int(np.nanargmax(values))))
        numbers = [(f"{end} in {name(at)},", values.flat[at]) for end, at in ends]
        numbers.append(("median", np.median(known)))
        parts = [
            f"{what} {number(float(value), 0) if counts else significant(float(value))}" for what, value in numbers
        ]
        where = f"{called}, {point_names(facts.line)[lam]}" if self.follows else called
        return f"{QUANTITIES[self.name][3]} of {where}: {', '.join(parts)}."


@once_a_line
def quantities_of(facts: LineFacts) -> list[str]:
    """Names of the quantities that a line has, the one shown without a wish first."""
    return [name for name in QUANTITIES if _samples(facts, name) is not None]


def quantity_of(facts: LineFacts, name: str | None = None) -> Quantity | None:
    """A quantity of a line; the first it has where it has not that one, None where it has none at all."""
    have = quantities_of(facts)
    name = name if name in have else next(iter(have), None)
    samples = None if name is None else _samples(facts, name)
    if name is None or samples is None:
        return None
    if name in ("lambda", "gamma"):
        found = facts.selection
        assert found is not None
        most = np.array([_most_frequent(samples[:, [at]]) for at in range(samples.shape[1])])
        return Quantity(name, most[:, None, None], samples, _steps(found, name))
    if name == "tokens":
        return Quantity(name, mean_over_draws(samples)[:, None, None])
    return Quantity(name, mean_over_draws(samples))


def _samples(facts: LineFacts, name: str) -> np.ndarray | None:
    """Numbers of each draw, D L or D L G M; None where the line has no such, or they would tell nothing."""
    if name in ("lambda", "gamma"):
        found = facts.selection
        if found is None or found.by != "layer" or len(_steps(found, name)) < 2:
            return None
        return found.lam if name == "lambda" else found.gamma
    if name == "tokens" and all(layer.expert is None for layer in facts.study.layers):
        return None  # every layer of a dense model sees all of them
    array = facts.read(name)
    return None if array is None or not np.isfinite(array).any() else array


def _steps(found: Selection, name: str) -> tuple[float, ...]:
    values = found.lams if name == "lambda" else found.gammas
    return tuple(sorted({float(value) for value in values if value is not None}))


def _most_frequent(values: np.ndarray) -> float:
    """What occurs most often, the smallest of several; NaN where nothing is known."""
    kinds, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    return float(kinds[counts.argmax()]) if kinds.size else math.nan


def slim_bar(places: list[float], names: list[str]) -> Part:
    """A slim colour bar, named at these places."""
    return {"tickvals": places, "ticktext": names, **SLIM_BAR, "tickfont": {"size": 11}}


def _flat(count: int) -> list[list[Any]]:
    """A scale of so many flat colours, one for each candidate."""
    stops: list[list[Any]] = []
    for step in range(count):
        place = step / max(count - 1, 1) * (len(CIVIDIS) - 1)
        colour = [round(float(np.interp(place, range(len(CIVIDIS)), part))) for part in zip(*CIVIDIS, strict=True)]
        name = f"rgb({', '.join(map(str, colour))})"
        stops += [[step / count, name], [(step + 1) / count, name]]
    return stops


def _named(steps: Sequence[float]) -> tuple[list[float], list[str]]:
    """Candidates as places and names; of many only some, the first and the last among them."""
    every = math.ceil((len(steps) - 1) / (MOST_NAMED - 1)) if len(steps) > MOST_NAMED else 1
    last = len(steps) - 1
    places = [at for at in range(len(steps)) if at == last or (at % every == 0 and last - at >= every)]
    return [float(at) for at in places], [lam_text(steps[at]) for at in places]
