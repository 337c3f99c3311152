"""Figures of a mixture's experts: the calibration tokens that reached each, and those of one block side by side."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.experts import Experts, TokenCounts, experts_of, token_counts, words
from sarqc.facts import LineFacts, read
from sarqc.figures.drawing import PLAIN_AXIS, Figure, base_layout
from sarqc.figures.layer_map import frame, short_name, show
from sarqc.figures.quantities import Quantity, slim_bar
from sarqc.figures.sentence import draws_text

MOST_DOTTED = 40  # with more experts in a block than this “few” has no mark beside its colour
NONE_MARK = {"symbol": "x-thin", "line": {"color": "var(--bad)", "width": 2}}


def counts_of(facts: LineFacts, folder: Path) -> TokenCounts | None:
    """Tokens of each expert in the line's draws; None for dense models and where the study did not count."""
    experts, tokens = experts_of(facts.study.layers), read(folder, facts.line, "tokens")
    return None if experts is None or tokens is None else token_counts(experts, tokens)


def token_map(facts: LineFacts, counts: TokenCounts | None) -> Figure | None:
    """Blocks × experts, coloured by calibration tokens around the number of channels; a click selects the expert.

    Few tokens are orange, many blue, and an expert that no token reached is marked with a cross.
    """
    if counts is None:
        return None
    experts = counts.experts
    rows = [str(block) for block in experts.blocks]
    layout = base_layout(left=34, right=58, top=8, bottom=38)
    layout["xaxis"] = {
        **PLAIN_AXIS,
        "showgrid": False,
        "nticks": 12,
        "tickangle": 0,
        "range": [experts.numbers[0] - 0.5, experts.numbers[-1] + 0.5],
        "title": {"text": "expert", "standoff": 2},
    }
    layout["yaxis"] = {**PLAIN_AXIS, "showgrid": False, "type": "category", "categoryarray": rows, "nticks": 9}
    layout["yaxis"] |= {"title": {"text": "block", "standoff": 2}}
    trace = _token_cells(counts, counts.mean, rows)
    trace["customdata"] = [
        [_lead(counts, row, column) for column in range(len(experts.numbers))] for row in range(len(rows))
    ]
    data = [trace]
    wide = len(experts.numbers)
    size = 9 if wide <= 16 else 5 if wide <= MOST_DOTTED else 3
    data += _marks(counts.none, experts, rows, {"size": size, **NONE_MARK})
    if wide <= MOST_DOTTED:
        few = {"symbol": "circle", "size": max(3, size // 2), "color": "var(--ink-2)"}
        data += _marks(counts.few, experts, rows, few)
    if facts.layer is not None and facts.study.layers[facts.layer].expert is not None:
        row, column = experts.place(facts.study.layers[facts.layer])
        number = experts.numbers[column]
        layout["shapes"].append(frame((number - 0.5, number + 0.5), row))
    return {
        "data": data,
        "layout": layout,
        "bindings": [],
        "title": "Tokens by expert, × none" + (f", • under {experts.channels:,}" if wide <= MOST_DOTTED else ""),
        "aria": words(counts) + _extremes(counts),
    }


def _token_cells(counts: TokenCounts, values: np.ndarray, rows: list[str]) -> dict[str, Any]:
    """A heatmap trace of token counts (rows × E) on a logarithmic scale whose middle is the number of channels."""
    seen = values[np.isfinite(values) & (values > 0)]
    middle = math.log10(counts.experts.channels)
    ends = [math.log10(float(end)) for end in (seen.min(), seen.max())] if seen.size else [middle]
    half = max(math.log10(2), *(abs(end - middle) for end in ends))
    shown = [value for value in (seen.min(), counts.experts.channels, seen.max()) if value] if seen.size else []
    # Names on the bar that would lie on each other are left out, the channels last.
    places: list[tuple[float, str]] = []
    for value in sorted(shown, key=lambda one: one != counts.experts.channels):
        place = math.log10(float(value))
        if all(abs(place - other) > 0.22 * half for other, _ in places):
            places.append((place, f"{value:,.0f}"))
    bar = slim_bar([place for place, _ in places], [text for _, text in places])
    with np.errstate(divide="ignore"):
        logs = np.where(values > 0, np.log10(np.where(values > 0, values, 1)), np.nan)
    gap = 2 if len(counts.experts.numbers) <= 40 else 0
    return {
        "type": "heatmap",
        "x": list(counts.experts.numbers),
        "y": rows,
        "z": [[None if not math.isfinite(value) else round(value, 4) for value in row] for row in logs.tolist()],
        "zmin": middle - half,
        "zmax": middle + half,
        "colorscale": [[0, "var(--recon)"], [0.5, "var(--line)"], [1, "var(--accent)"]],
        "xgap": gap,
        "ygap": gap,
        "hovertemplate": "block %{y} · expert %{x}: %{customdata[1]}<extra></extra>",
        "colorbar": bar,
    }


def _marks(mask: np.ndarray, experts: Experts, rows: list[str], marker: dict[str, Any]) -> list[dict[str, Any]]:
    """A trace of marks over cells that does not come between the pointer and the cell; none where nothing is marked."""
    where = np.argwhere(mask)
    if not len(where):
        return []
    x, y = [experts.numbers[column] for _, column in where], [rows[row] for row, _ in where]
    return [{"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": marker, "hoverinfo": "skip"}]


def _lead(counts: TokenCounts, row: int, column: int) -> list[Any]:
    """Where a click on an expert leads, its first linear, and what the pointer is told; -1 where there is none."""
    members = counts.experts.members.get((row, column))
    return [-1, ""] if members is None else [members[0], tokens_text(counts, row, column)]


def tokens_text(counts: TokenCounts, row: int, column: int) -> str:
    """“31 of 2,048 tokens, fewer than the 256 channels”, with the range over the draws."""
    each = counts.values[:, row, column]
    text = f"{each.mean():,.0f} of {counts.text:,} tokens"
    if len(each) > 1:
        text += f", from {each.min():,.0f} to {each.max():,.0f} in {draws_text(len(each))}"
    if counts.few[row, column]:
        text += f", fewer than the {counts.experts.channels:,} channels"
    return text


def _extremes(counts: TokenCounts) -> str:
    """Which expert saw least and which most, for those who don't see the map."""
    mean, experts = counts.mean, counts.experts
    said = []
    for word, flat in (("Least", int(np.nanargmin(mean))), ("most", int(np.nanargmax(mean)))):
        row, column = np.unravel_index(flat, mean.shape)
        said.append(
            f"{word} in block {experts.blocks[row]}, expert {experts.numbers[column]}: {mean[row, column]:,.0f} tokens"
        )
    return f" {'; '.join(said)}."


def token_table(counts: TokenCounts | None) -> dict[str, Any] | None:
    """The numbers of the token map: one row for each block, one column for each expert, mean over the draws."""
    if counts is None:
        return None
    return {
        "blocks": list(counts.experts.blocks),
        "experts": list(counts.experts.numbers),
        "channels": counts.experts.channels,
        "draws": len(counts.values),
        "words": words(counts),
        "tokens": [
            [None if not math.isfinite(value) else round(value, 1) for value in row] for row in counts.mean.tolist()
        ],
    }


def expert_map(facts: LineFacts, quantity: Quantity | None, counts: TokenCounts | None) -> Figure | None:
    """The experts of the chosen layer's block, coloured by a quantity: experts across, their linears upwards, and their
    tokens on top.

    None unless the chosen layer belongs to an expert.
    """
    if facts.layer is None or facts.study.layers[facts.layer].expert is None:
        return None
    experts = experts_of(facts.study.layers)
    if experts is None or quantity is None:
        return None
    chosen = facts.study.layers[facts.layer]
    row, _ = experts.place(chosen)
    members = {experts.numbers[c]: found for (r, c), found in experts.members.items() if r == row}
    modules = list(dict.fromkeys(facts.study.layers[at].module for found in members.values() for at in found))[::-1]
    n_g, n_m = quantity.values.shape[1:]
    z = np.full((n_g, n_m, len(modules), len(members)), np.nan)
    texts = [[[["not measured"] * len(members) for _ in modules] for _ in range(n_m)] for _ in range(n_g)]
    leads: list[list[list[Any]]] = [[[-1, ""] for _ in members] for _ in modules]
    for column, (number, layers) in enumerate(members.items()):
        reached = "" if counts is None else f", {tokens_text(counts, row, experts.numbers.index(number))}"
        for at in layers:
            line = modules.index(facts.study.layers[at].module)
            z[:, :, line, column] = quantity.values[at]
            for g, m in np.ndindex(n_g, n_m):
                texts[g][m][line][column] = quantity.text(float(z[g, m, line, column]), [at])
            leads[line][column] = [at, f"expert {number} · {short_name(modules[line])}", reached]
    gap = 2 if len(members) <= 40 else 0
    layout = base_layout(left=48, right=52, top=6, bottom=38)
    layout["xaxis"] = {**PLAIN_AXIS, "showgrid": False, "nticks": 12, "tickangle": 0}
    layout["xaxis"] |= {"title": {"text": "expert", "standoff": 2}}
    layout["xaxis"] |= {"range": [min(members) - 0.5, max(members) + 0.5], "anchor": "y"}
    top = 0.0 if counts is None else 0.24
    layout["yaxis"] = {**PLAIN_AXIS, "showgrid": False, "domain": [0, 1 - top]}
    names = [short_name(module) for module in modules]
    layout["yaxis"] |= {"tickvals": list(range(len(names))), "ticktext": names, "range": [-0.5, len(names) - 0.5]}
    trace = {
        "type": "heatmap",
        "x": list(members),
        "y": list(range(len(modules))),
        "z": [],
        "text": [],
        **quantity.scale(z, facts.line.lams),
        "xgap": gap,
        "ygap": 2,
        "customdata": leads,
        "hoverongaps": False,
        "hovertemplate": "%{customdata[1]}: %{text}%{customdata[2]}<extra></extra>",
    }
    number = chosen.expert
    assert number is not None
    layout["shapes"].append(frame((number - 0.5, number + 0.5), modules.index(chosen.module)))
    figure: Figure = {"data": [trace], "layout": layout, "bindings": []}
    if counts is not None:
        _add_tokens(figure, counts, row, top)

    def name(at: int) -> str:
        return f"expert {list(members)[at % len(members)]} {names[at // len(members)]}"

    called = f"{len(members)} experts of one block"
    arias = [[quantity.aria(facts, z[g, m], m, called, name) for m in range(n_m)] for g in range(n_g)]
    show(figure, quantity, quantity.colours(z), texts, arias)
    figure["title"] = f"Block {chosen.block}"
    figure["subtitle"] = f": {quantity.title}"
    return figure


def _add_tokens(figure: Figure, counts: TokenCounts, row: int, height: float) -> None:
    """A row with the block's tokens over the errors, in the colours of the token map."""
    trace = _token_cells(counts, counts.mean[row : row + 1], ["tokens"]) | {"yaxis": "y2", "showscale": False}
    trace["hovertemplate"] = "expert %{x}: %{customdata[1]}<extra></extra>"
    texts = [tokens_text(counts, row, column) for column in range(len(counts.experts.numbers))]
    trace["customdata"] = [[[-1, text] for text in texts]]
    figure["layout"]["yaxis2"] = {**PLAIN_AXIS, "type": "category", "showgrid": False, "domain": [1 - height + 0.04, 1]}
    size = 9 if len(texts) <= MOST_DOTTED else 3
    marks = _marks(counts.none[row : row + 1], counts.experts, ["tokens"], {"size": size, **NONE_MARK})
    figure["data"] += [trace, *({**mark, "yaxis": "y2"} for mark in marks)]
