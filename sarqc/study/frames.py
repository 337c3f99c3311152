"""A study as tidy tables: one row for each draw, layer, γ and λ.

pandas is imported only when a table is made.

| table | one row for each | columns |
|---|---|---|
| points | line, draw, γ, λ | perplexity, accuracy, items; recon, held_out, sar, drift: means over layers |
| layers | line, draw, layer, γ, λ | recon, held_out, sar, drift; tokens that reached the layer; the choice of “auto” |

Every row begins with its identification: method (``Line.name``), bits, draw (its seed), gamma, lambda. Errors are
relative to the float layer's output, drift to ‖W‖, as in ``Study``; NaN was not measured. γ is NaN for a method without
γ, λ where “auto” chose it. A line over α or β has its values in a column shift_strength or first_order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from sarqc.errors import NotFound
from sarqc.study.document import ROTATED, Line, Study
from sarqc.study.facts import has_lam
from sarqc.study.paired import mean_over_draws

if TYPE_CHECKING:
    import pandas as pd

Table = Literal["points", "layers"]
QUANTITIES = ("recon", "held_out", "sar", "drift")


def frame(study: Study, table: Table = "points") -> pd.DataFrame:
    """Return one of a study's tables as a pandas data frame.

    Args:
        study: The study.
        table: Name of the table, see above.

    Raises:
        NotFound: For another name.
    """
    import pandas as pd

    makers = {"points": _points, "layers": _layers}
    if table not in makers:
        raise NotFound(f"unknown table “{table}”", f"study {study.id}", f"There are {', '.join(get_args(Table))}.")
    parts = [part for line in study.lines if len(part := makers[table](study, line))]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["method", "bits"])


def _product(line: Line, axes: Mapping[str, Sequence[object]]) -> pd.DataFrame:
    """Return a row for each combination of the axes' values, the last axis fastest, after the line's name and width."""
    import pandas as pd

    places = np.indices([len(values) for values in axes.values()]).reshape(len(axes), -1)
    columns = {name: np.asarray(values)[place] for (name, values), place in zip(axes.items(), places, strict=True)}
    return pd.DataFrame({"method": line.name, "bits": line.bits, **columns})


def _grid(line: Line, **further: Sequence[object]) -> pd.DataFrame:
    """Return rows for every draw, then every value of the further axes, γ and λ, in the order of the arrays."""
    lams = [lam if has_lam(line) else math.nan for lam in line.lams]
    seconds = [math.nan if value is None else value for value in line.gammas]
    extra = {} if line.second == "gamma" else {"gamma": [math.nan]}
    return _product(line, {"draw": line.draws, **further, **extra, line.second: seconds, "lambda": lams})


def _points(study: Study, line: Line) -> pd.DataFrame:
    rows = _grid(line)
    for name in ("perplexity", "accuracy"):
        values = study.read(line, name)  # D G M
        if values is not None:
            rows[name] = values.reshape(-1)
    correct = study.read(line, "correct")  # D G M T
    if correct is not None:
        rows["items"] = np.isfinite(correct).sum(axis=-1).reshape(-1)
    for name in QUANTITIES:
        values = study.read(line, name)  # D L G M
        if values is not None:
            rows[name] = mean_over_draws(values.swapaxes(0, 1)).reshape(-1)
    return rows


def _layers(study: Study, line: Line) -> pd.DataFrame:
    names = [layer.name for layer in study.layers]
    arrays = {name: values for name in QUANTITIES if (values := study.read(line, name)) is not None}  # D L G M
    if not arrays:
        return _grid(line, layer=[])
    rows = _grid(line, layer=names)
    rows["block"] = rows["layer"].map({layer.name: layer.block for layer in study.layers})
    for name, values in arrays.items():
        rows[name] = values.reshape(-1)
    shape = next(iter(arrays.values())).shape
    for name in ("tokens", "selected_lambda", "selected_gamma", "selected_strength", *ROTATED):
        values = study.read(line, name)  # D L
        if values is not None:
            rows[name] = np.broadcast_to(values[..., None, None], shape).reshape(-1)
    return rows
