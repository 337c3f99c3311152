"""The ladder: each step's paired difference on the same draws, in perplexity and in KL, drawn and in words.

A study has one, and a run of its own shows one at any moment of it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

import numpy as np

from sarqc.documents import EvidenceDocument, LadderEnd, LadderRow, LadderRun
from sarqc.figures.drawing import (
    HOVER,
    PAPER,
    PLAIN_AXIS,
    QUALITY,
    Figure,
    Span,
    add_note,
    bar_lengths,
    base_layout,
    error_bars,
)
from sarqc.figures.numbers import (
    DataTable,
    Headings,
    counted,
    data_table,
    draws_text,
    interval_headings,
    join_names,
    lam_text,
    number,
    perplexity_text,
)
from sarqc.figures.sentence import Piece, join_sentences, piece, pieces
from sarqc.figures.titles import constant_finding, fit_text, set_finding
from sarqc.recipe import fitting_text
from sarqc.study.evidence import Evidence
from sarqc.study.ladder import LAMBDA, QUALITIES, Ladder, LadderPoint, Rung, rungs_of
from sarqc.study.paired import Difference


class _Side(NamedTuple):
    """One of the two halves: a quality, its words and its place."""

    quality: str
    title: str
    short: str
    show: Callable[[float], str]
    axis: str  # of plotly
    domain: Span


_NAMED = 3  # steps in a sentence at most; the figure has all
SIDES = (
    _Side("perplexity", "Perplexity on unseen text", "Perplexity", perplexity_text, "x", (0.0, 0.47)),
    _Side("kl", "KL to the float model, nats a token", "KL, nats", lambda value: number(value, 3), "x2", (0.53, 1.0)),
)
NAMES = {"nearest": "Round to nearest", "gptq": "GPTQ 1 %"}
NOUNS = {  # in a sentence
    "nearest": "rounding to nearest",
    "gptq": NAMES["gptq"],
    "order": "activation order",
    "range": "the searched range",
    "refine": "refinement",
    "refit": "refitting",
    "affine": "the affine grid",
    "joint": "the jointly searched range",
}
SHORT = {
    "nearest": "nearest",
    "order": "+ order",
    "range": "+ range",
    "refine": "+ refined",
    "refit": "+ refitted",
    "affine": "+ affine",
    "joint": "+ joint",
    "learned": "learned",
}


def rung_name(rung: Rung) -> str:
    """“+ searched range”."""
    if rung.step in ("nearest", "gptq"):
        return NAMES[rung.step]
    if rung.step == "learned":
        return "+ learned rounding" if "warm_start" in rung.fitting else "Learned rounding instead"
    words = step_words(rung.step, rung.fitting, rung.lam)
    if rung.step == "affine" and rung.bits:
        words = f"{words}, {rung.bits:.3g} bits"
    return f"+ {words}"


def step_words(step: str, fitting: Mapping[str, str | int | float], lam: float) -> str:
    """Return “searched range”, “λ = 0.1”; “GPTQ 1 %” and “Round to nearest” for the points that begin a ladder."""
    if step == "lambda":
        return f"λ = {lam_text(lam)}"
    if step in NAMES:
        return NAMES[step]
    if step == "affine":
        return "affine grid"
    name = "range" if step == "joint" else step
    return fitting_text({name: fitting[name]})


class LadderStep(TypedDict):
    """A step that can be taken earlier or later."""

    name: str
    title: str


class LadderWords(TypedDict):
    """Of a ladder what is not drawn: its steps in their order, what each is worth before and after all the others, and
    a sentence on λ."""

    steps: list[LadderStep]
    alone: list[EvidenceDocument]
    last: list[EvidenceDocument]
    words: str


def ladder_words(ladder: Ladder) -> LadderWords:
    """Return the steps of a ladder with what each is worth, and its sentence."""
    titles = {"refine": "refinement", "lambda": f"λ = {lam_text(LAMBDA)}"}
    alone, last = ([_worth(worths[step]).to_json() for step in ladder.steps] for worths in (ladder.alone, ladder.last))
    steps: list[LadderStep] = [{"name": step, "title": titles.get(step, step)} for step in ladder.steps]
    return {"steps": steps, "alone": alone, "last": last, "words": _sentence(ladder)}


def ladder_figure(rungs: Sequence[Rung], bits: int, waiting: Mapping[str, str] = MappingProxyType({})) -> Figure:
    """Return the rungs of a ladder from above to below.

    Args:
        rungs: Those that were measured; none draws an empty figure.
        bits: Bit width.
        waiting: Names of the rungs that are still to be measured, by their steps: each has its row.
    """
    names = {rung.step: rung_name(rung) for rung in rungs} | dict(waiting)
    layout = base_layout(left=168, right=16, top=26, bottom=24)
    layout["yaxis"] = {**PLAIN_AXIS, "range": [len(names) - 0.4, -0.6], "showgrid": False} | {
        "tickvals": list(range(len(names))),
        "ticktext": [*names.values()],
        "tickfont": {"size": 12, "color": "var(--ink)"},
    }
    figure: Figure = {"data": [], "layout": layout, "bindings": [], "narrow": {}}
    sides = [side for side in SIDES if rungs and all(side.quality in rung.values for rung in rungs)]
    for side in sides:
        _add_side(figure, rungs, side if len(sides) > 1 else side._replace(domain=(0.0, 1.0)))
    short = [SHORT.get(step, name) for step, name in names.items()]
    room = max(74, 8 * max(map(len, short), default=0))
    figure["narrow"] |= {"layout.margin.l": room, "layout.margin.r": 8, "layout.yaxis.ticktext": short}
    figure["title"] = "What each step is worth"
    set_finding(figure, constant_finding(_finding(rungs)))
    figure["aria"] = _aria(rungs, bits)
    return figure


def _finding(rungs: Sequence[Rung]) -> str:
    """Return the step after GPTQ that lowers perplexity most, of those that clearly do; empty without one."""
    steps = [rung for rung in rungs if rung.step not in ("nearest", "gptq") and "perplexity" in rung.differences]
    clear = [rung for rung in steps if step_evidence(rung).verdict == "better"]
    if not clear:
        return ""
    best = min(clear, key=lambda rung: step_evidence(rung).change)
    words = "learned rounding" if best.step == "learned" else step_words(best.step, best.fitting, best.lam)
    return fit_text(f"Largest gain after GPTQ: {words}")


def _sentence(ladder: Ladder) -> str:
    """State the worth of λ on the min–max grid, and on the grid with every other step taken."""
    parts = [
        f"{_worth(steps['lambda']).words} {place}"
        for steps, place in ((ladder.alone, "on the min–max grid"), (ladder.last, "after the others"))
    ]
    return f"λ = {lam_text(LAMBDA)}: {'; '.join(part[0].lower() + part[1:] for part in parts)}."


def _worth(changes: Mapping[str, Difference]) -> Evidence:
    """Return the comparison of a point with the same without a step."""
    return Evidence.of_difference(changes["perplexity"], quantity="perplexity", reference="without it")


def step_evidence(rung: Rung, quality: str = "perplexity") -> Evidence:
    """Return the comparison of a rung with the one before it; of KL as a share of the mean there."""
    change = rung.differences[quality]
    if quality != "kl":
        return Evidence.of_difference(change, quantity="perplexity", reference="before it")
    before = rung.mean("kl") - float(change.mean)
    return Evidence.of_difference(change.scaled(1 / before), quantity="KL", reference="before it")


def _add_side(figure: Figure, rungs: Sequence[Rung], side: _Side) -> None:
    layout = figure["layout"]
    values = [rung.mean(side.quality) for rung in rungs]
    width = max(values) - min(values)
    differences = [rung.differences.get(side.quality) for rung in rungs]
    bars = [(0.0, 0.0) if change is None else _bar_of(change, width) for change in differences]
    # An interval without an end reaches out of the axis.
    low = min(value - min(down, width) for value, (down, _) in zip(values, bars, strict=True))
    high = max(value + min(up, width) for value, (_, up) in zip(values, bars, strict=True))
    pad = 0.12 * (high - low or 1.0)
    layout[f"{side.axis[0]}axis{side.axis[1:]}"] = {
        **PLAIN_AXIS,
        "domain": list(side.domain),
        "range": [low - 2 * pad, high + 2 * pad],
        "nticks": 4,
        "anchor": "y",
    }
    texts = [_hover(rung, value, side) for rung, value in zip(rungs, values, strict=True)]
    figure["data"].append(_bars(side, values, bars, texts))
    for index, (rung, difference) in enumerate(zip(rungs, differences, strict=True)):
        ends, (down, up) = (values[index], values[max(index - 1, 0)]), bars[index]
        first, last = min(*ends, values[index] - down), max(*ends, values[index] + up)
        left = first - low > high - last  # the words stand on the emptier side
        text, narrow = side.show(values[index]), None
        if difference is not None:
            evidence = step_evidence(rung, side.quality)
            text, narrow = evidence.span, {"text": evidence.size}  # on a phone without the interval
        place = {"x": first, "xanchor": "right", "xshift": -6} if left else {"x": last, "xshift": 6}
        place |= {"xref": side.axis, "yref": "y", "y": index, "yanchor": "middle"}
        color = "var(--ink)" if rung.step == "lambda" else "var(--ink-2)"
        add_note(figure, text, color, narrow=narrow, **place)
    add_note(figure, side.title, narrow={"text": side.short}, **PAPER, x=side.domain[0], y=1, yshift=4)


def _bar_of(difference: Difference, width: float) -> Span:
    down, up = bar_lengths(difference.mean, (difference.low, difference.high), width)
    return float(down), float(up)


def _bars(side: _Side, values: list[float], bars: list[Span], texts: list[str]) -> dict[str, Any]:
    """Return bars from the rung before to each rung, the first a mark alone; the bar's end carries the step's 95 %
    interval."""
    starts = [values[0], *values[:-1]]
    return {
        "type": "bar",
        "orientation": "h",
        "name": side.quality,
        "y": list(range(len(values))),
        "base": starts,
        "x": [value - first for value, first in zip(values, starts, strict=True)],
        "xaxis": side.axis,
        "width": 0.5,
        "marker": {"color": "var(--quality-faint)", "line": {"color": QUALITY["color"], "width": 1.5}},
        "error_x": error_bars([up for _, up in bars], [down for down, _ in bars], QUALITY["color"]),
        "text": texts,
        "textposition": "none",
        "hovertemplate": HOVER,
    }


def _hover(rung: Rung, value: float, side: _Side) -> str:
    change = f", {step_evidence(rung, side.quality).clause}" if rung.differences else ""
    return f"{rung_name(rung)}: {side.show(value)}{change}"


def _aria(rungs: Sequence[Rung], bits: int) -> str:
    if not rungs:
        return f"Perplexity step by step at {bits} bits: nothing is measured yet."
    steps = []
    for rung in rungs:
        value = perplexity_text(rung.mean("perplexity"))
        change = f", {step_evidence(rung).clause}" if rung.differences else ""
        steps.append(f"{rung_name(rung)} {value}{change}")
    return (
        f"Perplexity step by step at {bits} bits, paired over {draws_text(len(rungs[0].values['perplexity']))}: "
        f"{'; '.join(steps)}."
    )


ENDS: dict[LadderEnd, str] = {"draws": "all draws were made", "budget": "the budget was spent"}
_COLUMNS: Headings = (
    ("step", "Step", "text"),
    ("draws", "Draws", "plain"),
    ("perplexity", "Perplexity, unseen text", "perplexity"),
    *interval_headings("perplexity_difference", "Change by this step", "change"),
    ("kl", "KL to the float model, nats a token", "significant"),
    *interval_headings("kl_difference", "Change by this step", "change"),
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
    """Return every rung with its paired differences, after the float model."""
    rows: list[dict[str, Any]] = []
    if ladder["perplexity_float"] is not None:
        rows.append({"step": "Float model", "perplexity": ladder["perplexity_float"]})
    for rung in rungs:
        row: dict[str, Any] = {"step": rung_name(rung), "draws": _draw_count(rung), **rung.means}
        for name in rung.differences:
            row |= step_evidence(rung, name).columns(f"{name}_difference")
        rows.append(row)
    return data_table(_COLUMNS, rows)


def ladder_sentence(ladder: LadderRun, rungs: Sequence[Rung]) -> list[Piece]:
    """Return the largest steps, and the lowest perplexity: as far as is known."""
    if len(rungs) < 2:
        return _start_words(ladder, rungs)
    lowest = [_lowest(ladder, rungs)] if ladder["best"] is not None else []
    return join_sentences([_worths(ladder, rungs), *lowest])


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


def _draw_count(rung: Rung) -> int:
    return int(np.isfinite(rung.values["perplexity"]).sum())


def _name(rung: Rung) -> str:
    return NOUNS[rung.step] if rung.step in NOUNS else step_words(rung.step, rung.fitting, rung.lam)


def _start_words(ladder: LadderRun, rungs: Sequence[Rung]) -> list[Piece]:
    """Report the state before two points are measured."""
    if not rungs:
        return [piece("Not enough time: no step was measured." if ladder["end"] else "Measuring the float model.")]
    value = perplexity_text(rungs[0].mean("perplexity"))
    return [piece(f"Rounding to nearest has a perplexity of {value}; no step has been compared with it yet.")]


def _worths(ladder: LadderRun, rungs: Sequence[Rung]) -> list[Piece]:
    """“On toy at 2 bits the searched range is worth the most: 3.9 % lower perplexity than before it (95 %: 2.8 to
    5.0 %, four draws); then λ = 0.1 (1.2 % lower) and refinement (0.8 % lower).”
    """
    before = {_name(rung): step_evidence(rung) for rung in rungs[1:]}
    better = [name for name in before if before[name].verdict == "better"]
    lead = f"On {ladder['model']} at {ladder['bits']} bits"
    if not better:
        return [piece(f"{lead} no step is measurably worth anything over {draws_text(ladder['draws'])}.")]
    best, *others = sorted(better, key=lambda name: before[name].change)[:_NAMED]
    gain = piece(before[best].size, "quality", verdict=True)
    then = join_names([f"{name} ({before[name].size})" for name in others])
    after = f"; then {then}." if others else "."
    return pieces([f"{lead} {best} is worth the most: ", gain, f"{before[best].beside}{after}"])


def _lowest(ladder: LadderRun, rungs: Sequence[Rung]) -> list[Piece]:
    """Return the rung with the lowest perplexity."""
    step = ladder["rows"][ladder["best"] or 0]["step"]
    best = next(rung for rung in rungs if rung.step == step)
    value = perplexity_text(best.mean("perplexity"))
    original = ladder["perplexity_float"]
    comparison = "" if original is None else f"; the float model has {perplexity_text(original)}"
    return [piece(f"The lowest perplexity, {value}, is that after {_name(best)}{comparison}.")]


def _small_print(ladder: LadderRun, rungs: Sequence[Rung], recipe: Mapping[str, Any]) -> list[str]:
    """List the evidence, one plain sentence each."""
    test = Path(str(recipe["test"])).name
    end = ladder["end"] and f"It ended because {ENDS[ladder['end']]}, after {counted(ladder['measured'], 'model')}."
    lines = [
        *filter(None, [end]),
        "Each step is added to those before it. In another order it would be worth something else.",
        "Every step is measured on the same draws of calibration text, each "
        f"{number(recipe['samples'], 0)} sequences of {number(recipe['length'], 0)} tokens of "
        f"{Path(str(recipe['calibration'])).name}, taken at random.",
    ]
    counts = [_draw_count(rung) for rung in rungs]
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
    if (affine := by_step.get("affine")) and (plain_bits := by_step["gptq"]):
        lines.append(
            f"The affine grid stores a bias for each group: {affine:.3g} bits per weight in full, "
            f"{plain_bits:.3g} before."
        )
    for entry in ladder["left_out"]:
        step = NOUNS.get(entry["step"], "the step of λ")
        lines.append(f"Left out: {step}, since {entry['why']}.")
    lines.append(
        f"The best rung was chosen on {test}: judge the final model on another text. Layers were solved on the "
        "float model’s inputs; a run gives each layer the inputs that the quantized layers before it make, so "
        "its perplexity differs a little."
    )
    return lines
