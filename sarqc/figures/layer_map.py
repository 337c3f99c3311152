"""Every layer of a line as a map of blocks × kinds of linear. The experts of a block share a cell: mean and worst."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.facts import LineFacts, mean_over_draws, read
from sarqc.figures.curves import error_text
from sarqc.figures.drawing import PLAIN_AXIS, SHADES, Figure, base_layout, bind
from sarqc.figures.sentence import point_names
from sarqc.models.structure import LayerInfo

WORST_WIDTH = 0.32  # of a pooled column's width is the stripe of its worst expert
MOST_NAMES = 8  # with more columns than this the names of linears are one letter
GROUPS = {"experts": "experts", "shared_experts": "shared"}  # what stands under the names of a group of columns


def layer_label(layer: LayerInfo) -> str:
    """“block 3 · down_proj”, “block 3 · expert 7 · down_proj”."""
    if layer.expert is None:
        return f"block {layer.block} · {layer.module}"
    return f"block {layer.block} · expert {layer.expert} · {layer.module.rsplit('.', 1)[-1]}"


@dataclass(frozen=True)
class _Column:
    """One column: a kind of linear, or the worst expert of the kind to its left."""

    module: str
    left: float
    right: float
    worst: bool = False
    pooled: bool = False

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2


def layer_errors(facts: LineFacts, folder: Path) -> tuple[np.ndarray, bool] | None:
    """Relative errors (L G M), mean over draws, and whether they are on unseen text; None where there are none."""
    held = read(folder, facts.line, "held_out")
    unseen = held is not None and bool(np.isfinite(held).any())
    array = held if unseen else read(folder, facts.line, "recon")
    return None if array is None else (mean_over_draws(array), unseen)


def log_span(values: np.ndarray, lams: tuple[float, ...]) -> tuple[float, float]:
    """The range of a logarithmic scale of errors (…, M): that of all λ > 0, where there are any."""
    positive = [i for i, lam in enumerate(lams) if lam > 0] or [0]
    shown = values[..., positive]
    shown = shown[np.isfinite(shown) & (shown > 0)]
    return (float(shown.min()), float(shown.max())) if shown.size else (0.1, 1.0)


def layer_map(facts: LineFacts, folder: Path) -> Figure | None:
    """Blocks × kinds of linear, coloured by the relative reconstruction error of each layer; a click selects the layer.

    Of linears of experts a cell shows the mean and, in a stripe at its right, the worst expert.
    """
    found = layer_errors(facts, folder)
    if found is None:
        return None
    values, unseen = found  # L G M
    rows, columns, members = map_cells(facts)
    n_g, n_m = values.shape[1:]
    z = np.full((n_g, n_m, len(rows), len(columns)), np.nan)
    leads: list[list[list[Any]]] = [[[-1, ""] for _ in columns] for _ in rows]
    for (r, c), layers in members.items():
        part, column = values[layers], columns[c]
        z[:, :, r, c] = _worst(part) if column.worst else mean_over_draws(part)
        pick = layers[int(np.nan_to_num(part).mean(axis=(1, 2)).argmax())]
        kind = f"block {rows[r]} · {column.module}"
        worst = layer_label(facts.study.layers[pick])
        leads[r][c] = [pick, f"{worst}, the worst" if column.worst else f"{kind}, mean of {len(layers)} experts"
                       if column.pooled else kind]  # fmt: skip
    low, high = log_span(np.moveaxis(z, 1, -1), facts.line.lams)
    pooled = any(column.pooled for column in columns)
    layout = base_layout(left=26, right=52, top=6, bottom=38 if pooled else 22)
    layout["xaxis"] = _name_axis(columns)
    gap = 2 if len(rows) <= 12 else 1 if len(rows) <= 40 else 0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log10(z)
    trace = {
        "type": "heatmap",
        "x": [columns[0].left, *(column.right for column in columns)] if pooled else list(range(len(columns))),
        "y": list(rows),
        "z": [],
        "text": [],
        "zmin": math.log10(low),
        "zmax": math.log10(max(high, low * 1.01)),
        "colorscale": SHADES,
        "xgap": 2,
        "ygap": gap,
        "customdata": leads,
        "hoverongaps": False,
        "hovertemplate": "%{customdata[1]}: %{text}<extra></extra>",
        "colorbar": log_bar(low, high),
    }
    layout["yaxis"] = {**PLAIN_AXIS, "showgrid": False, "tickvals": rows[:: 1 + len(rows) // 8]}
    layout["yaxis"] |= {"range": [rows[0] - 0.5, rows[-1] + 0.5]}
    if facts.layer is not None:
        layout["shapes"] += [
            frame((columns[c].left, columns[c].right), rows[r])
            for (r, c), layers in members.items()
            if facts.layer in layers and not columns[c].worst
        ]
    flat = [cell_texts(grid) for grid in z.reshape(n_g * n_m, len(rows), len(columns))]
    nested = [[flat[g * n_m + m] for m in range(n_m)] for g in range(n_g)]
    arias = [[_aria(facts, values[:, g, m], m) for m in range(n_m)] for g in range(n_g)]
    figure: Figure = {"data": [trace], "layout": layout, "bindings": []}
    figure["bindings"] += [
        bind("data.0.z", logs, "gamma", "lambda"),
        bind("data.0.text", nested, "gamma", "lambda"),
        bind("aria", arias, "gamma", "lambda"),
    ]
    text = "unseen text" if unseen else "calibration text"
    figure["title"] = (
        f"Every layer: error, {text} | worst expert" if pooled else f"Every layer: reconstruction error, {text}"
    )
    return figure


def _worst(part: np.ndarray) -> np.ndarray:
    """The largest of what is known along the first axis, NaN where nothing is."""
    largest = np.where(np.isfinite(part), part, -np.inf).max(axis=0)
    return np.where(np.isfinite(largest), largest, np.nan)


def map_cells(facts: LineFacts) -> tuple[list[int], list[_Column], dict[tuple[int, int], list[int]]]:
    """Rows (blocks), columns, and the positions of the layers in each cell (row, column)."""
    layers = facts.study.layers
    modules = list(dict.fromkeys(layer.module for layer in layers))
    pooled = {layer.module for layer in layers if layer.expert is not None}
    columns: list[_Column] = []
    for index, module in enumerate(modules):
        edge = index + 0.5
        if module in pooled:
            columns.append(_Column(module, index - 0.5, edge - WORST_WIDTH, pooled=True))
            columns.append(_Column(module, edge - WORST_WIDTH, edge, worst=True, pooled=True))
        else:
            columns.append(_Column(module, index - 0.5, edge))
    row_of = {block: row for row, block in enumerate(sorted({layer.block for layer in layers}))}
    places: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        places.setdefault(column.module, []).append(place)
    cells: dict[tuple[int, int], list[int]] = {}
    for index, layer in enumerate(layers):
        for place in places[layer.module]:
            cells.setdefault((row_of[layer.block], place), []).append(index)
    return list(row_of), columns, cells


def _name_axis(columns: list[_Column]) -> dict[str, Any]:
    """Short names of the linears; groups of experts have theirs below, once in their middle."""
    named = [column for column in columns if not column.worst]
    texts = [short_name(column.module) for column in named]
    if len(named) > MOST_NAMES:
        texts = [text[0] for text in texts]
    if any(column.pooled for column in columns):
        groups = [column.module.rpartition(".")[0] for column in named]
        for group in set(groups) & set(GROUPS):
            inside = [place for place, one in enumerate(groups) if one == group]
            texts[inside[len(inside) // 2]] += f"<br>{GROUPS[group]}"
    return {
        "tickvals": [round(column.left + 0.5) for column in named],
        "ticktext": texts,
        "tickangle": 0,
        "range": [columns[0].left, columns[-1].right],
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
    }


def short_name(module: str) -> str:
    """“down” for experts.down_proj."""
    return module.rsplit(".", 1)[-1].removesuffix("_proj")


def frame(across: tuple[float, float], row: float) -> dict[str, Any]:
    """The mark of the chosen layer's cell."""
    edge = {"color": "var(--ink)", "width": 2}
    return {"type": "rect", "x0": across[0], "x1": across[1], "y0": row - 0.5, "y1": row + 0.5, "line": edge}


def log_bar(low: float, high: float) -> dict[str, Any]:
    """A slim colour bar for values drawn as their logarithm, named at its ends and in its middle."""
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


def cell_texts(grid: np.ndarray) -> list[list[str]]:
    """Errors as text; what was not measured is said."""
    return [[error_text(value) if math.isfinite(value) else "not measured" for value in row] for row in grid.tolist()]


def _aria(facts: LineFacts, errors: np.ndarray, lam: int) -> str:
    """``errors`` are those of all layers (L) at one point."""
    known = errors[np.isfinite(errors)]
    if not known.size:
        return "Nothing was measured for these layers."
    worst = facts.study.layers[int(np.nanargmax(errors))]
    name = f"block {worst.block} {worst.module}" if worst.expert is None else layer_label(worst)
    return (
        f"Relative reconstruction error of {len(errors):,} layers, {point_names(facts.line)[lam]}: "
        f"largest in {name}, {error_text(float(known.max()))}, median {error_text(float(np.median(known)))}."
    )
