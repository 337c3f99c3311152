"""The ladder as a drawing: each step's paired difference on the same draws, in perplexity and in KL."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

from sarqc.figures.drawing import PLAIN_AXIS, QUALITY, Figure, bar_lengths, base_layout, note
from sarqc.figures.numbers import difference_decimals, draws_text, lam_text, number, perplexity_text, span_of
from sarqc.figures.titles import everywhere, fitting, set_finding
from sarqc.plain import measured
from sarqc.quantization.methods import fitting_text
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


def _kl_text(value: float) -> str:
    return number(value, 3)


SIDES = (
    _Side("perplexity", "Perplexity on unseen text", "Perplexity", perplexity_text, "x", (0.0, 0.47)),
    _Side("kl", "KL to the float model, nats a token", "KL, nats", _kl_text, "x2", (0.53, 1.0)),
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


def _narrow_rows(names: list[str]) -> dict[str, Any]:
    """What a narrow drawing has in the place of the names of its rows, with room for the longest."""
    room = max(74, 8 * max(map(len, names), default=0))
    return {"layout.margin.l": room, "layout.margin.r": 8, "layout.yaxis.ticktext": names}


class LadderStep(TypedDict):
    """A step that can be taken earlier or later."""

    name: str
    title: str


class Worth(TypedDict):
    """What a step is worth in perplexity, with the ends of the 95 % interval; null where one draw can't say."""

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
    titles = {
        "order": "order",
        "range": "range",
        "refine": "refinement",
        "lambda": f"λ = {lam_text(LAMBDA)}",
    }
    alone, last = (
        [_worth(each[step]["perplexity"]) for step in climbed.steps] for each in (climbed.alone, climbed.last)
    )
    steps: list[LadderStep] = [{"name": step, "title": titles[step]} for step in climbed.steps]
    return {"steps": steps, "alone": alone, "last": last, "words": _sentence(climbed)}


def _worth(difference: Difference) -> Worth:
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
    layout["yaxis"] = {**PLAIN_AXIS, "range": [len(names) - 0.4, -0.6], "showgrid": False}
    layout["yaxis"] |= {"tickvals": list(range(len(names))), "ticktext": [*names.values()]}
    layout["yaxis"] |= {"tickfont": {"size": 12, "color": "var(--ink)"}}
    figure: Figure = {"data": [], "layout": layout, "bindings": [], "narrow": {}}
    sides = [side for side in SIDES if rungs and all(side.quality in rung.values for rung in rungs)]
    for side in sides:
        _add_side(figure, rungs, side if len(sides) > 1 else side._replace(domain=(0.0, 1.0)))
    figure["narrow"] |= _narrow_rows([SHORT.get(step, name) for step, name in names.items()])
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
    changes = [span_of(difference, climbed.rungs[0].mean("perplexity")) for difference in (alone, last)]
    on_plain = f"{changes[0]} on the min–max grid"
    after = f"{changes[1]} after the others"
    return f"λ = {lam_text(LAMBDA)} in perplexity: {_with_doubt(on_plain, alone)}; {_with_doubt(after, last)}."


def _with_doubt(words: str, difference: Difference) -> str:
    """Words on a difference, with a remark where several draws do not show it clearly."""
    unclear = math.isfinite(difference.error) and difference.verdict(()) == 0
    return f"{words}, which is not clear of 0" if unclear else words


def _add_side(figure: Figure, rungs: Sequence[Rung], side: _Side) -> None:
    layout = figure["layout"]
    values = [rung.mean(side.quality) for rung in rungs]
    width = max(values) - min(values)
    bars = [_bar_of(rung.differences[side.quality], width) if rung.differences else (0.0, 0.0) for rung in rungs]
    # An interval without an end reaches out of the axis.
    low = min(value - min(down, width) for value, (down, _) in zip(values, bars, strict=True))
    high = max(value + min(up, width) for value, (_, up) in zip(values, bars, strict=True))
    pad = 0.12 * (high - low or 1.0)
    layout[f"{side.axis[0]}axis{side.axis[1:]}"] = {
        **PLAIN_AXIS, "domain": list(side.domain), "range": [low - 2 * pad, high + 2 * pad], "nticks": 4, "anchor": "y",
    }  # fmt: skip
    figure["data"].append(_bars(side, values, bars, [_hover(rung, value, side) for rung, value in zip(
        rungs, values, strict=True)]))  # fmt: skip
    for at, rung in enumerate(rungs):
        ends, (down, up) = (values[at], values[max(at - 1, 0)]), bars[at]
        first, last = min(*ends, values[at] - down), max(*ends, values[at] + up)
        left = first - low > high - last  # the words stand on the emptier side
        text = side.show(values[at]) if not rung.differences else span_of(
            rung.differences[side.quality], 50.0 if side.quality == "perplexity" else _KL)  # fmt: skip
        place: dict[str, Any] = {"x": first if left else last}
        place |= {"xref": side.axis, "yref": "y", "y": at, "xanchor": "right" if left else "left"}
        font = {"size": 12, "color": "var(--ink)" if rung.step == "lambda" else "var(--ink-2)"}
        layout["annotations"].append(note(text, **place, yanchor="middle", xshift=-6 if left else 6, font=font))
        if rung.differences:  # on a phone without the interval
            difference = rung.differences[side.quality]
            mean, doubt = float(difference.mean), float(difference.doubt)
            coarse = 0 if abs(mean) >= 100 else 1 if abs(mean) >= 1 else 2
            short = number(mean, coarse if side.quality == "perplexity" else difference_decimals(doubt, _KL))
            figure["narrow"][f"layout.annotations.{len(layout['annotations']) - 1}.text"] = short
    at = len(layout["annotations"])
    layout["annotations"].append(note(side.title, xref="paper", yref="paper", x=side.domain[0], y=1, yshift=4))
    figure["narrow"] |= {f"layout.annotations.{at}.text": side.short}


def _bar_of(difference: Difference, width: float) -> tuple[float, float]:
    """Lengths of a step's interval below and above its end."""
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
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [up for _, up in bars],
            "arrayminus": [down for down, _ in bars],
            "thickness": 1.5,
            "width": 4,
            "color": QUALITY["color"],
        },
        "text": texts,
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
    }


def _hover(rung: Rung, value: float, side: _Side) -> str:
    name, text = rung_name(rung), side.show(value)
    if not rung.differences:
        return f"{name}: {text}"
    change = span_of(rung.differences[side.quality], 1.0)
    return f"{name}: {text}, {change} in this step"


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
