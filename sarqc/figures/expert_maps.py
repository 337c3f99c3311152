"""Figures of a mixture's experts: the calibration tokens that reached each, and those of one block side by side."""

import math
from typing import TypedDict

import numpy as np

from sarqc.figures.drawing import (
    HELD_OUT,
    PLAIN_AXIS,
    Figure,
    Part,
    Role,
    add_caption,
    add_trace,
    base_layout,
    line_of,
    marker_of,
    new_figure,
    scatter,
)
from sarqc.figures.layer_map import Cell, Quantity, add_frames, cell_figure, frame, map_finding, short_name, slim_bar
from sarqc.figures.numbers import At, draws_text, less_or_more, number, point_names, ratio_of, significant, times_text
from sarqc.figures.titles import Say, bind_aria, constant_finding, finding_by_point, fit_text, map_points, set_finding
from sarqc.study.experts import Experts, TokenCounts, token_counts, words
from sarqc.study.facts import LineFacts, once_a_line
from sarqc.study.paired import mean_over_draws

MOST_DOTTED = 40  # with more experts in a block than this “few” has no mark beside its colour
NONE_MARK = {"symbol": "x-thin", "line": {"color": "var(--bad)", "width": 2}}


@once_a_line
def counts_of(facts: LineFacts) -> TokenCounts | None:
    """Return tokens of each expert by draw; None for dense models and studies without counts."""
    experts, tokens = facts.study.experts, facts.read("tokens")
    return None if experts is None or tokens is None else token_counts(experts, tokens)


def token_map(facts: LineFacts) -> Figure | None:
    """Return blocks × experts, coloured by calibration tokens around the number of channels; a click selects the
    expert.

    Few tokens are orange, many blue, and an expert that no token reached is marked with a cross.
    """
    counts, figure = counts_of(facts), _token_map(facts)
    if counts is None or figure is None or facts.layer is None or facts.study.layers[facts.layer].expert is None:
        return figure
    row, column = counts.experts.place(facts.study.layers[facts.layer])
    expert = counts.experts.numbers[column]
    return add_frames(figure, [frame((expert - 0.5, expert + 0.5), row)])


@once_a_line
def _token_map(facts: LineFacts) -> Figure | None:
    """Return the figure without a chosen layer."""
    counts = counts_of(facts)
    if counts is None:
        return None
    experts = counts.experts
    rows = [str(block) for block in experts.blocks]
    across = _expert_axis(experts.numbers[0], experts.numbers[-1])
    up = {**PLAIN_AXIS, "showgrid": False, "type": "category", "categoryarray": rows, "nticks": 9}
    up["title"] = {"text": "block", "standoff": 2}
    trace = _token_cells(counts, counts.mean, rows)
    wide = len(experts.numbers)
    leads = {place: [positions[0], tokens_text(counts, *place)] for place, positions in experts.members.items()}
    # Target of a click on an expert, its first linear, and the hover text; -1 where there is none.
    trace["customdata"] = [[leads.get((row, column), [-1, ""]) for column in range(wide)] for row in range(len(rows))]
    data = [trace]
    size = 9 if wide <= 16 else 5 if wide <= MOST_DOTTED else 3
    data += _marks(counts.none, experts, rows, {"size": size, **NONE_MARK})
    if wide <= MOST_DOTTED:
        few = {"symbol": "circle", "size": max(3, size // 2), "color": "var(--ink-2)"}
        data += _marks(counts.few, experts, rows, few)
    under = f", • under {number(experts.channels, 0)}" if wide <= MOST_DOTTED else ""
    title = f"Tokens by expert, × none{under}"
    figure = new_figure(across, up, left=34, right=58, top=8, bottom=38, title=title)
    figure["data"] = data
    figure["aria"] = f"{words(counts)} {_extremes(counts)}"
    set_finding(figure, constant_finding(_tokens_finding(counts)))
    return figure


def _tokens_finding(counts: TokenCounts) -> str:
    """Count the experts that no token reached, or fewer than their channels."""
    experts = counts.experts.count
    total, none, few = (number(int(count), 0) for count in (experts, counts.none.sum(), counts.few.sum()))
    if counts.none.any():
        return fit_text(f"{none} of {total} experts saw no token{' in some draw' if len(counts.values) > 1 else ''}")
    if counts.few.any():
        return fit_text(f"{few} of {total} experts saw fewer tokens than channels")
    return "Every expert saw at least as many tokens as channels"


def _expert_axis(first: int, last: int) -> Part:
    ends = {"range": [first - 0.5, last + 0.5], "title": {"text": "expert", "standoff": 2}}
    return {**PLAIN_AXIS, "showgrid": False, "nticks": 12, "tickangle": 0, **ends}


def _token_cells(counts: TokenCounts, values: np.ndarray, rows: list[str]) -> Part:
    """Return a heatmap trace of token counts (rows × E) on a logarithmic scale whose middle is the number of
    channels."""
    seen = values[np.isfinite(values) & (values > 0)]
    middle = math.log10(counts.experts.channels)
    ends = [math.log10(end) for end in (seen.min(), seen.max())] if seen.size else [middle]
    half = max(math.log10(2), *(abs(end - middle) for end in ends))
    named = [value for value in (seen.min(), counts.experts.channels, seen.max()) if value] if seen.size else []
    # Names on the bar that would lie on each other are left out, the channels last.
    places: list[tuple[float, str]] = []
    for value in sorted(named, key=lambda tokens: tokens != counts.experts.channels):
        place = math.log10(value)
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
        "z": _round_values(logs, 4),
        "zmin": middle - half,
        "zmax": middle + half,
        "colorscale": [[0, "var(--recon)"], [0.5, "var(--line)"], [1, "var(--accent)"]],
        "xgap": gap,
        "ygap": gap,
        "hovertemplate": "block %{y} · expert %{x}: %{customdata[1]}<extra></extra>",
        "colorbar": bar,
    }


def _round_values(values: np.ndarray, digits: int) -> list[list[float | None]]:
    return [[None if not math.isfinite(value) else round(value, digits) for value in row] for row in values.tolist()]


def _marks(mask: np.ndarray, experts: Experts, rows: list[str], marker: Part) -> list[Part]:
    """Return a trace of marks over cells that does not come between the pointer and the cell; none where nothing is
    marked."""
    places = np.argwhere(mask)
    if not len(places):
        return []
    x, y = [experts.numbers[column] for _, column in places], [rows[row] for row, _ in places]
    return [{"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": marker, "hoverinfo": "skip"}]


def tokens_text(counts: TokenCounts, row: int, column: int) -> str:
    """“31 of 2,048 tokens, fewer than the 256 channels”, with the range over the draws."""
    draws, (least, most) = len(counts.values), counts.range
    mean = number(counts.mean[row, column], 0)
    text = f"{mean} of {number(counts.text, 0)} tokens"
    if draws > 1:
        low, high = (number(end[row, column], 0) for end in (least, most))
        text = f"{text}, from {low} to {high} in {draws_text(draws)}"
    if counts.few[row, column]:
        text = f"{text}, fewer than the {number(counts.experts.channels, 0)} channels"
    return text


def _extremes(counts: TokenCounts) -> str:
    """Name the experts that saw least and most, for screen readers."""
    mean, experts, parts = counts.mean, counts.experts, []
    for lead, find in (("Least", np.nanargmin), ("most", np.nanargmax)):
        row, column = divmod(int(find(mean)), mean.shape[1])
        tokens = number(mean[row, column], 0)
        parts.append(f"{lead} in block {experts.blocks[row]}, expert {experts.numbers[column]}: {tokens} tokens")
    return f"{'; '.join(parts)}."


class TokenTable(TypedDict):
    """The numbers of the token map: one row for each block, one column for each expert, mean over the draws."""

    blocks: list[int]
    experts: list[int]
    channels: int
    draws: int
    words: str
    tokens: list[list[float | None]]


def token_table(facts: LineFacts) -> TokenTable | None:
    """Return the numbers of the token map; None for dense models."""
    counts = counts_of(facts)
    if counts is None:
        return None
    return {
        "blocks": list(counts.experts.blocks),
        "experts": list(counts.experts.numbers),
        "channels": counts.experts.channels,
        "draws": len(counts.values),
        "words": words(counts),
        "tokens": _round_values(counts.mean, 1),
    }


def expert_map(facts: LineFacts, quantity: Quantity | None) -> Figure | None:
    """Return the experts of the chosen layer's block, coloured by a quantity: experts across, their linears upwards,
    and their tokens on top.

    None unless the chosen layer belongs to an expert.
    """
    experts, chosen = facts.study.experts, None if facts.layer is None else facts.study.layers[facts.layer]
    if experts is None or chosen is None or chosen.expert is None or quantity is None:
        return None
    expert, (row, _) = chosen.expert, experts.place(chosen)
    # One block is cached for its layers: a large mixture has many.
    shared: dict[int, tuple[Figure, list[str]]] = facts.study.once(facts.line, f"block by {quantity.name}", dict)
    block = shared.get(row) or _block_map(facts, experts, row, quantity)
    shared.clear()
    shared[row] = block
    figure, modules = block
    return add_frames(figure, [frame((expert - 0.5, expert + 0.5), modules.index(chosen.module))])


def _block_map(facts: LineFacts, experts: Experts, row: int, quantity: Quantity) -> tuple[Figure, list[str]]:
    """Return the figure of a block without a chosen layer, and its modules from below."""
    counts = counts_of(facts)
    members = {experts.numbers[c]: positions for (r, c), positions in experts.members.items() if r == row}
    modules = list(dict.fromkeys(facts.study.layers[at].module for positions in members.values() for at in positions))[
        ::-1
    ]
    names = [short_name(module) for module in modules]
    cells: list[Cell] = []
    for column, (expert, layers) in enumerate(members.items()):
        tokens = "" if counts is None else f", {tokens_text(counts, row, experts.numbers.index(expert))}"
        for at in layers:
            line = modules.index(facts.study.layers[at].module)
            lead = [at, f"expert {expert} · {names[line]}", tokens]
            cells.append(((line, column), quantity.values[at], [at], lead))
    gap = 2 if len(members) <= 40 else 0
    layout = base_layout(left=48, right=52, top=6, bottom=38)
    layout["xaxis"] = _expert_axis(min(members), max(members)) | {"anchor": "y"}
    top = 0.0 if counts is None else 0.24
    layout["yaxis"] = {**PLAIN_AXIS, "showgrid": False, "domain": [0, 1 - top]}
    layout["yaxis"] |= {"tickvals": list(range(len(names))), "ticktext": names, "range": [-0.5, len(names) - 0.5]}

    def name(at: int) -> str:
        expert, module = list(members)[at % len(members)], names[at // len(members)]
        return f"expert {expert} {module}"

    noun = f"{len(members)} experts of one block"
    figure = cell_figure(
        facts,
        quantity,
        cells,
        (len(modules), len(members)),
        [*members],
        [*range(len(modules))],
        layout,
        (gap, 2),
        lambda at, shown: quantity.aria(facts, shown, at[1], noun, name),
    )
    if counts is not None:
        _add_tokens(figure, counts, row, top)
    figure["title"] = f"Block {experts.blocks[row]}"
    inside = [at for positions in members.values() for at in positions]
    set_finding(figure, map_finding(facts, quantity, inside, "layers of this block"))
    figure["subtitle"] = f": {quantity.title}"
    return figure, modules


def _add_tokens(figure: Figure, counts: TokenCounts, row: int, height: float) -> None:
    """Add a row with the block's tokens over the errors, in the colours of the token map."""
    rows = ["tokens"]
    trace = _token_cells(counts, counts.mean[row : row + 1], rows) | {"yaxis": "y2", "showscale": False}
    trace["hovertemplate"] = "expert %{x}: %{customdata[1]}<extra></extra>"
    texts = [tokens_text(counts, row, column) for column in range(len(counts.experts.numbers))]
    trace["customdata"] = [[[-1, text] for text in texts]]
    figure["layout"]["yaxis2"] = {**PLAIN_AXIS, "type": "category", "showgrid": False, "domain": [1 - height + 0.04, 1]}
    size = 9 if len(texts) <= MOST_DOTTED else 3
    marks = _marks(counts.none[row : row + 1], counts.experts, rows, {"size": size, **NONE_MARK})
    figure["data"] += [trace, *({**mark, "yaxis": "y2"} for mark in marks)]


MOST_POINTS = 400  # with more experts than this only the medians are drawn
BINS = 6


@once_a_line
def tokens_error(facts: LineFacts) -> Figure | None:
    """Draw error on unseen text against an expert's tokens, at the smallest λ and at the shown one.

    A point is an expert: the mean over its linears and over the draws. None for dense models and without unseen text.
    """
    counts, held = counts_of(facts), facts.read("held_out")
    if counts is None or held is None:
        return None
    places = list(counts.experts.members)
    tokens = np.array([counts.mean[place] for place in places])  # P
    errors = _expert_means(mean_over_draws(held), counts.experts)  # P G M
    known = np.isfinite(errors).all(axis=(1, 2)) & (errors > 0).all(axis=(1, 2))
    if known.sum() < 4:
        return None
    places = [place for place, is_known in zip(places, known, strict=True) if is_known]
    tokens, errors = tokens[known], errors[known]
    x = _position(tokens)
    alone = len(x) > MOST_POINTS  # the medians, without points
    groups = np.array_split(np.argsort(x, kind="stable"), min(BINS, max(2, len(x) // 4)))
    across = _token_axis(tokens, np.array([np.median(x[group]) for group in groups]) if alone else x)
    up = _error_axis(np.stack([np.median(errors[group], axis=0) for group in groups]) if alone else errors)
    figure = new_figure(across, up, left=48, right=18, top=30, bottom=38, narrow={})
    names, several = point_names(facts.line), len(facts.line.lams) > 1
    if several:
        grey: Role = {"color": "var(--ink-3)", "dash": "dot", "symbol": "circle-open"}
        first = np.broadcast_to(errors[:, :, :1], errors.shape)
        _add(figure, counts.experts, places, x, grey, first, names[0], groups)
    _add(figure, counts.experts, places, x, HELD_OUT, errors, "shown", groups)
    few, many = (errors[third].mean(axis=0) for third in _thirds(tokens))  # G M

    def changes(at: At) -> list[str]:
        return [less_or_more(part[at] / part[at[0], 0] - 1, "the same") for part in (few, many)]

    def briefly(at: At) -> str:
        return "fewest tokens <b>{}</b>, most <b>{}</b>".format(*changes(at)) if at[1] else "dotted: the same"

    def caption(at: At) -> str:
        lead = f"{names[at[1]]} against {names[0]} (dotted):" if at[1] else f"{names[0]};"
        return f"{lead} {briefly(at)}"

    def aria(at: At) -> str:
        text = (
            f"Relative error on unseen text of {len(tokens)} experts, {names[at[1]]}: {significant(few[at])} in "
            f"the third that saw fewest tokens, {significant(many[at])} in the third that saw most."
        )
        return f"{text} Against {names[0]} that is {' and '.join(changes(at))}." if at[1] else text

    if several:
        wide, narrow = (map_points(facts, say) for say in (caption, briefly))
        add_caption(figure, wide, narrow, color="var(--ink-2)", yshift=6)
    bind_aria(figure, facts, aria)
    figure["title"] = "Error on unseen text by an expert’s tokens"
    draws = np.stack([_expert_means(draw, counts.experts)[known] for draw in held])  # D P G M
    set_finding(figure, finding_by_point(facts, _few_against_many(tokens, draws)))
    return figure


def _few_against_many(tokens: np.ndarray, errors: np.ndarray) -> Say:
    """Return the error (D P G M) of the third of experts with fewest tokens (P) against that of the third with most."""
    ratio = ratio_of(*(errors[:, third].mean(axis=1) for third in _thirds(tokens)))

    def say(at: At) -> str:
        if not ratio.known(at):
            return ""
        if not ratio.clear(at):
            return "No clear effect of an expert’s tokens on its error"
        if ratio.same(at):
            return "Experts with few and with many tokens have equal error"
        times = ratio.mean[at]
        if times >= 2:
            return fit_text(f"Experts with few tokens have {times_text(times)} the error of busy ones")
        return fit_text(f"Experts with few tokens have {ratio.change_in('error', at)} than busy ones")

    return say


def _thirds(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of the third of experts with fewest tokens, and of that with most."""
    order = np.argsort(tokens, kind="stable")
    third = max(1, len(order) // 3)
    return order[:third], order[-third:]


def _expert_means(values: np.ndarray, experts: Experts) -> np.ndarray:
    """Return means (P G M) of known values (L G M) over each expert's linears, in the order of ``members``."""
    owner = np.full(len(values), -1)
    for position, layers in enumerate(experts.members.values()):
        owner[list(layers)] = position
    owned = values[owner >= 0]
    known = np.isfinite(owned)
    total, count = (np.zeros((experts.count, *values.shape[1:])) for _ in range(2))
    np.add.at(total, owner[owner >= 0], np.where(known, owned, 0.0))
    np.add.at(count, owner[owner >= 0], known)
    mean = np.full(total.shape, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


def _position(tokens: np.ndarray) -> np.ndarray:
    """Return places of counts on the axis: logarithms, and zero a step left of the smallest."""
    seen = tokens[tokens > 0]
    low = math.log10(seen.min()) if seen.size else 0.0
    return np.where(tokens > 0, np.log10(np.where(tokens > 0, tokens, 1)), low - 0.5)


def _token_axis(tokens: np.ndarray, x: np.ndarray) -> Part:
    pad = 0.04 * max(np.ptp(x), 0.5)
    ticks = {math.log10(base * 10**power): number(base * 10**power, 0) for power in range(7) for base in (1, 2, 5)}
    none = _position(tokens)[tokens == 0][:1]
    seen = x[x > none[0]] if none.size else x
    named = {
        place: text for place, text in ticks.items() if seen.size and seen.min() - pad <= place <= seen.max() + pad
    }
    if len(named) > 8:
        named = {place: text for place, text in named.items() if text.startswith("1")}
    if none.size:
        named = {float(none[0]): "none"} | named
    return {
        **PLAIN_AXIS,
        "range": [float(x.min()) - pad, float(x.max()) + pad],
        "tickvals": list(named),
        "ticktext": list(named.values()),
        "title": {"text": "calibration tokens of the expert", "standoff": 2},
    }


def _error_axis(errors: np.ndarray) -> Part:
    """Return a logarithmic axis over all λ, so that nothing moves when λ does."""
    low, high = math.log10(errors.min()), math.log10(errors.max())
    pad = 0.06 * max(high - low, 0.2)
    for bases in ((1, 2, 5), range(1, 10), range(10, 100)):
        values = [base * 10.0**power for power in range(-6, 5) for base in bases]
        ticks = sorted({round(value, 8) for value in values if low - pad <= math.log10(value) <= high + pad})
        if len(ticks) >= 3:
            break
    ticks = ticks[:: 1 + len(ticks) // 7]
    axis = {**PLAIN_AXIS, "type": "log", "range": [low - pad, high + pad]}
    return axis | {"tickvals": ticks, "ticktext": [f"{value:g}" for value in ticks]}


def _add(
    figure: Figure,
    experts: Experts,
    places: list[tuple[int, int]],
    x: np.ndarray,
    style: Role,
    values: np.ndarray,
    name: str,
    groups: list[np.ndarray],
) -> None:
    """Add points of the experts where they are not too many, and the medians of groups of equally many."""
    by_point = np.moveaxis(values, 0, -1)  # G M P
    if len(x) <= MOST_POINTS:
        lead = [
            [experts.members[row, column][0], f"block {experts.blocks[row]} · expert {experts.numbers[column]}"]
            for row, column in places
        ]
        points = scatter(
            name,
            "markers",
            x=[round(v, 4) for v in x.tolist()],
            customdata=lead,
            marker=marker_of(style, 6, opacity=0.75),
            hovertemplate="%{customdata[1]}: %{y:.3f}<extra></extra>",
        )
        add_trace(figure, points, {"y": by_point})
    middle = np.stack([np.median(by_point[..., group], axis=-1) for group in groups], axis=-1)
    along = [round(float(np.median(x[group])), 4) for group in groups]
    medians = scatter(f"median, {name}", "lines", hoverinfo="skip", x=along, line=line_of(style, 2.5))
    add_trace(figure, medians, {"y": middle})
