"""Maps of a line: every layer by block and module, and quality over λ × γ."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.facts import LineFacts, mean_over_draws, read
from sarqc.figures.curves import error_text, perplexity_text
from sarqc.figures.drawing import (
    PLAIN_AXIS,
    SHADES,
    Figure,
    base_layout,
    bind,
    honest_range,
    lam_axis,
    plain_numbers,
)
from sarqc.figures.sentence import lam_names, lam_text, point_names

MOST_MODULES = 14  # more columns than this (experts) are folded by their last name


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
    flat = [_cell_texts(grid) for grid in z.reshape(n_g * n_m, len(rows), len(columns))]
    leads = [
        [[int(pick[r, c]), f"block {rows[r]} · {columns[c]}"] for c in range(len(columns))] for r in range(len(rows))
    ]
    gap = 2 if len(rows) <= 12 else 1 if len(rows) <= 40 else 0
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
        "ygap": gap,
        "customdata": leads,
        "hovertemplate": "%{customdata[1]}: %{text}<extra></extra>",
        "colorbar": _log_bar(low, high),
    }
    layout["yaxis"] |= {"range": [rows[0] - 0.5, rows[-1] + 0.5]}
    if facts.layer is not None:
        for (row, column), members in cells.items():
            if facts.layer in members:
                layout["shapes"].append(_frame(column, rows[row]))
    nested = [[flat[g * n_m + m] for m in range(n_m)] for g in range(n_g)]
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


def _cell_texts(grid: np.ndarray) -> list[list[str]]:
    return [[error_text(value) if math.isfinite(value) else "not measured" for value in row] for row in grid.tolist()]


def _map_aria(facts: LineFacts, grid: np.ndarray, rows: list[int], columns: list[str], lam: int) -> str:
    if not np.isfinite(grid).any():
        return "Nothing was measured for these layers."
    row, column = np.unravel_index(int(np.nanargmax(grid)), grid.shape)
    return (
        f"Relative reconstruction error of {len(facts.study.layers)} layers, {point_names(facts.line)[lam]}: "
        f"largest in block {rows[row]} {columns[column]}, {error_text(float(grid[row, column]))}, "
        f"median {error_text(float(np.nanmedian(grid)))}."
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
    names = lam_names(line)
    layout = base_layout(left=40, right=52, top=6, bottom=34)
    layout["xaxis"] = {**lam_axis(names), "showgrid": False, "title": {"text": "λ", "standoff": 2}}
    layout["xaxis"] |= {"range": [-0.5, len(line.lams) - 0.5]}
    layout["yaxis"] = {"type": "category", "fixedrange": True, "ticks": "", "showgrid": False}
    layout["yaxis"] |= {"title": {"text": "γ", "standoff": 2}}
    bar = {"thickness": 8, "len": 1.0, "x": 1.02, "xpad": 0, "ypad": 2, "outlinewidth": 0, "nticks": 4, "ticks": "",
           "tickfont": {"size": 11}}  # fmt: skip
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
