"""A whole model, block by block: statistics, solve, write back, move on. Finished layers are stored by content.

The key of a layer hashes everything that determines it: the weights up to and including its block, the token sequences,
the grid, the method and, under a quantized prefix, the keys of all layers before. All keys are therefore known before
anything is solved, and an interrupted run continues from its files to bit-identical weights. Results of learning
through a whole block are the same for one number of threads, which is then part of the key.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from sarqc.calibration.block import BlockData, Progress, solve_block, whole_batches
from sarqc.calibration.capture import collect
from sarqc.calibration.job import CalibrationJob, SolvedLayer, point_events
from sarqc.calibration.kept_layers import SUFFIX, LayerWriter, read_layer
from sarqc.calibration.multi_device import MultiDevice
from sarqc.errors import NumericalError, SarqcError
from sarqc.files.artefacts import ArtefactStore
from sarqc.files.memory import release_freed
from sarqc.models.families import LayerInfo
from sarqc.models.folding import write_folded
from sarqc.models.loading import LoadedModel
from sarqc.models.walk import BlockWalk
from sarqc.quantization.solving import BUDGET_BYTES, Context


def calibrate(
    loaded: LoadedModel,
    job: CalibrationJob,
    store: ArtefactStore | None,
    keys: dict[str, str],
    *,
    budget_bytes: int = BUDGET_BYTES,
    spread: MultiDevice | None = None,
    after_block: Callable[[int, nn.Module], None] | None = None,
) -> Iterator[SolvedLayer | Progress]:
    """Quantize the model in place and yield each linear as it is done.

    Layers are stored in ``store`` before they are yielded, so the last ones of a block may come with the next. Stored
    layers are not solved again; the walk ends at the last block with a missing layer.

    Args:
        loaded: The model.
        job: The calibration.
        store: Store of the artefacts; None solves everything and stores nothing.
        keys: Key of each layer by name.
        budget_bytes: Working memory of one batch of solving, in bytes.
        spread: Further devices for the linears of methods that work on single layers.
        after_block: Function called with each block and its quantized weights, which may change these before the next
            block reads its outputs.

    Yields:
        Solved layers; epochs or checks of a method that learns; points of a linear before it, if the job asks for them.

    Raises:
        SarqcError: For errors of the mathematics, with the name of the layer or the block in front.
    """
    by_block = layers_by_block(loaded.checkpoint.layers)
    missing = {name for name, key in keys.items() if store is None or not store.has(key, SUFFIX)}
    last_missing = max((layer.block for layer in loaded.checkpoint.layers if layer.name in missing), default=-1)
    if job.imported is not None:
        job.imported.put_outside(loaded)
    walks = Walks(loaded, job) if last_missing >= 0 else None
    context = Context.on(loaded.device, budget_bytes)
    with LayerWriter(store) as writer:
        for index, block in enumerate(loaded.blocks()):
            layers, own = by_block.get(index, []), job.in_block(index)
            stored = {
                layer.name: None if store is None else read_layer(store, keys[layer.name], layer) for layer in layers
            }
            with loaded.at(block, changes=bool(layers) or job.imported is not None):
                if job.imported is not None:
                    job.imported.put_into(loaded, index)
                data = None
                if walks is not None and index <= last_missing:
                    if layers and (job.inputs_from == "float" or any(solved is None for solved in stored.values())):
                        _check_weights(loaded, layers)
                        try:
                            data = walks.collect(block)
                        except SarqcError as error:
                            raise error.at(f"{loaded.family.blocks}.{index}") from None
                        yield from writer.ready()
                    else:
                        walks.pass_float(block)  # while the block is float: all its layers are stored
                solved_layers = []
                for solved in _solved(loaded, own, index, layers, stored, data, context, spread):
                    if isinstance(solved, SolvedLayer):
                        solved_layers.append(solved)
                        yield from writer.keep(keys[solved.info.name], solved)
                    else:
                        yield solved
                if layers:
                    write_back(loaded, own, index, solved_layers)  # after all were solved on the block's float outputs
                if after_block is not None:
                    after_block(index, block)
                if walks is not None and index < last_missing:
                    walks.advance(block)
                release_freed()
                yield from writer.ready()
        yield from writer.finish()


def _solved(
    loaded: LoadedModel,
    job: CalibrationJob,
    index: int,
    layers: list[LayerInfo],
    stored: dict[str, SolvedLayer | None],
    data: BlockData | None,
    context: Context,
    spread: MultiDevice | None,
) -> Iterator[SolvedLayer | Progress]:
    """Yield the block's layers in order, stored ones from the store; linears that depend on each other all together."""
    by_path = {_path(loaded, layer): layer for layer in layers}
    missing = {path for path, layer in by_path.items() if stored[layer.name] is None}
    storages = {path: loaded.stored_as(f"{layer.name}.weight") for path, layer in by_path.items()}
    unsolved = whole_batches(by_path, storages, missing)
    if job.method.unit != "layer" and missing:
        unsolved = by_path
    fresh = solve_block(loaded, job, unsolved, data, context, spread) if unsolved and data is not None else iter(())
    for path, layer in by_path.items():
        solved = None if path in unsolved else stored[layer.name]
        if solved is not None and job.curves.yields_points:
            yield from point_events(solved)
        while solved is None:
            step = next(fresh)
            if isinstance(step, SolvedLayer):
                solved = step
            else:
                yield step
        yield solved


def write_back(loaded: LoadedModel, job: CalibrationJob, index: int, solved: list[SolvedLayer]) -> None:
    """Put a block's quantized weights into the model, for a foldable search with scales in the operations before."""
    if job.method.unit == "group":
        by_path = {_path(loaded, layer.info): layer.quantized for layer in solved}
        block = loaded.blocks()[index]
        prefix = f"{loaded.family.blocks}.{index}."
        write_folded(block, loaded.groups(block), by_path, lambda path: loaded.stored_as(f"{prefix}{path}"))
        return
    for layer in solved:
        loaded.weight(layer.info.name).data.copy_(layer.quantized.dequantized)


class Walks:
    """The calibration sequences in their parts, the held-out ones, and if needed the float model's states.

    After ``collect`` the states still are the block's inputs; ``advance`` moves them past it.
    """

    def __init__(self, loaded: LoadedModel, job: CalibrationJob) -> None:
        self._job, needs = job, job.method.needs
        sequences = torch.from_numpy(job.sequences.calibration.copy())
        self._parts = [BlockWalk(loaded, part) for part in sequences.split(job.parts())]
        self._held_out = BlockWalk(loaded, torch.from_numpy(job.sequences.held_out.copy()))
        self._wants_targets = "block" in needs
        self._judges_outputs = "held_out" in needs
        self._floats: list[BlockWalk] = []
        self._held_out_float: list[BlockWalk] = []
        if job.inputs_from == "quantized" and needs & {"cross", "block"}:
            self._floats = [BlockWalk(loaded, part) for part in sequences.split(job.parts())]
            if self._judges_outputs:
                self._held_out_float = [BlockWalk(loaded, torch.from_numpy(job.sequences.held_out.copy()))]
        # Of the float block, by walk, if the next block reads them; empty after a block that was passed.
        self._outputs: list[list[Tensor]] = []

    def all(self) -> list[BlockWalk]:
        """Return all walks: of the parts, of the held-out sequences and of the float states."""
        return [*self._parts, self._held_out, *self._float_walks()]

    def _float_walks(self) -> list[BlockWalk]:
        return [*self._floats, *self._held_out_float]

    def collect(self, block: nn.Module) -> BlockData:
        """Return the inputs of the solution of the block's layers; the float states are moved past the block."""
        has_cross = bool(self._floats) and not self._wants_targets
        are_read = self._job.inputs_from == "float"
        collected = [
            collect(walk, block, self._floats[number] if has_cross else None, outputs=are_read)
            for number, walk in enumerate(self._parts)
        ]
        held_out, held_out_outputs = collect(self._held_out, block, outputs=are_read)
        outputs = [of_part for _, of_part in collected] + [held_out_outputs]
        self._outputs = outputs if are_read else []  # as many bytes as all states
        targets: list[Tensor] = []
        held_out_targets: list[Tensor] = []
        if self._wants_targets:
            self.pass_float(block)
            targets = self._floats[0].hidden if self._floats else outputs[0]
        if self._judges_outputs:
            held_out_targets = self._held_out_float[0].hidden if self._held_out_float else held_out_outputs
        return BlockData(
            parts=tuple(statistics for statistics, _ in collected),
            held_out=held_out if len(self._job.sequences.held_out) else None,
            forward=self._parts[0].forward(block),
            inputs=self._parts[0].hidden,
            targets=targets,
            held_out_inputs=self._held_out.hidden if self._judges_outputs else [],
            held_out_targets=held_out_targets,
        )

    def pass_float(self, block: nn.Module) -> None:
        """Move the float states past a block that is still float."""
        for walk in self._float_walks():
            walk.advance(walk.outputs(block))

    def advance(self, block: nn.Module) -> None:
        """Move the states past the block, whose weights are quantized by now."""
        for number, walk in enumerate([*self._parts, self._held_out]):  # a block without layers has no outputs here
            walk.advance(self._outputs[number] if self._outputs else walk.outputs(block))
        self._outputs = []


def _path(loaded: LoadedModel, layer: LayerInfo) -> str:
    return layer.path_in_block(loaded.family.blocks)


def _check_weights(loaded: LoadedModel, layers: list[LayerInfo]) -> None:
    """Refuse a bad weight before the walk carries it into the statistics of sound layers."""
    for layer in layers:
        if not torch.isfinite(loaded.weight(layer.name)).all():
            raise NumericalError("the weight is not finite", layer.name, "Repair or re-download the checkpoint.")


def layers_by_block(layers: list[LayerInfo]) -> dict[int, list[LayerInfo]]:
    """Return the layers by the number of their block, in their order."""
    grouped: dict[int, list[LayerInfo]] = {}
    for layer in layers:
        grouped.setdefault(layer.block, []).append(layer)
    return grouped
