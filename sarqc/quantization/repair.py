"""A layer that was found quantized, solved again on the scales that it has: anew, from the codes found, or not at all.

Others may have made its codes with more work than one pass of a solver, or by another measure than a layer's error. So
the codes found are always among what is compared, and stay where nothing is better on inputs that nothing was fitted
to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sarqc.quantization.auto_by_layer import SelectionJob, candidate_row
from sarqc.quantization.existing_codes import as_found
from sarqc.quantization.grid import Grid
from sarqc.quantization.methods import ColumnSolver, ExistingCodes, FoundDescent, Method
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.solve import only_solved, quantize
from sarqc.quantization.solving import Context, LayerJob

# Flags of reports.
KEPT = "codes_as_found"  # nothing was better on the sequences kept for judging
WORSE = "worse_than_found"  # on held-out text, although it was better there


def repair_layer(
    job: SelectionJob, grid: Grid, points: Sequence[ColumnSolver], context: Context | None = None
) -> QuantizedLayer:
    """The best of a layer as it was found, solved column by column at each point, and coordinate descent from the codes
    found on the objective of each point.

    All are solved on ``train`` and judged on ``validation`` by tr(ΔW gram ΔWᵀ); the best, the codes found first among
    equals, is made again on both. ``chosen`` of the report says what was compared: relative errors of the codes found
    (``found_recon``, ``found_held_out``) and, on ``validation``, of them and of the best (``found_validation``,
    ``best_validation``). ``candidates``: of each point both ways, where there are several points.
    """
    context = context or Context()
    part = CheckedLayer(job.weight, job.train, grid, job.validation, found=job.found, name=job.name)
    best: Method = ExistingCodes()
    found = least = _loss(as_found(part, ExistingCodes()))
    ways: list[list[ColumnSolver]] = [[*points], [FoundDescent.of(point) for point in points]]
    rows: list[list[dict[str, float | None]]] = []
    for way in ways:
        rows.append([])
        for solved, point in zip(only_solved(quantize([LayerJob(part, way)], context)), way, strict=True):
            loss = _loss(solved.layer)
            rows[-1].append(candidate_row(point, solved.layer, part, loss))
            if loss < least:
                best, least = point, loss
    whole = CheckedLayer(job.weight, job.train + job.validation, grid, job.held_out, found=job.found, name=job.name)
    layer = next(only_solved(quantize([LayerJob(whole, [best])], context))).layer
    before = as_found(whole, ExistingCodes()).report
    energy = part.held_out_energy
    compared: dict[str, Any] = {
        "found_recon": before.relative_recon,
        "found_held_out": before.relative_held_out,
        "found_validation": found / energy if energy > 0 else None,
        "best_validation": least / energy if energy > 0 else None,
    }
    report = replace(
        layer.report,
        chosen=layer.report.chosen | compared,
        candidates=tuple(row for both in zip(*rows, strict=True) for row in both) if len(points) > 1 else (),
    )
    return replace(layer, report=report).flagged(*_flags(best, before.held_out_loss, layer.report.held_out_loss))


def _loss(layer: QuantizedLayer) -> float:
    loss = layer.report.held_out_loss
    assert loss is not None
    return loss


def _flags(best: Method, before: float | None, after: float | None) -> list[str]:
    is_worse = before is not None and after is not None and after > before
    return [KEPT] * isinstance(best, ExistingCodes) + [WORSE] * is_worse
