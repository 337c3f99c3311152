"""The linears of one block, solved by the method's unit: each by itself, by input group, or all together."""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, groupby
from typing import NamedTuple

import torch
from torch import Tensor

from sarqc.calibration.capture import Statistics
from sarqc.calibration.job import CalibrationJob, SolvedLayer
from sarqc.calibration.layer_batch import LayerBatch, LinearData, method_for
from sarqc.calibration.multi_device import MultiDevice
from sarqc.calibration.pictures import curve_of
from sarqc.errors import SarqcError
from sarqc.events import EpochDone, PointDone, RoundingChecked
from sarqc.models.families import LayerInfo
from sarqc.models.folding import folds
from sarqc.models.loading import LoadedModel
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import Method
from sarqc.quantization.quantized_layer import CheckedLayer, ImportedCodes, QuantizedLayer
from sarqc.quantization.solve import only_solved, quantize
from sarqc.quantization.solving import BlockRun, Context, Epoch, LayerJob, StepCheck

Layers = dict[str, QuantizedLayer]  # by path within the block
Progress = EpochDone | RoundingChecked | PointDone  # within a block


@dataclass(frozen=True)
class BlockData:
    """Inputs of the solution of a block's linears; keys are paths within the block."""

    parts: tuple[dict[str, LayerStatistics], ...]  # of all calibration sequences, or of train and of validation
    held_out: dict[str, LayerStatistics] | None
    forward: Callable[[dict[str, Tensor], Tensor], Tensor]  # the block as a function of its weights and inputs
    inputs: list[Tensor]  # (B, T, D), the block's
    targets: list[Tensor]  # (B, T, D), the float block's outputs on the float prefix; empty if the method needs none
    held_out_inputs: list[Tensor] = field(default_factory=list)  # of held-out sequences, if the method needs them
    held_out_targets: list[Tensor] = field(default_factory=list)

    def linear(self, path: str, info: LayerInfo, weight: Tensor, codes: ImportedCodes | None = None) -> LinearData:
        """Return the linear at a path with its statistics."""
        held_out = None if self.held_out is None else self.held_out[path]
        return LinearData(info, weight, tuple(part[path] for part in self.parts), held_out, codes)


def solve_block(
    loaded: LoadedModel,
    job: CalibrationJob,
    layers: dict[str, LayerInfo],
    data: BlockData,
    context: Context,
    spread: MultiDevice | None = None,
) -> Iterator[SolvedLayer | Progress]:
    """Solve the block's layers in their order, each at all λ of the job's curve.

    Args:
        loaded: The model.
        job: The calibration.
        layers: Layers by path within the block. Methods that work on single layers accept a part of them, others need
            all.
        data: Statistics, inputs and targets of the block.
        context: Budget and recorder.
        spread: Further devices that solve layers of a method that works on single layers.

    Yields:
        Solved layers, epochs and checks of methods that learn, and points of the curve.

    Raises:
        SarqcError: For errors of the mathematics, with the name of the layer or the block.
    """
    weights = {path: loaded.weight(layer.name) for path, layer in layers.items()}  # (O, I)
    if job.imported is None:  # exact: they were loaded from there, and nothing is multiplied into them
        weights = {path: weight.to(loaded.stored_as(f"{layers[path].name}.weight")) for path, weight in weights.items()}
    if job.method.unit == "layer":
        together = layer_batches(job, layers, weights, data)
        if spread is not None:
            yield from spread.solved(together)
        else:
            yield from chain.from_iterable(batch.solved(context) for batch in together)
        return
    started = time.perf_counter()
    index = next(iter(layers.values())).block
    linears = {path: data.linear(path, layer, weights[path]) for path, layer in layers.items()}
    solved: list[Layers] = []  # at each point
    try:
        if job.method.unit == "group":
            solved += (_solve_groups(loaded, job, linears, point) for point in job.method.points(job.curve_lams()))
        else:
            solved += yield from _solve_through_block(job, linears, data, index)
    except SarqcError as error:
        raise error.at(f"{loaded.family.blocks}.{index}") from None
    seconds = (time.perf_counter() - started) / len(layers)
    for path, linear in linears.items():
        points, grid = [at_point[path] for at_point in solved], job.grids[linear.info.name]
        curve = curve_of(job.curve_lams(), points, linear.weight, linear.statistics(), linear.held_out, grid)
        yield SolvedLayer(linear.info, points[job.own_point()], curve, seconds, from_cache=False)


def layer_batches(
    job: CalibrationJob, layers: dict[str, LayerInfo], weights: dict[str, Tensor], data: BlockData
) -> Iterator[LayerBatch]:
    """Yield the batches of a block's linears, for a method that works on single layers."""
    for together in batches(layers, {path: weight.dtype for path, weight in weights.items()}):
        linears = (
            data.linear(
                path, layers[path], weights[path], None if job.imported is None else job.imported.layer(layers[path])
            )
            for path in together
        )
        yield LayerBatch(
            tuple(linears),
            job.grids[layers[together[0]].name],
            job.method,
            job.curve_lams(),
            job.own_point(),
            job.candidates,
            job.channel_fraction,
            job.curves.yields_points,
        )


def batches(layers: dict[str, LayerInfo], storages: Mapping[str, torch.dtype]) -> list[list[str]]:
    """Return the paths of linears that are solved together: experts' of one shape in a row, every other by itself.

    An expert's result thus does not depend on the layers stored by an earlier attempt, see ``whole_batches``. Those of
    a batch have one dtype of ``storages``.
    """

    def kind(path: str) -> object:
        layer = layers[path]
        return path if layer.expert is None else (layer.shape, storages[path])

    return [list(together) for _, together in groupby(layers, kind)]


def whole_batches(
    layers: dict[str, LayerInfo], storages: Mapping[str, torch.dtype], missing: set[str]
) -> dict[str, LayerInfo]:
    """Return the linears to solve so that the missing ones come out as in an undisturbed run."""
    together = [batch for batch in batches(layers, storages) if missing.intersection(batch)]
    return {path: layers[path] for batch in together for path in batch}


class BlockStatistics(NamedTuple):
    """Linears of one block with statistics to solve them on, all by path within the block."""

    layers: dict[str, LayerInfo]
    weights: dict[str, Tensor]  # (O, I), each in its own dtype
    own: Statistics
    unseen: Statistics  # of tokens that nothing is fitted to


def solve_points(
    block: BlockStatistics, grids: Mapping[str, Grid], points: Sequence[Method], context: Context
) -> Iterator[tuple[str, list[QuantizedLayer]]]:
    """Solve linears of one block, each by itself at all points, from statistics alone.

    Points are methods of one family that differ in λ and γ.

    Yields:
        Path and results of each linear, as soon as it is solved.
    """
    layers, weights, own, unseen = block
    for together in batches(layers, {path: weight.dtype for path, weight in weights.items()}):
        solving = [
            LayerJob(
                CheckedLayer(weights[path], own[path], grids[layers[path].name], unseen[path], name=layers[path].name),
                [method_for(layers[path], point) for point in points],
            )
            for path in together
        ]
        solved = (step.layer for step in only_solved(quantize(solving, context)))
        for path in together:
            yield path, [next(solved) for _ in points]


def _solve_groups(loaded: LoadedModel, job: CalibrationJob, linears: dict[str, LinearData], point: Method) -> Layers:
    """Solve linears that read one tensor with one scale, readers first: the scale divides the rows of their source."""
    solved: Layers = {}
    row_scales: dict[str, Tensor] = {}
    block = loaded.blocks()[next(iter(linears.values())).info.block]
    for fold in folds(block, loaded.groups(block), loaded.checkpoint.architecture.num_attention_heads):
        solving = [
            LayerJob(linears[path].checked(job.grids[linears[path].info.name], path, row_scales.get(path)), [point])
            for path in fold.linears
        ]
        steps = only_solved(quantize(solving, Context(ties=fold.ties)))
        group = {fold.linears[step.job]: step.layer for step in steps}
        scale = group[fold.linears[0]].channel_scale
        if fold.source is None:
            group = {path: layer.flagged("not_foldable") for path, layer in group.items()}
        elif scale is not None and fold.source in linears:
            row_scales[fold.source] = fold.source_scale(scale)
        solved |= group
    return solved


def _solve_through_block(
    job: CalibrationJob, linears: dict[str, LinearData], data: BlockData, index: int
) -> Generator[EpochDone | RoundingChecked, None, list[Layers]]:
    """Solve all linears through the block that they make; return them by path, at each point."""
    paths, points = list(linears), job.method.points(job.curve_lams())
    solving = [LayerJob(linear.checked(job.grids[linear.info.name], path), points) for path, linear in linears.items()]
    solved: list[Layers] = [{} for _ in points]
    context = Context(
        block=BlockRun(data.forward, data.inputs, data.targets, data.held_out_inputs, data.held_out_targets)
    )
    for step in quantize(solving, context):
        if isinstance(step, Epoch):
            yield EpochDone(index, step.epoch, step.epochs, step.objective, step.recon, step.sar)
        elif isinstance(step, StepCheck):
            yield RoundingChecked(index, **asdict(step))
        else:
            solved[step.point][paths[step.job]] = step.layer
    return solved
