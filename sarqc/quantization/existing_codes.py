"""Codes of a checkpoint that another tool has quantized, as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sarqc.errors import Refused
from sarqc.quantization.methods import ExistingCodes
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.solving import Context, LayerJob, Solved


def solve(jobs: Sequence[LayerJob], context: Context) -> Iterator[Solved]:
    """Yield each linear with its existing codes, at each of its points, which are all alike."""
    for number, job in enumerate(jobs):
        for index, point in enumerate(job.points_of(ExistingCodes)):
            yield Solved(number, index, as_found(job.layer, point))


def as_found(layer: CheckedLayer, point: ExistingCodes) -> QuantizedLayer:
    """Return the layer with its existing codes.

    Raises:
        Refused: If the layer has no codes.
    """
    found = layer.found
    if found is None:
        raise Refused(
            "no codes to take as they are", layer.name or "layer", "Open a quantized checkpoint of the model."
        )
    return layer.quantized(found.codes, found.scales, found.zero_points, found.weight, chosen=point.settled())
