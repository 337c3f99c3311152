"""What the ladder of a model says at any moment of it: its sentence, figure, table and small print."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sarqc.documents import LadderEnd, LadderRow, LadderRun
from sarqc.figures.drawing import Figure
from sarqc.figures.ladder import NAMES, NOUNS, ladder_figure, rung_name, step_words
from sarqc.figures.numbers import counted, draws_text, listed, number, perplexity_text, span_of, unsigned
from sarqc.figures.sentence import Piece, in_a_row, piece, pieces
from sarqc.figures.view import DataTable, Headings, data_table
from sarqc.study.ladder import QUALITIES, LadderPoint, Rung, rungs_of
from sarqc.study.paired import Difference

ENDS: dict[LadderEnd, str] = {"draws": "all draws were made", "budget": "the budget was spent"}
_COLUMNS: Headings = (
    ("step", "Step", "text"),
    ("draws", "Draws", "plain"),
    ("perplexity", "Perplexity, unseen text", "perplexity"),
    ("perplexity_difference", "In this step, paired", "difference"),
    ("perplexity_low", "95 % from", "difference"),
    ("perplexity_high", "95 % to", "difference"),
    ("kl", "KL to the float model, nats a token", "significant"),
    ("kl_difference", "In this step, paired", "significant"),
    ("kl_low", "95 % from", "significant"),
    ("kl_high", "95 % to", "significant"),
)


class LadderView(TypedDict):
    """Where the ladder of a model stands, and what is drawn and said of it."""

    ladder: LadderRun
    figure: Figure
    table: DataTable
    sentence: list[Piece]
    small_print: list[str]


def ladder_view(ladder: LadderRun, recipe: Mapping[str, Any]) -> LadderView:
    """Return everything that a page shows of a ladder.

    Args:
        ladder: Where it stands.
        recipe: Its recipe, under the public names.
    """
    rungs = rungs_of([_point(row) for row in ladder["rows"] if _is_reached(row)])
    waiting = {row["step"]: _row_name(row) for row in ladder["rows"] if not _is_reached(row)}
    return {
        "ladder": ladder,
        "figure": ladder_figure(rungs, ladder["bits"], waiting),
        "table": ladder_table(ladder, rungs),
        "sentence": ladder_sentence(ladder, rungs),
        "small_print": _small_print(ladder, rungs, recipe),
    }


def ladder_table(ladder: LadderRun, rungs: Sequence[Rung]) -> DataTable:
    """Every rung with its paired differences, after the float model."""
    rows: list[dict[str, Any]] = []
    if ladder["perplexity_float"] is not None:
        rows.append({"step": "Float model", "perplexity": ladder["perplexity_float"]})
    for rung in rungs:
        row: dict[str, Any] = {"step": rung_name(rung), "draws": _draws_of(rung), **rung.means}
        for name, difference in rung.differences.items():
            ends = zip(("difference", "low", "high"), (difference.mean, difference.low, difference.high), strict=True)
            row |= {f"{name}_{end}": float(value) for end, value in ends if np.isfinite(value)}
        rows.append(row)
    return data_table(_COLUMNS, rows)


def ladder_sentence(ladder: LadderRun, rungs: Sequence[Rung]) -> list[Piece]:
    """The step that is worth the most, the others by their intervals, and why the run ended: as far as is known."""
    if len(rungs) < 2:
        parts = [_before(ladder, rungs)]
    else:
        parts = [_worths(ladder, rungs), *([_lowest(ladder, rungs)] if ladder["best"] is not None else [])]
    if ladder["end"]:
        models = counted(ladder["measured"], "model")
        parts.append([piece(f"It ended because {ENDS[ladder['end']]}, after {models}.")])
    return in_a_row(parts)


def _is_reached(row: LadderRow) -> bool:
    return any(value is not None for value in row["perplexity"])


def _point(row: LadderRow) -> LadderPoint:
    values = {"perplexity": row["perplexity"], "kl": row["kl"]}
    arrays = {name: np.array(values[name], dtype=np.float64) for name in QUALITIES}  # None becomes NaN
    bits = row.get("bits_per_weight")
    return LadderPoint(row["step"], row["method"], row["fitting"], row["lambda"] or 0.0, arrays, bits)


def _row_name(row: LadderRow) -> str:
    words = step_words(row["step"], row["fitting"], row["lambda"] or 0.0)
    return words if row["step"] in NAMES else f"+ {words}"


def _draws_of(rung: Rung) -> int:
    return int(np.isfinite(rung.values["perplexity"]).sum())


def _name(rung: Rung) -> str:
    return NOUNS[rung.step] if rung.step in NOUNS else step_words(rung.step, rung.fitting, rung.lam)


def _before(ladder: LadderRun, rungs: Sequence[Rung]) -> list[Piece]:
    """Before two points are measured."""
    if not rungs:
        return [piece("Not enough time: no step was measured." if ladder["end"] else "Measuring the float model.")]
    value = perplexity_text(rungs[0].mean("perplexity"))
    return [piece(f"Rounding to nearest has a perplexity of {value}; no step has been compared with it yet.")]


def _worths(ladder: LadderRun, rungs: Sequence[Rung]) -> list[Piece]:
    """“On toy at 2 bits the searched range is worth the most: 3.1 less perplexity (2.2 to 4.0). Refinement saves 0.6;
    activation order is not clear of 0.”
    """
    changes = {_name(rung): rung.differences["perplexity"] for rung in rungs[1:]}
    by_gain = sorted(changes, key=lambda name: float(changes[name].mean))
    known = [name for name in by_gain if math.isfinite(changes[name].error)]  # of two draws or more
    gains, unclear, costs = ([name for name in known if changes[name].verdict(()) == side] for side in (-1, 0, 1))
    alone = [name for name in by_gain if name not in known]
    best = next(iter(gains if known else alone), None)
    value, lead = rungs[0].mean("perplexity"), f"On {ladder['model']} at {ladder['bits']} bits"
    if unclear and unclear == by_gain:
        return [piece(f"{lead} no step is clear of 0 over {draws_text(ladder['draws'])}.")]
    if not known:
        lead += ", by one draw and without intervals,"
    if best is None or changes[best].mean >= 0:
        said = [piece(f"{lead} no step {'clearly lowers' if known else 'lowers'} perplexity.")]
    else:
        size, _, interval = span_of(changes[best].scaled(-1.0), value).partition(" ")
        less = f"{size} less perplexity"
        gain = piece(f"{less} {interval}" if interval else less, "quality", verdict=best in known)
        said = pieces([f"{lead} {best} is worth the most: ", gain, "."])
    rest = [_change(name, changes[name], value) for name in (*gains, *costs) if name != best]
    if unclear:
        rest.append(f"{listed(unclear)} {'is' if len(unclear) == 1 else 'are'} not clear of 0")
    more = [_change(name, changes[name], value) for name in alone if name != best]
    rest += [f"on one draw alone {listed(more)}"] if known and more else more
    if rest:
        text = "; ".join(rest)
        start = text[0] if text.startswith("λ") else text[0].upper()
        said.append(piece(f" {start}{text[1:]}."))
    return said


def _change(name: str, change: Difference, value: float) -> str:
    """“refinement saves 0.6”."""
    size = span_of(unsigned(change), value).partition(" ")[0]
    return f"{name} {'costs' if change.mean > 0 else 'saves'} {size}"


def _lowest(ladder: LadderRun, rungs: Sequence[Rung]) -> list[Piece]:
    """The rung with the lowest perplexity."""
    step = ladder["rows"][ladder["best"] or 0]["step"]
    best = next(rung for rung in rungs if rung.step == step)
    value = perplexity_text(best.mean("perplexity"))
    original = ladder["perplexity_float"]
    beside = "" if original is None else f"; the float model has {perplexity_text(original)}"
    return [piece(f"The lowest perplexity, {value}, is that after {_name(best)}{beside}.")]


def _small_print(ladder: LadderRun, rungs: Sequence[Rung], recipe: Mapping[str, Any]) -> list[str]:
    """What the sentence rests on, one plain sentence each."""
    test = Path(str(recipe["test"])).name
    lines = [
        "Each step is added to those before it. In another order it would be worth something else.",
        "Every step is measured on the same draws of calibration text, each "
        f"{number(recipe['samples'], 0)} sequences of {number(recipe['length'], 0)} tokens of "
        f"{Path(str(recipe['calibration'])).name}, taken at random.",
    ]
    counts = [_draws_of(rung) for rung in rungs]
    if counts and max(counts) > 1:
        lines.append(
            "Intervals are of 95 %, by Student’s t, of each paired difference over the draws that have both of "
            "its points."
        )
    if len({*counts}) > 1:
        lines.append(f"The last steps have {draws_text(min(counts))}, the first {draws_text(max(counts))}.")
    if counts and max(counts) == 1:
        lines.append("One draw has no intervals: whether a difference holds in others, it can’t say.")
    by_step = {row["step"]: row.get("bits_per_weight") for row in ladder["rows"]}
    if (affine := by_step.get("affine")) and (before := by_step["gptq"]):
        lines.append(
            f"The affine grid stores a bias for each group: {affine:.3g} bits per weight in full, "
            f"{before:.3g} before. Its codes are saved for MLX alone."
        )
    for one in ladder["left_out"]:
        step = NOUNS.get(one["step"], "the step of λ")
        lines.append(f"Left out: {step}, since {one['why']}.")
    lines.append(
        f"The best rung was chosen on {test}: judge the final model on another text. Layers were solved on the "
        "float model’s inputs; a run gives each layer the inputs that the quantized layers before it make, so "
        "its perplexity differs a little."
    )
    return lines
