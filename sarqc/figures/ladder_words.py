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
from sarqc.figures.numbers import draws_text, joined, number, perplexity_text, span_of
from sarqc.figures.sentence import Piece, piece, pieces
from sarqc.figures.view import Column, DataTable
from sarqc.language import message, tr, tr_count, tr_parts, written
from sarqc.study.ladder import QUALITIES, LadderPoint, Rung, rungs_of
from sarqc.study.paired import Difference

ENDS: dict[LadderEnd, str] = {"draws": message("all draws were made"), "budget": message("the budget was spent")}
_COLUMNS: tuple[Column, ...] = (
    {"key": "step", "title": message("Step"), "kind": "text"},
    {"key": "draws", "title": message("Draws"), "kind": "plain"},
    {"key": "perplexity", "title": message("Perplexity, unseen text"), "kind": "perplexity"},
    {"key": "perplexity_difference", "title": message("In this step, paired"), "kind": "difference"},
    {"key": "perplexity_low", "title": message("95 % from"), "kind": "difference"},
    {"key": "perplexity_high", "title": message("95 % to"), "kind": "difference"},
    {"key": "kl", "title": message("KL to the float model, nats a token"), "kind": "significant"},
    {"key": "kl_difference", "title": message("In this step, paired"), "kind": "significant"},
    {"key": "kl_low", "title": message("95 % from"), "kind": "significant"},
    {"key": "kl_high", "title": message("95 % to"), "kind": "significant"},
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
        rows.append({"step": tr("Float model"), "perplexity": ladder["perplexity_float"]})
    for rung in rungs:
        row: dict[str, Any] = {"step": rung_name(rung), "draws": _draws_of(rung), **rung.means}
        for name, difference in rung.differences.items():
            ends = zip(("difference", "low", "high"), (difference.mean, difference.low, difference.high), strict=True)
            row |= {f"{name}_{end}": float(value) for end, value in ends if np.isfinite(value)}
        rows.append(row)
    columns = [
        Column(key=column["key"], title=tr(column["title"]), kind=column["kind"])
        for column in _COLUMNS
        if any(column["key"] in row for row in rows)
    ]
    return {"columns": columns, "rows": [{column["key"]: row.get(column["key"]) for column in columns} for row in rows]}


def ladder_sentence(ladder: LadderRun, rungs: Sequence[Rung]) -> list[Piece]:
    """The step that is worth the most, the others by their intervals, and why the run ended: as far as is known."""
    if len(rungs) < 2:
        parts = [_before(ladder, rungs)]
    else:
        parts = [_worths(ladder, rungs), *([_lowest(ladder, rungs)] if ladder["best"] is not None else [])]
    if ladder["end"]:
        text = tr_count(
            "It ended because {reason}, after {count} model.", "It ended because {reason}, after {count} models.",
            ladder["measured"], reason=tr(ENDS[ladder["end"]]),
        )  # fmt: skip
        parts.append([piece(text)])
    said: list[Piece] = []
    for part in parts:
        said += [piece(" "), *part] if said else part
    return said


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
    return tr(NOUNS[rung.step]) if rung.step in NOUNS else step_words(rung.step, rung.fitting, rung.lam)


def _before(ladder: LadderRun, rungs: Sequence[Rung]) -> list[Piece]:
    """Before two points are measured."""
    if not rungs:
        ended, begun = message("Not enough time: no step was measured."), message("Measuring the float model.")
        return [piece(tr(ended if ladder["end"] else begun))]
    value = perplexity_text(rungs[0].mean("perplexity"))
    text = tr("Rounding to nearest has a perplexity of {value}; no step was compared with it yet.", value=value)
    return [piece(text)]


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
    value = rungs[0].mean("perplexity")
    values = {"model": ladder["model"], "bits": ladder["bits"]}
    if unclear and unclear == by_gain:
        draws = draws_text(ladder["draws"])
        return [piece(tr("On {model} at {bits} bits no step is clear of 0 over {draws}.", draws=draws, **values))]
    if best is None or changes[best].mean >= 0:
        none = message("On {model} at {bits} bits no step clearly lowers perplexity.")
        if not known:
            none = message("On {model} at {bits} bits, by one draw and without intervals, no step lowers perplexity.")
        said = [piece(tr(none, **values))]
    else:
        size, _, interval = span_of(changes[best].scaled(-1.0), value).partition(" ")
        less = tr("{size} less perplexity", size=size)
        gain = piece(f"{less} {interval}" if interval else less, "quality", verdict=best in known)
        most = message("On {model} at {bits} bits {step} is worth the most: {gain}.")
        if not known:
            most = message(
                "On {model} at {bits} bits, by one draw and without intervals, {step} is worth the most: {gain}."
            )
        said = pieces(tr_parts(most, step=best, gain=gain, **values))
    rest = [_change(name, changes[name], value) for name in (*gains, *costs) if name != best]
    if unclear:
        rest.append(
            tr_count("{names} is not clear of 0", "{names} are not clear of 0", len(unclear), names=_list(unclear))
        )
    more = [_change(name, changes[name], value) for name in alone if name != best]
    rest += [tr("on one draw alone {changes}", changes=_list(more))] if known and more else more
    if rest:
        text = "; ".join(rest)
        start = text[0] if text.startswith("λ") else text[0].upper()
        said.append(piece(f" {start}{text[1:]}."))
    return said


def _change(name: str, change: Difference, value: float) -> str:
    """“refinement saves 0.6”."""
    costs, saves = message("{step} costs {size}"), message("{step} saves {size}")
    return tr(costs if change.mean > 0 else saves, step=name, size=_size(change, value))


def _size(change: Difference, value: float) -> str:
    """The size of a change, without its sign and its interval."""
    return span_of(change.scaled(math.copysign(1.0, float(change.mean))), value).partition(" ")[0]


def _list(names: Sequence[str]) -> str:
    """“a, b and c”."""
    *first, last = names
    return joined([", ".join(first), last]) if first else last


def _lowest(ladder: LadderRun, rungs: Sequence[Rung]) -> list[Piece]:
    """The rung with the lowest perplexity."""
    step = ladder["rows"][ladder["best"] or 0]["step"]
    best = next(rung for rung in rungs if rung.step == step)
    values = {"value": perplexity_text(best.mean("perplexity")), "step": _name(best)}
    if (original := ladder["perplexity_float"]) is None:
        return [piece(tr("The lowest perplexity, {value}, is that after {step}.", **values))]
    text = tr(
        "The lowest perplexity, {value}, is that after {step}; the float model has {original}.",
        original=perplexity_text(original), **values,
    )  # fmt: skip
    return [piece(text)]


def _small_print(ladder: LadderRun, rungs: Sequence[Rung], recipe: Mapping[str, Any]) -> list[str]:
    """What the sentence rests on, one plain sentence each."""
    test = Path(str(recipe["test"])).name
    lines = [
        tr("Each step is added to those before it. In another order it would be worth something else."),
        tr(
            "Every step is measured on the same draws of calibration text, each {count} sequences of {length} tokens "
            "of {corpus}, taken at random.",
            count=number(recipe["samples"], 0), length=number(recipe["length"], 0),
            corpus=Path(str(recipe["calibration"])).name,
        ),
    ]  # fmt: skip
    counts = [_draws_of(rung) for rung in rungs]
    if counts and max(counts) > 1:
        lines.append(
            tr(
                "Intervals are of 95 %, by Student’s t, of each paired difference over the draws that have both of "
                "its points."
            )
        )
    if len({*counts}) > 1:
        lines.append(
            tr(
                "The last steps have {fewest}, the first {most}.",
                fewest=draws_text(min(counts)), most=draws_text(max(counts)),
            )
        )  # fmt: skip
    if counts and max(counts) == 1:
        lines.append(tr("One draw has no intervals: whether a difference holds in others, it can’t say."))
    by_step = {row["step"]: row.get("bits_per_weight") for row in ladder["rows"]}
    if (affine := by_step.get("affine")) and (before := by_step["gptq"]):
        lines.append(
            tr(
                "The affine grid stores a bias for each group: {affine} bits per weight in full, {before} before. Its "
                "codes are saved for MLX alone.",
                affine=written(f"{affine:.3g}"), before=written(f"{before:.3g}"),
            )
        )  # fmt: skip
    for one in ladder["left_out"]:
        step = tr(NOUNS[one["step"]]) if one["step"] in NOUNS else tr("the step of λ")
        lines.append(tr("Left out: {step}, since {why}.", step=step, why=one["why"]))
    lines.append(
        tr(
            "The best rung was chosen on {test}: judge the final model on another text. Layers were solved on the "
            "float model’s inputs; a run gives each layer the inputs that the quantized layers before it make, so its "
            "perplexity differs a little.",
            test=test,
        )
    )
    return lines
