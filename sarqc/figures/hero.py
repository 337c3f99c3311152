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
    BoundValues,
    Figure,
    Role,
    add_note,
    bind,
)
from sarqc.figures.flags import flags_of, flags_text, place_flags
from sarqc.figures.numbers import (
    Format,
    accuracy_text,
    baseline_name,
    baseline_title,
    draws_text,
    lam_names,
    lam_text,
    perplexity_text,
    point_names,
    significant,
)
from sarqc.figures.panels import AXIS, Band, Curve, NamedPoint, Panel, stack
from sarqc.figures.titles import (
    constant_finding,
    drift_finding,
    error_finding,
    lam_point,
    least_error,
    quality_finding,
    set_finding,
    shown_layer,
    trade_off_finding,
)
from sarqc.quantization.methods import entry_of
from sarqc.study.document import Line
from sarqc.study.facts import LineFacts, Quality, equal_points, has_lam, is_point, lam_index

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
        if quality is not None and quality.ends is not None and np.isfinite(quality.ends[0]).any():
            figure["subtitle"] += ", 95 % intervals"
        set_finding(figure, quality_finding(facts, shown))
    else:
        set_finding(figure, error_finding(facts) if shown == "error" else drift_finding(facts))
    return figure


def has_curve(quality: Quality) -> bool:
    """Return True for a quantity that was measured at two λ of one γ."""
    return bool(np.isfinite(quality.mean).sum(axis=1).max() > 1)


def curves(facts: LineFacts, *, has_slider: bool = False) -> Figure:
    """Return perplexity, reconstruction error, drift and penalty over one axis of λ; see ``hero``."""
    every: tuple[Shown, ...] = ("perplexity", "error", "drift")
    panels = [panel for shown in every if (panel := _panel(facts, facts.perplexity, shown)) is not None]
    if has_slider and panels:
        panels[-1] = replace(panels[-1], pinned=(*panels[-1].pinned, _above_slider(panels[-1])))
    figure = _draw(facts, facts.perplexity, panels, has_slider=has_slider)
    figure["title"] = "Quality, error and drift" if is_point(facts.line) else "Perplexity, error and drift over λ"
    set_finding(figure, _lone_finding(facts) or trade_off_finding(facts, along=True))
    return figure


def _above_slider(panel: Panel) -> float:
    """Return a value so far below those of the lowest panel that the slider covers none."""
    values = np.concatenate([curve.values.ravel() for curve in panel.curves])
    low, high = np.nanmin(values), np.nanmax(values)
    return float(low - 0.2 * (high - low))


def _lone_finding(facts: LineFacts) -> BoundValues | None:
    """Name the only λ whose perplexity was measured; None for several."""
    quality = facts.perplexity
    if quality is None or has_curve(quality) or not has_lam(facts.line) or len(facts.line.lams) < 2:
        return None
    g, m = np.argwhere(np.isfinite(quality.mean))[0]
    value = perplexity_text(float(quality.mean[g, m]))
    return constant_finding(f"Perplexity {value}, measured at {lam_point(facts.line.lams[m])} only")


def _panel(facts: LineFacts, quality: Quality | None, shown: Shown) -> Panel | None:
    """Return the panel of a quantity; None where it was not measured."""
    if shown in ("error", "drift"):
        panel = (_error_panel if shown == "error" else _drift_panel)(facts)
        return panel if panel.curves else None
    return None if quality is None else _quality_panel(facts, quality, shown)


def _draw(facts: LineFacts, quality: Quality | None, panels: Sequence[Panel], *, has_slider: bool) -> Figure:
    """Return the panels with band and flags; with ``has_slider`` there is room for the slider on the axis."""
    figure = stack(facts.line.lams, lam_names(facts.line), panels, ring=True)
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
    pinned = () if quality.baseline_mean is None else (quality.baseline_mean,)
    model, whole = facts.study.model, "" if facts.layer is None else ", whole model"
    if name == "accuracy":
        title, short, show, ticks = f"Accuracy{whole}, higher is better", f"Accuracy{whole}", accuracy_text, PERCENT
    else:
        title, short = f"Perplexity on unseen text{whole}, lower is better", f"Perplexity{whole or ', unseen text'}"
        show, ticks = perplexity_text, ""
    return Panel(
        title,
        show,
        (*curves, *_baseline_level(facts, quality, show)),
        1.35,
        short,
        getattr(model, name),
        ticks,
        pinned,
        _named_points(facts, quality, show),
        band=Band(quality.band, "best λ in here, 95\u00a0% sure"),
    )


def _on_axis(line: Line, lam: float) -> bool:
    """Return True if a baseline's λ is one of a line's; one of another method has a place there too."""
    return len(line.lams) > 1 and lam_index(line, lam) is not None


def _named_points(facts: LineFacts, quality: Quality, show: Format) -> tuple[NamedPoint, ...]:
    """Return the baseline where the curve doesn't have it, and a curve's only point; where there is no curve, each with
    its value."""
    base, at, line, points = facts.baseline, facts.baseline_position, facts.line, []
    is_lone, value = not has_curve(quality), quality.baseline_mean
    is_missing = at is None or np.isnan(quality.mean[:, at]).all()
    if base is not None and value is not None and is_missing and _on_axis(line, base.lam):
        label = f"{baseline_title(base)}: {show(value)}" if is_lone else baseline_name(base)
        points.append(NamedPoint(label, base.lam, value))
    if is_lone and not is_point(line):
        g, m = np.argwhere(np.isfinite(quality.mean))[0]
        label = f"{point_names(line)[m]}: {show(float(quality.mean[g, m]))}"
        points.append(NamedPoint(label, line.lams[m], float(quality.mean[g, m]), of_curve=True))
    return tuple(points)


def _baseline_level(facts: LineFacts, quality: Quality, show: Format) -> list[Curve]:
    """Return the baseline over the whole axis, where that doesn't have the baseline's λ."""
    base, value = facts.baseline, quality.baseline_mean
    if base is None or value is None or facts.baseline_position is not None or _on_axis(facts.line, base.lam):
        return []
    style: Role = {"color": "var(--ink-2)", "dash": "solid", "symbol": "diamond"}
    label = f"{baseline_title(base)} {show(value)}"
    return [Curve(label, style, np.full(quality.mean.shape, value), label=label, faint=True, level=True)]


def _error_panel(facts: LineFacts) -> Panel:
    texts = (("unseen", HELD_OUT, facts.held_out), ("calibration", RECON, facts.recon))
    curves = [
        Curve(f"{text} text", style, values, label=f"{text} text", short=text)
        for text, style, values in texts
        if values is not None
    ]
    curves += _ghosts(facts, "held_out", HELD_OUT)
    title, best = _title(facts, "Reconstruction error (L_recon)"), least_error(facts)
    band = None if best is None else Band(best[1], "least in here, 95\u00a0% sure", "gap")
    return Panel(title, significant, tuple(curves), 1.1, "Error:", band=band)


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


_NAMES = {"held_out": "unseen text"}


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
    return [Curve(f"{_NAMES.get(name, name)}, {twin_name}", faded, tiled, label=label, faint=True, short=label)]


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
