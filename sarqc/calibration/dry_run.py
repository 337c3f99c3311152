"""The largest block and the largest linear of a run, once, on random numbers: its needs are known in seconds.

The functions are those of the run, with its batches of tokens, its points and its budget; results are thrown away. The
other data of a run are held meanwhile: the states of all sequences, and the statistics of a whole block, but not the
quantized linears of a block that wait for its last one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import prod

import torch
from torch import Generator, Tensor

from sarqc.calibration.block import (
    BlockData,
    BlockStatistics,
    batches,
    layer_batches,
    solve_block,
    solve_points,
)
from sarqc.calibration.job import CalibrationJob, Curves, SolvedLayer
from sarqc.calibration.multi_device import MultiDevice
from sarqc.calibration.pipeline import Walks, layers_by_block
from sarqc.models.families import LayerInfo
from sarqc.models.loading import LoadedModel
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import Method
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.quantization.solving import Context

_TOKENS = 1024  # of a random Gram, whose diagonal makes up for the others
_WEIGHT = 0.02  # standard deviation, of the size of a model's weights
_SHIFT = 0.1  # of inputs of the float model from those of the quantized one


def largest_linear(layers: Sequence[LayerInfo]) -> LayerInfo:
    """Return the linear with most weights, the first of equals."""
    return max(layers, key=lambda layer: prod(layer.shape))


def largest_block(loaded: LoadedModel) -> int:
    """Return the number of the block with most parameters among those with layers to quantize, the first of equals."""
    return max(sorted(layers_by_block(loaded.checkpoint.layers)), key=loaded.checkpoint.parameters_of)


def dry_run(
    loaded: LoadedModel,
    job: CalibrationJob,
    *,
    budget_bytes: int,
    spread: MultiDevice | None = None,
    points: Sequence[Method] = (),
    seed: int = 0,
) -> list[QuantizedLayer]:
    """Pass one batch of random states through the largest block and solve the largest linear, as the run will.

    The model and the state of random numbers are unchanged. An expert is solved with the others of its block that a run
    solves together with it; a method that works on more than single linears gets the whole block, with its repetitions
    cut to one.

    Args:
        loaded: The model.
        job: The calibration of the run.
        budget_bytes: Working memory of one batch of solving, in bytes.
        spread: Further devices for the linears of methods that work on single layers.
        points: Methods that tuning compares on each linear; empty for the method of the job.
        seed: Seed of the random numbers.

    Returns:
        The solved linears, each as the model would get it; with ``points`` at each of them.
    """
    random = torch.Generator().manual_seed(seed)  # of the CPU, so that every device gets the same numbers
    context = Context.on(loaded.device, budget_bytes)
    block = loaded.blocks()[largest_block(loaded)]
    with loaded.at(block):
        walks = Walks(loaded, job)
        held = [walk.hidden for walk in walks.all()]  # as long as the run holds them
        for walk in walks.all():
            walk.hidden = [
                torch.randn(states.shape, generator=random).to(states.device, states.dtype)
                for states in walk.hidden[:1]
            ]
        data = walks.collect(block)
        outputs = [torch.empty_like(states) for states in chain.from_iterable(held)]
        for walk in walks.all():
            walk.outputs(block)  # beside the outputs of all sequences, as in a run
        del outputs
        if job.method.unit == "layer":
            return list(_linear(loaded, job, data, context, spread, points, random))
        by_block = layers_by_block(loaded.checkpoint.layers)[largest_block(loaded)]
        layers = {layer.path_in_block(loaded.family.blocks): layer for layer in by_block}
        once = replace(job, method=job.method.shortest(), curves=Curves())
        steps = solve_block(loaded, once, layers, data, context)
        return [step.quantized for step in steps if isinstance(step, SolvedLayer)]


def random_statistics(width: int, random: Generator, device: torch.device, *, shifted: bool) -> LayerStatistics:
    """Return statistics of random inputs; the Gram has a Cholesky factor, and ``shifted`` adds a cross term."""
    inputs = torch.randn(min(width, _TOKENS), width, generator=random).to(device)
    floats = inputs + _SHIFT * torch.randn(inputs.shape, generator=random).to(device) if shifted else None
    statistics = LayerStatistics.from_inputs(inputs, floats)
    statistics.gram.diagonal().add_(len(inputs))
    return statistics


def random_linears(
    loaded: LoadedModel, job: CalibrationJob, random: Generator
) -> tuple[dict[str, LayerInfo], dict[str, Tensor], dict[str, LayerStatistics]]:
    """Return the linears that a run solves together with the largest one: layers, weights (O, I) and statistics.

    All are by path within the block; linears of one width share their statistics.
    """
    layers = loaded.checkpoint.layers
    largest = largest_linear(layers)
    by_path = {layer.path_in_block(loaded.family.blocks): layer for layer in layers_by_block(layers)[largest.block]}
    storages = {path: loaded.stored_as(f"{layer.name}.weight") for path, layer in by_path.items()}
    own = largest.path_in_block(loaded.family.blocks)
    together = next(batch for batch in batches(by_path, storages) if own in batch)
    weights = {
        path: (_WEIGHT * torch.randn(by_path[path].shape, generator=random)).to(loaded.device, storages[path])
        for path in together
    }
    statistics = random_statistics(largest.shape[1], random, loaded.device, shifted="cross" in job.method.needs)
    return {path: by_path[path] for path in together}, weights, dict.fromkeys(together, statistics)


def _linear(
    loaded: LoadedModel,
    job: CalibrationJob,
    data: BlockData,
    context: Context,
    spread: MultiDevice | None,
    points: Sequence[Method],
    random: Generator,
) -> Iterator[QuantizedLayer]:
    """Solve the largest linear; ``data`` is that of the largest block, which is held meanwhile."""
    layers, weights, statistics = random_linears(loaded, job, random)
    if points:
        block = BlockStatistics(layers, weights, statistics, statistics)
        for _, solved in solve_points(block, job.grids, points, context):
            yield from solved
        return
    parts = tuple(statistics for _ in data.parts)
    drawn = replace(data, parts=parts, held_out=None if data.held_out is None else statistics)
    together = layer_batches(job, layers, weights, drawn)
    steps = (
        spread.solved(together)
        if spread is not None
        else chain.from_iterable(batch.solved(context) for batch in together)
    )
    yield from (step.quantized for step in steps if isinstance(step, SolvedLayer))
