"""The ladder as a drawing: each step's paired difference on the same draws, in perplexity and in KL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

from sarqc.figures.changes import is_unclear
from sarqc.figures.drawing import PAPER, Figure, add_note, base_layout
from sarqc.figures.numbers import difference_decimals, draws_text, lam_text, number, perplexity_text, span_of
from sarqc.figures.ranges import PLAIN_AXIS, bar_lengths
from sarqc.figures.styles import QUALITY
from sarqc.figures.titles import everywhere, fitting, set_finding
from sarqc.figures.traces import HOVER, error_bars
from sarqc.plain import measured
from sarqc.recipe.method_words import fitting_text
from sarqc.study.ladder import LAMBDA, Ladder, Rung
from sarqc.study.paired import Difference


class _Side(NamedTuple):
    """One of the two halves: a quality, its words and its place."""

    quality: str
    title: str
    short: str
    show: Callable[[float], str]
    axis: str  # of plotly
    domain: tuple[float, float]


_KL = 1.0  # nats, the size that decides how many decimals a difference has
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
    """“searched range”, “λ = 0.1”; “GPTQ 1 %” and “Round to nearest” for the points that begin a ladder."""
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


class Worth(TypedDict):
    """A difference with the ends of its 95 % interval; null where one draw can't say."""

    mean: float | None
    low: float | None
    high: float | None
    clear: bool  # of 0


class LadderWords(TypedDict):
    """Of a ladder what is not drawn: its steps in their order, what each is worth before and after all the others, and
    a sentence on λ."""

    steps: list[LadderStep]
    alone: list[Worth]
    last: list[Worth]
    words: str


def ladder_words(climbed: Ladder) -> LadderWords:
    """Return the steps of a ladder with what each is worth, and its sentence."""
    titles = {"refine": "refinement", "lambda": f"λ = {lam_text(LAMBDA)}"}
    alone, last = (
        [worth_of(each[step]["perplexity"]) for step in climbed.steps] for each in (climbed.alone, climbed.last)
    )
    steps: list[LadderStep] = [{"name": step, "title": titles.get(step, step)} for step in climbed.steps]
    return {"steps": steps, "alone": alone, "last": last, "words": _sentence(climbed)}


def worth_of(difference: Difference) -> Worth:
    """Return a difference without axes as plain numbers."""
    mean, low, high = (measured(float(value)) for value in (difference.mean, difference.low, difference.high))
    return {"mean": mean, "low": low, "high": high, "clear": difference.verdict(()) != 0}


def ladder_figure(rungs: Sequence[Rung], bits: int, waiting: Mapping[str, str] = MappingProxyType({})) -> Figure:
    """The rungs of a ladder from above to below.

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
    set_finding(figure, everywhere(_finding(rungs)))
    figure["aria"] = _aria(rungs, bits)
    return figure


def _finding(rungs: Sequence[Rung]) -> str:
    """The step after GPTQ that lowers perplexity most, of those that clearly do; empty without one."""
    steps = [rung for rung in rungs if rung.step not in ("nearest", "gptq") and "perplexity" in rung.differences]
    clear = [rung for rung in steps if rung.differences["perplexity"].verdict(()) < 0]
    if not clear:
        return ""
    best = min(clear, key=lambda rung: float(rung.differences["perplexity"].mean))
    words = "learned rounding" if best.step == "learned" else step_words(best.step, best.fitting, best.lam)
    return fitting(f"Largest gain after GPTQ: {words}")


def _sentence(climbed: Ladder) -> str:
    """What λ is worth on the min–max grid, and what on the grid with every other step taken."""
    alone, last = (steps["lambda"]["perplexity"] for steps in (climbed.alone, climbed.last))
    value = climbed.rungs[0].mean("perplexity")
    parts = [
        f"{span_of(worth, value)} {where}{', which is not clear of 0' if is_unclear(worth) else ''}"
        for worth, where in ((alone, "on the min–max grid"), (last, "after the others"))
    ]
    return f"λ = {lam_text(LAMBDA)} in perplexity: {'; '.join(parts)}."


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
    for at, (rung, difference) in enumerate(zip(rungs, differences, strict=True)):
        ends, (down, up) = (values[at], values[max(at - 1, 0)]), bars[at]
        first, last = min(*ends, values[at] - down), max(*ends, values[at] + up)
        left = first - low > high - last  # the words stand on the emptier side
        text, narrow = side.show(values[at]), None
        if difference is not None:
            text = span_of(difference, 50.0 if side.quality == "perplexity" else _KL)
            mean, doubt = float(difference.mean), float(difference.doubt)
            coarse = 0 if abs(mean) >= 100 else 1 if abs(mean) >= 1 else 2
            decimals = coarse if side.quality == "perplexity" else difference_decimals(doubt, _KL)
            narrow = {"text": number(mean, decimals)}  # on a phone without the interval
        place = {"x": first, "xanchor": "right", "xshift": -6} if left else {"x": last, "xshift": 6}
        place |= {"xref": side.axis, "yref": "y", "y": at, "yanchor": "middle"}
        color = "var(--ink)" if rung.step == "lambda" else "var(--ink-2)"
        add_note(figure, text, color, narrow=narrow, **place)
    add_note(figure, side.title, narrow={"text": side.short}, **PAPER, x=side.domain[0], y=1, yshift=4)


def _bar_of(difference: Difference, width: float) -> tuple[float, float]:
    down, up = bar_lengths(difference.mean, (difference.low, difference.high), width)
    return float(down), float(up)


def _bars(side: _Side, values: list[float], bars: list[tuple[float, float]], texts: list[str]) -> dict[str, Any]:
    """From the rung before to each rung, the first a mark alone; the bar's end carries the step's 95 % interval."""
    before = [values[0], *values[:-1]]
    return {
        "type": "bar",
        "orientation": "h",
        "name": side.quality,
        "y": list(range(len(values))),
        "base": before,
        "x": [value - first for value, first in zip(values, before, strict=True)],
        "xaxis": side.axis,
        "width": 0.5,
        "marker": {"color": "var(--quality-faint)", "line": {"color": QUALITY["color"], "width": 1.5}},
        "error_x": error_bars([up for _, up in bars], [down for down, _ in bars], QUALITY["color"]),
        "text": texts,
        "textposition": "none",
        "hovertemplate": HOVER,
    }


def _hover(rung: Rung, value: float, side: _Side) -> str:
    change = f", {span_of(rung.differences[side.quality], 1.0)} in this step" if rung.differences else ""
    return f"{rung_name(rung)}: {side.show(value)}{change}"


def _aria(rungs: Sequence[Rung], bits: int) -> str:
    if not rungs:
        return f"Perplexity step by step at {bits} bits: nothing is measured yet."
    steps = []
    for rung in rungs:
        value = perplexity_text(rung.mean("perplexity"))
        change = f", {span_of(rung.differences['perplexity'], 50.0)}" if rung.differences else ""
        steps.append(f"{rung_name(rung)} {value}{change}")
    return (
        f"Perplexity step by step at {bits} bits, paired over {draws_text(len(rungs[0].values['perplexity']))}: "
        f"{'; '.join(steps)}."
    )
