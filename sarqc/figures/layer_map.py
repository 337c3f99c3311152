"""Every layer of a line as a map of blocks × kinds of linear. The experts of a block share a cell: mean and worst."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sarqc.figures.drawing import (
    BOTH,
    BoundValues,
    Figure,
    Part,
    base_layout,
    bind,
    bind_fields,
    box_shape,
    plain_numbers,
)
from sarqc.figures.findings import fewest_for_half
from sarqc.figures.layer_quantities import Quantity
from sarqc.figures.numbers import NBSP, At, lam_text, number, times_text
from sarqc.figures.ranges import PLAIN_AXIS
from sarqc.figures.titles import ERRORS, at_each, fitting, set_finding
from sarqc.models.families import LayerInfo
from sarqc.study.facts import LineFacts

WORST_WIDTH = 0.32  # of a pooled column's width is the stripe of its worst expert
MOST_NAMES = 8  # with more columns than this the names of linears are one letter
# What stands under the names of a group of columns.
GROUPS = {"experts": "experts", "shared_experts": "shared"}


def layer_label(layer: LayerInfo) -> str:
    """“block 3 · down_proj”, “block 3 · expert 7 · down_proj”."""
    if layer.expert is None:
        return f"block {layer.block} · {layer.module}"
    module = layer.module.rsplit(".", 1)[-1]
    return f"block {layer.block} · expert {layer.expert} · {module}"


@dataclass(frozen=True)
class _Column:
    """One column: a kind of linear, or the worst expert of the kind to its left."""

    module: str
    left: float
    right: float
    worst: bool = False
    pooled: bool = False


def layer_map(facts: LineFacts, quantity: Quantity | None) -> Figure | None:
    """Blocks × kinds of linear, coloured by a quantity of each layer; a click selects the layer.

    Of linears of experts a cell shows the mean (of choices the most frequent) and, in a stripe at its right, the worst
    expert. None where there is no quantity.
    """
    if quantity is None:
        return None
    figure, frames = facts.study.once(facts.line, f"map of {quantity.name}", lambda: _every_layer(facts, quantity))
    return framed(figure, frames.get(facts.layer, []))


def _every_layer(facts: LineFacts, quantity: Quantity) -> tuple[Figure, dict[int | None, list[Part]]]:
    """The figure without a chosen layer, and by layer the frames that mark it as chosen."""
    rows, columns, members = map_cells(facts, split=bool(quantity.stripe))
    cells: list[Cell] = []
    for (r, c), layers in members.items():
        column = columns[c]
        worst, pick = quantity.extreme(layers)
        kind = f"block {rows[r]} · {column.module}"
        if column.worst:
            kind = f"{layer_label(facts.study.layers[pick])}, the {quantity.stripe}"
        elif column.pooled:
            kind += f", {'mean of ' if quantity.stripe else ''}{len(layers)} experts"
        cells.append(((r, c), worst if column.worst else quantity.pooled(layers), layers, [pick, kind]))
    pooled = any(column.pooled for column in columns)
    layout = base_layout(left=26, right=52, top=6, bottom=38 if pooled else 22)
    layout["xaxis"] = _name_axis(columns)
    gap = 2 if len(rows) <= 12 else 1 if len(rows) <= 40 else 0
    across = [columns[0].left, *(column.right for column in columns)] if pooled else list(range(len(columns)))
    layout["yaxis"] = {**PLAIN_AXIS, "showgrid": False, "tickvals": rows[:: 1 + len(rows) // 8]}
    layout["yaxis"] |= {"range": [rows[0] - 0.5, rows[-1] + 0.5]}
    frames: dict[int | None, list[Part]] = {}
    for (r, c), layers in members.items():
        if not columns[c].worst:
            mark = frame((columns[c].left, columns[c].right), rows[r])
            for layer in layers:
                frames.setdefault(layer, []).append(mark)
    figure = cell_figure(
        facts,
        quantity,
        cells,
        (len(rows), len(columns)),
        across,
        list(rows),
        layout,
        (2, gap),
        lambda at, shown: _aria(facts, quantity, quantity.values[:, *at], at[1]),
    )
    stripes = {"fewest": "; narrow: expert with fewest", "worst": "; narrow: worst expert"}
    figure["title"] = f"Every layer{stripes.get(quantity.stripe, '') if pooled else ''}"
    set_finding(figure, map_finding(facts, quantity, range(len(quantity.values)), "layers"))
    figure["subtitle"] = f": {quantity.title}"
    return figure, frames


def map_finding(facts: LineFacts, quantity: Quantity, layers: Sequence[int], noun: str) -> BoundValues | None:
    """What a map of a quantity shows of these layers: how few make up half the error, which drifts most, what most of
    them chose, or how many tokens they saw. ``noun``: what they are called together, in the plural."""
    values = quantity.values[list(layers)]

    def say(at: At) -> str:
        column = values[:, *(at if quantity.follows else (0, 0))]
        known = column[np.isfinite(column)]
        if not known.size:
            return ""
        if quantity.steps:
            return _most_chosen(quantity, known, noun)
        if quantity.name == "tokens":
            low, high = (number(float(end), 0) for end in (known.min(), known.max()))
            return fitting(
                f"From {low} to {high} calibration tokens" if low != high else f"{low} calibration tokens each"
            )
        if quantity.name in ERRORS:
            count = fewest_for_half(known)
            of = f"of {number(known.size, 0)} {noun} {'makes' if count == 1 else 'make'} up half the error"
            return "" if count is None else fitting(f"{number(count, 0)} {of}")
        largest, middle = layers[int(np.nanargmax(column))], np.median(known)
        what = "drift" if quantity.name == "drift" else "penalty"
        text = f"{layer_label(facts.study.layers[largest])}: the largest {what}"
        if middle <= 0:
            return fitting(text)
        return fitting(f"{text}, {times_text(known.max() / middle)} the median", text)

    return at_each(facts, say)


def _most_chosen(quantity: Quantity, known: np.ndarray, noun: str) -> str:
    """What “auto” chose most often in most of the layers."""
    sign, counts = quantity.sign, quantity.counts(known)
    most = max(counts.values())
    first, *others = [step for step, count in counts.items() if count == most]
    if others:
        return f"No {sign} was chosen in more {noun} than the others"
    of = f"{number(most, 0)} of {number(known.size, 0)} {noun}"
    return fitting(f"{sign}{NBSP}={NBSP}{lam_text(first)} was chosen in {of}")


# The place of a cell (row, column), its numbers (G M), its layers, and where a click leads with the words for that.
Cell = tuple[tuple[int, int], np.ndarray, Sequence[int], list[Any]]


def cell_figure(
    facts: LineFacts,
    quantity: Quantity,
    cells: Sequence[Cell],
    shape: tuple[int, int],
    x: list[Any],
    y: list[Any],
    layout: Part,
    gaps: tuple[int, int],
    say: Callable[[At, np.ndarray], str],
) -> Figure:
    """A heatmap of a quantity over cells, bound to γ and λ where those change it.

    Args:
        facts: The line.
        quantity: Gives colours and texts.
        cells: Those that have layers.
        shape: Numbers of rows and of columns.
        x: Places of the columns.
        y: Places of the rows.
        layout: With both axes.
        gaps: Pixels between columns, and between rows.
        say: The figure in words, of the point, and all numbers there.
    """
    n_g, n_m = quantity.values.shape[1:]
    z = np.full((n_g, n_m, *shape), np.nan)
    leads: list[list[list[Any]]] = [[[-1, ""] for _ in range(shape[1])] for _ in range(shape[0])]
    texts = np.full(z.shape, "not measured", dtype=object)
    for (r, c), values, layers, lead in cells:
        z[:, :, r, c], leads[r][c] = values, lead
        for at in np.ndindex(n_g, n_m):
            texts[*at, r, c] = quantity.text(z[*at, r, c], layers)
    further = "%{customdata[2]}" if any(len(lead) > 2 for *_, lead in cells) else ""
    trace: Part = {
        "type": "heatmap",
        "x": x,
        "y": y,
        "z": [],
        "text": [],
        **quantity.scale(z, facts.line.lams),
        "xgap": gaps[0],
        "ygap": gaps[1],
        "customdata": leads,
        "hoverongaps": False,
        "hovertemplate": f"%{{customdata[1]}}: %{{text}}{further}<extra></extra>",
    }
    figure: Figure = {"data": [trace], "layout": layout, "bindings": []}
    colours, arias = quantity.colours(z), [[say((g, m), z[g, m]) for m in range(n_m)] for g in range(n_g)]
    if quantity.follows:
        bind_fields(figure, "data.0", {"z": colours, "text": texts})
        figure["bindings"].append(bind("aria", arias, *BOTH))
    else:
        trace |= {"z": plain_numbers(colours[0, 0]), "text": texts[0, 0].tolist()}
        figure["aria"] = arias[0][0]
    return figure


def map_cells(
    facts: LineFacts, *, split: bool = True
) -> tuple[list[int], list[_Column], dict[tuple[int, int], list[int]]]:
    """Rows (blocks), columns, and the positions of the layers in each cell (row, column); with ``split`` experts have a
    second column for the worst of them."""
    layers = facts.study.layers
    modules = list(dict.fromkeys(layer.module for layer in layers))
    pooled = {layer.module for layer in layers if layer.expert is not None}
    columns: list[_Column] = []
    for index, module in enumerate(modules):
        is_split, edge = split and module in pooled, index + 0.5
        middle = edge - WORST_WIDTH if is_split else edge
        columns.append(_Column(module, index - 0.5, middle, pooled=module in pooled))
        if is_split:
            columns.append(_Column(module, middle, edge, worst=True, pooled=True))
    row_of = {block: row for row, block in enumerate(sorted({layer.block for layer in layers}))}
    places = {module: [at for at, column in enumerate(columns) if column.module == module] for module in modules}
    cells: dict[tuple[int, int], list[int]] = {}
    for index, layer in enumerate(layers):
        for place in places[layer.module]:
            cells.setdefault((row_of[layer.block], place), []).append(index)
    return list(row_of), columns, cells


def _name_axis(columns: list[_Column]) -> Part:
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
    ticks = {"tickvals": [round(column.left + 0.5) for column in named], "ticktext": texts, "tickangle": 0}
    ends = [columns[0].left, columns[-1].right]
    return ticks | {"range": ends, "fixedrange": True, "showgrid": False, "zeroline": False, "ticks": ""}


def short_name(module: str) -> str:
    """“down” for experts.down_proj."""
    return module.rsplit(".", 1)[-1].removesuffix("_proj")


def framed(figure: Figure, frames: Sequence[Part]) -> Figure:
    """Return the figure of a whole line with the marks of the chosen layer."""
    shapes = [*figure["layout"]["shapes"], *frames]
    return {**figure, "layout": {**figure["layout"], "shapes": shapes}}


def frame(across: tuple[float, float], row: float) -> Part:
    """The mark of the chosen layer's cell."""
    return box_shape(across, (row - 0.5, row + 0.5), {"color": "var(--ink)", "width": 2})


def _aria(facts: LineFacts, quantity: Quantity, values: np.ndarray, lam: int) -> str:
    """``values`` are those of all layers (L) at one point."""

    def name(at: int) -> str:
        layer = facts.study.layers[at]
        if layer.expert is not None:
            return layer_label(layer)
        return f"block {layer.block} {layer.module}"

    return quantity.aria(facts, values, lam, f"{number(len(values), 0)} layers", name)
