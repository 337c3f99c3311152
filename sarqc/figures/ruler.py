"""The damping of GPTQ as a place on the λ axis: what a larger λ changes, against the default of GPTQ.

Every tool with a GPTQ solver regularises by the identity penalty, since its damping is λ (see ``dampings.toml``). The
figure is drawn over the identity line of a study: the change in perplexity at each λ, paired by calibration draw, and
the defaults of the tools below it.

Axes in comments: D calibration draws, M λ values of the identity line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

import numpy as np

from sarqc.figures.drawing import (
    HOVER,
    PLAIN_AXIS,
    QUALITY,
    RING,
    Figure,
    Part,
    add_caption,
    add_note,
    bar_lengths,
    bind,
    bind_fields,
    clamp,
    edge_trace,
    error_bars,
    even_ticks,
    honest_range,
    line_shape,
    marker_of,
    new_figure,
    plain_numbers,
    position,
    scatter,
    whiskers,
)
from sarqc.figures.flags import GPTQ, TOOLS_BY_DEFAULT, Tool
from sarqc.figures.numbers import (
    Ratio,
    difference_decimals,
    difference_text,
    draws_text,
    is_unclear,
    lam_names,
    lam_text,
    number,
    ratio_of,
    unsigned,
)
from sarqc.figures.titles import finding_by_point, fit_text, set_finding, shown_layer
from sarqc.quantization.methods import METHODS
from sarqc.study.document import Line
from sarqc.study.facts import LineFacts, has_lam, lam_index, line_facts, once
from sarqc.study.paired import Difference, paired_ratio

IDENTITY = "rqc-gbs"  # the method whose λ is the damping of GPTQ
STRIP, PANEL = (0.0, 0.24), (0.34, 1.0)  # shares of the height: tools, and the change in perplexity
NARROW_BELOW = 560
NAMED = 5  # names of tools beside one default, on a wide screen


@dataclass(frozen=True)
class Steps:
    """Changes along the identity line of a study against the default damping of GPTQ, M."""

    facts: LineFacts  # of the identity line
    start: int  # position of the default of GPTQ
    perplexity: Difference  # paired by draw
    drift: Ratio | None
    error: Ratio | None
    noun: str  # of the error
    is_shown: bool  # whether the identity line is the line that the Lab shows

    @property
    def lams(self) -> tuple[float, ...]:
        return self.facts.line.lams

    @property
    def larger(self) -> list[int]:
        """Positions of the measured λ above the default of GPTQ."""
        known = np.isfinite(self.perplexity.mean)
        return [m for m in range(self.start + 1, len(self.lams)) if known[m]]

    @cached_property
    def changes(self) -> list[str]:
        """The change in perplexity at every λ in words."""
        return [_perplexity_text(self, m) for m in range(len(self.lams))]

    def target(self, lam: float) -> int:
        """Return the step described for a shown λ: to that λ, or the first step where it is not a larger λ of the
        identity line."""
        at = lam_index(self.facts.line, lam)
        return at if at in self.larger else self.larger[0]


@once
def read_steps(facts: LineFacts) -> Steps | None:
    """Return the steps for a line whose solver damps; None for other lines, and for a study without the perplexity of
    the identity line at the default of GPTQ and at a larger λ."""
    identity = _identity_line(facts)
    quality = None if identity is None else identity.perplexity
    start = None if identity is None else lam_index(identity.line, GPTQ.lam)
    if identity is None or quality is None or start is None:
        return None
    values = quality.values[:, 0]  # D M
    name = next((name for name in ("recon", "held_out") if identity.selected(name) is not None), None)
    drift, error = (
        None if array is None else ratio_of(array, array[..., [start]])
        for array in (identity.selected("drift"), None if name is None else identity.selected(name))
    )
    steps = Steps(
        identity,
        start,
        paired_ratio(values, values[:, [start]]),
        drift,
        error,
        "calibration error" if name == "recon" else "error on unseen text",
        identity.line is facts.line,
    )
    return steps if steps.larger and math.isfinite(steps.perplexity.mean[start]) else None


def _identity_line(facts: LineFacts) -> LineFacts | None:
    """Return the identity line with several λ at the width of a line, on its grid rather than on the plain one."""
    entry, line = METHODS.get(facts.line.method), facts.line
    if entry is None or not entry.make.damps:
        return None

    def fits(candidate: Line) -> bool:
        same = candidate.method == IDENTITY and candidate.bits == line.bits and candidate.fitting in (line.fitting, {})
        return same and has_lam(candidate) and candidate.later is None and len(candidate.lams) > 1

    lines = sorted(
        (candidate for candidate in facts.study.lines if fits(candidate)),
        key=lambda candidate: candidate.fitting != line.fitting,
    )
    if not lines:
        return None
    if lines[0].name == line.name:
        return facts
    if facts.identity is not None and facts.identity.line.name == lines[0].name:
        return facts.identity
    return line_facts(facts.study, method=lines[0].name, bits=line.bits, layer=facts.layer, with_identity=False)


def ruler(facts: LineFacts) -> Figure | None:
    """Return the change in perplexity from the default damping of GPTQ to every λ, with the defaults of the tools; None
    as for ``read_steps``."""
    steps = read_steps(facts)
    if steps is None:
        return None
    names, count = lam_names(steps.facts.line), len(steps.lams)
    mean, low, high = steps.perplexity.mean, steps.perplexity.low, steps.perplexity.high
    inner = np.arange(count) >= steps.start
    span = honest_range(whiskers(*(part[inner] for part in (mean, low, high))), mean[~inner], always=(0.0,))
    across = {
        **PLAIN_AXIS,
        "range": [-0.45, count - 0.55],
        "tickvals": list(range(count)),
        "ticktext": names,
        "tickangle": 0,
        "anchor": "y2",
        "title": {"text": "λ of the identity penalty", "standoff": 2},
    }
    up = {**PLAIN_AXIS, "domain": list(PANEL), "range": list(span), **even_ticks(span, 4)}
    up["title"] = {"text": "change in perplexity", "standoff": 4}
    margins = {"left": 58, "right": 16, "top": 40, "bottom": 34}
    figure = new_figure(across, up, **margins, narrow={}, narrow_bindings=[], narrow_below=NARROW_BELOW)
    _add_changes(figure, steps, span)
    _add_tools(figure, steps)
    _add_words(figure, facts, steps)
    figure["title"] = "Perplexity against the damping of GPTQ"
    intervals = ", 95 % intervals" if np.isfinite(steps.perplexity.error).any() else ""
    whose = "" if steps.is_shown else f", {steps.facts.line.label}"
    figure["subtitle"] = f", {draws_text(steps.facts.n_draws)}{intervals}{whose}"
    verdict = _verdict(steps)
    set_finding(figure, finding_by_point(facts, lambda at: verdict))
    return figure


def _add_changes(figure: Figure, steps: Steps, span: tuple[float, float]) -> None:
    """Add the change at every λ with its interval, and a ring at the described step."""
    mean, ends = steps.perplexity.mean, (steps.perplexity.low, steps.perplexity.high)
    drawn, side = clamp(mean, span)
    down, up = (np.where(side == 0, bar, 0.0) for bar in bar_lengths(mean, ends, span[1] - span[0]))
    zero = line_shape((0, 1), [0], "var(--ink-3)", "dot", layer="below", xref="paper", yref="y")
    figure["layout"]["shapes"].append(zero)
    color = QUALITY["color"]
    figure["data"].append(
        scatter(
            "change in perplexity",
            "lines+markers",
            x=list(range(len(mean))),
            y=plain_numbers(drawn),
            cliponaxis=False,
            line={"color": color, "width": 2},
            marker=marker_of(QUALITY, 7),
            error_y=error_bars(plain_numbers(up), plain_numbers(down), color),
            text=["<br>".join(_hover(steps, m)) for m in range(len(mean))],
            hovertemplate=HOVER,
        )
    )
    off = np.flatnonzero(side).tolist()
    if off:
        texts = [f" {number(mean[m], difference_decimals(math.nan, _reference(steps)))}" for m in off]
        symbols = ["triangle-up" if side[m] > 0 else "triangle-down" for m in off]
        edge = edge_trace("y") | {"x": off, "y": [float(drawn[m]) for m in off], "text": texts}
        edge["marker"] = {**edge["marker"], "symbol": symbols}
        figure["data"].append({**edge, "textposition": ["bottom right" if side[m] > 0 else "top right" for m in off]})
    ring = {"symbol": QUALITY["symbol"], "size": 13, "color": color, "line": RING}
    figure["data"].append(scatter("shown step", "markers", cliponaxis=False, hoverinfo="skip", marker=ring))


def _hover(steps: Steps, m: int) -> list[str]:
    lead = f"λ = {lam_text(steps.lams[m])}:"
    if m == steps.start:
        return [f"{lead} the default of GPTQ"]
    if not math.isfinite(steps.perplexity.mean[m]):
        return [f"{lead} not measured"]
    return [f"{lead} {steps.changes[m]}", *_further_changes(steps, m)]


def _add_tools(figure: Figure, steps: Steps) -> None:
    """Add a row for each default that lies on the axis: its place, and the tools that have it."""
    rows = tool_rows(steps.lams)
    layout, ink = figure["layout"], "var(--ink-2)"
    layout["yaxis2"] = {**PLAIN_AXIS, "domain": list(STRIP), "range": [len(rows) - 0.4, -0.6], "showgrid": False}
    layout["yaxis2"] |= {"tickvals": [], "ticktext": [], "anchor": "x"}
    hovers = [[f"λ = {lam_text(tools[0].default)}:", *(tool.words for tool in tools)] for _, tools in rows]
    figure["data"].append(
        scatter(
            "defaults of tools",
            "markers",
            x=plain_numbers([place for place, _ in rows]),
            y=list(range(len(rows))),
            yaxis="y2",
            cliponaxis=False,
            text=["<br>".join(lines) for lines in hovers],
            hovertemplate=HOVER,
            marker={"symbol": "triangle-up", "size": 10, "color": ink},
        )
    )
    for row, (place, tools) in enumerate(rows):
        text = f"{'you are here with ' if tools[0].default == GPTQ.lam else ''}{_names(tools, NAMED)}"
        spot = {"xref": "x", "yref": "y2", "x": place, "y": row, "xshift": 9, "yanchor": "middle"}
        add_note(figure, text, ink, narrow={"text": _names(tools, 1)}, **spot)


def tool_rows(lams: Sequence[float]) -> list[tuple[float, list[Tool]]]:
    """Return the place of each default on an axis of λ, and the tools with it; without those beyond the axis."""
    placed = [(position(default, lams), tools) for default, tools in TOOLS_BY_DEFAULT.items()]
    return [(place, tools) for place, tools in placed if place is not None]


def _names(tools: Sequence[Tool], most: int) -> str:
    """“GPTQ, llm-compressor and 6 more”."""
    names = ", ".join(tool.name for tool in tools[:most])
    return f"{names} and {len(tools) - most} more" if len(tools) > most else names


def _add_words(figure: Figure, facts: LineFacts, steps: Steps) -> None:
    """Write the step to the shown λ in words, above the plot and for screen readers; the ring at its end."""
    targets = [steps.target(lam) for lam in facts.line.lams]
    wide, narrow = ([_words(steps, m, narrow=is_narrow) for m in targets] for is_narrow in (False, True))
    line, tools = _aria(facts, steps)
    layout = figure["layout"]
    drawn = clamp(steps.perplexity.mean, tuple(layout["yaxis"]["range"]))[0]
    ring = next(i for i, trace in enumerate(figure["data"]) if trace["name"] == "shown step")
    add_caption(figure, wide, narrow, "lambda", yshift=6, xshift=-50)
    places = {"x": [[float(m)] for m in targets], "y": [[float(drawn[m])] for m in targets]}
    bind_fields(figure, f"data.{ring}", places, "lambda")
    arias = [f"{line} {step_words(steps, m)} {tools}" for m in targets]
    figure["bindings"].append(bind("aria", arias, "lambda"))
    figure["narrow"]["layout.margin.t"] = layout["margin"]["t"] + 16


def step_words(steps: Steps, m: int) -> str:
    """Describe the step from the default of GPTQ to the λ at ``m`` in one sentence."""
    return (
        f"From GPTQ’s λ = {lam_text(GPTQ.lam)} to {lam_text(steps.lams[m])}: "
        f"{', '.join([steps.changes[m], *_further_changes(steps, m)])}; no additional time."
    )


def _words(steps: Steps, m: int, *, narrow: bool) -> str:
    """Format the step in two lines, in three on a narrow screen."""
    lead = f"From GPTQ’s λ = {lam_text(GPTQ.lam)} to {lam_text(steps.lams[m])}:"
    details = ", ".join([*_further_changes(steps, m), "no additional time"])
    return f"{lead}{'<br>' if narrow else ' '}<b>{steps.changes[m]}</b><br>{details}"


def _perplexity_text(steps: Steps, m: int) -> str:
    """“2.3 less perplexity (1.4 to 3.2)”, or that there is no clear change."""
    change, reference = steps.perplexity.at((m,)), _reference(steps)
    side = "less" if change.mean < 0 else "more"
    if not math.isfinite(change.error):
        size = number(abs(float(change.mean)), difference_decimals(float(change.doubt), reference))
        return f"{size} {side} perplexity on one draw" if change.mean else "equal perplexity"
    if is_unclear(change):
        return f"no clear change in perplexity: {difference_text(change, reference)}"
    size, _, interval = difference_text(unsigned(change), reference).partition(" ")
    return f"{size} {side} perplexity {interval}"


def _reference(steps: Steps) -> float:
    """Return the perplexity at the default of GPTQ, for the decimals of its changes."""
    quality = steps.facts.perplexity
    assert quality is not None
    return float(quality.mean[0, steps.start])


def _further_changes(steps: Steps, m: int) -> list[str]:
    """Return the changes of drift and error."""
    pairs = ((steps.drift, "drift"), (steps.error, steps.noun))
    return [_change(ratio, m, noun) for ratio, noun in pairs if ratio is not None and ratio.known((0, m))]


def _change(ratio: Ratio, m: int, noun: str) -> str:
    """“13 % less drift”."""
    if not ratio.clear((0, m)):
        return f"no clear change in {noun}"
    return f"equal {noun}" if ratio.same((0, m)) else ratio.change_in(noun, (0, m))


def _verdict(steps: Steps) -> str:
    """Return whether some larger λ is clearly better than the default of GPTQ, as the best of all larger λ."""
    best = min(steps.larger, key=lambda m: steps.perplexity.mean[m])
    change = steps.perplexity.chosen_of(len(steps.larger)).at((best,))
    if not math.isfinite(change.error):
        return f"You already regularise: GPTQ’s damping is λ = {lam_text(GPTQ.lam)}"
    if change.verdict(()) < 0:
        lam, default = lam_text(steps.lams[best]), lam_text(GPTQ.lam)
        return fit_text(f"You already regularise; λ = {lam} is better than GPTQ’s {default}")
    return "You already regularise; no larger λ is clearly better"


def _aria(facts: LineFacts, steps: Steps) -> tuple[str, str]:
    """Return the words before those for a step, and after them."""
    tools = "; ".join(
        f"λ = {lam_text(tools[0].default)}: {', '.join(tool.name for tool in tools)}"
        for _, tools in tool_rows(steps.lams)
    )
    line = f"{steps.facts.line.spoken_title} at {steps.facts.line.bits} bits"
    text = f"The damping of GPTQ as λ, {line}, {shown_layer(facts)}, {draws_text(steps.facts.n_draws)}."
    return text, f"Defaults: {tools}."


class RulerTargets(TypedDict):
    """The run that a step of the ruler leads to: method, and for each λ of the line that is shown the λ of the step."""

    method: str
    lams: list[float]


def ruler_targets(facts: LineFacts) -> RulerTargets | None:
    """Return the steps' targets, for a link to a run; None as for ``read_steps``."""
    steps = read_steps(facts)
    if steps is None:
        return None
    return {"method": IDENTITY, "lams": [steps.lams[steps.target(lam)] for lam in facts.line.lams]}


def ruler_rows(facts: LineFacts) -> list[Part]:
    """Return the numbers behind the figure: a row for each λ, and for each default between two of them."""
    steps = read_steps(facts)
    if steps is None:
        return []

    def tool_columns(lam: float) -> Part:
        tools = next((tools for default, tools in TOOLS_BY_DEFAULT.items() if math.isclose(default, lam)), [])
        words, sources = ", ".join(tool.words for tool in tools), " ".join(tool.source for tool in tools)
        return {"tools": words or None, "sources": sources or None}

    rows = []
    for m, lam in enumerate(steps.lams):
        row: Part = {"method": steps.facts.line.name, "lambda": lam, **tool_columns(lam)}
        row |= {
            "perplexity_change": steps.perplexity.mean[m],
            "perplexity_change_low": steps.perplexity.low[m],
            "perplexity_change_high": steps.perplexity.high[m],
        }
        for key, ratio in (("drift_change", steps.drift), ("error_change", steps.error)):
            row[key] = None if ratio is None else ratio.mean[0, m] - 1
        rows.append(row)
    between = [default for default in TOOLS_BY_DEFAULT if lam_index(steps.facts.line, default) is None]
    rows += [{"lambda": default, **tool_columns(default)} for default in between]
    return rows
