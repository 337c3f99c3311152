"""The numbers behind each figure as a table: at full precision, from the facts and not from the drawing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from sarqc.errors import NotFound
from sarqc.figures import rounding
from sarqc.figures.deciles import decile_drift
from sarqc.figures.flags import flags_of
from sarqc.figures.inspector import read_group
from sarqc.figures.ladder import rung_name, step_evidence
from sarqc.figures.layer_map import quantities_of, quantity_of
from sarqc.figures.numbers import Column, DataTable, Headings, interval_headings, present_columns
from sarqc.figures.ruler import ruler_rows
from sarqc.figures.surfaces import surface_layer
from sarqc.figures.theorem import terms
from sarqc.figures.view import point_rows
from sarqc.plain import plain
from sarqc.study.document import Study, one_draw
from sarqc.study.facts import LineFacts, lam_index, line_facts
from sarqc.study.ladder import ladder
from sarqc.study.paired import interval_of_draws, mean_over_draws

Row = dict[str, Any]
COLUMN_NAMES = {"lambda": "chosen_lambda", "gamma": "chosen_gamma"}  # of a quantity, where they differ
# A table has those of its rows, in this order.
HEADINGS: Headings = (
    ("step", "Step", "text"),
    *rounding.HEADINGS,
    ("layer", "Layer", "text"),
    ("method", "Method", "text"),
    ("lambda", "λ", "plain"),
    ("gamma", "γ", "plain"),
    ("sequences", "Calibration sequences", "plain"),
    ("channel", "Input channel", "plain"),
    ("decile", "Decile of saliency", "plain"),
    *interval_headings("perplexity", "Perplexity, unseen text", "perplexity", "over draws, 95 % from"),
    *interval_headings("perplexity_difference", "Change by this step", "change"),
    *interval_headings("perplexity_change", "Change from the default of GPTQ, 95 % for all λ at once", "change"),
    ("kl", "KL to the float model, nats a token", "significant"),
    *interval_headings("kl_difference", "Change by this step", "change"),
    ("accuracy", "Accuracy", "share"),
    ("recon", "Reconstruction error, calibration text", "significant"),
    ("held_out", "Reconstruction error, unseen text", "significant"),
    ("drift", "Weight drift", "significant"),
    ("sar", "Penalty, L_sar", "significant"),
    *interval_headings("gap", "Gap, unseen minus calibration text", "significant"),
    ("bound", "Bound of Theorem 1", "significant"),
    ("limit", "Largest possible, R²·M²", "significant"),
    ("chosen_lambda", "Chosen λ, most often", "plain"),
    ("chosen_gamma", "Chosen γ, most often", "plain"),
    ("tokens", "Calibration tokens", "significant"),
    ("rms_drift", "Root-mean-square drift", "significant"),
    ("weight", "Float weight", "significant"),
    ("quantized", "Level it takes", "significant"),
    ("nearest", "The nearest level", "flag"),
    ("identity_rms_drift", "Root-mean-square drift, identity", "significant"),
    ("against_identity", "Drift against identity", "share"),
    ("tools", "Tools with this default", "text"),
    ("sources", "Sources", "text"),
)


def figure_table(
    study: Study,
    figure: str,
    *,
    method: str,
    bits: int,
    layer: int | None,
    draw: int | None = None,
    steps: str | None = None,
    offset: int = 0,
    limit: int | None = None,
) -> TablePart:
    """Return the numbers behind a figure of the Lab, for every γ and λ of a line.

    ``draw`` is a seed, None the mean over draws; ``steps`` the order of the ladder's, joined by commas. Of the rows
    those from ``offset`` on, at most ``limit``: a mixture has a hundred thousand layers at each λ. Raises
    ``NotFound`` for a figure without a table, and for what the study does not have.
    """
    if draw is not None:
        study = one_draw(study, draw)
    return table_of(line_facts(study, method=method, bits=bits, layer=layer), figure, steps, offset, limit)


def table_of(
    facts: LineFacts, figure: str, steps: str | None = None, offset: int = 0, limit: int | None = None
) -> TablePart:
    """Return a table from the facts, for several tables of one line and layer."""
    study = facts.study
    window = slice(offset, None if limit is None else offset + limit)
    if figure in ("hero", "plane", "gamma_grid"):
        points = _add_flags(point_rows(facts), facts) if figure == "hero" else point_rows(facts)
        return {"columns": points["columns"], "rows": points["rows"][window], "total": len(points["rows"])}
    if figure not in (*TABLES, "ladder", "map"):
        have = ", ".join(("hero", "plane", "gamma_grid", "map", "ladder", *TABLES))
        raise NotFound(f"no table of “{figure}”", f"study {study.id}", f"There are tables of {have}.")
    if figure == "map":
        total, present, selected = _layers(facts, window)
        part = [_plain(row) for row in selected]
    else:
        rows = [_plain(row) for row in (_ladder(facts, steps) if figure == "ladder" else TABLES[figure](facts))]
        total, part = len(rows), rows[window]
        present = {key for row in rows for key, value in row.items() if value is not None}
    return {"columns": present_columns(HEADINGS, present, facts.line.sign), "rows": part, "total": total}


def _plain(row: Row) -> Row:
    return {key: plain(value) for key, value in row.items()}


class TablePart(DataTable):
    """A part of a table, and how many rows the whole has."""

    total: int


def _add_flags(points: DataTable, facts: LineFacts) -> DataTable:
    """Return the points of the main figure with the flags of its axis: beside their λ, or below where no point has
    it."""
    flags = [
        (flag.name if flag.end is None else flag.label, flag.lam, lam_index(facts.line, flag.lam))
        for flag in flags_of(facts)
    ]
    if not flags:
        return points
    rows: list[Row] = [
        {**row, "flag": "; ".join(text for text, _, place in flags if place == row["at"][1]) or None}
        for row in points["rows"]
    ]
    nothing = dict.fromkeys(column["key"] for column in points["columns"])
    rows += [{**nothing, "lambda": lam, "flag": text} for text, lam, place in flags if place is None]
    column: Column = {"key": "flag", "title": "Flag on the axis", "kind": "text"}
    return {"columns": [*points["columns"], column], "rows": rows}


def _points(facts: LineFacts) -> Iterator[tuple[tuple[int, int], Row]]:
    """Yield every (γ, λ) of a line with the fields that name it."""
    for g, gamma in enumerate(facts.line.gammas):
        for m, lam in enumerate(facts.line.lams):
            yield (g, m), {"lambda": "auto" if facts.line.selected else lam, "gamma": gamma}


def _deciles(facts: LineFacts) -> Iterator[Row]:
    values = decile_drift(facts)
    identity = None if facts.identity is None else decile_drift(facts.identity)
    twins = [] if facts.identity is None else list(facts.identity.line.lams)
    for at, named in _points(facts) if values is not None else ():
        lam = named["lambda"]
        for decile, mine in enumerate(values[at] if values is not None else ()):
            twin = math.nan if identity is None or lam not in twins else identity[0, twins.index(lam), decile]
            drifts = {"rms_drift": mine, "identity_rms_drift": twin, "against_identity": mine / twin - 1}
            yield {**named, "decile": decile + 1, **drifts}


def _layers(facts: LineFacts, window: slice) -> tuple[int, set[str], Iterator[Row]]:
    """Return the number of rows, the keys of non-empty columns, and the rows in ``window``: every quantity of the map,
    of each layer at every (γ, λ); those that λ does not change stand in every row.
    """
    quantities = [quantity_of(facts, name) for name in quantities_of(facts)]
    arrays = {
        COLUMN_NAMES.get(quantity.name, quantity.name): quantity.values
        for quantity in quantities
        if quantity is not None
    }
    every, names = list(_points(facts)), [layer.name for layer in facts.study.layers]
    total = len(names) * len(every)
    present = {key for _, row in every for key, value in row.items() if value is not None}
    present |= {"layer", *(name for name, values in arrays.items() if np.isfinite(values).any())}
    layers, points = np.divmod(np.arange(total)[window], len(every))
    g, m = np.array([place for place, _ in every])[points].T
    numbers = {
        name: values[layers, g % values.shape[1], m % values.shape[2]].tolist() for name, values in arrays.items()
    }
    rows = (
        {**every[point][1], "layer": names[layer], **{name: values[at] for name, values in numbers.items()}}
        for at, (layer, point) in enumerate(zip(layers, points, strict=True))
    )
    return total, present, rows


def _gap(facts: LineFacts) -> Iterator[Row]:
    means = {}
    for name in ("recon", "held_out"):
        chosen = facts.selected(f"{name}_by_size")  # D S G M
        if chosen is not None:
            means[name] = mean_over_draws(chosen)  # S G M
    for at, named in _points(facts) if means else ():
        for s, size in enumerate(facts.line.sizes):
            yield {**named, "sequences": size, **{name: values[(s, *at)] for name, values in means.items()}}


def _theorem(facts: LineFacts) -> Iterator[Row]:
    known = terms(facts)
    if known is None:
        return
    gap = {"gap": known.gap.mean, "gap_low": known.gap.low, "gap_high": known.gap.high}
    columns = gap | {"bound": known.bound, "limit": known.limit}
    for at, named in _points(facts):
        yield {**named, **{name: values[at] for name, values in columns.items()}}


def _methods(facts: LineFacts) -> Iterator[Row]:
    for line in facts.study.lines:
        if line.bits != facts.line.bits:
            continue
        method_facts = line_facts(facts.study, method=line.name, bits=line.bits, layer=facts.layer, with_identity=False)
        for at, named in _points(method_facts):
            row = {"method": line.name, **named}
            for name in ("perplexity", "accuracy"):
                quality = getattr(method_facts, name)
                if quality is not None:
                    row[name] = quality.mean[at]
            if method_facts.perplexity is not None:
                _, low, high = interval_of_draws(method_facts.perplexity.values[:, at[0], at[1]], of_ratio=True)
                row |= {"perplexity_low": low, "perplexity_high": high}
            yield row


def _weights(facts: LineFacts) -> Iterator[Row]:
    layer = surface_layer(facts)
    group = read_group(facts, layer)
    if group is None:
        return
    name, weights = facts.study.layers[layer].name, group.weight.tolist()
    for at, named in _points(facts):
        columns = zip(weights, group.taken[at].tolist(), (~group.off_nearest[at]).tolist(), strict=True)
        for channel, (weight, quantized, nearest) in enumerate(columns, group.first):
            yield {
                "layer": name,
                **named,
                "channel": channel,
                "weight": weight,
                "quantized": quantized,
                "nearest": nearest,
            }


def _ladder(facts: LineFacts, steps: str | None) -> Iterator[Row]:
    climbed = ladder(facts.study, facts.line.bits, steps.split(",") if steps else None)
    for rung in () if climbed is None else climbed.rungs:
        row: Row = {"step": rung_name(rung), "method": rung.name}
        row |= {name: rung.mean(name) for name in rung.values}
        for name in rung.differences:
            row |= step_evidence(rung, name).columns(f"{name}_difference")
        yield row


TABLES = {
    "deciles": _deciles,
    "gap": _gap,
    "theorem": _theorem,
    "methods": _methods,
    "inspector": _weights,
    "ruler": ruler_rows,
    "rounding": rounding.rows_of,
}
