"""Groups, blocks and batches by name, as tests like to write them, solved by the one verb there is."""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from sarqc.quantization.auto_by_layer import SelectionJob, select_layers
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import METHODS, Method, method
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.solve import only_solved, quantize
from sarqc.quantization.solving import BUDGET_BYTES, BlockForward, BlockRun, Context, LayerJob, Learning, Solved


def brief(name: str, **choices: object) -> Method:
    """Return the method of a public name; if it learns, not for long."""
    lengths = {"epochs": 2, "steps": 3}
    return method(name, **{length: lengths[length] for length in lengths if length in METHODS[name].options}, **choices)


Statistics = LayerStatistics | Mapping[str, LayerStatistics]


def zeros_of(layer: QuantizedLayer) -> Tensor:
    """Return the zero points of the oracles: (O, G), on the affine grid its biases."""
    return layer.zero_points if layer.biases is None else layer.biases


def spelt_out(layer: QuantizedLayer, dtype: torch.dtype) -> Tensor:
    """Return ((codes - zero_points) · scales + biases)/channel_scale in working precision, then stored as a dtype."""
    work = torch.promote_types(dtype, torch.float32)
    size = layer.codes.shape[1] // layer.scales.shape[1]

    def spread(part: Tensor) -> Tensor:
        return part.to(work).repeat_interleave(size, dim=1)

    levels = (layer.codes.to(work) - spread(layer.zero_points)) * spread(layer.scales)
    if layer.biases is not None:
        levels = levels + spread(layer.biases)
    return (levels if layer.channel_scale is None else levels / layer.channel_scale.to(work)).to(dtype)


def same_tensors(one: QuantizedLayer, other: QuantizedLayer) -> None:
    """Two layers agree in every bit."""
    for name in ("codes", "scales", "zero_points", "dequantized"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name


def quantize_layers(jobs: Sequence[LayerJob], budget_bytes: int = BUDGET_BYTES) -> list[list[QuantizedLayer]]:
    """Return the points of each linear."""
    found: list[list[QuantizedLayer]] = [[] for _ in jobs]
    for solved in only_solved(quantize(jobs, Context(budget_bytes))):
        found[solved.job].append(solved.layer)
    return found


def quantize_group_points(
    weights: dict[str, Tensor],
    statistics: Statistics,
    grid: Grid,
    points: Sequence[Method],
    *,
    held_out: Statistics | None = None,
    ties: Tensor | None = None,
    row_scales: dict[str, Tensor] | None = None,
) -> Iterator[dict[str, QuantizedLayer]]:
    """Return a group at several points; statistics are of the tensor that all read, or by name."""
    seen, unseen = (
        part if isinstance(part, Mapping) else dict.fromkeys(weights, part) for part in (statistics, held_out)
    )
    jobs = [
        LayerJob(CheckedLayer(weight, seen[name], grid, unseen[name], (row_scales or {}).get(name), name=name), points)
        for name, weight in weights.items()
    ]
    found: list[dict[str, QuantizedLayer]] = [{} for _ in points]
    for solved in only_solved(quantize(jobs, Context(ties=ties))):
        found[solved.point][jobs[solved.job].layer.name] = solved.layer
    yield from found


def quantize_group(
    weights: dict[str, Tensor],
    statistics: Statistics,
    grid: Grid,
    chosen: Method,
    *,
    held_out: Statistics | None = None,
    ties: Tensor | None = None,
    row_scales: dict[str, Tensor] | None = None,
) -> dict[str, QuantizedLayer]:
    points = quantize_group_points(
        weights, statistics, grid, [chosen], held_out=held_out, ties=ties, row_scales=row_scales
    )
    return next(points)


def quantize_block(
    weights: dict[str, Tensor],
    statistics: dict[str, LayerStatistics],
    grids: dict[str, Grid],
    chosen: Method,
    *,
    forward: BlockForward,
    inputs: Sequence[Tensor],
    targets: Sequence[Tensor],
    held_out: dict[str, LayerStatistics] | None = None,
    held_out_inputs: Sequence[Tensor] = (),
    held_out_targets: Sequence[Tensor] = (),
) -> Iterator[Learning | dict[str, QuantizedLayer]]:
    """Return the epochs or checks, then the layers by name."""
    jobs = [
        LayerJob(CheckedLayer(weight, statistics[name], grids[name], held_out and held_out[name], name=name), [chosen])
        for name, weight in weights.items()
    ]
    block = BlockRun(forward, inputs, targets, held_out_inputs, held_out_targets)
    steps = quantize(jobs, Context(block=block))  # which refuses before the first step
    return _epochs_then_layers(jobs, steps)


def _epochs_then_layers(
    jobs: list[LayerJob], steps: Iterator[Learning | Solved]
) -> Iterator[Learning | dict[str, QuantizedLayer]]:
    layers = {}
    for step in steps:
        if isinstance(step, Solved):
            layers[jobs[step.job].layer.name] = step.layer
        else:
            yield step
    yield layers


def quantize_selected(
    weight: Tensor,
    train: LayerStatistics,
    validation: LayerStatistics,
    grid: Grid,
    points: Sequence[Method],
    *,
    channel_fraction: float = 1.0,
    held_out: LayerStatistics | None = None,
    budget_bytes: int = BUDGET_BYTES,
) -> QuantizedLayer:
    """One layer, chosen for by itself."""
    job = SelectionJob("", weight, train, validation, held_out)
    (layer,) = select_layers([job], grid, points, channel_fraction=channel_fraction, context=Context(budget_bytes))
    return layer
