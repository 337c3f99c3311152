"""The inputs of a block's linears, and the walk from block to block.

Axes: B sequences of a batch, T tokens of a sequence, D hidden size, N tokens, I in_features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from sarqc.models.loading import LoadedModel
from sarqc.quantization.layer_statistics import LayerStatistics

BATCH_TOKENS = 8192  # tokens that go through a block at once


class BlockWalk:
    """Hidden states of some sequences on their way through the blocks, one block at a time.

    The model's own embedding and rotary modules prepare the states, its own blocks move them on: after the last
    block they are what the model's final norm would see.
    """

    def __init__(self, loaded: LoadedModel, sequences: Tensor) -> None:
        """sequences: (n_sequences, T) token ids; with none of them every walk is empty."""
        self._loaded = loaded
        model, family = loaded.model, loaded.family
        per_batch = max(1, BATCH_TOKENS // max(1, sequences.shape[-1]))
        positions = torch.arange(sequences.shape[-1], device=loaded.device).unsqueeze(0)  # (1, T)
        self.hidden: list[Tensor] = []  # of (B, T, D)
        with torch.no_grad():
            embed = model.get_submodule(family.embedding)
            if len(sequences):
                self.hidden = [embed(batch.to(loaded.device)) for batch in sequences.split(per_batch)]
            first = self.hidden[0] if self.hidden else torch.empty(0, device=loaded.device)
            self._arguments = {
                "attention_mask": None,  # scaled-dot-product attention is causal without a mask
                "position_ids": positions,
                "position_embeddings": model.get_submodule(family.rotary)(first, positions),
                "use_cache": False,
            }

    def outputs(self, block: nn.Module) -> list[Tensor]:
        """What the block makes of the current states, which stay as they are."""
        with torch.no_grad():
            return [block(hidden, **self._arguments) for hidden in self.hidden]

    def advance(self, outputs: list[Tensor]) -> None:
        """The outputs of a block become the states of the next."""
        self.hidden = outputs

    def collect(self, block: nn.Module) -> tuple[dict[str, LayerStatistics], list[Tensor]]:
        """Statistics of every input group of the block, and the block's outputs, from one pass.

        Keys are the paths of linears within the block; linears that read the same tensor share one object.
        """
        groups = self._loaded.family.inputs
        collected: dict[str, LayerStatistics] = {}
        hooks = [block.get_submodule(group[0]).register_forward_pre_hook(_adder(collected, group)) for group in groups]
        try:
            outputs = self.outputs(block)
        finally:
            for hook in hooks:
                hook.remove()
        return collected, outputs


def _adder(collected: dict[str, LayerStatistics], group: Sequence[str]) -> Callable[..., None]:
    """A hook that adds a linear's inputs to the statistics of its whole input group."""

    def add(_module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        seen = LayerStatistics.from_inputs(arguments[0])
        total = collected[group[0]] + seen if group[0] in collected else seen
        for path in group:
            collected[path] = total

    return add
