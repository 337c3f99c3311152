"""The Lab's main figure: quality, error or drift over λ, with sweet spot and flags; and all three together."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from sarqc.figures.drawing import (
    DRIFT,
    HELD_OUT,
    PENALTY,
    PERCENT,
    QUALITY,
    RECON,
    Figure,
    Role,
    add_note,
    bind,
    bind_fields,
    ink_of,
)
from sarqc.figures.flags import flags_of, flags_text, place_flags
from sarqc.figures.numbers import (
    accuracy_text,
    baseline_name,
    draws_text,
    lam_names,
    lam_text,
    perplexity_text,
    point_names,
    significant,
)
from sarqc.figures.panels import AXIS, BAND, Curve, Panel, band_shape, stack
from sarqc.figures.titles import (
    drift_finding,
    error_finding,
    quality_finding,
    set_finding,
    shown_layer,
    trade_off_finding,
)
from sarqc.quantization.methods import entry_of
from sarqc.study.facts import LineFacts, Quality, equal_points, is_point
from sarqc.study.paired import spans

Shown = Literal["perplexity", "accuracy", "error", "drift"]

TRACK = 16  # pixels below the axis for the lower half of the slider, whose track lies on the axis
LANE = 14  # pixels of a row of flags


def hero(facts: LineFacts, shown: Shown = "perplexity") -> Figure | None:
    """Return one quantity over λ, with the marker of the shown λ, the band and the named ticks; None without it."""
    quality = facts.accuracy if shown == "accuracy" else facts.perplexity
    panel = _panel(facts, quality, shown)
    if panel is None:
        return None
    figure = _draw(facts, quality, [replace(panel, alone=True)], has_slider=True)
    figure["title"], figure["subtitle"] = panel.title, draws_text(facts.n_draws)
    if shown in ("perplexity", "accuracy"):
        if quality is not None and quality.ends is not None:
            figure["subtitle"] += ", 95 % intervals"
        set_finding(figure, quality_finding(facts, shown))
    else:
        set_finding(figure, error_finding(facts) if shown == "error" else drift_finding(facts))
    return figure


def curves(facts: LineFacts) -> Figure:
    """Return perplexity, reconstruction error, drift and penalty over one axis of λ; see ``hero``."""
    every: tuple[Shown, ...] = ("perplexity", "error", "drift")
    panels = [_panel(facts, facts.perplexity, shown) for shown in every]
    figure = _draw(facts, facts.perplexity, [panel for panel in panels if panel is not None], has_slider=False)
    figure["title"] = "Quality, error and drift" if is_point(facts.line) else "Perplexity, error and drift over λ"
    set_finding(figure, trade_off_finding(facts, along=True))
    return figure


def _panel(facts: LineFacts, quality: Quality | None, shown: Shown) -> Panel | None:
    """Return the panel of a quantity; None where it was not measured."""
    if shown in ("error", "drift"):
        panel = (_error_panel if shown == "error" else _drift_panel)(facts)
        return panel if panel.curves else None
    return None if quality is None else _quality_panel(facts, quality, shown)


def _draw(facts: LineFacts, quality: Quality | None, panels: Sequence[Panel], *, has_slider: bool) -> Figure:
    """Return the panels with band and flags; with ``has_slider`` there is room for the slider on the axis."""
    figure = stack(facts.line.lams, lam_names(facts.line), panels, ring=True)
    _add_band(figure, facts, quality)
    _add_flags(figure, facts, room=TRACK if has_slider and not is_point(facts.line) else 0)
    name = "accuracy" if quality is not None and quality is facts.accuracy else "perplexity"
    arias = facts.once(
        f"curves of {name}", lambda: [_aria(facts, quality, name, g) for g in range(len(facts.line.gammas))]
    )
    figure["bindings"].append(bind("aria", arias, "gamma"))
    return figure


def _quality_panel(facts: LineFacts, quality: Quality, name: str) -> Panel:
    label = "saliency" if facts.identity is not None else "this grid" if facts.plain is not None else ""
    curves = [Curve(name, QUALITY, quality.mean, quality.ends, label=label)]
    curves += _ghosts(facts, name, QUALITY, is_named=True)
    base = facts.baseline
    point: tuple[str, float, float] | None = None
    if base is not None and quality.baseline_mean is not None and facts.baseline_position is None:
        point = (baseline_name(base), base.lam, quality.baseline_mean)
    pinned = () if quality.baseline_mean is None else (quality.baseline_mean,)
    model, whole = facts.study.model, "" if facts.layer is None else ", whole model"
    if name == "accuracy":
        title, short, show, ticks = f"Accuracy{whole}, higher is better", f"Accuracy{whole}", accuracy_text, PERCENT
    else:
        title, short = f"Perplexity on unseen text{whole}, lower is better", f"Perplexity{whole or ', unseen text'}"
        show, ticks = perplexity_text, ""
    return Panel(title, show, tuple(curves), 1.35, short, getattr(model, name), ticks, pinned, point)


def _error_panel(facts: LineFacts) -> Panel:
    texts = (("unseen", HELD_OUT, facts.held_out), ("calibration", RECON, facts.recon))
    curves = [
        Curve(f"{text} text", style, values, label=f"{text} text", short=text)
        for text, style, values in texts
        if values is not None
    ]
    curves += _ghosts(facts, "held_out", HELD_OUT)
    title = _title(facts, "Reconstruction error (L_recon)")
    return Panel(title, significant, tuple(curves), 1.1, "Error:")


def _title(facts: LineFacts, name: str) -> str:
    """Return a panel's title, and whether it is of one layer."""
    return f"{name}{'' if facts.layer is None else ', this layer'}, relative"


def _drift_panel(facts: LineFacts) -> Panel:
    curves: list[Curve] = []
    if facts.drift is not None:
        curves.append(Curve("drift", DRIFT, facts.drift, label="drift", short="drift"))
    if facts.sar is not None:
        entry = entry_of(facts.line.method)
        weighted = entry is not None and entry.make.saliency == "saliency"
        label = "saliency penalty" if weighted else "identity penalty"
        curves.append(Curve(f"{label}, L_sar", PENALTY, facts.sar, label=label, short="penalty"))
    curves += _ghosts(facts, "drift", DRIFT)
    if facts.drift is None:
        name = "Weight penalty L_sar"
    elif facts.sar is None:
        name = "Weight drift ‖Ŵ − W‖"
    else:
        name = "Weight drift ‖Ŵ − W‖ and penalty L_sar"
    return Panel(_title(facts, name), significant, tuple(curves), 0.95, "Weights:")


_NAMES = {QUALITY["color"]: "quality", HELD_OUT["color"]: "unseen text", DRIFT["color"]: "drift"}


def _ghosts(facts: LineFacts, name: str, style: Role, *, is_named: bool = False) -> list[Curve]:
    """Return the faint curve behind: of the line without saliency, or on the min–max grid.

    There is one for every γ where that line has only one; NaN where it has no such λ.
    """
    twin, twin_name = (facts.identity, "identity") if facts.identity is not None else (facts.plain, "min–max grid")
    values: Quality | np.ndarray | None = getattr(twin, name, None)
    if twin is None or values is None or getattr(facts, name) is None:
        return []
    values = values.mean if isinstance(values, Quality) else values
    columns = equal_points(facts.line, twin.line)
    nothing = np.full(len(values), np.nan)
    matched = np.stack([nothing if column is None else values[:, column] for column in columns], axis=-1)  # G' M
    faded: Role = {**style, "color": style["color"].replace(")", "-faint)"), "dash": "solid"}
    tiled = np.broadcast_to(matched, (len(facts.line.gammas), len(columns)))
    label = twin_name if is_named else ""
    return [Curve(f"{_NAMES[style['color']]}, {twin_name}", faded, tiled, label=label, faint=True, short=label)]


def _add_band(figure: Figure, facts: LineFacts, quality: Quality | None) -> None:
    """Add the sweet spot behind all panels. Its shapes are bound, because each γ has its own."""
    if quality is None:
        return
    runs = [spans(band) for band in quality.band]
    layout = figure["layout"]
    for slot in range(max((len(run) for run in runs), default=0)):
        shape = len(layout["shapes"])
        layout["shapes"].append(band_shape(0, 0))
        edges = [(run[slot][0] - 0.4, run[slot][1] + 0.4) if slot < len(run) else (0.0, 0.0) for run in runs]
        bind_fields(
            figure, f"layout.shapes.{shape}", dict(zip(("x0", "x1"), zip(*edges, strict=True), strict=True)), "gamma"
        )
    if any(runs):
        widest = [max(run, key=lambda span: span[1] - span[0], default=None) for run in runs]
        holds_words = min(end - first + 0.8 for first, end in filter(None, widest)) > 0.22 * len(facts.line.lams)
        at_end = holds_words and quality is facts.perplexity  # the baseline's name stands at a small λ, above the curve
        side = {"xanchor": "right", "xshift": -5} if at_end else {"xshift": 5}
        place = {"xref": "x", "yref": "paper", "x": 0, "y": 1, "yanchor": "top", "yshift": -2, **side, "name": BAND}
        if holds_words:  # on a ground of their own, over λ's line
            place["bgcolor"] = "var(--band-solid)"
        text = "best λ in here, 95\u00a0% sure"
        path = add_note(figure, text, ink_of(QUALITY), narrow={"opacity": 0}, **place)
        places = [0 if span is None else span[1] + 0.4 if at_end else span[0] - 0.4 for span in widest]
        bind_fields(figure, path, {"x": places, "visible": [bool(run) for run in runs]}, "gamma")


def _add_flags(figure: Figure, facts: LineFacts, *, room: int) -> None:
    """Add known settings between the axis and its ticks: a pole at each λ, or at the start of a range, with its name.
    ``room``: pixels between axis and names."""
    layout, placed = figure["layout"], place_flags(flags_of(facts), facts.line.lams)
    height = room + LANE * (1 + max((flag.lane for flag in placed), default=-1))
    layout["margin"]["b"] += height
    layout["xaxis"]["ticklabelstandoff"] = height
    for note in layout["annotations"]:
        if note.get("name") == AXIS:
            note["yshift"] = -height
    pole = {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": "var(--ink-3)", "ax": 0}
    ground = {"yanchor": "middle", "size": 11, "borderpad": 0, "bgcolor": "var(--surface)"}
    for flag, x, lane in reversed(placed):  # poles pass behind the names at their left
        place = {"xref": "x", "yref": "paper", "x": x, "y": 0, "ay": room + LANE * (lane + 0.5) + 2}
        add_note(figure, f" {flag.label}", "var(--ink-2)", **pole, **place, **ground, hovertext=flag.words)


def _aria(facts: LineFacts, quality: Quality | None, name: str, gamma: int) -> str:
    """Return the curves in words: where each begins, where it is best or ends."""
    lams = facts.line.lams
    parts: list[str] = []
    best = None if quality is None else quality.best[gamma]
    if quality is not None and best is not None:
        value = quality.mean[gamma, best]
        most = f"highest, {accuracy_text(value)}" if name == "accuracy" else f"lowest, {perplexity_text(value)}"
        parts.append(f"{name} is {most}, at {point_names(facts.line)[best]}")
    for values, noun in zip((facts.recon, facts.held_out, facts.drift, facts.sar), _NOUNS, strict=True):
        if values is not None and np.isfinite(values[gamma]).all() and len(lams) > 1:
            first, last = (significant(values[gamma, at]) for at in (0, -1))
            parts.append(f"{noun} goes from {first} at λ = {lam_text(lams[0])} to {last}")
    line, draws = f"{facts.line.spoken_title} at {facts.line.bits} bits", draws_text(facts.n_draws)
    text = f"Curves over λ for {line}, {shown_layer(facts)}, {draws}: {'; '.join(parts) or 'nothing was measured'}."
    flags = flags_text(facts)
    return f"{text} Flags on the axis: {flags}." if flags else text


_NOUNS = ("reconstruction error on calibration text", "on unseen text", "weight drift", "the penalty, L_sar,")
