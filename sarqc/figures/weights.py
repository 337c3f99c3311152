"""Figures of the weights themselves: surfaces of |Ŵ − W| and drift by decile of saliency."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sarqc.facts import LineFacts, layer_slice, mean_over_draws, read
from sarqc.figures.drawing import DRIFT, PLAIN_AXIS, SHADES, Figure, base_layout, bind, note
from sarqc.figures.sentence import number, point_names

CAMERA = {
    "eye": {"x": 1.2, "y": -1.3, "z": 0.82},
    "center": {"x": 0, "y": 0, "z": -0.16},
    "up": {"x": 0, "y": 0, "z": 1},
}


def surface_layer(facts: LineFacts, folder: Path) -> int:
    """The layer whose surface is shown: the chosen one, or for all layers the one that drifts most."""
    if facts.layer is not None:
        return facts.layer
    drift = read(folder, facts.line, "drift")
    if drift is None:
        return 0
    by_layer = mean_over_draws(drift)  # L G M
    return int(np.nanargmax(np.nan_to_num(by_layer).mean(axis=(1, 2))))


def surface_array(facts: LineFacts, folder: Path, layer: int) -> dict[str, Any] | None:
    """Where the browser finds |ΔW| of one layer: file, the bytes of that layer, shape, and the value of 255."""
    ref, scales = facts.line.arrays.get("surface"), read(folder, facts.line, "surface_scale")
    if ref is None or scales is None:
        return None
    offset, length = layer_slice(ref, layer)
    return {
        "file": ref.file,
        "dtype": ref.dtype,
        "axes": list(ref.axes[1:]),
        "shape": list(ref.shape[1:]),
        "offset": offset,
        "length": length,
        "scale": float(scales[layer]),
    }


def surfaces(facts: LineFacts, array: dict[str, Any], layer: int, *, flat: bool) -> Figure:
    """|Ŵ − W| at the smallest λ and at the shown one: one scale, one camera. ``flat`` draws them as maps."""
    lams, names, scale = facts.line.lams, point_names(facts.line), array["scale"]
    sides = 2 if len(lams) > 1 else 1
    layout = base_layout(left=8, right=8, top=24, bottom=6)
    figure: Figure = {"data": [], "layout": layout, "bindings": [], "camera": CAMERA}
    gap = 0.06 if flat else 0.0
    for side in range(sides):
        x0, x1 = (side + gap * side / 2) / sides, (side + 1 - gap * (1 - side) / 2) / sides
        trace: dict[str, Any] = {
            "z": [],
            "colorscale": SHADES,
            "showscale": False,
            "hovertemplate": "|Ŵ − W| %{z:.3f}<extra></extra>",
        }
        suffix = "" if side == 0 else "2"
        if flat:
            trace |= {"type": "heatmap", "zmin": 0, "zmax": scale, "xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
            hidden = {"visible": False, "fixedrange": True}
            layout[f"xaxis{suffix}"] = {**hidden, "domain": [x0, x1], "anchor": f"y{suffix}"}
            layout[f"yaxis{suffix}"] = {**hidden, "anchor": f"x{suffix}"}
        else:
            trace |= {"type": "surface", "cmin": 0, "cmax": scale, "scene": f"scene{suffix}", **_lighting()}
            layout[f"scene{suffix}"] = _scene((x0, x1), scale)
        figure["data"].append(trace)
        bound: dict[str, Any] = {"path": f"data.{side}.z", "array": "surface"}
        if side == 0 and sides == 2:
            bound["lambda"] = 0
        figure["bindings"].append(bound)
        place = {"xref": "paper", "yref": "paper", "x": (x0 + x1) / 2, "y": 1, "xanchor": "center", "yshift": 2}
        layout["annotations"].append(note(names[0], **place, font={"size": 12, "color": "var(--ink)"}))
        if side == 1:
            figure["bindings"].append(bind("layout.annotations.1.text", names, "lambda"))
    info = facts.study.layers[layer]
    figure["bindings"].append(
        bind("aria", [_surface_aria(facts, i, info.name, scale) for i in range(len(lams))], "lambda")
    )
    return figure


def _lighting() -> dict[str, Any]:
    return {
        "lighting": {"ambient": 0.75, "diffuse": 0.55, "specular": 0.05, "roughness": 0.9, "fresnel": 0.05},
        "contours": {axis: {"highlight": False} for axis in "xyz"},
    }


def _scene(domain: tuple[float, float], scale: float) -> dict[str, Any]:
    quiet = {
        "showgrid": True,
        "gridcolor": "var(--line)",
        "zeroline": False,
        "showspikes": False,
        "showbackground": False,
        "showline": True,
        "linecolor": "var(--ink-3)",
        "ticks": "",
        "tickfont": {"size": 10},
    }
    side = {**quiet, "showticklabels": False}
    font = {"size": 11, "color": "var(--ink-2)"}
    return {
        "domain": {"x": list(domain), "y": [0, 1]},
        "aspectmode": "manual",
        "aspectratio": {"x": 1.15, "y": 1.15, "z": 0.62},
        "dragmode": False,  # the page turns all scenes together
        "camera": CAMERA,
        "xaxis": {**side, "title": {"text": "input", "font": font}},
        "yaxis": {**side, "title": {"text": "output", "font": font}},
        "zaxis": {**quiet, "range": [0, scale * 1.02], "nticks": 4, "title": {"text": ""}},
    }


def _surface_aria(facts: LineFacts, lam: int, name: str, scale: float) -> str:
    points = point_names(facts.line)
    where = f"at {points[0]} and at {points[lam]}, on one scale up to" if len(points) > 1 else f"({points[0]}), up to"
    return f"Size of the weight changes in {name} {where} {number(scale, 3)}."


def deciles(facts: LineFacts, folder: Path) -> Figure | None:
    """Root-mean-square drift by decile of channel saliency: λ at its smallest against the shown λ, first draw."""
    array = read(folder, facts.line, "deciles")  # L G M 10
    if array is None:
        return None
    chosen = np.sqrt(np.nanmean(array**2, axis=0)) if facts.layer is None else array[facts.layer]  # G M 10
    lams, names, count = facts.line.lams, point_names(facts.line), chosen.shape[-1]
    labels = names if len(names) > 1 else [""]  # a curve alone needs none
    layout = base_layout(left=50, right=72, top=8, bottom=24)
    high = float(np.nanmax(chosen)) * 1.08 or 1.0
    ends = {"tickvals": [0, count - 1], "ticktext": ["least salient", "most salient"], "range": [-0.6, count - 0.4]}
    layout["xaxis"] = {
        **PLAIN_AXIS,
        **ends,
        "showgrid": False,
        "ticks": "outside",
        "ticklen": 5,
        "tickcolor": "rgba(0,0,0,0)",
    }
    layout["yaxis"] = {**PLAIN_AXIS, "range": [0, high], "nticks": 4}
    grey = {"color": "var(--ink-3)", "dash": "dot", "symbol": "circle"}
    figure: Figure = {"data": [], "layout": layout, "bindings": []}
    sides = (0, 1) if len(lams) > 1 else (1,)
    heights = [_spread_labels(row[0, -1], row[:, -1], 0.18 * high) for row in chosen]
    for at, side in enumerate(sides):
        style = DRIFT if side else grey
        figure["data"].append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": list(range(count)),
                "y": [],
                "line": {"color": style["color"], "dash": "solid" if side else "dot", "width": 2},
                "marker": {"color": style["color"], "symbol": style["symbol"], "size": 6},
                "hovertemplate": "decile %{x}: %{y:.4f}<extra></extra>",
            }
        )
        color = "var(--drift-ink)" if side else "var(--ink-2)"
        place = {"x": count - 1, "y": 0, "xshift": 10, "yanchor": "middle", "font": {"size": 12, "color": color}}
        layout["annotations"].append(note(labels[0], **place))
        if side:
            figure["bindings"] += [
                bind(f"data.{at}.y", chosen, "gamma", "lambda"),
                bind(f"layout.annotations.{at}.text", labels, "lambda"),
                bind(f"layout.annotations.{at}.y", [[h[1] for h in row] for row in heights], "gamma", "lambda"),
                bind(f"layout.annotations.{at}.visible", [i > 0 or len(lams) == 1 for i in range(len(lams))], "lambda"),
            ]
        else:
            figure["bindings"] += [
                bind(f"data.{at}.y", chosen[:, 0], "gamma"),
                bind(f"layout.annotations.{at}.y", [[h[0] for h in row] for row in heights], "gamma", "lambda"),
            ]
    texts = [[_decile_aria(row[0], row[lam], names, lam) for lam in range(len(lams))] for row in chosen]
    figure["bindings"].append(bind("aria", texts, "gamma", "lambda"))
    return figure


def _spread_labels(fixed: float, moving: np.ndarray, gap: float) -> list[tuple[float, float]]:
    """Heights of the two end labels for each λ, never nearer than ``gap``."""
    places = []
    for value in moving.tolist():
        short = max(0.0, gap - abs(fixed - value)) / 2
        up = 1 if fixed >= value else -1
        places.append((fixed + up * short, value - up * short))
    return places


def _decile_aria(first: np.ndarray, shown: np.ndarray, names: list[str], lam: int) -> str:
    text = (
        f"Root-mean-square weight change by saliency decile{' at' if len(names) > 1 else ','} {names[lam]}: least "
        f"salient {number(float(shown[0]), 4)}, most salient {number(float(shown[-1]), 4)}"
    )
    if len(names) > 1:
        text += f"; at {names[0]} {number(float(first[0]), 4)} and {number(float(first[-1]), 4)}"
    return f"{text}."
