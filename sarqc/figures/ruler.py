"""The damping of GPTQ as a place on the λ axis: what a larger λ changes in perplexity, against the default of GPTQ.

Every tool with a GPTQ solver regularises by the identity penalty, since its damping is λ (see ``dampings.toml``). The
figure is drawn over the identity line of a study: the change in perplexity at each λ, paired by calibration draw, and
the defaults of the tools below it.

Axes in comments: D calibration draws, M λ values of the identity line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sarqc.figures.drawing import (
    HOVER,
    PLAIN_AXIS,
    QUALITY,
    Figure,
    Part,
    add_note,
    bar_lengths,
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
from sarqc.figures.numbers import draws_text, lam_names, lam_text, percent
from sarqc.figures.titles import constant_finding, fit_text, set_finding, shown_layer
from sarqc.quantization.methods import METHODS
from sarqc.study.evidence import Evidence
from sarqc.study.facts import LineFacts, lam_index, once, simultaneous
from sarqc.study.paired import RatioDifference, paired_ratio

IDENTITY = "rqc-gbs"  # the method whose λ is the damping of GPTQ
STRIP, PANEL = (0.0, 0.24), (0.34, 1.0)  # shares of the height: tools, and the change in perplexity
NARROW_BELOW = 560
NAMED = 5  # names of tools beside one default, on a wide screen


@dataclass(frozen=True)
class Steps:
    """Changes along the identity line of a study against the default damping of GPTQ, M."""

    facts: LineFacts  # of the identity line
    start: int  # position of the default of GPTQ
    perplexity: RatioDifference  # paired by draw, for all λ at once

    @property
    def changes(self) -> np.ndarray:
        """Changes as shares of the perplexity at the default of GPTQ, and the ends of their intervals: 3 M."""
        parts = [getattr(self.perplexity, part) for part in ("mean", "low", "high")]
        changes: np.ndarray = np.stack(parts) / self.perplexity.scale
        return changes

    @property
    def best(self) -> int:
        """Position of the best larger λ."""
        return min(self.larger, key=lambda at: self.perplexity.mean[at])

    def evidence(self, m: int) -> Evidence:
        """Return the comparison of a λ with the default of GPTQ."""
        reference = f"GPTQ’s {lam_text(GPTQ.lam)}"
        return Evidence.of_difference(
            self.perplexity, (m,), quantity="perplexity", reference=reference, is_best=m == self.best
        )

    @property
    def lams(self) -> tuple[float, ...]:
        return self.facts.line.lams

    @property
    def larger(self) -> list[int]:
        """Positions of the measured λ above the default of GPTQ."""
        known = np.isfinite(self.perplexity.mean)
        return [m for m in range(self.start + 1, len(self.lams)) if known[m]]


@once
def read_steps(facts: LineFacts) -> Steps | None:
    """Return the steps for a line whose solver damps; None for other lines, and for a study without the perplexity of
    the identity line at the default of GPTQ and at a larger λ."""
    entry, identity = METHODS.get(facts.line.method), facts if facts.line.method == IDENTITY else facts.identity
    if entry is None or not entry.make.damps or identity is None or identity.line.method != IDENTITY:
        return None
    quality, start = identity.perplexity, lam_index(identity.line, GPTQ.lam)
    if quality is None or start is None:
        return None
    values = quality.values[:, 0]  # D M
    steps = Steps(identity, start, simultaneous(paired_ratio(values, values[:, [start]])))
    return steps if steps.larger and math.isfinite(steps.perplexity.mean[start]) else None


def ruler(facts: LineFacts) -> Figure | None:
    """Return the change in perplexity from the default damping of GPTQ to every λ, with the defaults of the tools; None
    as for ``read_steps``."""
    steps = read_steps(facts)
    if steps is None:
        return None
    names, count = lam_names(steps.facts.line), len(steps.lams)
    mean, low, high = steps.changes
    inner = np.arange(count) >= steps.start
    outer_ends = whiskers(mean[~inner], low[~inner], high[~inner], among=mean[inner])
    span = honest_range(whiskers(mean[inner], low[inner], high[inner]), outer_ends, always=(0.0,))
    across = {
        **PLAIN_AXIS,
        "range": [-0.45, count - 0.55],
        "tickvals": list(range(count)),
        "ticktext": names,
        "tickangle": 0,
        "anchor": "y2",
        "title": {"text": "λ of the identity penalty", "standoff": 2},
    }
    up = {**PLAIN_AXIS, "domain": list(PANEL), "range": list(span), **even_ticks(span, 4), "tickformat": ".1~%"}
    up["title"] = {"text": "change in perplexity", "standoff": 4}
    figure = new_figure(across, up, left=58, right=16, top=12, bottom=34, narrow={}, narrow_below=NARROW_BELOW)
    _add_changes(figure, steps, span)
    _add_tools(figure, steps)
    figure["aria"] = _aria(facts, steps)
    figure["title"] = "Perplexity against the damping of GPTQ"
    intervals = ", 95 % intervals" if np.isfinite(steps.perplexity.error).any() else ""
    whose = "" if steps.facts.line is facts.line else f", {steps.facts.line.label}"
    figure["subtitle"] = f", {draws_text(steps.facts.n_draws)}{intervals}{whose}"
    set_finding(figure, constant_finding(_verdict(steps)))
    return figure


def _add_changes(figure: Figure, steps: Steps, span: tuple[float, float]) -> None:
    """Add the change at every λ with its interval."""
    mean, *ends = steps.changes
    drawn, side = clamp(mean, span)
    down, up = (np.where(side == 0, bar, 0.0) for bar in bar_lengths(mean, (ends[0], ends[1]), span[1] - span[0]))
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
            text=[_hover(steps, m) for m in range(len(mean))],
            hovertemplate=HOVER,
        )
    )
    off = np.flatnonzero(side).tolist()
    if off:
        texts = [f" {percent(mean[m], 1)}" for m in off]
        symbols = ["triangle-up" if side[m] > 0 else "triangle-down" for m in off]
        edge = edge_trace("y") | {"x": off, "y": [float(drawn[m]) for m in off], "text": texts}
        edge["marker"] = {**edge["marker"], "symbol": symbols}
        figure["data"].append({**edge, "textposition": ["bottom right" if side[m] > 0 else "top right" for m in off]})


def _hover(steps: Steps, m: int) -> str:
    if m == steps.start:
        words = "the default of GPTQ"
    elif math.isfinite(steps.perplexity.mean[m]):
        words = steps.evidence(m).words
    else:
        words = "not measured"
    return f"λ = {lam_text(steps.lams[m])}: {words}"


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


def _verdict(steps: Steps) -> str:
    """State if the best larger λ is measurably better than the default of GPTQ."""
    best, default = steps.best, lam_text(GPTQ.lam)
    if steps.evidence(best).verdict == "better":
        return fit_text(f"You already regularise; λ = {lam_text(steps.lams[best])} is better than GPTQ’s {default}")
    return "You already regularise; no larger λ is measurably better"


def _aria(facts: LineFacts, steps: Steps) -> str:
    """Return the figure in words: every step, and the defaults."""
    tools = "; ".join(
        f"λ = {lam_text(tools[0].default)}: {', '.join(tool.name for tool in tools)}"
        for _, tools in tool_rows(steps.lams)
    )
    line = f"{steps.facts.line.spoken_title} at {steps.facts.line.bits} bits"
    text = f"The damping of GPTQ as λ, {line}, {shown_layer(facts)}, {draws_text(steps.facts.n_draws)}."
    return f"{text} {'; '.join(_hover(steps, m) for m in steps.larger)}. Defaults: {tools}."


def ruler_rows(facts: LineFacts) -> list[Part]:
    """Return the numbers behind the figure: a row for each λ, and for each default between two of them."""
    steps = read_steps(facts)
    if steps is None:
        return []
    ends = [*zip(("", "_low", "_high"), steps.changes, strict=True)]
    rows: dict[float, Part] = {
        lam: {"method": steps.facts.line.name, "lambda": lam, "tools": None, "sources": None}
        | {f"perplexity_change{end}": values[m] for end, values in ends}
        for m, lam in enumerate(steps.lams)
    }
    for default, tools in TOOLS_BY_DEFAULT.items():
        lam = next((lam for lam in steps.lams if math.isclose(lam, default)), default)
        words, sources = ", ".join(tool.words for tool in tools), " ".join(tool.source for tool in tools)
        rows.setdefault(lam, {"lambda": lam}).update(tools=words, sources=sources)
    return [*rows.values()]
