"""Every step of a study's ladder: what it saves alone and after all others, and what λ saves beside it.

Two panels over the same rows. A filled mark is the plain method with the step, a hollow one all steps: in the left
panel what the step saves there, in the right one what the best λ saves over λ = 0, with this step alone and with all
steps but this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from sarqc.figures.drawing import PLAIN_AXIS, QUALITY, Figure, bar_lengths, base_layout, note
from sarqc.figures.ladder import NAMES, NOUNS, SHORT, narrow_rows, step_words, with_doubt
from sarqc.figures.numbers import draws_text, lam_text, number, perplexity_text, span_of
from sarqc.figures.titles import everywhere, fitting, set_finding
from sarqc.study.facts import LineFacts
from sarqc.study.paired import Difference
from sarqc.study.step_worth import Combination, EveryStep, StepWorth, every_step

Where = Literal["alone", "last"]
_PERPLEXITY = 50.0  # the size that decides how many decimals a difference has
_APART = 0.19  # of a row, between the two marks


class _Mark(NamedTuple):
    """A number saved, at a row of a panel."""

    panel: int  # 0: by the step; 1: by λ
    where: Where
    row: int
    saved: Difference
    words: str  # for a hover


def read_every_step(facts: LineFacts) -> EveryStep | None:
    """Return what each step and λ are worth at a line's width; None for a study without it."""
    study, bits = facts.study, facts.line.bits
    return study.once(None, f"every step at {bits} bits", lambda: every_step(study, bits))


def every_step_figure(facts: LineFacts) -> Figure | None:
    """Return the drawing of all steps of a line's width; None for a study without them."""
    found = read_every_step(facts)
    if found is None:
        return None
    names = ["No step", *(_name(step, found) for step in found.steps), "All steps"]
    layout = base_layout(left=176, right=16, top=26, bottom=24)
    layout["yaxis"] = {**PLAIN_AXIS, "range": [len(names) - 0.45, -0.55], "showgrid": False}
    layout["yaxis"] |= {"tickvals": list(range(len(names))), "ticktext": names}
    layout["yaxis"] |= {"tickfont": {"size": 12, "color": "var(--ink)"}}
    figure: Figure = {"data": [], "layout": layout, "bindings": [], "narrow": {}}
    marks = list(_marks(found))
    by_lam = f"Perplexity saved by {_which(found)}"
    panels = (
        ("Perplexity saved by the step", "Step saves", (0.0, 0.46)),
        (by_lam, "λ saves", (0.54, 1.0)),
    )
    for panel, (title, short, domain) in enumerate(panels):
        _add_panel(figure, [mark for mark in marks if mark.panel == panel], title, short, domain)
    for row, combination in ((0, found.plain), (len(names) - 1, found.every)):
        value = perplexity_text(combination.means["perplexity"])
        place = {"xref": "x", "yref": "y", "x": 0, "y": row, "xanchor": "left", "yanchor": "middle", "xshift": 6}
        words = f"perplexity {value}"
        layout["annotations"].append(note(words, **place, font={"size": 12, "color": "var(--ink-2)"}))
        figure["narrow"][f"layout.annotations.{len(layout['annotations']) - 1}.text"] = value
    figure["narrow"] |= narrow_rows(["no step", *(SHORT[step.step] for step in found.steps), "all steps"])
    figure["title"] = "Where λ still pays"
    figure["subtitle"] = _subtitle(found)
    set_finding(figure, everywhere(_finding(found)))
    figure["aria"] = f"{every_step_words(found)} {_aria(found)}"
    return figure


def _subtitle(found: EveryStep) -> str:
    lams, draws = ", ".join(map(lam_text, found.lams)), draws_text(found.draws)
    if len(found.lams) > 1:
        return f": ◆ the step alone, ◇ after all others; best of λ = {lams} against 0; 95 % over {draws}"
    return f": ◆ the step alone, ◇ after all others; λ = {lams} against 0; 95 % over {draws}"


def every_step_sentence(facts: LineFacts) -> str:
    """Return the sentence of a line's width; empty for a study without all steps."""
    found = read_every_step(facts)
    return "" if found is None else every_step_words(found)


def every_step_words(found: EveryStep) -> str:
    """Return what λ saves without any step, after all, and with the step that leaves it least."""
    plain, every = found.plain.lam.saved["perplexity"], found.every.lam.saved["perplexity"]
    text = (
        f"Without any step {_which(found)} saves {_span(plain)} in perplexity over λ = 0; with all steps "
        f"{with_doubt(_span(every), every)}."
    )
    least = min(found.steps, key=lambda step: float(step.alone.lam.saved["perplexity"].mean))
    left = least.alone.lam.saved["perplexity"]
    text += " " + f"{_sentence_case(NOUNS[least.step])} alone leaves λ least to do: {with_doubt(_span(left), left)}."
    last = {step.step: step.last_worth["perplexity"].scaled(-1.0) for step in found.steps if step.last_worth}
    if last:
        most = max(last, key=lambda name: float(last[name].mean))
        text += " " + f"After all others {NOUNS[most]} saves most, {with_doubt(_span(last[most]), last[most])}."
    return text


def every_step_rows(facts: LineFacts) -> Iterator[dict[str, object]]:
    """Yield two rows for each step, alone and after all others, after the plain method, and all steps at last."""
    found = read_every_step(facts)
    if found is None:
        return
    yield {"step": "No step", **_of_combination(found.plain)}
    for step in found.steps:
        name = step_words(step.step, step.fitting, 0.0)
        yield {
            "step": name, "taken": "alone", **_of_combination(step.alone), **_of_worth(step.alone_worth),
            **_of_lam("lambda_without", found.plain),
        }  # fmt: skip
        if step.without is not None:
            yield {
                "step": name, "taken": "after all others", **_of_combination(found.every),
                **_of_worth(step.last_worth), **_of_lam("lambda_without", step.without),
            }  # fmt: skip
    yield {"step": "All steps", **_of_combination(found.every)}


def _of_combination(combination: Combination) -> dict[str, object]:
    return {
        "bits": combination.bits, "seconds": combination.seconds, **combination.means,
        "best_lambda": combination.lam.lam, **_of_lam("lambda_saves", combination),
    }  # fmt: skip


def _of_lam(name: str, combination: Combination) -> dict[str, object]:
    saved = combination.lam.saved["perplexity"]
    return {name: saved.mean, f"{name}_low": saved.low, f"{name}_high": saved.high}


def _of_worth(worth: Any) -> dict[str, object]:
    row: dict[str, object] = {}
    for quality, difference in worth.items():
        row |= {
            f"{quality}_difference": difference.mean, f"{quality}_difference_low": difference.low,
            f"{quality}_difference_high": difference.high,
        }  # fmt: skip
    return row


def _marks(found: EveryStep) -> Iterator[_Mark]:
    yield _Mark(1, "alone", 0, found.plain.lam.saved["perplexity"], f"No step: {_lam_words(found.plain)}")
    for row, step in enumerate(found.steps, 1):
        noun = NOUNS[step.step]
        name = _sentence_case(noun)
        saved = step.alone_worth["perplexity"].scaled(-1.0)
        yield _Mark(0, "alone", row, saved, f"{name} alone saves {_span(saved)}")
        words = f"{name} alone: {_lam_words(step.alone)}"
        yield _Mark(1, "alone", row, step.alone.lam.saved["perplexity"], words)
        if step.without is not None:
            saved = step.last_worth["perplexity"].scaled(-1.0)
            words = f"{name} after all others saves {_span(saved)}"
            yield _Mark(0, "last", row, saved, words)
            words = f"All steps but {noun}: {_lam_words(step.without)}"
            yield _Mark(1, "last", row, step.without.lam.saved["perplexity"], words)
    last = len(found.steps) + 1
    words = f"All steps: {_lam_words(found.every)}"
    yield _Mark(1, "last", last, found.every.lam.saved["perplexity"], words)


def _add_panel(figure: Figure, marks: Sequence[_Mark], title: str, short: str, domain: tuple[float, float]) -> None:
    """The marks of a panel with their intervals and sizes, and a line at 0."""
    layout, panel = figure["layout"], marks[0].panel
    axis = "x" if panel == 0 else "x2"
    values = [float(mark.saved.mean) for mark in marks]
    width = max(*values, 0.0) - min(*values, 0.0) or 1.0
    reach = [_reach(mark.saved, width) for mark in marks]
    low = min(0.0, *(value - min(down, width) for value, (down, _) in zip(values, reach, strict=True)))
    high = max(0.0, *(value + min(up, width) for value, (_, up) in zip(values, reach, strict=True)))
    room = 0.3 * (high - low)  # for the sizes
    layout[f"xaxis{axis[1:]}"] = {
        **PLAIN_AXIS, "domain": list(domain), "range": [low - 0.06 * (high - low), high + room], "nticks": 5,
        "anchor": "y",
    }  # fmt: skip
    zero = {"type": "line", "xref": axis, "yref": "paper", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "layer": "below"}
    layout["shapes"].append({**zero, "line": {"color": "var(--ink-2)", "width": 1}})
    both = {mark.row for mark in marks if mark.where == "alone"} & {mark.row for mark in marks if mark.where == "last"}
    for where in ("alone", "last"):
        shown = [(mark, *bars) for mark, bars in zip(marks, reach, strict=True) if mark.where == where]
        side = -_APART if where == "alone" else _APART
        heights = [mark.row + (side if mark.row in both else 0.0) for mark, _, _ in shown]
        figure["data"].append(_trace(where, axis, shown, heights))
        for height, (mark, _, up) in zip(heights, shown, strict=True):
            mean = float(mark.saved.mean)
            clear = not math.isfinite(float(mark.saved.error)) or mark.saved.verdict(()) != 0
            place = {"xref": axis, "yref": "y", "x": mean + min(up, width), "y": height, "xshift": 6}
            font = {"size": 12, "color": "var(--ink)" if clear else "var(--ink-2)"}
            text = number(mean, 1 if abs(mean) >= 1 else 2)
            layout["annotations"].append(note(text, **place, xanchor="left", yanchor="middle", font=font))
    at = len(layout["annotations"])
    layout["annotations"].append(note(title, xref="paper", yref="paper", x=domain[0], y=1, yshift=4))
    figure["narrow"][f"layout.annotations.{at}.text"] = short


def _trace(
    where: Where, axis: str, shown: Sequence[tuple[_Mark, float, float]], heights: list[float]
) -> dict[str, Any]:
    color = QUALITY["color"]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": {"alone": "alone", "last": "after all others"}[where],
        "x": [float(mark.saved.mean) for mark, _, _ in shown],
        "y": heights,
        "xaxis": axis,
        "cliponaxis": True,
        "marker": {
            "color": color if where == "alone" else "var(--surface)", "symbol": QUALITY["symbol"], "size": 10,
            "line": {"color": color, "width": 1.8},
        },
        "error_x": {
            "type": "data", "symmetric": False, "array": [up for _, _, up in shown],
            "arrayminus": [down for _, down, _ in shown], "thickness": 1.5, "width": 3, "color": color,
        },
        "text": [mark.words for mark, _, _ in shown],
        "hovertemplate": "%{text}<extra></extra>",
    }  # fmt: skip


def _reach(saved: Difference, width: float) -> tuple[float, float]:
    """Lengths of an interval below and above its mean."""
    down, up = bar_lengths(saved.mean, (saved.low, saved.high), width)
    return float(down), float(up)


def _name(step: StepWorth, found: EveryStep) -> str:
    """“affine grid, 2.25 bits”: a step that takes other bits than the plain method says so."""
    words = step_words(step.step, step.fitting, 0.0)
    if step.alone.bits != found.plain.bits:
        words = f"{words}, {step.alone.bits:.3g} bits"
    return f"+ {words}"


def _lam_words(combination: Combination) -> str:
    saved = _span(combination.lam.saved["perplexity"])
    return f"λ = {lam_text(combination.lam.lam)} saves {saved}"


def _span(saved: Difference) -> str:
    return span_of(saved, _PERPLEXITY)


def _finding(found: EveryStep) -> str:
    """Where λ is clearly worth something: without any step, and with all."""
    plain, every = (part.lam.saved["perplexity"] for part in (found.plain, found.every))
    first, last = (number(float(saved.mean), 1) for saved in (plain, every))
    if not math.isfinite(float(plain.error)):
        return fitting(f"λ saves {first} without steps, {last} after all, on one draw")
    if plain.verdict(()) > 0:
        return fitting(
            f"λ saves {first} without steps, still {last} after all"
            if every.verdict(()) > 0
            else f"λ saves {first} without steps, nothing clear after all"
        )
    if every.verdict(()) > 0:
        return fitting(f"λ saves {last} after all steps, nothing clear without")
    return "λ saves nothing clear, with the steps or without"


def _aria(found: EveryStep) -> str:
    parts = []
    for step in found.steps:
        words = [f"alone {_span(step.alone_worth['perplexity'].scaled(-1.0))}"]
        if step.last_worth:
            words.append(f"after all others {_span(step.last_worth['perplexity'].scaled(-1.0))}")
        words.append(f"with it alone λ saves {_span(step.alone.lam.saved['perplexity'])}")
        if step.without is not None:
            words.append(f"with all but it {_span(step.without.lam.saved['perplexity'])}")
        parts.append(f"{_sentence_case(NOUNS[step.step])}: {', '.join(words)}")
    return f"{'; '.join(parts)}. Filled marks: {NAMES['gptq']} with the step; hollow marks: all steps."


def _which(found: EveryStep) -> str:
    """Which λ is spoken of."""
    return "the best λ" if len(found.lams) > 1 else f"λ = {lam_text(found.lams[0])}"


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]
