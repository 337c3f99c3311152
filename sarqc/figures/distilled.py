"""The λ of distillation: KL over it for several amounts of calibration text, at the same codes.

The numbers are those of ``distilled.json`` beside this file, which ``python -m tests.benchmarks.distilled`` writes.
They are drawn with the studies of their model at their number of bits.

Axes in comments: S amounts of text, D calibration draws, M λ values, G γ values of the shown line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.figures.drawing import PERCENT, QUALITY, Figure, Role
from sarqc.figures.numbers import draws_text, lam_text, small_percent
from sarqc.figures.panels import Curve, Panel, stack
from sarqc.figures.titles import everywhere, fitting, lam_point, set_finding
from sarqc.study.facts import LineFacts
from sarqc.study.paired import geometric_mean, paired_difference, sweet_spots

TABLE = Path(__file__).with_name("distilled.json")
# Of curves of one quantity, from the least text to the most.
_STYLES: tuple[Role, ...] = (
    {**QUALITY, "dash": "dashdot", "symbol": "cross"}, {**QUALITY, "dash": "dot", "symbol": "circle"},
    {**QUALITY, "dash": "dash", "symbol": "square"}, QUALITY,
)  # fmt: skip


@dataclass(frozen=True)
class DistillationCurves:
    """KL on a test text after distillation, as a share of that at λ = 0 of the same draw and amount.

    Attributes:
        model: Name of the model.
        bits: Bits per weight.
        length: Tokens of a sequence.
        samples: Numbers of sequences, S.
        lams: λ of distillation, M.
        ratios: S D M; NaN where nothing was measured.
    """

    model: str
    bits: int
    length: int
    samples: tuple[int, ...]
    lams: tuple[float, ...]
    ratios: np.ndarray

    @property
    def changes(self) -> np.ndarray:
        """Return the relative change against λ = 0, geometric mean over draws, S M."""
        return np.stack([geometric_mean(ratios) for ratios in self.ratios]) - 1

    def best(self) -> tuple[tuple[int | None, ...], np.ndarray]:
        """Return the best λ of each amount, and the mask S M of those that may be the best; see ``sweet_spots``."""
        return sweet_spots(np.swapaxes(self.ratios, 0, 1))


@cache
def measured_distilled() -> DistillationCurves | None:
    """Return the numbers of the table; None while it has fewer than two amounts of text."""
    return read_distilled(json.loads(TABLE.read_text(encoding="utf-8")))


def read_distilled(document: dict[str, Any]) -> DistillationCurves | None:
    """Return the numbers of a table, of every amount of text with all λ on a draw; None with fewer than two."""
    setting, rows = document["setting"], document["rows"]
    kl = {(row["samples"], row["draw"], row["lambda"]): row["kl"] for row in rows}
    lams = tuple(sorted({row["lambda"] for row in rows}))
    whole = {
        samples: draws
        for samples in sorted({row["samples"] for row in rows})
        if (draws := [draw for draw in _draws(rows) if all((samples, draw, lam) in kl for lam in lams)])
    }
    if len(whole) < 2:
        return None
    shape = (len(whole), max(map(len, whole.values())), len(lams))
    ratios = np.full(shape, np.nan)
    for s, (samples, draws) in enumerate(whole.items()):
        for d, draw in enumerate(draws):
            first = kl[samples, draw, 0.0]
            ratios[s, d] = [kl[samples, draw, lam] / first for lam in lams]
    return DistillationCurves(setting["model"], setting["bits"], setting["length"], tuple(whole), lams, ratios)


def _draws(rows: list[dict[str, Any]]) -> list[int]:
    return sorted({row["draw"] for row in rows})


def distilled(facts: LineFacts) -> Figure | None:
    """Return the change in KL over the λ of distillation, a curve for each amount of text; None for other models."""
    found = measured_distilled()
    if found is None or (facts.study.model.name, facts.line.bits) != (found.model, found.bits):
        return None
    return distilled_figure(found, len(facts.line.gammas))


def distilled_figure(found: DistillationCurves, gammas: int = 1) -> Figure:
    """Return the drawing of some numbers.

    Args:
        found: The numbers.
        gammas: Number of γ of the line beside which they are drawn; they are the same at each.
    """
    names, changes, (best, _) = [lam_text(lam) for lam in found.lams], found.changes, found.best()
    styles = _STYLES[-len(found.samples) :]
    curves = tuple(
        Curve(
            f"{samples} sequences", style, np.tile(change, (gammas, 1)), short=str(samples),
            label=f"{samples} × {found.length} tokens",
        )
        for samples, change, style in zip(found.samples, changes, styles, strict=True)
    )  # fmt: skip
    points = tuple(
        ("best λ", found.lams[at], float(change[at]))
        for at, change in zip(best, changes, strict=True)
        if at is not None
    )
    panel = Panel(
        "KL to the float model against λ = 0", small_percent, curves, 1.0, short="KL against λ = 0",
        ticks=PERCENT, points=points,
    )  # fmt: skip
    figure = stack(found.lams, names, [panel], ring=False)
    short = {curve.label: f"{curve.short}\u00a0×" for curve in curves}  # its subtitle has the length
    for at, words in enumerate(figure["layout"]["annotations"]):
        if words["text"] in short:
            figure["narrow"][f"layout.annotations.{at}.text"] = short[words["text"]]
    figure["title"] = "λ of distillation"
    count = int(np.isfinite(found.ratios).all(axis=-1).sum(axis=-1).min())
    figure["subtitle"] = (
        f": {found.model}, {found.bits} bits, codes of one λ, {found.length} tokens a sequence, {draws_text(count)}"
    )
    set_finding(figure, everywhere(_finding(found)))
    ends = ", ".join(
        f"{samples} sequences: {lam_text(found.lams[at])}"
        for samples, at in zip(found.samples, best, strict=True)
        if at is not None
    )
    figure["aria"] = f"KL over the λ of distillation for several amounts of text. Best λ for {ends}."
    return figure


def _finding(found: DistillationCurves) -> str:
    """Where the best λ goes as the text grows, and whether the draws show it clearly."""
    best, band = found.best()
    if len(best) < 2 or best[0] is None or best[-1] is None:
        return ""
    first, last = best[0], best[-1]
    has_draws = bool(band.any(axis=1).all())
    if first == last:
        return _same_best(found, first, has_draws=has_draws)
    falls, ends = last < first, {"first": lam_text(found.lams[first]), "last": lam_text(found.lams[last])}
    if not has_draws:
        return fitting(
            "On one draw the best λ of distillation falls from {first} to {last}".format(**ends)
            if falls
            else "On one draw the best λ of distillation rises from {first} to {last}".format(**ends)
        )
    moves = (
        "The best λ of distillation falls from {first} to {last}".format(**ends)
        if falls
        else "The best λ of distillation rises from {first} to {last}".format(**ends)
    )
    if band[0, last] or band[-1, first]:
        return fitting(f"{moves}, not clearly", moves)
    return fitting(
        "The best λ of distillation falls from {first} to {last} with text".format(**ends)
        if falls
        else "The best λ of distillation rises from {first} to {last} with text".format(**ends),
        moves,
    )


def _same_best(found: DistillationCurves, best: int, *, has_draws: bool) -> str:
    """What a λ gains that is the best with the least text and with the most."""
    gains = [-float(found.changes[s, best]) for s in (0, -1)]
    falls = gains[1] < gains[0]
    words = {"lam": lam_point(found.lams[best]), "first": small_percent(gains[0]), "last": small_percent(gains[1])}
    lead = f"{words['lam']} is best"
    moves = (
        "{lam} is best; its gain falls, {first} to {last}".format(**words)
        if falls
        else "{lam} is best; its gain rises, {first} to {last}".format(**words)
    )
    if not has_draws:
        return fitting(f"{moves}, on one draw", f"{lead} on one draw")
    apart = paired_difference(*(np.log(found.ratios[s, :, best]) for s in (-1, 0)))
    if not apart.verdict(()):
        return fitting(f"{moves}, not clearly", lead)
    return fitting(
        "{lam} is best; its gain falls with text, {first} to {last}".format(**words)
        if falls
        else "{lam} is best; its gain rises with text, {first} to {last}".format(**words),
        lead,
    )


def distilled_rows(facts: LineFacts) -> Iterator[dict[str, object]]:
    """Yield a row for each amount of text and λ."""
    found = measured_distilled()
    if found is None or distilled(facts) is None:
        return
    for samples, change in zip(found.samples, found.changes, strict=True):
        for lam, value in zip(found.lams, change, strict=True):
            yield {"sequences": samples, "lambda": lam, "kl_change": float(value)}
