"""The Lab's smaller figures: surfaces of |Ŵ − W|, drift by saliency, the map of layers, planes and methods."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.curves import accuracy_text, error_text, perplexity_text
from sarqc.drawing import (
    DRIFT,
    HELD_OUT,
    QUALITY,
    RECON,
    Figure,
    base_layout,
    bind,
    clamp,
    honest_range,
    lam_axis,
    note,
    plain_numbers,
)
from sarqc.facts import LineFacts, layer_slice, line_facts, mean_over_draws, read
from sarqc.sentence import draws_text, lam_text, number

SHADES = "Cividis"
CAMERA = {
    "eye": {"x": 1.2, "y": -1.3, "z": 0.82},
    "center": {"x": 0, "y": 0, "z": -0.16},
    "up": {"x": 0, "y": 0, "z": 1},
}
MOST_MODULES = 14  # more columns than this (experts) are folded by their last name
PLAIN_AXIS = {"fixedrange": True, "zeroline": False, "gridcolor": "var(--grid)", "ticks": ""}


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
    lams, scale = facts.line.lams, array["scale"]
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
        fixed = f"λ = {lam_text(lams[0])}"
        layout["annotations"].append(note(fixed, **place, font={"size": 12, "color": "var(--ink)"}))
        if side == 1:
            texts = [f"λ = {lam_text(lam)}" for lam in lams]
            figure["bindings"].append(bind("layout.annotations.1.text", texts, "lambda"))
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
        "dragmode": "turntable",
        "camera": CAMERA,
        "xaxis": {**side, "title": {"text": "input", "font": font}},
        "yaxis": {**side, "title": {"text": "output", "font": font}},
        "zaxis": {**quiet, "range": [0, scale * 1.02], "nticks": 4, "title": {"text": ""}},
    }


def _surface_aria(facts: LineFacts, lam: int, name: str, scale: float) -> str:
    first = lam_text(facts.line.lams[0])
    return (
        f"Size of the weight changes in {name} at λ = {first} and at λ = {lam_text(facts.line.lams[lam])}, "
        f"on one scale up to {number(scale, 3)}."
    )


def deciles(facts: LineFacts, folder: Path) -> Figure | None:
    """Root-mean-square drift by decile of channel saliency: λ at its smallest against the shown λ, first draw."""
    array = read(folder, facts.line, "deciles")  # L G M 10
    if array is None:
        return None
    chosen = np.sqrt(np.nanmean(array**2, axis=0)) if facts.layer is None else array[facts.layer]  # G M 10
    lams, count = facts.line.lams, chosen.shape[-1]
    layout = base_layout(left=50, right=72, top=8, bottom=24)
    high = float(np.nanmax(chosen)) * 1.08 or 1.0
    ends = {"tickvals": [0, count - 1], "ticktext": ["least salient", "most salient"], "range": [-0.6, count - 0.4]}
    layout["xaxis"] = {**PLAIN_AXIS, **ends, "showgrid": False, "ticks": "outside", "ticklen": 5, "tickcolor": "rgba(0,0,0,0)"}
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
        layout["annotations"].append(note(f"λ = {lam_text(lams[0])}", **place))
        if side:
            texts = [f"λ = {lam_text(lam)}" for lam in lams]
            figure["bindings"] += [
                bind(f"data.{at}.y", chosen, "gamma", "lambda"),
                bind(f"layout.annotations.{at}.text", texts, "lambda"),
                bind(f"layout.annotations.{at}.y", [[h[1] for h in row] for row in heights], "gamma", "lambda"),
                bind(f"layout.annotations.{at}.visible", [i > 0 or len(lams) == 1 for i in range(len(lams))], "lambda"),
            ]
        else:
            figure["bindings"] += [
                bind(f"data.{at}.y", chosen[:, 0], "gamma"),
                bind(f"layout.annotations.{at}.y", [[h[0] for h in row] for row in heights], "gamma", "lambda"),
            ]
    texts = [[_decile_aria(row[0], row[lam], lams, lam) for lam in range(len(lams))] for row in chosen]
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


def _decile_aria(first: np.ndarray, shown: np.ndarray, lams: tuple[float, ...], lam: int) -> str:
    return (
        f"Root-mean-square weight change by saliency decile at λ = {lam_text(lams[lam])}: least salient "
        f"{number(float(shown[0]), 4)}, most salient {number(float(shown[-1]), 4)}; at λ = {lam_text(lams[0])} "
        f"{number(float(first[0]), 4)} and {number(float(first[-1]), 4)}."
    )


def layer_map(facts: LineFacts, folder: Path) -> Figure | None:
    """Blocks × modules, coloured by the relative reconstruction error of each layer; a click selects the layer."""
    held = read(folder, facts.line, "held_out")
    unseen = held is not None and np.isfinite(held).any()
    array = held if unseen else read(folder, facts.line, "recon")
    if array is None:
        return None
    values = mean_over_draws(array)  # L G M
    columns, rows, cells = map_cells(facts)
    n_g, n_m = values.shape[1:]
    z = np.full((n_g, n_m, len(rows), len(columns)), np.nan)
    pick = np.full((len(rows), len(columns)), -1)
    for (row, column), members in cells.items():
        z[:, :, row, column] = np.nanmean(values[members], axis=0)
        pick[row, column] = members[int(np.nanargmax(np.nan_to_num(values[members]).mean(axis=(1, 2))))]
    positive = [i for i, lam in enumerate(facts.line.lams) if lam > 0] or [0]
    shown = z[:, positive][np.isfinite(z[:, positive])]
    shown = shown[shown > 0]
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.1, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log10(z)
    layout = base_layout(left=26, right=52, top=6, bottom=22)
    layout["xaxis"] = {
        "tickvals": list(range(len(columns))),
        "ticktext": [_short(name) for name in columns],
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
    }
    layout["yaxis"] = {**PLAIN_AXIS, "showgrid": False, "nticks": 9, "range": [-0.5, len(rows) - 0.5]}
    texts = [[[_cell_text(rows, columns, grid, r, c) for c in range(len(columns))] for r in range(len(rows))]
             for grid in z.reshape(n_g * n_m, len(rows), len(columns))]  # fmt: skip
    trace = {
        "type": "heatmap",
        "x": list(range(len(columns))),
        "y": list(rows),
        "z": [],
        "text": [],
        "zmin": math.log10(low),
        "zmax": math.log10(max(high, low * 1.01)),
        "colorscale": SHADES,
        "xgap": 2,
        "ygap": 2,
        "customdata": pick.tolist(),
        "hovertemplate": "%{text}<extra></extra>",
        "colorbar": _log_bar(low, high),
    }
    layout["yaxis"] |= {"range": [rows[0] - 0.5, rows[-1] + 0.5]}
    if facts.layer is not None:
        for (row, column), members in cells.items():
            if facts.layer in members:
                layout["shapes"].append(_frame(column, rows[row]))
    nested = [[texts[g * n_m + m] for m in range(n_m)] for g in range(n_g)]
    figure: Figure = {"data": [trace], "layout": layout, "bindings": []}
    figure["bindings"] += [
        bind("data.0.z", logs, "gamma", "lambda"),
        bind("data.0.text", nested, "gamma", "lambda"),
        bind("aria", [[_map_aria(facts, z[g, m], rows, columns, m) for m in range(n_m)] for g in range(n_g)],
             "gamma", "lambda"),
    ]  # fmt: skip
    figure["title"] = f"Every layer: reconstruction error, {'unseen' if unseen else 'calibration'} text"
    return figure


def map_cells(facts: LineFacts) -> tuple[list[str], list[int], dict[tuple[int, int], list[int]]]:
    """Columns (module names), rows (blocks) and which layers fall in each cell; experts share a column."""
    layers = facts.study.layers
    names = list(dict.fromkeys(layer.module for layer in layers))
    fold = len(names) > MOST_MODULES
    label = {name: name.rsplit(".", 1)[-1] if fold else name for name in names}
    columns = list(dict.fromkeys(label.values()))
    rows = sorted({layer.block for layer in layers})
    cells: dict[tuple[int, int], list[int]] = {}
    for index, layer in enumerate(layers):
        cells.setdefault((rows.index(layer.block), columns.index(label[layer.module])), []).append(index)
    return columns, rows, cells


def _short(module: str) -> str:
    return module.rsplit(".", 1)[-1].removesuffix("_proj")


def _frame(column: int, row: int) -> dict[str, Any]:
    edge = {"color": "var(--ink)", "width": 2}
    return {"type": "rect", "x0": column - 0.5, "x1": column + 0.5, "y0": row - 0.5, "y1": row + 0.5, "line": edge}


def _log_bar(low: float, high: float) -> dict[str, Any]:
    values = [low, math.sqrt(low * high), high]
    return {
        "thickness": 8,
        "len": 1.0,
        "x": 1.02,
        "xpad": 0,
        "ypad": 2,
        "outlinewidth": 0,
        "tickvals": [math.log10(value) for value in values],
        "ticktext": [f"{value:.2g}" for value in values],
        "ticks": "",
        "tickfont": {"size": 11},
    }


def _cell_text(rows: list[int], columns: list[str], grid: np.ndarray, row: int, column: int) -> str:
    value = float(grid[row, column])
    shown = error_text(value) if math.isfinite(value) else "not measured"
    return f"block {rows[row]} · {columns[column]}: {shown}"


def _map_aria(facts: LineFacts, grid: np.ndarray, rows: list[int], columns: list[str], lam: int) -> str:
    if not np.isfinite(grid).any():
        return "Nothing was measured for these layers."
    row, column = np.unravel_index(int(np.nanargmax(grid)), grid.shape)
    return (
        f"Relative reconstruction error of {len(facts.study.layers)} layers at λ = {lam_text(facts.line.lams[lam])}: "
        f"largest in block {rows[row]} {columns[column]}, {error_text(float(grid[row, column]))}, "
        f"median {error_text(float(np.nanmedian(grid)))}."
    )


def plane(facts: LineFacts) -> Figure | None:
    """Reconstruction error against weight drift, the points joined in the order of λ."""
    if facts.drift is None or (facts.recon is None and facts.held_out is None):
        return None
    lams = facts.line.lams
    positive = np.array([lam > 0 for lam in lams]) if len(lams) > 1 else np.array([True])
    errors = [(name, style, values) for name, style, values in
              (("unseen text", HELD_OUT, facts.held_out), ("calibration text", RECON, facts.recon))
              if values is not None]  # fmt: skip
    spread = [np.concatenate([v[:, mask].ravel() for _, _, v in errors]) for mask in (positive, ~positive)]
    span_y = honest_range(spread[0], spread[1], pad=0.14)
    span_x = honest_range(facts.drift[:, positive], facts.drift[:, ~positive], pad=0.08)
    layout = base_layout(left=44, right=14, top=6, bottom=34)
    layout["xaxis"] = {
        **PLAIN_AXIS,
        "range": list(span_x),
        "nticks": 6,
        "title": {"text": "weight drift", "standoff": 4},
    }
    layout["yaxis"] = {**PLAIN_AXIS, "range": list(span_y), "nticks": 5}
    figure: Figure = {"data": [], "layout": layout, "bindings": []}
    x, side_x = clamp(facts.drift, span_x)
    names = [f"λ = {lam_text(lam)}" for lam in lams]
    for name, style, values in errors:
        y, side_y = clamp(values, span_y)
        at = len(figure["data"])
        symbols = np.where((side_x != 0) | (side_y != 0), "triangle-right", style["symbol"]).tolist()
        figure["data"].append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": [],
                "y": [],
                "text": names,
                "hovertemplate": "%{text}<extra>" + name + "</extra>",
                "line": {"color": style["color"], "dash": style["dash"], "width": 2},
                "marker": {"color": style["color"], "size": 6, "symbol": []},
                "cliponaxis": False,
            }
        )
        ring = {"size": 12, "color": style["color"], "line": {"color": "var(--surface)", "width": 2.5}}
        figure["data"].append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [],
                "y": [],
                "hoverinfo": "skip",
                "marker": ring,
                "cliponaxis": False,
            }
        )
        figure["bindings"] += [
            bind(f"data.{at}.x", x, "gamma"),
            bind(f"data.{at}.y", y, "gamma"),
            bind(f"data.{at}.marker.symbol", symbols, "gamma"),
            bind(f"data.{at + 1}.x", x[..., None], "gamma", "lambda"),
            bind(f"data.{at + 1}.y", y[..., None], "gamma", "lambda"),
        ]
    values, (_, style, _) = errors[0][2], errors[0]
    for which, shift in ((0, -12), (len(lams) - 1, 12)):
        place_x = [float(row[which]) for row in x]
        place_y = [float(row[which]) for row in clamp(values, span_y)[0]]
        at = len(layout["annotations"])
        layout["annotations"].append(
            note(names[which], x=0, y=0, xanchor="right" if which == 0 else "left", yanchor="middle", xshift=shift,
                 yshift=0 if which == 0 else 8)
        )  # fmt: skip
        figure["bindings"] += [
            bind(f"layout.annotations.{at}.x", place_x, "gamma"),
            bind(f"layout.annotations.{at}.y", place_y, "gamma"),
        ]
    figure["bindings"].append(bind("aria", [_plane_aria(facts, g) for g in range(len(facts.line.gammas))], "gamma"))
    return figure


def _plane_aria(facts: LineFacts, gamma: int) -> str:
    assert facts.drift is not None
    errors = facts.held_out if facts.held_out is not None else facts.recon
    assert errors is not None
    return (
        f"From λ = {lam_text(facts.line.lams[0])} to {lam_text(facts.line.lams[-1])} weight drift goes from "
        f"{error_text(facts.drift[gamma, 0])} to {error_text(facts.drift[gamma, -1])} and reconstruction error from "
        f"{error_text(errors[gamma, 0])} to {error_text(errors[gamma, -1])}."
    )


def gamma_grid(facts: LineFacts) -> Figure | None:
    """λ × γ as a map of perplexity, or of the error on unseen text where perplexity is not known everywhere."""
    line = facts.line
    if len(line.gammas) < 2:
        return None
    quality = facts.perplexity
    complete = quality is not None and np.isfinite(quality.mean).all()
    values = quality.mean if complete and quality is not None else facts.held_out
    if values is None:
        values = facts.recon
    if values is None:
        return None
    show = perplexity_text if complete else error_text
    positive = np.array([lam > 0 for lam in line.lams])
    low, high = honest_range(values[:, positive], values[:, ~positive], pad=0.0)
    gammas = [lam_text(value or 0.0) for value in line.gammas]
    layout = base_layout(left=40, right=52, top=6, bottom=34)
    layout["xaxis"] = {**lam_axis(line.lams), "showgrid": False, "title": {"text": "λ", "standoff": 2}}
    layout["xaxis"] |= {"range": [-0.5, len(line.lams) - 0.5]}
    layout["yaxis"] = {"type": "category", "fixedrange": True, "ticks": "", "title": {"text": "γ", "standoff": 2}}
    bar = {"thickness": 8, "len": 1.0, "x": 1.02, "xpad": 0, "ypad": 2, "outlinewidth": 0, "nticks": 4, "ticks": "",
           "tickfont": {"size": 11}}  # fmt: skip
    names = [lam_text(lam) for lam in line.lams]
    trace = {
        "type": "heatmap",
        "x": names,
        "y": gammas,
        "z": plain_numbers(values),
        "zmin": low,
        "zmax": high,
        "colorscale": SHADES,
        "xgap": 2,
        "ygap": 2,
        "text": [[show(value) if math.isfinite(value) else "not measured" for value in row] for row in values.tolist()],
        "hovertemplate": "λ = %{x}, γ = %{y}: %{text}<extra></extra>",
        "colorbar": bar,
    }
    edge = {"color": "var(--ink)", "width": 2}
    layout["shapes"].append({"type": "rect", "x0": 0, "x1": 1, "y0": 0, "y1": 1, "line": edge})
    figure: Figure = {"data": [trace], "layout": layout, "bindings": []}
    for path, start, count, axis in (
        ("x0", -0.5, len(names), "lambda"),
        ("x1", 0.5, len(names), "lambda"),
        ("y0", -0.5, len(gammas), "gamma"),
        ("y1", 0.5, len(gammas), "gamma"),
    ):
        figure["bindings"].append(bind(f"layout.shapes.0.{path}", [start + i for i in range(count)], axis))
    what = "perplexity on unseen text" if complete else "reconstruction error"
    figure["title"] = f"λ × γ: {what}"
    figure["aria"] = (
        f"Map of {what} over λ and γ, from {show(float(np.nanmin(values)))} to {show(float(np.nanmax(values)))}."
    )
    return figure


def methods(facts: LineFacts, folder: Path) -> Figure | None:
    """Every method of the study at this width, each at its own best λ: perplexity with paired errors."""
    rows: list[tuple[str, float, float, str]] = []
    for line in facts.study.lines:
        if line.bits != facts.line.bits:
            continue
        other = line_facts(
            facts.study, folder, method=line.method, bits=line.bits, layer=facts.layer, with_identity=False
        )
        if other.perplexity is None:
            continue
        best = min(
            ((g, m) for g, m in enumerate(other.perplexity.best) if m is not None),
            key=lambda at: other.perplexity.mean[at] if other.perplexity else math.inf,
        )
        error = other.perplexity.to_baseline.error[best] if other.perplexity.to_baseline else math.nan
        point = f"λ = {lam_text(line.lams[best[1]])}" if len(line.lams) > 1 else ""
        if len(line.gammas) > 1:
            point += f", γ = {lam_text(line.gammas[best[0]] or 0.0)}"
        rows.append((line.method, float(other.perplexity.mean[best]), float(error), point))
        if other.baseline and other.baseline_position is not None and len(line.lams) > 1:
            where = (0, other.baseline_position)
            value = float(other.perplexity.mean[where])
            rows.append((other.baseline.label, value, math.nan, ""))
    rows = list({row[0]: row for row in rows}.values())
    rows.sort(key=lambda row: -row[1])
    if len(rows) < 2:
        return None
    values = np.array([row[1] for row in rows])
    best_half = np.sort(values)[: max(2, (3 * len(values)) // 4)]
    span = honest_range(best_half, values, pad=0.14)
    drawn, side = clamp(values, span)
    layout = base_layout(left=86, right=150, top=6, bottom=34)
    layout["xaxis"] = {**PLAIN_AXIS, "range": list(span), "nticks": 6,
                       "title": {"text": "perplexity on unseen text, lower is better", "standoff": 4}}  # fmt: skip
    layout["yaxis"] = {
        "type": "category",
        "fixedrange": True,
        "ticks": "",
        "showgrid": True,
        "gridcolor": "var(--grid)",
    }
    errors = [0.0 if not math.isfinite(row[2]) or off else row[2] for row, off in zip(rows, side.tolist(), strict=True)]
    texts = [f"{perplexity_text(row[1])}  {row[3]}" for row in rows]
    layout["annotations"] = [
        note(text, xref="paper", x=1, xshift=10, y=row[0], yanchor="middle")
        for text, row in zip(texts, rows, strict=True)
    ]
    symbols = ["triangle-right" if off > 0 else QUALITY["symbol"] for off in side.tolist()]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": drawn.tolist(),
        "y": [row[0] for row in rows],
        "error_x": {"type": "data", "array": errors, "thickness": 1.5, "width": 4, "color": QUALITY["color"]},
        "marker": {"color": QUALITY["color"], "symbol": symbols, "size": 10},
        "text": texts,
        "hovertemplate": "%{y}: %{text}<extra></extra>",
        "cliponaxis": False,
    }
    words = "; ".join(f"{row[0]} {perplexity_text(row[1])}" for row in reversed(rows))
    aria = f"Perplexity of each method at {facts.line.bits} bits and its best λ, {draws_text(facts.n_draws)}: {words}."
    return {"data": [trace], "layout": layout, "bindings": [], "aria": aria, "narrow": {"layout.margin.r": 118}}


__all__ = ["accuracy_text", "deciles", "gamma_grid", "layer_map", "methods", "plane", "surface_array", "surface_layer",
           "surfaces"]  # fmt: skip
