"""What a mixture teaches: how the gain from regularisation depends on the tokens that an expert saw."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.experts import Experts, TokenCounts
from sarqc.facts import LineFacts, is_point, mean_over_draws, read
from sarqc.figures.curves import error_text
from sarqc.figures.drawing import HELD_OUT, PLAIN_AXIS, Figure, base_layout, bind, note
from sarqc.figures.sentence import percent, point_names

MOST_POINTS = 400  # with more experts than this only the medians are drawn
BINS = 6


def tokens_error(facts: LineFacts, folder: Path, counts: TokenCounts | None) -> Figure | None:
    """Error on unseen text against the tokens that an expert saw, at the smallest λ and at the shown one.

    A point is an expert: the mean over its linears and over the draws. None for dense models and without unseen text.
    """
    held = read(folder, facts.line, "held_out")
    if counts is None or held is None:
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
    return figure


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
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def _position(tokens: np.ndarray) -> np.ndarray:
    """Where counts lie on the axis: their logarithm, and none a step left of the smallest."""
    seen = tokens[tokens > 0]
    low = math.log10(float(seen.min())) if seen.size else 0.0
    return np.where(tokens > 0, np.log10(np.where(tokens > 0, tokens, 1)), low - 0.5)


def _token_axis(tokens: np.ndarray, x: np.ndarray) -> dict[str, Any]:
    pad = 0.04 * max(float(np.ptp(x)), 0.5)
    ticks = {math.log10(base * 10**power): f"{base * 10**power:,}" for power in range(7) for base in (1, 2, 5)}
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
    figure: Figure, experts: Experts, places: list[tuple[int, int]], x: np.ndarray, style: dict[str, str],
    values: np.ndarray, name: str, groups: list[np.ndarray],
) -> None:  # fmt: skip
    """Points of the experts where they are not too many, and the medians of groups of equally many."""
    by_point = np.moveaxis(values, 0, -1)  # G M P
    if len(x) <= MOST_POINTS:
        lead = [
            [experts.members[place][0], f"block {experts.blocks[place[0]]} · expert {experts.numbers[place[1]]}"]
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
    return f"{percent(abs(value))} {'less' if value < 0 else 'more'}"


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
        f"Relative error on unseen text of {len(tokens)} experts, {names[lam]}: {error_text(float(few))} in the third "
        f"that saw fewest tokens, {error_text(float(many))} in the third that saw most."
    )
    if lam == 0:
        return text
    return f"{text} Against {names[0]} that is {_change(gains[0])} and {_change(gains[1])}."
