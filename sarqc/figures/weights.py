"""Figures of the weights themselves: |Ŵ − W| as surfaces, as maps, and as the difference to the smallest λ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sarqc.facts import LineFacts, layer_slice, mean_over_draws, read
from sarqc.figures.drawing import SHADES, Figure, base_layout, bind, note
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


def difference(facts: LineFacts, array: dict[str, Any], layer: int) -> Figure | None:
    """How much more or less each cell drifts than at the smallest λ: |Ŵ − W| minus that, in colours from less to more.

    None for a line of one λ, which has nothing to be compared with.
    """
    names, scale = point_names(facts.line), array["scale"]
    if len(names) < 2:
        return None
    layout = base_layout(left=8, right=60, top=24, bottom=6)
    for axis in ("xaxis", "yaxis"):
        layout[axis] = {"visible": False, "fixedrange": True}
    reach = 0.6 * scale
    trace = {
        "type": "heatmap",
        "z": [],
        "zmin": -reach,
        "zmax": reach,
        "colorscale": [[0, "var(--drift)"], [0.5, "var(--surface)"], [1, "var(--recon)"]],
        "colorbar": {
            "thickness": 8, "len": 1.0, "x": 1.02, "xpad": 0, "ypad": 2, "outlinewidth": 0, "ticks": "",
            "tickvals": [-reach, 0, reach], "ticktext": [f"{number(-reach, 2)}", "0", f"+{number(reach, 2)}"],
        },
        "hovertemplate": "%{z:+.3f}<extra></extra>",
    }  # fmt: skip
    place = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 1, "xanchor": "center", "yshift": 2}
    layout["annotations"].append(note("", **place, font={"size": 12, "color": "var(--ink)"}))
    words = [f"{name} minus {names[0]}: blue drifts less, orange more" for name in names]
    name = facts.study.layers[layer].name
    arias = [f"Difference of the weight changes in {name}, {one} minus {names[0]}, cell by cell." for one in names]
    bindings: list[dict[str, Any]] = [{"path": "data.0.z", "array": "surface", "minus": 0}]
    bindings += [bind("layout.annotations.0.text", words, "lambda"), bind("aria", arias, "lambda")]
    return {"data": [trace], "layout": layout, "bindings": bindings}
