"""The study of a tuning run, which the Lab opens like any other."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.calibration.pictures import RELATIVE, SCALARS, LayerCurve, LayerNumbers
from sarqc.engine.result import protocol_of, value
from sarqc.engine.run import RunContext
from sarqc.engine.study_output import (
    AXES,
    curve_arrays,
    joined,
    study_line,
    study_of,
    study_writer,
)
from sarqc.engine.trials import TrialResult
from sarqc.engine.tuning_state import TuningState
from sarqc.study.document import Line, Study, StudyWriter


def write_tuning(state: TuningState, folder: Path) -> Study:
    """Write the study: a line of the tuned method over λ and draws, and one for each baseline.

    Lines are as long as there was time for, and missing measurements of a draw are NaN. Needs a measured model, see
    ``has_study``.
    """
    run, recipe, original = state.run, state.recipe, state.run.original
    names = list(dict.fromkeys(state.candidates[index].name for index in sorted(state.trials[0])))
    with study_writer(folder) as writer:
        lines = [_line(state, name, writer) for name in names]
        title = f"{Path(recipe.model).name}, {recipe.bits} bits, λ of {lines[0].title}"
        return writer.finish(
            study_of(
                run.output.study_id,
                title,
                "float",
                recipe.model,
                run.prepared.checkpoint,
                value(original.perplexity),
                original.mean_accuracy(),
                _protocol(run),
                lines,
                recipe,
            )
        )


def has_study(state: TuningState) -> bool:
    """Return True if a λ was measured at all."""
    return any(state.search.seen[0, list(state.order)])


def _line(state: TuningState, name: str, writer: StudyWriter) -> Line:
    recipe, search = state.recipe, state.search
    trials = state.trials[: max(1, int(search.seen.any(axis=1).sum()))]
    indices = [index for index in sorted(trials[0]) if state.candidates[index].name == name]
    points = [state.candidates[index].method for index in indices]
    first = [_curves(trials[0][index]) for index in indices]
    curves = [[joined([curves_at[layer] for curves_at in first])] for layer in range(len(first[0]))]
    further = [[[numbers] for numbers in _numbers(by_index, indices, first)] for by_index in trials[1:]]
    arrays = curve_arrays(writer, [curves], further=further)
    shape = (len(trials), 1, len(indices))
    for quantity in ("perplexity", "kl"):
        values = np.full(shape, np.nan)
        for draw, by_index in enumerate(trials):
            for at, index in enumerate(indices):
                # What no draw changes was measured in the first.
                trial = by_index.get(index) if index not in search.once else trials[0][index]
                if trial is not None and trial.divergence is not None:
                    values[draw, 0, at] = trial.perplexity if quantity == "perplexity" else trial.divergence.kl.mean
        arrays[quantity] = writer.add(values, AXES)
    arrays["accuracy"] = writer.add(np.full(shape, np.nan), AXES)
    chosen = (0, indices.index(best)) if (best := search.best) in indices else None
    return study_line(
        name,
        points[0].fitting(),
        bits=recipe.bits,
        grid=recipe.grid,
        group_size=recipe.group_size,
        lams=tuple(point.lam or 0.0 for point in points),
        gammas=(points[0].gamma,),
        chosen=chosen,
        draws=tuple(recipe.seed + draw for draw in range(len(trials))),
        arrays=arrays,
    )


def _curves(trial: TrialResult) -> list[LayerCurve]:
    return [layer for layer in trial.layers if isinstance(layer, LayerCurve)]


def _numbers(
    by_index: dict[int, TrialResult], indices: Sequence[int], first: Sequence[Sequence[LayerNumbers]]
) -> list[LayerNumbers]:
    """Return the numbers of each layer, over the λ of a line; NaN where the draw has none."""
    known_layers = next((by_index[index].layers for index in indices if index in by_index), None)
    rows = []
    for at, layer in enumerate(known_layers or _unknown(first[0])):
        arrays: dict[str, Any] = {
            name: np.array(
                [getattr(by_index[index].layers[at], name)[0] if index in by_index else np.nan for index in indices],
                dtype=np.float32,
            )
            for name in RELATIVE
        }
        rows.append(replace(layer, lams=tuple(lam for layers in first for lam in layers[at].lams), **arrays))
    return rows


def _unknown(layers: Sequence[LayerNumbers]) -> list[LayerNumbers]:
    """Return the same layers for a draw without results of them."""
    nothing: dict[str, Any] = dict.fromkeys(SCALARS, np.array(np.nan, dtype=np.float32))
    return [replace(layer, **nothing) for layer in layers]


def _protocol(run: RunContext) -> dict[str, Any]:
    recipe, drawn = run.recipe, run.prepared.sequences.protocol

    def text(samples: int) -> dict[str, Any]:
        common = {name: fact for name, fact in drawn.items() if name in ("corpus", "written_by", "begin")}
        return common | {"length": recipe.length, "samples": samples, "tokens": samples * recipe.length}

    return {
        **protocol_of(run.prepared, drawn, run.original),
        "calibration": text(recipe.samples) | {"sampling": "random"},
        "held_out": text(recipe.unseen_samples()),
        "tasks": [],
        "items": 0,
        "device": run.device,
    }
