"""Choices of “auto” among its candidates, by their errors or perplexities on held-out calibration text."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sarqc.figures.drawing import (
    HELD_OUT,
    HOVER,
    PLAIN_AXIS,
    QUALITY,
    RECON,
    BoundValues,
    Figure,
    Role,
    Span,
    add_note,
    box_shape,
    format_values,
    honest_range,
    ink_of,
    lam_axis,
    line_trace,
    map_trace,
    new_figure,
    plain_numbers,
    row_axis,
    scatter,
)
from sarqc.figures.numbers import At, Format, draws_text, lam_text, number, perplexity_text, significant
from sarqc.figures.titles import constant_finding, fit_text, set_finding
from sarqc.study.facts import LineFacts, Selection
from sarqc.study.paired import mean_over_draws


def selection(facts: LineFacts) -> Figure | None:
    """Return the perplexities of candidates for one λ of the whole model; else the candidates of a layer, or the
    choices of all layers."""
    choice = facts.selection
    if choice is None or len(choice.lams) * len(choice.gammas) == 1:
        return None
    if choice.by == "model":
        return None if choice.perplexity is None else _model_curves(facts, choice)
    if facts.layer is None:
        return _all_layers(facts, choice)
    errors, train = (None if part is None else part[:, facts.layer] for part in (choice.validation, choice.train))
    if errors is None or not np.isfinite(errors).any():
        return None
    draw = _layer_heatmap if len(choice.gammas) > 1 else _layer_curves
    return draw(facts, choice, facts.layer, errors, None if train is None else mean_over_draws(train))


def chosen_counts(choice: Selection, layer: int | None) -> np.ndarray:
    """Count the draws (and layers, for all of them) that chose each candidate: C K."""
    counts = np.zeros((len(choice.gammas), len(choice.lams)), dtype=int)
    pairs = choice.pairs if layer is None else choice.pairs[:, layer : layer + 1]
    for gamma, lam in pairs.reshape(-1, 2).tolist():
        if gamma >= 0:
            counts[gamma, lam] += 1
    return counts


def _layer_heatmap(
    facts: LineFacts, choice: Selection, layer: int, errors: np.ndarray, train: np.ndarray | None
) -> Figure:
    """Draw the held-out errors (D C K) of candidates of λ and γ; ``train``: errors on the solved sequences, C K."""
    validation, counts = mean_over_draws(errors), chosen_counts(choice, layer)
    relative = validation / np.nanmin(validation)  # 1 is the best
    draws, scope = choice.lam.shape[0], draws_text(choice.lam.shape[0])
    worst = max(np.nanmax(relative), 1.001)
    hover = [
        [_cell_hover(train, validation, counts, draws, (c, k)) for k in range(len(choice.lams))]
        for c in range(len(choice.gammas))
    ]
    figure = _heatmap(choice, relative, (1.0, worst), hover)
    for c, k in np.ndindex(counts.shape):
        text = number(relative[c, k], 2) if math.isfinite(relative[c, k]) else "–"
        # The scale is dark at the best, light at the worst.
        color = _text_color(bool(relative[c, k] - 1 < 0.5 * (worst - 1)))
        narrow = None
        if counts[c, k]:
            narrow = {"text": f"<b>{text}</b><br>{counts[c, k]} of {draws}"}
            text = f"<b>{text}</b><br>{'chosen' if draws == 1 else f'{counts[c, k]} of {draws} draws'}"
            edge = box_shape((k - 0.47, k + 0.47), (c - 0.44, c + 0.44), {"color": color, "width": 2})
            figure["layout"]["shapes"].append(edge)
        _add_cell(figure, (c, k), text, color, narrow)
    best = divmod(int(np.nanargmin(relative)), relative.shape[1])
    aria = (
        f"Error of {relative.size} candidates on held-out calibration text in {facts.study.layers[layer].name}, "
        f"mean of {scope}: lowest, {significant(validation[best])}, at {_pair(choice, best)}; the highest is "
        f"{number(worst, 2)} times as large."
    )
    return _label(figure, choice, counts, "held-out error, best = 1", aria, scope)


def _all_layers(facts: LineFacts, choice: Selection) -> Figure:
    counts = chosen_counts(choice, None)
    draws, layers = choice.lam.shape
    scope = f"{layers} layers" if draws == 1 else f"{layers} layers × {draws} draws"
    if len(choice.gammas) == 1:
        figure = _bars(choice, counts[0])
    else:
        hover = [
            [f"{_pair(choice, (c, k))}: chosen {n} of {counts.sum()} times" for k, n in enumerate(row)]
            for c, row in enumerate(counts.tolist())
        ]
        top = max(int(counts.max()), 1)
        figure = _heatmap(choice, counts.astype(float), (0, top), hover)
        for at, count in np.ndenumerate(counts):
            _add_cell(figure, at, str(count), _text_color(bool(count < 0.5 * top)))
    return _label(figure, choice, counts, scope, f"How often “auto” chose each candidate in {scope}.", scope)


def _heatmap(choice: Selection, values: np.ndarray, span: Span, hover: list[list[str]]) -> Figure:
    """Draw candidates, λ across and γ upwards."""
    lams, gammas = [lam_text(lam) for lam in choice.lams], [lam_text(gamma or 0.0) for gamma in choice.gammas]
    across = {**lam_axis(lams), "showgrid": False, "title": {"text": "candidate λ", "standoff": 2}}
    across["range"] = [-0.5, len(lams) - 0.5]
    up = row_axis("candidate γ", len(gammas), 8)
    figure = new_figure(across, up, left=64, right=14, top=6, bottom=40, narrow={})
    figure["data"].append(map_trace(lams, gammas, values, span, showscale=False, text=hover, hovertemplate=HOVER))
    return figure


def _layer_curves(
    facts: LineFacts, choice: Selection, layer: int, errors: np.ndarray, train: np.ndarray | None
) -> Figure:
    """Draw one γ, or none: the errors on both parts of the calibration text over the candidate λ; see
    ``_layer_heatmap``."""
    draws, names = choice.lam.shape[0], [lam_text(lam) for lam in choice.lams]
    counts = chosen_counts(choice, layer)[0]
    curves = [("held-out part", HELD_OUT, mean_over_draws(errors)[0])]
    if train is not None:
        curves.append(("solved on", RECON, train[0]))
    values = np.concatenate([row for _, _, row in curves])
    span = honest_range(values, np.zeros(0), pad=0.2)
    figure = _curves(names, span, right=104)
    for name, style, row in curves:
        _add_curve(figure, name, style, names, row, significant, name)
        _name_end(figure, name, ink_of(style), len(names) - 1, row)
    held_out = curves[0][2]
    at = np.flatnonzero(counts).tolist()
    edge = {"color": "var(--ink)", "width": 2}
    marker = {"symbol": HELD_OUT["symbol"], "size": 13, "color": HELD_OUT["color"], "line": edge}
    x, y = [names[k] for k in at], [float(held_out[k]) for k in at]
    figure["data"].append(scatter("chosen", "markers", x=x, y=y, cliponaxis=False, hoverinfo="skip", marker=marker))
    _count_row(figure, counts, draws)
    best = int(np.nanargmin(held_out))
    aria = (
        f"Error of {len(names)} candidates in {facts.study.layers[layer].name}, mean of {draws_text(draws)}: on "
        f"held-out calibration text lowest, {significant(held_out[best])}, at λ = {names[best]}."
    )
    return _label(figure, choice, counts[None], "held-out error", aria, draws_text(draws))


def _model_curves(facts: LineFacts, choice: Selection) -> Figure:
    """Draw held-out perplexity over λ: a faint line for each draw, their mean, and the choices."""
    assert choice.perplexity is not None
    names, draws = [lam_text(lam) for lam in choice.lams], len(choice.perplexity)
    mean = mean_over_draws(choice.perplexity)
    figure = _curves(names, honest_range(choice.perplexity, np.zeros(0), pad=0.16), right=60)
    faded: Role = {**QUALITY, "color": "var(--quality-faint)"}
    picks = choice.pairs[:, 0, 1] if choice.pairs.shape[1] else np.full(draws, -1)
    curves = [(f"draw {seed}", faded, row) for seed, row in zip(facts.line.draws, choice.perplexity, strict=True)]
    for name, style, row in [*(curves if draws > 1 else []), ("mean", QUALITY, mean)]:
        label, faint = name if draws > 1 else "held-out part", {"mode": "lines"} if style is faded else {}
        _add_curve(figure, name, style, names, row, perplexity_text, label, **faint)
    if draws > 1:
        _name_end(figure, "mean", ink_of(QUALITY), len(names) - 1, mean)
    chosen = [(int(k), draw) for draw, k in enumerate(picks.tolist()) if k >= 0]
    edge = {"color": "var(--ink)", "width": 2}
    figure["data"].append(
        scatter(
            "chosen",
            "markers",
            x=[names[k] for k, _ in chosen],
            y=[float(choice.perplexity[draw, k]) for k, draw in chosen],
            cliponaxis=False,
            text=[f"chosen in draw {facts.line.draws[draw]}: λ = {names[k]}" for k, draw in chosen],
            hovertemplate=HOVER,
            marker={"symbol": "diamond", "size": 11, "color": "var(--quality)", "line": edge},
        )
    )
    counts = np.bincount([k for k, _ in chosen], minlength=len(names))
    _count_row(figure, counts, draws)
    best = int(np.nanargmin(mean))
    aria = (
        f"Perplexity of the whole model on held-out calibration text for {len(names)} values of λ, "
        f"{draws_text(draws)}: the mean is lowest, {perplexity_text(mean[best])}, at λ = {names[best]}."
    )
    return _label(figure, choice, counts[None], "held-out perplexity", aria, draws_text(draws))


def _add_curve(
    figure: Figure, name: str, style: Role, names: list[str], row: np.ndarray, show: Format, label: str, **more: Any
) -> None:
    texts = format_values(row, show)
    more |= {"y": plain_numbers(row), "text": texts, "hovertemplate": f"%{{text}}<extra>{label}</extra>"}
    figure["data"].append(line_trace(name, style, names, **more))


def _name_end(figure: Figure, name: str, color: str, last: int, row: np.ndarray) -> None:
    add_note(figure, name, color, x=last, y=float(row[-1]), xshift=12, yanchor="middle")


def _label(figure: Figure, choice: Selection, counts: np.ndarray, title: str, aria: str, scope: str) -> Figure:
    """Set the title, finding and alternative text of a figure; ``counts``: C K, over ``scope``."""
    figure["title"] = f"What “auto” chose: {title}"
    set_finding(figure, _finding(choice, counts))
    figure["aria"] = f"{aria} {_chosen_words(choice, counts, scope)}"
    return figure


def _curves(names: list[str], span: Span, *, right: int) -> Figure:
    across = {**lam_axis(names), "title": {"text": "candidate λ", "standoff": 2}}
    up = {**PLAIN_AXIS, "range": list(span), "nticks": 5}
    return new_figure(across, up, left=50, right=right, top=22, bottom=36)


def _bars(choice: Selection, counts: np.ndarray) -> Figure:
    names = [lam_text(lam) for lam in choice.lams]
    figure = _curves(names, (0.0, 1.15 * max(counts.max(), 1.0)), right=14)
    figure["data"].append(
        {
            "type": "bar",
            "x": names,
            "y": counts.tolist(),
            "text": [str(count) for count in counts.tolist()],
            "textposition": "outside",
            "textfont": {"size": 14, "color": "var(--ink)"},
            "cliponaxis": False,
            "hovertemplate": "λ = %{x}: chosen %{y} times<extra></extra>",
            "marker": {"color": "var(--accent)"},
            "width": 0.5,
        }
    )
    return figure


def _count_row(figure: Figure, counts: np.ndarray, draws: int) -> None:
    """Write above the plot in how many draws each λ was chosen."""
    place = {"yref": "paper", "y": 1, "yshift": 2}
    if draws > 1:
        add_note(figure, "draws", "var(--ink-2)", **place, xref="paper", x=0, xanchor="right", xshift=-8)
    for k in np.flatnonzero(counts).tolist():
        text = "chosen" if draws == 1 else f"<b>{counts[k]}</b>"
        add_note(figure, text, "var(--ink)", **place, xref="x", x=k, xanchor="center")


def _add_cell(figure: Figure, at: tuple[int, ...], text: str, color: str, narrow: dict[str, Any] | None = None) -> None:
    # By position: a name that looks like a number would be taken for one.
    place = {"x": at[1], "y": at[0], "xanchor": "center", "yanchor": "middle"}
    add_note(figure, text, color, narrow=narrow, size=14, **place)


def _text_color(dark: bool) -> str:
    """Return the colour of text on a cell."""
    return "var(--on-dark)" if dark else "var(--on-light)"


def _cell_hover(train: np.ndarray | None, validation: np.ndarray, counts: np.ndarray, draws: int, at: At) -> str:
    pairs = (("held-out", validation), ("solved on", train))
    known = [(name, errors[at]) for name, errors in pairs if errors is not None and math.isfinite(errors[at])]
    text = ", ".join(f"{name} {significant(error)}" for name, error in known) or "not measured"
    if not counts[at]:
        return text
    chosen = "chosen" if draws == 1 else f"chosen in {counts[at]} of {draws} draws"
    return f"{text}<br>{chosen}"


def _pair(choice: Selection, at: Sequence[int]) -> str:
    gamma = choice.gammas[at[0]]
    text = f"λ = {lam_text(choice.lams[at[1]])}"
    return text if gamma is None else f"{text}, γ = {lam_text(gamma)}"


def _finding(choice: Selection, counts: np.ndarray) -> BoundValues | None:
    """Name the candidate chosen most often, from counts C K."""
    total, most = int(counts.sum()), int(counts.max())
    at = np.argwhere(counts == most)
    if not total:
        return None
    if len(at) > 1:
        return constant_finding("No candidate was chosen more often than all others")
    point = _pair(choice, at[0].tolist())
    lead = f"“auto” chose {point}"
    if total == 1:
        return constant_finding(fit_text(lead))
    if most == total:
        return constant_finding(fit_text(f"{lead} always", lead))
    often = f"{lead} most often"
    return constant_finding(fit_text(f"{often}, {number(most, 0)} of {number(total, 0)} times", often))


def _chosen_words(choice: Selection, counts: np.ndarray, scope: str) -> str:
    kinds = sorted(zip(*np.nonzero(counts), strict=True), key=lambda at: -counts[at])
    if not kinds:
        return "The choice was not recorded."
    parts = [f"{_pair(choice, at)} {counts[at]} times" for at in kinds[:4]]
    if len(kinds) > 4:
        parts.append(f"{len(kinds) - 4} others less often")
    return f"Chosen in {scope}: {'; '.join(parts)}."
