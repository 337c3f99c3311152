"""The methods of a study side by side: each at its own best λ, absolute and against its baseline in the same draws."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sarqc.figures.drawing import (
    HOVER,
    PAPER,
    PLAIN_AXIS,
    QUALITY,
    REFERENCE,
    Figure,
    add_note,
    bar_lengths,
    base_layout,
    box_shape,
    clamp,
    error_bars,
    honest_range,
    ink_of,
    line_shape,
    scatter,
    whiskers,
)
from sarqc.figures.numbers import (
    Format,
    accuracy_text,
    baseline_name,
    baseline_title,
    draws_text,
    lam_text,
    perplexity_text,
)
from sarqc.figures.titles import constant_finding, set_finding
from sarqc.recipe import method_title, short_fitting
from sarqc.study.document import Line, Study
from sarqc.study.evidence import Evidence
from sarqc.study.facts import LineFacts, Quality, has_lam, line_facts, once_a_line
from sarqc.study.paired import interval_of_draws, paired_items

WIDE = 760  # pixels of the figure, below which it is drawn as on a phone
# Two panels side by side, with a column of values between them; narrower on a phone.
LEFT, RIGHT = (0.0, 0.42), (0.58, 1.0)
NARROW_LEFT, NARROW_RIGHT = (0.0, 0.33), (0.64, 1.0)


@dataclass(frozen=True)
class _Row:
    """One method: its name, its value, and its comparison with its baseline."""

    line: str | None  # where a click leads; None for a point of another line
    label: str
    short: str
    point: str  # “λ = 0.3”, or nothing
    value: float
    ends: tuple[float, float]  # of its 95 % interval, not paired: over draws, of accuracies over items too
    evidence: Evidence | None  # None: not measured, or a baseline itself
    is_baseline: bool = False


@once_a_line  # the quality of a model is the same whichever layer of it is shown
def methods(facts: LineFacts, quality_name: str = "perplexity") -> Figure | None:
    """Draw every method of the study at this width, each at its own best λ; None where there is nothing to compare."""
    lower = quality_name == "perplexity"
    rows = best_rows(facts.study, facts.line.bits, quality_name)
    if len(rows) < 2:
        return None
    # Drawn from below: the best comes last and stands highest.
    rows = sorted(rows, key=lambda row: row.value, reverse=lower)
    show = perplexity_text if lower else accuracy_text
    reference = facts.study.model.perplexity if lower else facts.study.model.accuracy
    names = [f"<b>{row.short}</b>" if row.line == facts.line.name else row.short for row in rows]
    layout = base_layout(left=308, right=204, top=24, bottom=24)
    lowest = -0.6 if reference is None else -1.2
    layout["yaxis"] = {**PLAIN_AXIS, "range": [lowest, len(rows) - 0.4], "showgrid": False} | {
        "tickvals": list(range(len(rows))),
        "ticktext": [_name_point(name, row.point) for name, row in zip(names, rows, strict=True)],
        "tickfont": {"size": 12, "color": "var(--ink)"},
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": "rgba(0,0,0,0)",
    }
    figure: Figure = {"data": [], "layout": layout, "bindings": [], "narrow": {}, "narrow_below": WIDE}
    for at, row in enumerate(rows):
        if row.line == facts.line.name:  # over the whole width, margins too
            stripe = {"xref": "paper", "yref": "y", "fillcolor": "var(--accent-soft)", "layer": "below"}
            layout["shapes"].append(box_shape((-1, 2), (at - 0.5, at + 0.5), {"width": 0}, **stripe))
    _add_values(figure, rows, show, reference)
    _add_differences(figure, rows)
    value, side = ("Perplexity", "lower") if lower else ("Accuracy", "higher")
    change = f"Difference, {'%' if lower else 'points'}"
    place = {**PAPER, "y": 1, "yshift": 4}
    add_note(figure, f"{value}, {side} is better", narrow={"text": value, "x": NARROW_LEFT[0]}, **place, x=LEFT[0])
    add_note(
        figure, f"{change}, with 95 % intervals", narrow={"text": change, "x": NARROW_RIGHT[0]}, **place, x=RIGHT[0]
    )
    figure["narrow"] |= {
        "layout.margin.l": 202,
        "layout.yaxis.tickfont.size": 11,
        "layout.margin.r": 14,
        "layout.yaxis.ticktext": names,
        "layout.xaxis.domain": list(NARROW_LEFT),
        "layout.xaxis2.domain": list(NARROW_RIGHT),
        "layout.xaxis.nticks": 3,
        "layout.xaxis2.nticks": 3,
    }
    figure["aria"] = _aria(facts, rows, show, lower)
    set_finding(figure, constant_finding(_finding(rows, lower)))
    figure["title"] = "Every method of this study, each at its best λ"
    return figure


def best_rows(study: Study, bits: int, quality_name: str) -> list[_Row]:
    """Return every method of a width at its own best point; a baseline that only another line's λ stands for is a
    method too."""
    return study.once(None, f"{quality_name} of methods at {bits} bits", lambda: _rows(study, bits, quality_name))


def _rows(study: Study, bits: int, quality_name: str) -> list[_Row]:
    lower = quality_name == "perplexity"
    lines = [line for line in study.lines if line.bits == bits]
    named = {line.name for line in lines}
    rows = []
    for line in lines:
        facts = line_facts(study, method=line.name, bits=bits, layer=None, with_identity=False)
        quality: Quality | None = getattr(facts, quality_name)
        best = None if quality is None else quality.best_point
        if quality is None or best is None:
            continue
        base, position = facts.baseline, facts.baseline_position
        is_baseline = base is not None and (position == best[1] or line.name == base.method)
        evidence = None
        if base is not None and not is_baseline:
            # As short as the room beside the differences is.
            evidence = quality.evidence(best, f"{baseline_title(base)}{', same grid' if base.on_its_grid else ''}")
        interval = _mean_interval(facts, quality, best, lower=lower)
        row = (line.name, line.label, _short(line), _point(facts, best), *interval, evidence, is_baseline)
        rows.append(_Row(*row))
        if base is not None and position is not None and base.method not in named:
            named.add(base.method)
            interval = _mean_interval(facts, quality, (0, position), lower=lower)
            rows.append(_Row(None, baseline_name(base), baseline_name(base), "", *interval, None, is_baseline=True))
    return rows


def _short(line: Line) -> str:
    """Return a short label, as “GPTQ + saliency range ×3 auto”."""
    title = method_title(line.method)
    short = title.removesuffix(" penalty")
    lead = short if short.endswith((" + identity", " + saliency")) else title
    return " ".join(filter(None, [lead, short_fitting(line.fitting), "auto" if line.selected else ""]))


def _mean_interval(
    facts: LineFacts, quality: Quality, at: tuple[int, int], *, lower: bool
) -> tuple[float, tuple[float, float]]:
    """Return the mean over draws and its 95 % interval, over test items too where their answers are known."""
    correct = facts.read("correct") if quality.items else None
    if correct is None:
        mean, low, high = interval_of_draws(quality.values[:, at[0], at[1]], of_ratio=lower)
        return mean, (low, high)
    answers = correct[:, at[0], at[1]]  # D T
    answers = answers[np.isfinite(answers).all(axis=-1)]
    share = paired_items(answers, np.zeros_like(answers))
    return float(share.mean), (float(share.low), float(share.high))


def _point(facts: LineFacts, best: tuple[int, int]) -> str:
    line = facts.line
    parts = [f"λ = {lam_text(line.lams[best[1]])}"] if has_lam(line) and len(line.lams) > 1 else []
    if len(line.gammas) > 1:
        parts.append(f"{line.sign} = {lam_text(line.gammas[best[0]] or 0.0)}")
    return ", ".join(parts)


def _name_point(name: str, point: str) -> str:
    return f'{name}, <span style="color:var(--ink-2)">{point}</span>' if point else name


Ends = tuple[np.ndarray, np.ndarray]


def _range(values: np.ndarray, ends: Ends, inner: np.ndarray, outer: list[float]) -> tuple[float, float]:
    """Return a range that the rows in ``inner`` set; the rest is inside where it does not flatten them."""
    known = np.isfinite(values)
    core = whiskers(values[inner & known], *(end[inner & known] for end in ends))
    return honest_range(core, np.concatenate([values[known], outer]), pad=0.1)


def _add_values(figure: Figure, rows: list[_Row], show: Format, reference: float | None) -> None:
    layout = figure["layout"]
    values = np.array([row.value for row in rows])
    ends = (np.array([row.ends[0] for row in rows]), np.array([row.ends[1] for row in rows]))
    best = np.arange(len(rows)) >= min(len(rows) // 4, len(rows) - 2)
    span = _range(values, ends, best, [] if reference is None else [reference])
    layout["xaxis"] = {**PLAIN_AXIS, "domain": list(LEFT), "range": list(span), "nticks": 4, "anchor": "y"}
    layout["xaxis"]["tickformat"] = ",.0%" if show is accuracy_text else ""
    texts = [_value_words(row, show) for row in rows]
    figure["data"].append(_dots("value", rows, values, ends, span, texts, "x"))
    for at, row in enumerate(rows):
        place = {"xref": "paper", "yref": "y", "x": LEFT[1] + 0.12, "y": at, "xanchor": "right", "yanchor": "middle"}
        add_note(figure, show(row.value), ink_of(QUALITY), narrow={"x": NARROW_LEFT[1] + 0.25}, **place)
    if reference is None:
        return
    text, low = f"float model {show(reference)}", reference < sum(span) / 2
    foot = {"yref": "y", "y": -1.2, "xanchor": "left" if low else "right"}
    if span[0] <= reference <= span[1]:
        place = {"x0": reference, "x1": reference, "y0": -0.6, "y1": len(rows) - 0.4}
        layout["shapes"].append({"type": "line", "xref": "x", "yref": "y", **place, "line": REFERENCE})
        add_note(figure, text, "var(--ink-2)", xref="x", x=reference, **foot)
        return
    arrow = f"← {text}" if low else f"{text} →"
    add_note(figure, arrow, "var(--ink-2)", xref="paper", x=LEFT[0] if low else LEFT[1], **foot)


def _add_differences(figure: Figure, rows: list[_Row]) -> None:
    """Draw differences: none for a method without a baseline here, an open mark at 0 for a baseline itself."""
    layout = figure["layout"]
    values, low, high = (
        np.array([100 * getattr(row.evidence, name, 0.0 if row.is_baseline else math.nan) for row in rows])
        for name in ("change", "low", "high")
    )
    known = np.isfinite(values)
    span = _range(values, (low, high), known, []) if known.sum() > 1 else (-1.0, 1.0)
    least = max(0.05 * (span[1] - span[0]), 0.02)
    span = (min(span[0], -least), max(span[1], least))
    layout["xaxis2"] = {**PLAIN_AXIS, "domain": list(RIGHT), "range": list(span), "nticks": 4, "anchor": "y"}
    zero = line_shape([0], (-0.6, len(rows) - 0.4), "var(--ink-3)", xref="x2", yref="y")
    layout["shapes"].append(zero | {"layer": "below"})
    texts = [f"{row.label}: {_against(row)}" for row in rows]
    trace = _dots("difference", rows, values, (low, high), span, texts, "x2")
    symbols = zip(trace["marker"]["symbol"], rows, strict=True)
    trace["marker"]["symbol"] = [f"{symbol}-open" if row.is_baseline else symbol for symbol, row in symbols]
    figure["data"].append(trace)
    for at, row in enumerate(rows):
        text = "baseline" if row.is_baseline else "–"
        if row.evidence is not None:  # the bar is the interval; in figures it is in the text of the point
            text = f"{row.evidence.size} {'as' if row.evidence.change == 0 else 'than'} {row.evidence.reference}"
        place = {"xref": "paper", "yref": "y", "x": 1, "xshift": 8, "y": at, "yanchor": "middle"}
        add_note(figure, text, "var(--ink-2)", narrow={"opacity": 0}, **place)


def _dots(
    name: str, rows: list[_Row], values: np.ndarray, ends: Ends, span: tuple[float, float], texts: list[str], axis: str
) -> dict[str, Any]:
    """Return points with their bars; none beside a point that is drawn at the edge."""
    drawn, side = clamp(values, span)
    down, up = (np.where(side == 0, bar, 0.0).tolist() for bar in bar_lengths(values, ends, span[1] - span[0]))
    symbols = ["triangle-right" if off > 0 else "triangle-left" if off < 0 else QUALITY["symbol"] for off in side]
    edge = {"width": 1.5, "color": QUALITY["color"]}
    return scatter(
        name,
        "markers",
        x=[value if math.isfinite(value) else None for value in drawn.tolist()],
        y=list(range(len(rows))),
        xaxis=axis,
        yaxis="y",
        error_x=error_bars(up, down, QUALITY["color"]),
        marker={"color": QUALITY["color"], "symbol": symbols, "size": 10, "line": edge},
        customdata=[row.line for row in rows],
        text=texts,
        hovertemplate=HOVER,
        cliponaxis=False,
    )


def _value_words(row: _Row, show: Format) -> str:
    low, high = row.ends
    value = f"{row.label}: {show(row.value)}"
    if math.isnan(low):
        return value
    ends = f"{show(low)} upwards" if math.isinf(high) else f"{show(low)} to {show(high)}"
    return f"{value} ({ends} over draws{' and items' if show is accuracy_text else ''})"


def _against(row: _Row) -> str:
    """Return “2.9 % lower than GPTQ 1 % (95 %: 2.1 to 3.7 %, five draws, best of 10)”."""
    if row.evidence is None:
        return "a baseline" if row.is_baseline else "its baseline was not measured"
    return row.evidence.clause


def _finding(rows: list[_Row], lower: bool) -> str:
    """Return the best method, and its comparison with its baseline; ``rows``: the best last."""
    best = rows[-1]
    lead = f"Lowest perplexity: {best.short}" if lower else f"Highest accuracy: {best.short}"
    if best.evidence is None:
        return lead
    return f"{lead}, {best.evidence.clause}"


def _aria(facts: LineFacts, rows: list[_Row], show: Format, lower: bool) -> str:
    parts = []
    for row in reversed(rows):
        words = f"{row.label}{f' at {row.point}' if row.point else ''} {show(row.value)}"
        parts.append(words if row.evidence is None else f"{words}, {_against(row)}")
    noun, draws = "Perplexity" if lower else "Accuracy", draws_text(facts.n_draws)
    return f"{noun} of each method at {facts.line.bits} bits, {draws}, best first: {'; '.join(parts)}."
