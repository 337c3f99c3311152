"""The inputs of a block's linears, and the walk from block to block.

Axes: B sequences of a batch, T tokens of a sequence, D hidden size, N tokens, I in_features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sarqc.models.loading import LoadedModel
from sarqc.quantization.layer_statistics import LayerStatistics

BATCH_TOKENS = 8192  # tokens that go through a block at once


class BlockWalk:
    """Hidden states of some sequences on their way through the blocks, one block at a time.

    The model's own embedding prepares the states, its own blocks move them on, called as its own forward pass calls
    them: after the last block they are what the model's final norm would see.
    """

    def __init__(self, loaded: LoadedModel, sequences: Tensor) -> None:
        """sequences: (n_sequences, T) token ids; with none of them every walk is empty."""
        self._loaded = loaded
        model, family = loaded.model, loaded.family
        per_batch = max(1, BATCH_TOKENS // max(1, sequences.shape[-1]))
        self.hidden: list[Tensor] = []  # of (B, T, D)
        self._arguments: dict[nn.Module, dict[str, Any]] = {}  # by block
        with torch.no_grad():
            embed = model.get_submodule(family.embedding)
            if len(sequences):
                self.hidden = [embed(batch.to(loaded.device)) for batch in sequences.split(per_batch)]
                self._arguments = _arguments_of(model, loaded.blocks(), sequences[:1].to(loaded.device))

    def forward(self, block: nn.Module) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
        """The block as a function of its linears' weights, by path, and of states (B, T, D)."""

        def call(weights: dict[str, Tensor], hidden: Tensor) -> Tensor:
            parameters = {f"{path}.weight": weight for path, weight in weights.items()}
            return functional_call(block, parameters, (hidden,), self._arguments[block])

        return call

    def outputs(self, block: nn.Module) -> list[Tensor]:
        """What the block makes of the current states, which stay as they are."""
        with torch.no_grad():
            return [block(hidden, **self._arguments[block]) for hidden in self.hidden]

    def advance(self, outputs: list[Tensor]) -> None:
        """The outputs of a block become the states of the next."""
        self.hidden = outputs

    def collect(
        self, block: nn.Module, float_walk: BlockWalk | None = None
    ) -> tuple[dict[str, LayerStatistics], list[Tensor]]:
        """Statistics of every input group of the block, and the block's outputs, from one pass.

        Keys are the paths of linears within the block; linears that read the same tensor share one object.
        ``float_walk`` walks the same sequences through float blocks: with it the statistics have a cross term, and it
        is moved on past the block, whose weights must still be float. Both inputs are held for one batch at a time.
        """
        groups = [group.linears for group in self._loaded.family.inputs]
        collected: dict[str, LayerStatistics] = {}
        float_inputs: dict[str, Tensor] = {}  # of the batch at hand, by the first path of a group
        add = {group[0]: _adder(collected, float_inputs, group) for group in groups}
        keep = {group[0]: _keeper(float_inputs, group[0]) for group in groups}
        outputs = []
        with torch.no_grad():
            for batch, hidden in enumerate(self.hidden):
                if float_walk is not None:
                    with _hooked(block, keep):
                        float_walk.hidden[batch] = block(float_walk.hidden[batch], **float_walk._arguments[block])
                with _hooked(block, add):
                    outputs.append(block(hidden, **self._arguments[block]))
        return collected, outputs


def _arguments_of(model: nn.Module, blocks: nn.ModuleList, sequence: Tensor) -> dict[nn.Module, dict[str, Any]]:
    """What the model gives each block beside the states, for all sequences as long as this one (1, T).

    Asked of the model's own forward pass, in which the blocks only write down how they are called: masks of sliding
    windows, and which blocks have one, are decided there, differently from family to family, and nothing of it has to
    be known here. Where attention is plainly causal the mask is None. One sequence is enough, because masks and
    positions broadcast over the batch; blocks of one kind share one mask, so that at most a few (1, 1, T, T) are held.
    """
    arguments: dict[nn.Module, dict[str, Any]] = {}

    def recorder(block: nn.Module) -> Callable[..., Tensor]:
        def record(hidden: Tensor, **given: Any) -> Tensor:
            arguments[block] = given
            return hidden

        return record

    try:
        for block in blocks:
            block.forward = recorder(block)  # on the instance, above its class's
        model.base_model(sequence, use_cache=False)
    finally:
        for block in blocks:
            vars(block).pop("forward", None)
    return arguments


@contextmanager
def _hooked(block: nn.Module, hooks: dict[str, Callable[..., None]]) -> Iterator[None]:
    """Hooks before the forward pass of some linears of the block, by path, and none of them afterwards."""
    handles = [block.get_submodule(path).register_forward_pre_hook(hook) for path, hook in hooks.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _keeper(float_inputs: dict[str, Tensor], path: str) -> Callable[..., None]:
    """A hook that keeps a linear's inputs until the next batch."""

    def keep(_module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        float_inputs[path] = arguments[0]

    return keep


def _adder(
    collected: dict[str, LayerStatistics], float_inputs: dict[str, Tensor], group: Sequence[str]
) -> Callable[..., None]:
    """A hook that adds a linear's inputs to the statistics of its whole input group."""

    def add(_module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        seen = LayerStatistics.from_inputs(arguments[0], float_inputs.pop(group[0], None))
        total = collected[group[0]] + seen if group[0] in collected else seen
        for path in group:
            collected[path] = total

    return add
