"""Sequences walking from block to block.

Axes: B sequences of a batch, T tokens of a sequence, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sarqc.models import batch_tokens
from sarqc.models.linears import as_parameters
from sarqc.models.loading import LoadedModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class BlockWalk:
    """Hidden states of some sequences on their way through the blocks, one block at a time.

    The model's own embedding prepares the states, its own blocks move them on, called as its own forward pass calls
    them: after the last block they are the input of the model's final norm.
    """

    def __init__(self, loaded: LoadedModel, sequences: Tensor) -> None:
        """Embed the sequences.

        Args:
            loaded: The model.
            sequences: (n_sequences, T), token ids; without any sequence every walk is empty.
        """
        self.loaded = loaded
        model, family = loaded.model, loaded.family
        at_once = batch_tokens(on_processor=loaded.device.type == "cpu", mixture=bool(family.mixture))
        per_batch = max(1, at_once // max(1, sequences.shape[-1]))
        self.hidden: list[Tensor] = []  # of (B, T, D)
        self._arguments: dict[nn.Module, dict[str, Any]] = {}  # by block
        with torch.no_grad():
            embed = model.get_submodule(family.embedding)
            if len(sequences):
                self.hidden = [embed(batch.to(loaded.device)) for batch in sequences.split(per_batch)]
                self._arguments = _arguments_of(model, loaded.blocks(), sequences[:1].to(loaded.device))

    def through(self, block: nn.Module, hidden: Tensor) -> Tensor:
        """Return the outputs of the block for states (B, T, D)."""
        states: Tensor = block(hidden, **self._arguments[block])
        return states

    def forward(self, block: nn.Module) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
        """Return the block as a function of its linears' weights, by path, and of states (B, T, D)."""

        def call(weights: dict[str, Tensor], hidden: Tensor) -> Tensor:
            parameters = as_parameters(block, weights)
            states: Tensor = functional_call(block, parameters, (hidden,), self._arguments[block])
            return states

        return call

    def outputs(self, block: nn.Module) -> list[Tensor]:
        """Return the outputs of the block for the current states, which are not changed."""
        with torch.no_grad():
            return [self.through(block, hidden) for hidden in self.hidden]

    def advance(self, outputs: list[Tensor]) -> None:
        """Make the outputs of a block the states of the next."""
        self.hidden = outputs


def last_states(loaded: LoadedModel, sequences: Tensor) -> Iterator[Tensor]:
    """Yield the head's input (1, T, D) for each of the sequences (n_sequences, T), with each weight brought once.

    This is for a model whose blocks are streamed: the states of all sequences are held instead.
    """
    walk = BlockWalk(loaded, sequences)
    for block in loaded.blocks():
        with loaded.at(block):
            walk.advance(walk.outputs(block))
    with torch.no_grad():
        for hidden in walk.hidden:
            for states in hidden.split(1):
                yield loaded.model.get_submodule(loaded.family.norm)(states)


def _arguments_of(model: PreTrainedModel, blocks: nn.ModuleList, sequence: Tensor) -> dict[nn.Module, dict[str, Any]]:
    """The arguments of each block beside the states, for all sequences of the length of this one (1, T).

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

    before = {block: vars(block).get("forward") for block in blocks}
    try:
        for block in blocks:
            block.forward = recorder(block)  # on the instance, above its class's
        model.base_model(sequence, use_cache=False)
    finally:
        for block, forward in before.items():
            vars(block).pop("forward", None)
            if forward is not None:
                block.forward = forward
    return arguments
