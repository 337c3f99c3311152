"""Rounding to nearest, the simplest solver, with an optional searched range, refinement and refit of scales."""

from collections.abc import Iterator, Sequence

from sarqc.quantization.grid import dequantize_groups, round_to_grid
from sarqc.quantization.methods import RoundToNearest
from sarqc.quantization.scale_refit import fitted_layer
from sarqc.quantization.solving import Context, LayerJob, Solved


def solve(jobs: Sequence[LayerJob], context: Context) -> Iterator[Solved]:
    """Yield each linear at each of its points, which are all alike."""
    for number, job in enumerate(jobs):
        layer = job.layer
        for index, point in enumerate(job.points_of(RoundToNearest)):
            codes, scales, zero_points = round_to_grid(
                layer.weight, layer.grid, layer.storage, source=point.range, importance=layer.gram.diagonal()
            )
            if point.refine or point.refit:
                codes, scales, zero_points = fitted_layer(
                    layer.weight,
                    codes,
                    scales,
                    zero_points,
                    layer.gram,
                    grid=layer.grid,
                    storage=layer.storage,
                    passes=point.refine,
                    rounds=point.refit,
                )
            dequantized = dequantize_groups(codes, scales, zero_points, layer.grid.is_affine).to(layer.storage)
            yield Solved(
                number, index, layer.quantized(codes, scales, zero_points, dequantized, chosen=point.settled())
            )
