"""Every layer of a line as a map of blocks × kinds of linear, whose experts share a cell; or of blocks × experts.

A map is coloured by one quantity: errors, drift, what “auto” chose, or tokens. Each has one scale of colours for all λ
and γ of a line, so that a colour means the same while λ moves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sarqc.figures.drawing import (
    CIVIDIS,
    PLAIN_AXIS,
    SHADES,
    SLIM_BAR,
    BoundValues,
    Figure,
    Part,
    base_layout,
    bind_fields,
    box_shape,
    plain_numbers,
)
from sarqc.figures.numbers import NBSP, At, lam_text, number, point_names, significant, times_text
from sarqc.figures.titles import ERRORS, bind_aria, constant_finding, finding_by_point, fit_text, set_finding
from sarqc.models.families import LayerInfo
from sarqc.study.experts import TokenCounts, token_counts
from sarqc.study.facts import LineFacts, Selection, once_a_line
from sarqc.study.paired import mean_over_draws

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


@once_a_line
def counts_of(facts: LineFacts) -> TokenCounts | None:
    """Return tokens of each expert by draw; None for dense models and studies without counts."""
    experts, tokens = facts.study.experts, facts.read("tokens")
    return None if experts is None or tokens is None else token_counts(experts, tokens)


def layer_map(facts: LineFacts, quantity: Quantity | None, *, by_expert: bool = False) -> Figure | None:
    """Return blocks × kinds of linear, or blocks × experts, coloured by a quantity; a click selects a layer.

    A cell of several layers, the experts of a kind or the linears of an expert, has their mean (of choices the most
    frequent) and leads to the largest. None where there is no quantity, or no expert.
    """
    if quantity is None or (by_expert and facts.study.experts is None):
        return None
    figure, frames = facts.study.once(
        facts.line, (quantity.name, by_expert), lambda: _whole_map(facts, quantity, by_expert=by_expert)
    )
    if facts.layer not in frames:
        return figure
    shapes = [*figure["layout"]["shapes"], frames[facts.layer]]
    return {**figure, "layout": {**figure["layout"], "shapes": shapes}}


def _whole_map(facts: LineFacts, quantity: Quantity, *, by_expert: bool) -> tuple[Figure, dict[int | None, Part]]:
    """Return the figure without a chosen layer, and by layer the frame that marks it as chosen."""
    layers, experts = facts.study.layers, facts.study.experts
    owned = [at for at, layer in enumerate(layers) if layer.expert is not None or not by_expert]
    rows = sorted({layers[at].block for at in owned})
    columns: list[Any] = [*dict.fromkeys(_column_of(layers[at], by_expert=by_expert) for at in owned)]
    places = {column: place for place, column in enumerate(columns)}
    x = columns if by_expert else [*places.values()]
    members: dict[tuple[int, int], list[int]] = {}
    for at in owned:
        place = rows.index(layers[at].block), places[_column_of(layers[at], by_expert=by_expert)]
        members.setdefault(place, []).append(at)
    layout = base_layout(left=26, right=52, top=6, bottom=22 if experts is None else 38)
    across = (
        {"title": {"text": "expert", "standoff": 2}, "tickvals": columns[:: 1 + len(columns) // 12]}
        if by_expert
        else _names(facts, columns)
    )
    layout["xaxis"] = {**PLAIN_AXIS, "showgrid": False, "tickangle": 0, "range": [x[0] - 0.5, x[-1] + 0.5]} | across
    layout["yaxis"] = {**PLAIN_AXIS, "showgrid": False, "tickvals": rows[:: 1 + len(rows) // 8]}
    layout["yaxis"] |= {"range": [rows[0] - 0.5, rows[-1] + 0.5]}
    figure = _cell_figure(facts, quantity, members, (rows, x), layout, by_expert=by_expert)
    noun = "layers of experts" if by_expert else "layers"
    if quantity.follows:
        bind_aria(figure, facts, lambda at: _aria(facts, quantity, owned, at, noun))
    else:
        figure["aria"] = _aria(facts, quantity, owned, (0, 0), noun)
    finding = _map_finding(facts, quantity, owned, noun)
    counts = counts_of(facts)
    if by_expert and quantity.name == "tokens" and counts is not None:
        finding = constant_finding(_tokens_finding(counts))
    set_finding(figure, finding)
    figure["title"], figure["subtitle"] = f"Every {'expert' if by_expert else 'layer'}", f": {quantity.title}"
    edge = {"color": "var(--ink)", "width": 2}
    frames: dict[int | None, Part] = {
        at: box_shape((x[c] - 0.5, x[c] + 0.5), (rows[r] - 0.5, rows[r] + 0.5), edge)
        for (r, c), inside in members.items()
        for at in inside
    }
    return figure, frames


def _map_finding(facts: LineFacts, quantity: Quantity, layers: Sequence[int], noun: str) -> BoundValues | None:
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


def _cell_figure(
    facts: LineFacts,
    quantity: Quantity,
    members: Mapping[tuple[int, int], Sequence[int]],
    axes: tuple[list[int], list[int]],
    layout: Part,
    *,
    by_expert: bool,
) -> Figure:
    """Return a heatmap of a quantity over cells, bound to γ and λ where those change it.

    Args:
        facts: The line.
        quantity: Gives colours and texts.
        members: Layers of each cell (row, column).
        axes: Blocks, and places of columns.
        layout: With both axes.
        by_expert: Whether columns are experts.
    """
    (rows, x), (n_g, n_m) = axes, quantity.values.shape[1:]
    z = np.full((n_g, n_m, len(rows), len(x)), np.nan)
    leads: list[list[list[Any]]] = [[[-1, ""] for _ in x] for _ in rows]
    texts = np.full(z.shape, "not measured", dtype=object)
    for (r, c), layers in members.items():
        z[:, :, r, c] = quantity.pooled(layers)
        leads[r][c] = [quantity.largest(layers), _cell_words(facts, quantity, layers, by_expert=by_expert)]
        for at in np.ndindex(n_g, n_m):
            texts[*at, r, c] = quantity.text(z[*at, r, c], layers)
    trace: Part = {
        "type": "heatmap",
        "x": x,
        "y": rows,
        "z": [],
        "text": [],
        **quantity.scale(z, facts.line.lams),
        "xgap": 2 if len(x) <= 40 else 0,
        "ygap": 2 if len(rows) <= 12 else 1 if len(rows) <= 40 else 0,
        "customdata": leads,
        "hoverongaps": False,
        "hovertemplate": f"block %{{y}} · {'expert %{x}' * by_expert}%{{customdata[1]}}: %{{text}}<extra></extra>",
    }
    figure: Figure = {"data": [trace], "layout": layout, "bindings": []}
    colours = quantity.colours(z)
    if quantity.follows:
        bind_fields(figure, "data.0", {"z": colours, "text": texts})
    else:
        trace |= {"z": plain_numbers(colours[0, 0]), "text": texts[0, 0].tolist()}
    return figure


def _column_of(layer: LayerInfo, *, by_expert: bool) -> int | str | None:
    return layer.expert if by_expert else layer.module


def _cell_words(facts: LineFacts, quantity: Quantity, layers: Sequence[int], *, by_expert: bool) -> str:
    """Return the kind of linear and its number of experts, or an expert's tokens: “, 31 tokens”."""
    layer, counts = facts.study.layers[layers[0]], counts_of(facts)
    if not by_expert:
        return layer.module if layer.expert is None else f"{layer.module}, {len(layers)} experts"
    if counts is None or quantity.name == "tokens":
        return ""
    return f", {number(counts.mean[counts.experts.place(layer)], 0)} tokens"


def _names(facts: LineFacts, columns: list[str]) -> Part:
    """Return short names of the linears as ticks; groups of experts have theirs below, once in their middle."""
    texts = [column.rsplit(".", 1)[-1].removesuffix("_proj") for column in columns]
    if len(columns) > MOST_NAMES:
        texts = [text[0] for text in texts]
    groups = [column.rpartition(".")[0] for column in columns]
    for group in set(groups) & set(GROUPS) if facts.study.experts else ():
        inside = [place for place, name in enumerate(groups) if name == group]
        texts[inside[len(inside) // 2]] += f"<br>{GROUPS[group]}"
    return {"tickvals": list(range(len(columns))), "ticktext": texts}


def _aria(facts: LineFacts, quantity: Quantity, layers: Sequence[int], at: At, noun: str) -> str:
    """Describe the values of these layers at one point."""
    values = quantity.values[list(layers), *(at if quantity.follows else (0, 0))]

    def name(at: int) -> str:
        layer = facts.study.layers[layers[at]]
        return f"block {layer.block} {layer.module}" if layer.expert is None else layer_label(layer)

    return quantity.aria(facts, values, at[1], f"{number(len(values), 0)} {noun}", name)


def _tokens_finding(counts: TokenCounts) -> str:
    """Count the experts that no token reached, or fewer than their channels."""
    experts = counts.experts.count
    total, none, few = (number(int(count), 0) for count in (experts, counts.none.sum(), counts.few.sum()))
    if counts.none.any():
        return fit_text(f"{none} of {total} experts saw no token{' in some draw' if len(counts.values) > 1 else ''}")
    if counts.few.any():
        return fit_text(f"{few} of {total} experts saw fewer tokens than channels")
    return "Every expert saw at least as many tokens as channels"


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

    def pooled(self, layers: Sequence[int]) -> np.ndarray:
        """Return the number of several layers together (G M): their mean, or what most of them chose."""
        if self.samples is not None:
            return np.array([[_most_frequent(self.samples[:, layers])]])
        return mean_over_draws(self.values[list(layers)])

    def largest(self, layers: Sequence[int]) -> int:
        """Return the layer of several that has the largest number, on average over γ and λ."""
        return layers[int(np.nan_to_num(self.values[list(layers)]).mean(axis=(1, 2)).argmax())]

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
        logs: np.ndarray = np.log10(np.where(np.isfinite(values), np.maximum(values, floor), np.nan))
        return logs.round(4)  # there may be thousands of experts at each point

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
        title = {"text": QUANTITIES[self.name][2], "side": "top", "font": {"size": 11}}
        return {"tickvals": places, "ticktext": names, **SLIM_BAR, "tickfont": {"size": 11}, "title": title}

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
