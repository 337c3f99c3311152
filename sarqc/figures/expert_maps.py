"""Figures of a mixture's experts: the calibration tokens that reached each, and those of one block side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np

from sarqc.figures.changes import change_text, ratio_of, times_text
from sarqc.figures.drawing import HELD_OUT, PLAIN_AXIS, Figure, Role, base_layout, bind, note
from sarqc.figures.layer_map import frame, map_finding, short_name, show
from sarqc.figures.layer_quantities import Quantity, slim_bar
from sarqc.figures.numbers import draws_text, number, percent, point_names, significant
from sarqc.figures.titles import at_each, everywhere, fitting, set_finding
from sarqc.study.experts import Experts, TokenCounts, token_counts, words
from sarqc.study.facts import LineFacts, is_point
from sarqc.study.paired import mean_over_draws

MOST_DOTTED = 40  # with more experts in a block than this “few” has no mark beside its colour
NONE_MARK = {"symbol": "x-thin", "line": {"color": "var(--bad)", "width": 2}}


def counts_of(facts: LineFacts) -> TokenCounts | None:
    """Tokens of each expert in the line's draws; None for dense models and where the study did not count."""
    return facts.study.once(facts.line, "token counts", lambda: _counts_of(facts))


def _counts_of(facts: LineFacts) -> TokenCounts | None:
    experts, tokens = facts.study.experts, facts.read("tokens")
    return None if experts is None or tokens is None else token_counts(experts, tokens)


def token_map(facts: LineFacts, counts: TokenCounts | None) -> Figure | None:
    """Blocks × experts, coloured by calibration tokens around the number of channels; a click selects the expert.

    Few tokens are orange, many blue, and an expert that no token reached is marked with a cross.
    """
    if counts is None:
        return None
    figure = facts.study.once(facts.line, "token map", lambda: _token_map(counts))
    if facts.layer is None or facts.study.layers[facts.layer].expert is None:
        return figure
    row, column = counts.experts.place(facts.study.layers[facts.layer])
    own = counts.experts.numbers[column]
    shapes = [*figure["layout"]["shapes"], frame((own - 0.5, own + 0.5), row)]
    return {**figure, "layout": {**figure["layout"], "shapes": shapes}}


def _token_map(counts: TokenCounts) -> Figure:
    """The figure without a chosen layer."""
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
    figure: Figure = {
        "data": data,
        "layout": layout,
        "bindings": [],
        "title": f"Tokens by expert, × none, • under {number(experts.channels, 0)}"
        if wide <= MOST_DOTTED
        else "Tokens by expert, × none",
        "aria": words(counts) + _extremes(counts),
    }
    set_finding(figure, everywhere(_tokens_finding(counts)))
    return figure


def _tokens_finding(counts: TokenCounts) -> str:
    """How many experts no token reached, or fewer than their channels."""
    experts = counts.experts.count
    total, none, few = (number(int(count), 0) for count in (experts, counts.none.sum(), counts.few.sum()))
    if counts.none.any():
        return fitting(
            f"{none} of {total} experts saw no token in some draw"
            if len(counts.values) > 1
            else f"{none} of {total} experts saw no token"
        )
    if counts.few.any():
        return fitting(f"{few} of {total} experts saw fewer tokens than channels")
    return "Every expert saw at least as many tokens as channels"


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
            places.append((place, number(float(value), 0)))
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
        "hovertemplate": "block %{y} · expert %{x}" + ": %{customdata[1]}<extra></extra>",
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
    draws, (least, most) = len(counts.values), counts.range
    mean = number(float(counts.mean[row, column]), 0)
    text = f"{mean} of {number(counts.text, 0)} tokens"
    if draws > 1:
        text = (
            f"{text}, from {number(float(least[row, column]), 0)} to {number(float(most[row, column]), 0)} in "
            f"{draws_text(draws)}"
        )
    if counts.few[row, column]:
        channels = number(counts.experts.channels, 0)
        text = f"{text}, fewer than the {channels} channels"
    return text


def _extremes(counts: TokenCounts) -> str:
    """Which expert saw least and which most, for those who don't see the map."""
    mean, experts = counts.mean, counts.experts
    least, most = (np.unravel_index(int(find(mean)), mean.shape) for find in (np.nanargmin, np.nanargmax))
    return " " + (
        f"Least in block {experts.blocks[least[0]]}, expert {experts.numbers[least[1]]}: "
        f"{number(float(mean[least]), 0)} tokens; most in block {experts.blocks[most[0]]}, expert "
        f"{experts.numbers[most[1]]}: {number(float(mean[most]), 0)} tokens."
    )


class TokenTable(TypedDict):
    """The numbers of the token map: one row for each block, one column for each expert, mean over the draws."""

    blocks: list[int]
    experts: list[int]
    channels: int
    draws: int
    words: str
    tokens: list[list[float | None]]


def token_table(counts: TokenCounts | None) -> TokenTable | None:
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
    experts = facts.study.experts
    if experts is None or quantity is None:
        return None
    chosen = facts.study.layers[facts.layer]
    own, (row, _) = chosen.expert, experts.place(chosen)
    assert own is not None
    # One block is kept, that its layers share: a large mixture has many.
    kept: dict[int, tuple[Figure, list[str]]] = facts.study.once(facts.line, f"block by {quantity.name}", dict)
    made = kept.get(row) or _block_map(facts, experts, row, quantity, counts)
    kept.clear()
    kept[row] = made
    figure, modules = made
    shape = frame((own - 0.5, own + 0.5), modules.index(chosen.module))
    return {**figure, "layout": {**figure["layout"], "shapes": [*figure["layout"]["shapes"], shape]}}


def _block_map(
    facts: LineFacts, experts: Experts, row: int, quantity: Quantity, counts: TokenCounts | None
) -> tuple[Figure, list[str]]:
    """The figure of a block without a chosen layer, and its modules from below."""
    members = {experts.numbers[c]: found for (r, c), found in experts.members.items() if r == row}
    modules = list(dict.fromkeys(facts.study.layers[at].module for found in members.values() for at in found))[::-1]
    n_g, n_m = quantity.values.shape[1:]
    z = np.full((n_g, n_m, len(modules), len(members)), np.nan)
    missing = "not measured"
    texts = [[[[missing] * len(members) for _ in modules] for _ in range(n_m)] for _ in range(n_g)]
    leads: list[list[list[Any]]] = [[[-1, ""] for _ in members] for _ in modules]
    for column, (expert, layers) in enumerate(members.items()):
        reached = "" if counts is None else f", {tokens_text(counts, row, experts.numbers.index(expert))}"
        for at in layers:
            line = modules.index(facts.study.layers[at].module)
            z[:, :, line, column] = quantity.values[at]
            for g, m in np.ndindex(n_g, n_m):
                texts[g][m][line][column] = quantity.text(float(z[g, m, line, column]), [at])
            name_of = f"expert {expert} · {short_name(modules[line])}"
            leads[line][column] = [at, name_of, reached]
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
    figure: Figure = {"data": [trace], "layout": layout, "bindings": []}
    if counts is not None:
        _add_tokens(figure, counts, row, top)

    def name(at: int) -> str:
        expert, module = list(members)[at % len(members)], names[at // len(members)]
        return f"expert {expert} {module}"

    called = f"{len(members)} experts of one block"
    arias = [[quantity.aria(facts, z[g, m], m, called, name) for m in range(n_m)] for g in range(n_g)]
    show(figure, quantity, quantity.colours(z), texts, arias)
    figure["title"] = f"Block {experts.blocks[row]}"
    inside = [at for found in members.values() for at in found]
    set_finding(figure, map_finding(facts, quantity, inside, "layers of this block"))
    figure["subtitle"] = f": {quantity.title}"
    return figure, modules


def _add_tokens(figure: Figure, counts: TokenCounts, row: int, height: float) -> None:
    """A row with the block's tokens over the errors, in the colours of the token map."""
    rows = ["tokens"]
    trace = _token_cells(counts, counts.mean[row : row + 1], rows) | {"yaxis": "y2", "showscale": False}
    trace["hovertemplate"] = "expert %{x}" + ": %{customdata[1]}<extra></extra>"
    texts = [tokens_text(counts, row, column) for column in range(len(counts.experts.numbers))]
    trace["customdata"] = [[[-1, text] for text in texts]]
    figure["layout"]["yaxis2"] = {**PLAIN_AXIS, "type": "category", "showgrid": False, "domain": [1 - height + 0.04, 1]}
    size = 9 if len(texts) <= MOST_DOTTED else 3
    marks = _marks(counts.none[row : row + 1], counts.experts, rows, {"size": size, **NONE_MARK})
    figure["data"] += [trace, *({**mark, "yaxis": "y2"} for mark in marks)]


MOST_POINTS = 400  # with more experts than this only the medians are drawn
BINS = 6


def tokens_error(facts: LineFacts, counts: TokenCounts | None) -> Figure | None:
    """Error on unseen text against the tokens that an expert saw, at the smallest λ and at the shown one.

    A point is an expert: the mean over its linears and over the draws. None for dense models and without unseen text.
    """
    if counts is None:
        return None
    return facts.study.once(facts.line, "error by tokens", lambda: _tokens_error(facts, counts))


def _tokens_error(facts: LineFacts, counts: TokenCounts) -> Figure | None:
    held = facts.read("held_out")
    if held is None:
        return None
    by_layer = mean_over_draws(held)  # L G M
    mean = counts.mean
    places = list(counts.experts.members)
    tokens = np.array([mean[place] for place in places])  # P
    errors = _by_expert(by_layer, counts.experts)  # P G M
    known = np.isfinite(errors).all(axis=(1, 2)) & (errors > 0).all(axis=(1, 2))
    if known.sum() < 4:
        return None
    places = [place for place, is_known in zip(places, known, strict=True) if is_known]
    tokens, errors = tokens[known], errors[known]
    x = _position(tokens)
    layout = base_layout(left=48, right=18, top=30, bottom=38)
    alone = len(x) > MOST_POINTS  # the medians, without points
    groups = np.array_split(np.argsort(x, kind="stable"), min(BINS, max(2, len(x) // 4)))
    layout["xaxis"] = _token_axis(tokens, np.array([np.median(x[group]) for group in groups]) if alone else x)
    layout["yaxis"] = _error_axis(np.stack([np.median(errors[group], axis=0) for group in groups]) if alone else errors)
    figure: Figure = {"data": [], "layout": layout, "bindings": [], "narrow": {}}
    several = not is_point(facts.line) and len(facts.line.lams) > 1
    if several:
        first = errors[:, :, 0]  # P G
        _add(figure, counts.experts, places, x, {"color": "var(--ink-3)", "dash": "dot", "symbol": "circle-open"},
             np.repeat(first[:, :, None], errors.shape[2], axis=2), point_names(facts.line)[0], groups)  # fmt: skip
    _add(figure, counts.experts, places, x, HELD_OUT, errors, "shown", groups)
    n_g, n_m = errors.shape[1:]
    gains = [[_gains(tokens, errors[:, g], m) for m in range(n_m)] for g in range(n_g)]
    names = point_names(facts.line)
    if several:
        place = {"xref": "paper", "yref": "paper", "x": 0, "y": 1, "yshift": 6}
        layout["annotations"].append(note("", **place, font={"size": 12, "color": "var(--ink-2)"}))
        briefly = [[_briefly(gains[g][m], m) for m in range(n_m)] for g in range(n_g)]
        figure["narrow_bindings"] = [bind("layout.annotations.0.text", briefly, "gamma", "lambda")]
        figure["bindings"].append(
            bind("layout.annotations.0.text", [[_caption(gains[g][m], names, m) for m in range(n_m)]
                                               for g in range(n_g)], "gamma", "lambda")
        )  # fmt: skip
    arias = [[_aria(tokens, errors[:, g], names, m, gains[g][m]) for m in range(n_m)] for g in range(n_g)]
    figure["bindings"].append(bind("aria", arias, "gamma", "lambda"))
    figure["title"] = "Error on unseen text by an expert’s tokens"
    by_draw = np.stack([_by_expert(one, counts.experts)[known] for one in held])  # D P G M
    set_finding(figure, at_each(facts, _few_against_many(tokens, by_draw)))
    return figure


def _few_against_many(tokens: np.ndarray, errors: np.ndarray) -> Callable[[int, int], str]:
    """The error (D P G M) of the third of experts with fewest tokens (P) against that of the third with most."""
    order = np.argsort(tokens, kind="stable")
    third = max(1, len(order) // 3)
    ratio = ratio_of(errors[:, order[:third]].mean(axis=1), errors[:, order[-third:]].mean(axis=1))

    def say(g: int, m: int) -> str:
        at = (g, m)
        if not ratio.known(at):
            return ""
        if not ratio.clear(at):
            return "No clear effect of an expert’s tokens on its error"
        if ratio.same(at):
            return "Experts with few and with many tokens have equal error"
        times = float(ratio.mean[at])
        if times >= 2:
            return fitting(f"Experts with few tokens have {times_text(times)} the error of busy ones")
        change = change_text(times - 1)
        return fitting(
            f"Experts with few tokens have {change}\u00a0less error than busy ones"
            if times < 1
            else f"Experts with few tokens have {change}\u00a0more error than busy ones"
        )

    return say


def _by_expert(by_layer: np.ndarray, experts: Experts) -> np.ndarray:
    """Means over each expert's linears (P G M) of what is known of them (L G M), in the order of ``members``."""
    owner = np.full(len(by_layer), -1)
    for position, layers in enumerate(experts.members.values()):
        owner[list(layers)] = position
    owned = by_layer[owner >= 0]
    known = np.isfinite(owned)
    total, count = (np.zeros((experts.count, *by_layer.shape[1:])) for _ in range(2))
    np.add.at(total, owner[owner >= 0], np.where(known, owned, 0.0))
    np.add.at(count, owner[owner >= 0], known)
    mean = np.full(total.shape, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


def _position(tokens: np.ndarray) -> np.ndarray:
    """Where counts lie on the axis: their logarithm, and none a step left of the smallest."""
    seen = tokens[tokens > 0]
    low = math.log10(float(seen.min())) if seen.size else 0.0
    return np.where(tokens > 0, np.log10(np.where(tokens > 0, tokens, 1)), low - 0.5)


def _token_axis(tokens: np.ndarray, x: np.ndarray) -> dict[str, Any]:
    pad = 0.04 * max(float(np.ptp(x)), 0.5)
    ticks = {math.log10(base * 10**power): number(base * 10**power, 0) for power in range(7) for base in (1, 2, 5)}
    none = _position(tokens)[tokens == 0][:1]
    seen = x[x > none[0]] if none.size else x
    shown = {
        place: text for place, text in ticks.items() if seen.size and seen.min() - pad <= place <= seen.max() + pad
    }
    if len(shown) > 8:
        shown = {place: text for place, text in shown.items() if text.startswith("1")}
    if none.size:
        shown = {float(none[0]): "none"} | shown
    return {
        **PLAIN_AXIS,
        "range": [float(x.min()) - pad, float(x.max()) + pad],
        "tickvals": list(shown),
        "ticktext": list(shown.values()),
        "title": {"text": "calibration tokens of the expert", "standoff": 2},
    }


def _error_axis(errors: np.ndarray) -> dict[str, Any]:
    """Logarithmic, over all λ, so that nothing moves when λ does."""
    low, high = math.log10(float(errors.min())), math.log10(float(errors.max()))
    pad = 0.06 * max(high - low, 0.2)
    for bases in ((1, 2, 5), range(1, 10), range(10, 100)):
        values = [base * 10.0**power for power in range(-6, 5) for base in bases]
        shown = sorted({round(value, 8) for value in values if low - pad <= math.log10(value) <= high + pad})
        if len(shown) >= 3:
            break
    shown = shown[:: 1 + len(shown) // 7]
    axis = {**PLAIN_AXIS, "type": "log", "range": [low - pad, high + pad]}
    return axis | {"tickvals": shown, "ticktext": [f"{value:g}" for value in shown]}


def _add(
    figure: Figure, experts: Experts, places: list[tuple[int, int]], x: np.ndarray, style: Role,
    values: np.ndarray, name: str, groups: list[np.ndarray],
) -> None:  # fmt: skip
    """Points of the experts where they are not too many, and the medians of groups of equally many."""
    by_point = np.moveaxis(values, 0, -1)  # G M P
    if len(x) <= MOST_POINTS:
        lead = [
            [
                experts.members[place][0],
                f"block {experts.blocks[place[0]]} · expert {experts.numbers[place[1]]}",
            ]
            for place in places
        ]
        marker = {"color": style["color"], "symbol": style["symbol"], "size": 6, "opacity": 0.75}
        figure["data"].append({
            "type": "scatter", "mode": "markers", "name": name, "x": [round(v, 4) for v in x.tolist()], "y": [],
            "customdata": lead, "marker": marker, "hovertemplate": "%{customdata[1]}: %{y:.3f}<extra></extra>",
        })  # fmt: skip
        figure["bindings"].append(bind(f"data.{len(figure['data']) - 1}.y", by_point, "gamma", "lambda"))
    middle = np.stack([np.median(by_point[..., group], axis=-1) for group in groups], axis=-1)
    figure["data"].append({
        "type": "scatter", "mode": "lines", "name": f"median, {name}", "y": [], "hoverinfo": "skip",
        "x": [round(float(np.median(x[group])), 4) for group in groups],
        "line": {"color": style["color"], "dash": style["dash"], "width": 2.5},
    })  # fmt: skip
    figure["bindings"].append(bind(f"data.{len(figure['data']) - 1}.y", middle, "gamma", "lambda"))


def _gains(tokens: np.ndarray, errors: np.ndarray, lam: int) -> tuple[float, float]:
    """Change of the mean error from the smallest λ to this one: of the third with fewest tokens, and with most."""
    order = np.argsort(tokens, kind="stable")
    third = max(1, len(order) // 3)
    few, many = errors[order[:third]].mean(axis=0), errors[order[-third:]].mean(axis=0)
    return float(few[lam] / few[0] - 1), float(many[lam] / many[0] - 1)


def _change(value: float) -> str:
    if abs(value) < 0.005:
        return "the same"
    change = percent(abs(value))
    return f"{change} less" if value < 0 else f"{change} more"


def _briefly(gains: tuple[float, float], lam: int) -> str:
    if lam == 0:
        return "dotted: the same"
    return f"fewest tokens <b>{_change(gains[0])}</b>, most <b>{_change(gains[1])}</b>"


def _caption(gains: tuple[float, float], names: list[str], lam: int) -> str:
    if lam == 0:
        return f"{names[0]}; dotted: the same"
    return f"{names[lam]} against {names[0]} (dotted): {_briefly(gains, lam)}"


def _aria(tokens: np.ndarray, errors: np.ndarray, names: list[str], lam: int, gains: tuple[float, float]) -> str:
    order = np.argsort(tokens, kind="stable")
    third = max(1, len(order) // 3)
    few, many = (errors[part, lam].mean() for part in (order[:third], order[-third:]))
    text = (
        f"Relative error on unseen text of {len(tokens)} experts, {names[lam]}: {significant(float(few))} in the "
        f"third that saw fewest tokens, {significant(float(many))} in the third that saw most."
    )
    if lam == 0:
        return text
    few_change, many_change = map(_change, gains)
    return f"{text} " + f"Against {names[0]} that is {few_change} and {many_change}."
