"""Codes of another tool: as they are, and repaired on their scales, solved anew or refined from these codes.

Another tool may have made its codes with more work than one pass of a solver, or by another measure than a layer's
error. So the existing codes are always among the candidates, and stay if no candidate is better on inputs that nothing
was fitted to.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sarqc.errors import Refused
from sarqc.quantization.auto_by_layer import SelectionJob, candidate_row
from sarqc.quantization.grid import Grid
from sarqc.quantization.methods import ColumnSolver, ExistingCodes, FoundDescent, Method
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.solve import only_solved, quantize
from sarqc.quantization.solving import Context, LayerJob, Solved

# Flags of reports.
UNCHANGED = "codes_as_found"  # no candidate was better on the validation sequences
WORSE = "worse_than_found"  # on held-out text, although better on the validation sequences


def solve(jobs: Sequence[LayerJob], context: Context) -> Iterator[Solved]:
    """Yield each linear with its existing codes, at each of its points, which are all alike."""
    for number, job in enumerate(jobs):
        for index, point in enumerate(job.points_of(ExistingCodes)):
            yield Solved(number, index, with_existing_codes(job.layer, point))


def with_existing_codes(layer: CheckedLayer, point: ExistingCodes) -> QuantizedLayer:
    """Return the layer with its existing codes.

    Raises:
        Refused: If the layer has no codes.
    """
    imported = layer.imported
    if imported is None:
        raise Refused(
            "no codes to take as they are", layer.name or "layer", "Open a quantized checkpoint of the model."
        )
    return layer.quantized(
        imported.codes, imported.scales, imported.zero_points, imported.weight, chosen=point.settled()
    )


def repair_layer(
    job: SelectionJob, grid: Grid, points: Sequence[ColumnSolver], context: Context | None = None
) -> QuantizedLayer:
    """Return the best of a layer's existing codes, a new solution at each point, and a refinement at each point.

    The new solutions are made column by column on the existing scales; the refinement is coordinate descent from the
    existing codes on the objective of each point. All are solved on ``train`` and judged on ``validation`` by tr(ΔW
    gram ΔWᵀ). The best, the existing codes first among equals, is made again on both.

    ``chosen`` of the report holds the comparison: relative errors of the existing codes (``found_recon``,
    ``found_held_out``) and, on ``validation``, of them and of the best (``found_validation``, ``best_validation``).
    ``candidates`` has both ways at each point, if there are several points.

    Args:
        job: The layer with its existing codes.
        grid: Grid of the codes.
        points: Column solvers to compare.
        context: Budget and recorder; None for the defaults.
    """
    context = context or Context()
    part = CheckedLayer(job.weight, job.train, grid, job.validation, imported=job.imported, name=job.name)
    best: Method = ExistingCodes()
    initial = least = _loss(with_existing_codes(part, ExistingCodes()))
    ways: list[list[ColumnSolver]] = [[*points], [FoundDescent.of(point) for point in points]]
    rows: list[list[dict[str, float | None]]] = []
    for way in ways:
        rows.append([])
        for solved, point in zip(only_solved(quantize([LayerJob(part, way)], context)), way, strict=True):
            loss = _loss(solved.layer)
            rows[-1].append(candidate_row(point, solved.layer, part, loss))
            if loss < least:
                best, least = point, loss
    whole = CheckedLayer(
        job.weight, job.train + job.validation, grid, job.held_out, imported=job.imported, name=job.name
    )
    layer = next(only_solved(quantize([LayerJob(whole, [best])], context))).layer
    before = with_existing_codes(whole, ExistingCodes()).report
    energy = part.held_out_energy
    compared: dict[str, Any] = {
        "found_recon": before.relative_recon,
        "found_held_out": before.relative_held_out,
        "found_validation": initial / energy if energy > 0 else None,
        "best_validation": least / energy if energy > 0 else None,
    }
    report = replace(
        layer.report,
        chosen=layer.report.chosen | compared,
        candidates=tuple(row for both in zip(*rows, strict=True) for row in both) if len(points) > 1 else (),
    )
    losses = before.held_out_loss, layer.report.held_out_loss
    is_worse = losses[0] is not None and losses[1] is not None and losses[1] > losses[0]
    return replace(layer, report=report).flagged(*[UNCHANGED] * isinstance(best, ExistingCodes), *[WORSE] * is_worse)


def _loss(layer: QuantizedLayer) -> float:
    loss = layer.report.held_out_loss
    assert loss is not None
    return loss
