"""Every layer of a line as a map of blocks × kinds of linear. The experts of a block share a cell: mean and worst.

A map is coloured by one quantity: errors, drift, what “auto” chose, or tokens. Each has one scale of colours for all λ
and γ of a line, so that a colour means the same while λ moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sarqc.figures.drawing import (
    BOTH,
    CIVIDIS,
    PLAIN_AXIS,
    SHADES,
    SLIM_BAR,
    BoundValues,
    Figure,
    Part,
    base_layout,
    bind,
    bind_fields,
    box_shape,
    plain_numbers,
)
from sarqc.figures.numbers import NBSP, At, lam_text, number, point_names, significant, times_text
from sarqc.figures.titles import ERRORS, finding_by_point, fit_text, set_finding
from sarqc.models.families import LayerInfo
from sarqc.study.facts import LineFacts, Selection, once_a_line
from sarqc.study.paired import mean_over_draws

WORST_WIDTH = 0.32  # of a pooled column's width is the stripe of its worst expert
MOST_NAMES = 8  # with more columns than this the names of linears are one letter
NO_LOSS = 1e-9  # by this share a sum may fall short of half, as sums of rounded numbers do
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
    """Return blocks × kinds of linear, coloured by a quantity of each layer; a click selects the layer.

    Of linears of experts a cell shows the mean (of choices the most frequent) and, in a stripe at its right, the worst
    expert. None where there is no quantity.
    """
    if quantity is None:
        return None
    figure, frames = facts.study.once(facts.line, f"map of {quantity.name}", lambda: _whole_map(facts, quantity))
    return add_frames(figure, frames.get(facts.layer, []))


def _whole_map(facts: LineFacts, quantity: Quantity) -> tuple[Figure, dict[int | None, list[Part]]]:
    """Return the figure without a chosen layer, and by layer the frames that mark it as chosen."""
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
    """State the finding of a map for these layers: how few make up half the error, which drifts most, the most frequent
    choice, or their range of tokens. ``noun``: their name, in the plural."""
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
            return fit_text(
                f"From {low} to {high} calibration tokens" if low != high else f"{low} calibration tokens each"
            )
        if quantity.name in ERRORS:
            count = fewest_for_half(known)
            words = f"of {number(known.size, 0)} {noun} {'makes' if count == 1 else 'make'} up half the error"
            return "" if count is None else fit_text(f"{number(count, 0)} {words}")
        largest, middle = layers[int(np.nanargmax(column))], np.median(known)
        quantity_noun = "drift" if quantity.name == "drift" else "penalty"
        text = f"{layer_label(facts.study.layers[largest])}: the largest {quantity_noun}"
        if middle <= 0:
            return fit_text(text)
        return fit_text(f"{text}, {times_text(known.max() / middle)} the median", text)

    return finding_by_point(facts, say)


def _most_chosen(quantity: Quantity, known: np.ndarray, noun: str) -> str:
    """Name the candidate that most layers chose most often."""
    sign, counts = quantity.sign, quantity.counts(known)
    most = max(counts.values())
    first, *ties = [step for step, count in counts.items() if count == most]
    if ties:
        return f"No {sign} was chosen in more {noun} than the others"
    count_text = f"{number(most, 0)} of {number(known.size, 0)} {noun}"
    return fit_text(f"{sign}{NBSP}={NBSP}{lam_text(first)} was chosen in {count_text}")


# The place of a cell (row, column), its numbers (G M), its layers, and the target of a click with its text.
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
    """Return a heatmap of a quantity over cells, bound to γ and λ where those change it.

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
    """Return rows (blocks), columns, and the positions of the layers in each cell (row, column); with ``split``
    experts have a second column for the worst of them."""
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
    rows = {block: row for row, block in enumerate(sorted({layer.block for layer in layers}))}
    places = {module: [at for at, column in enumerate(columns) if column.module == module] for module in modules}
    cells: dict[tuple[int, int], list[int]] = {}
    for index, layer in enumerate(layers):
        for place in places[layer.module]:
            cells.setdefault((rows[layer.block], place), []).append(index)
    return list(rows), columns, cells


def _name_axis(columns: list[_Column]) -> Part:
    """Return short names of the linears; groups of experts have theirs below, once in their middle."""
    named = [column for column in columns if not column.worst]
    texts = [short_name(column.module) for column in named]
    if len(named) > MOST_NAMES:
        texts = [text[0] for text in texts]
    if any(column.pooled for column in columns):
        groups = [column.module.rpartition(".")[0] for column in named]
        for group in set(groups) & set(GROUPS):
            inside = [place for place, name in enumerate(groups) if name == group]
            texts[inside[len(inside) // 2]] += f"<br>{GROUPS[group]}"
    ticks = {"tickvals": [round(column.left + 0.5) for column in named], "ticktext": texts, "tickangle": 0}
    ends = [columns[0].left, columns[-1].right]
    return ticks | {"range": ends, "fixedrange": True, "showgrid": False, "zeroline": False, "ticks": ""}


def short_name(module: str) -> str:
    """“down” for experts.down_proj."""
    return module.rsplit(".", 1)[-1].removesuffix("_proj")


def add_frames(figure: Figure, frames: Sequence[Part]) -> Figure:
    """Return the figure of a whole line with the marks of the chosen layer."""
    shapes = [*figure["layout"]["shapes"], *frames]
    return {**figure, "layout": {**figure["layout"], "shapes": shapes}}


def frame(across: tuple[float, float], row: float) -> Part:
    """Return the mark of the chosen layer's cell."""
    return box_shape(across, (row - 0.5, row + 0.5), {"color": "var(--ink)", "width": 2})


def _aria(facts: LineFacts, quantity: Quantity, values: np.ndarray, lam: int) -> str:
    """Describe the values of all layers (L) at one point."""

    def name(at: int) -> str:
        layer = facts.study.layers[at]
        if layer.expert is not None:
            return layer_label(layer)
        return f"block {layer.block} {layer.module}"

    return quantity.aria(facts, values, lam, f"{number(len(values), 0)} layers", name)


# name in an address → what a card is called, in a list, on the bar of colours, in a sentence (empty: of choices); the
# first that a line has is shown without a wish
QUANTITIES = {
    "held_out": (
        "reconstruction error, unseen text",
        "error, unseen text",
        "error",
        "Relative reconstruction error on unseen text",
    ),
    "recon": (
        "reconstruction error, calibration text",
        "error, calibration text",
        "error",
        "Relative reconstruction error on calibration text",
    ),
    "drift": ("weight drift", "drift", "drift", "Relative weight drift"),
    "sar": ("penalty, L_sar", "penalty", "penalty", "Relative penalty, L_sar,"),
    "lambda": ("chosen λ", "chosen λ", "λ", ""),
    "gamma": ("chosen γ", "chosen γ", "γ", ""),
    "tokens": ("calibration tokens", "tokens", "tokens", "Calibration tokens"),
}
MOST_NAMED = 6  # candidates on a colour bar


@dataclass(frozen=True)
class Quantity:
    """One number for each layer, of a line; mean over the draws, or what was chosen most often."""

    name: str  # of QUANTITIES
    values: np.ndarray  # L G M, or L 1 1 where neither γ nor λ changes it
    samples: np.ndarray | None = None  # D L, where values are choices
    steps: tuple[float, ...] = ()  # what was chosen among, rising

    @property
    def title(self) -> str:
        return QUANTITIES[self.name][0]

    @property
    def follows(self) -> bool:
        """True if it may change with γ and λ."""
        return self.name not in ("lambda", "gamma", "tokens")

    @property
    def stripe(self) -> str:
        """The expert singled out beside the mean of several; empty where none is better or worse."""
        return {"tokens": "fewest", "lambda": "", "gamma": ""}.get(self.name, "worst")

    def pooled(self, layers: Sequence[int]) -> np.ndarray:
        """Return the number of several layers together (G M): their mean, or what most of them chose."""
        if self.samples is not None:
            return np.array([[_most_frequent(self.samples[:, layers])]])
        return mean_over_draws(self.values[list(layers)])

    def extreme(self, layers: Sequence[int]) -> tuple[np.ndarray, int]:
        """Return the worst of several layers at each point (G M), and the layer that is worst on average."""
        part, sign = self.values[list(layers)], -1 if self.stripe == "fewest" else 1
        known = np.isfinite(part)
        if len(layers) == 1:  # as of every cell of a dense model
            return np.where(known[0], part[0], np.nan), layers[0]
        worst = sign * np.where(known, sign * part, -np.inf).max(axis=0)
        pick = np.where(known, sign * part, 0).mean(axis=(1, 2)).argmax()
        return np.where(np.isfinite(worst), worst, np.nan), layers[int(pick)]

    def text(self, value: float, layers: Sequence[int]) -> str:
        """Return the hover text of a number of these layers."""
        if not math.isfinite(value):
            return "not measured"
        if self.name == "tokens":
            return f"{number(value, 0)} tokens" if value else "no tokens"
        if self.samples is None:
            return significant(value)
        chosen = self.samples[:, list(layers)]
        known = chosen[np.isfinite(chosen)]
        choice = f"{self.sign} = {lam_text(value)}"
        return choice if known.size <= 1 else f"{choice}, {np.isclose(known, value).sum()} of {known.size} choices"

    @property
    def sign(self) -> str:
        """The parameter's sign."""
        return "λ" if self.name == "lambda" else "γ"

    def counts(self, known: np.ndarray) -> dict[float, int]:
        """Count the numbers by candidate."""
        return {step: int(np.isclose(known, step).sum()) for step in self.steps}

    def colours(self, values: np.ndarray) -> np.ndarray:
        """Return numbers as places on the scale of colours: logarithms, or positions among the candidates."""
        if self.steps:
            near = np.abs(values[..., None] - np.array(self.steps)).argmin(axis=-1)
            return np.where(np.isfinite(values), near, np.nan)
        floor = np.finfo(np.float64).tiny
        return np.log10(np.where(np.isfinite(values), np.maximum(values, floor), np.nan))

    def scale(self, cells: np.ndarray, lams: Sequence[float]) -> Part:
        """Return a heatmap's scale for all that is shown (G M …), with its bar; zeros have the colour of the least.

        λ = 0 may be so far away that it would flatten the rest: what lies beyond the scale has the colour of its end,
        and the bar says so.
        """
        if self.steps:
            return {
                "zmin": -0.5,
                "zmax": len(self.steps) - 0.5,
                "colorscale": _flat(len(self.steps)),
                "colorbar": self._bar(*_step_ticks(self.steps)),
            }
        positive = [at for at, lam in enumerate(lams) if lam > 0] if self.follows else []
        spread = cells[:, positive or [0]]  # of all λ > 0, where there are any
        spread = spread[np.isfinite(spread) & (spread > 0)]
        low, high = (float(spread.min()), float(spread.max())) if spread.size else (0.1, 1.0)
        values = [low, math.sqrt(low * high), high]
        names = [number(value, 0) if self.name == "tokens" else f"{value:.2g}" for value in values]
        known = cells[np.isfinite(cells)]
        if known.size and known.max() > high * 1.001:
            names[-1] = f"≥ {names[-1]}"
        if known.size and known.min() < low * 0.999:
            names[0] = f"≤ {names[0]}"
        if high < low * 1.05:
            values, names = values[1:2], names[1:2]
        ends = {"zmin": math.log10(low), "zmax": math.log10(max(high, low * 1.01))}
        return {**ends, "colorscale": SHADES, "colorbar": self._bar([math.log10(value) for value in values], names)}

    def _bar(self, places: list[float], names: list[str]) -> Part:
        return slim_bar(places, names) | {
            "title": {"text": QUANTITIES[self.name][2], "side": "top", "font": {"size": 11}}
        }

    def aria(self, facts: LineFacts, values: np.ndarray, lam: int, noun: str, name: Any) -> str:
        """Return one sentence about numbers (…) at a point; ``noun`` names all, ``name`` one by position."""
        known = values[np.isfinite(values)]
        if not known.size:
            return f"Nothing was measured for {noun}."
        if self.steps:
            choices = [f"{lam_text(step)} in {count}" for step, count in self.counts(known).items() if count]
            return f"{self.sign} that “auto” chose most often in each of {noun}: {', '.join(choices)}."
        counts = self.name == "tokens"
        ends = [("least", int(np.nanargmin(values)))] if counts else []
        ends.append(("largest", int(np.nanargmax(values))))
        numbers = [(f"{end} in {name(at)},", values.flat[at]) for end, at in ends]
        numbers.append(("median", np.median(known)))
        parts = [
            f"{label} {number(float(value), 0) if counts else significant(float(value))}" for label, value in numbers
        ]
        scope = f"{noun}, {point_names(facts.line)[lam]}" if self.follows else noun
        return f"{QUANTITIES[self.name][3]} of {scope}: {', '.join(parts)}."


@once_a_line
def quantities_of(facts: LineFacts) -> list[str]:
    """Return names of the quantities that a line has, the default first."""
    return [name for name in QUANTITIES if _samples(facts, name) is not None]


def quantity_of(facts: LineFacts, name: str | None = None) -> Quantity | None:
    """Return a quantity of a line; its first if it lacks that one, None if it has none."""
    have = quantities_of(facts)
    name = name if name in have else next(iter(have), None)
    samples = None if name is None else _samples(facts, name)
    if name is None or samples is None:
        return None
    if name in ("lambda", "gamma"):
        choice = facts.selection
        assert choice is not None
        most = np.array([_most_frequent(samples[:, [at]]) for at in range(samples.shape[1])])
        return Quantity(name, most[:, None, None], samples, _steps(choice, name))
    if name == "tokens":
        return Quantity(name, mean_over_draws(samples)[:, None, None])
    return Quantity(name, mean_over_draws(samples))


def _samples(facts: LineFacts, name: str) -> np.ndarray | None:
    """Return numbers of each draw, D L or D L G M; None if missing or uninformative."""
    if name in ("lambda", "gamma"):
        choice = facts.selection
        if choice is None or choice.by != "layer" or len(_steps(choice, name)) < 2:
            return None
        return choice.lam if name == "lambda" else choice.gamma
    if name == "tokens" and all(layer.expert is None for layer in facts.study.layers):
        return None  # every layer of a dense model sees all of them
    array = facts.read(name)
    return None if array is None or not np.isfinite(array).any() else array


def _steps(choice: Selection, name: str) -> tuple[float, ...]:
    values = choice.lams if name == "lambda" else choice.gammas
    return tuple(sorted({float(value) for value in values if value is not None}))


def _most_frequent(values: np.ndarray) -> float:
    """Return the most frequent value, the smallest of several; NaN without known values."""
    kinds, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    return float(kinds[counts.argmax()]) if kinds.size else math.nan


def slim_bar(places: list[float], names: list[str]) -> Part:
    """Return a slim colour bar, named at these places."""
    return {"tickvals": places, "ticktext": names, **SLIM_BAR, "tickfont": {"size": 11}}


def _flat(count: int) -> list[list[Any]]:
    """Return a scale of ``count`` flat colours, one for each candidate."""
    stops: list[list[Any]] = []
    for step in range(count):
        place = step / max(count - 1, 1) * (len(CIVIDIS) - 1)
        colour = [round(float(np.interp(place, range(len(CIVIDIS)), part))) for part in zip(*CIVIDIS, strict=True)]
        name = f"rgb({', '.join(map(str, colour))})"
        stops += [[step / count, name], [(step + 1) / count, name]]
    return stops


def _step_ticks(steps: Sequence[float]) -> tuple[list[float], list[str]]:
    """Return candidates as places and names; of many only some, the first and the last among them."""
    stride = math.ceil((len(steps) - 1) / (MOST_NAMED - 1)) if len(steps) > MOST_NAMED else 1
    last = len(steps) - 1
    places = [at for at in range(len(steps)) if at == last or (at % stride == 0 and last - at >= stride)]
    return [float(at) for at in places], [lam_text(steps[at]) for at in places]


def fewest_for_half(errors: np.ndarray) -> int | None:
    """Return the smallest number of layers whose errors add up to half of all.

    Args:
        errors: (L,), finite.

    Returns:
        The number; None for fewer than two layers, or without any error.
    """
    total = errors.sum()
    if len(errors) < 2 or not total > 0:
        return None
    sums = np.cumsum(np.sort(errors)[::-1])
    return int(np.argmax(sums >= (0.5 - NO_LOSS) * total)) + 1
