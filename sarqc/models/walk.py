"""Sequences walking from block to block.

Axes: B sequences of a batch, T tokens of a sequence, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sarqc.errors import Refused
from sarqc.models import batch_tokens
from sarqc.models.decoder import Decoder
from sarqc.models.linears import as_parameters
from sarqc.models.loading import LoadedModel
from sarqc.models.partial_pass import head_input, recorded_calls, replaced

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Arguments = tuple[tuple[Any, ...], dict[str, Any]]  # of a block beside the states, by position and by name


class BlockWalk:
    """Hidden states of some sequences on their way through the blocks, one block at a time.

    The model's own embedding prepares the states, its own blocks move them on, called as its own forward pass calls
    them: after the last block they are the input of the model's final norm.
    """

    def __init__(self, loaded: LoadedModel, sequences: Tensor, at_once: int | None = None) -> None:
        """Embed the sequences.

        Args:
            loaded: The model.
            sequences: (n_sequences, T), token ids; without any sequence every walk is empty.
            at_once: Sequences of a batch; None for a number that suits the device.
        """
        self.loaded = loaded
        model, family = loaded.model, loaded.family
        tokens = batch_tokens(on_processor=loaded.device.type == "cpu", mixture=bool(family.mixture))
        per_batch = at_once or max(1, tokens // max(1, sequences.shape[-1]))
        self.hidden: list[Tensor] = []  # of (B, T, D)
        self._arguments: dict[nn.Module, dict[str, Any]] = {}  # by block
        self._calls: DerivedCalls | None = None
        if not len(sequences):
            return
        batches = [batch.to(loaded.device) for batch in sequences.split(per_batch)]
        with torch.no_grad():
            if (decoder := loaded.checkpoint.decoder) is not None:
                self.hidden = [recorded_calls(model, decoder, batch)[0].hidden for batch in batches]
                self._calls = DerivedCalls(loaded, decoder, batches)
            else:
                self.hidden = list(map(model.get_submodule(family.embedding), batches))
                self._arguments = _arguments_of(model, loaded.blocks(), batches[0][:1])

    def run(self, block: nn.Module, hidden: Tensor, batch: int) -> Tensor:
        """Return the outputs of the block for states (B, T, D) of the sequences of a batch."""
        others, named = self._call(block, hidden, batch)
        return _states_in(block(hidden, *others, **named))

    def forward(self, block: nn.Module) -> Callable[..., Tensor]:
        """Return the block as a function of its linears' and norms' weights, by path, and of states (B, T, D).

        The function takes the number of their batch as well; without it the sequences may be of several batches.
        """

        def call(weights: dict[str, Tensor], hidden: Tensor, batch: int | None = None) -> Tensor:
            parameters = as_parameters(block, weights)
            others, named = self._call(block, hidden, batch)
            return _states_in(functional_call(block, parameters, (hidden, *others), named))

        return call

    def check_learning(self) -> None:
        """Check that blocks can be called with sequences of several batches, as methods that learn over a block do.

        Raises:
            Refused: If their arguments depend on the tokens.
        """
        if self._calls is not None:
            self._calls.check_learning()

    def _call(self, block: nn.Module, hidden: Tensor, batch: int | None) -> Arguments:
        return ((), self._arguments[block]) if self._calls is None else self._calls.arguments(block, len(hidden), batch)

    def outputs(self, block: nn.Module) -> list[Tensor]:
        """Return the outputs of the block for the current states, which are not changed."""
        with torch.no_grad():
            return [self.run(block, hidden, batch) for batch, hidden in enumerate(self.hidden)]

    def advance(self, outputs: list[Tensor]) -> None:
        """Make the outputs of a block the states of the next."""
        self.hidden = outputs


class DerivedCalls:
    """Calls of a derived model's blocks, as its own forward pass makes them for batches of tokens (B, T).

    Each size of a batch has its own: some models check the sizes of masks, and some fold heads into them. Arguments
    that depend on the tokens, such as embeddings for each block, are recorded again whenever a batch passes.
    """

    def __init__(self, loaded: LoadedModel, decoder: Decoder, batches: list[Tensor]) -> None:
        self._loaded, self._decoder = loaded, decoder
        self._batches = batches
        self._numbers = {block: index for index, block in enumerate(loaded.blocks())}
        self._by_size: dict[int, list[Arguments]] = {}
        first = batches[0][:1]
        # Other tokens, and those that some models take for padding.
        changed = map(self._recorded, ((first + 1) % loaded.vocabulary, torch.zeros_like(first)))
        self._by_size[1] = alone = self._recorded(first)
        self._depends_on_tokens = not all(_same(alone, arguments) for arguments in changed)

    def _recorded(self, tokens: Tensor) -> list[Arguments]:
        """Return the arguments of each block beside the states."""
        with torch.no_grad():
            calls = recorded_calls(self._loaded.model, self._decoder, tokens)
        return [(call.others, call.named) for call in calls]

    def arguments(self, block: nn.Module, size: int, batch: int | None) -> Arguments:
        """Return the arguments of a block for a number of sequences of a batch; None for sequences of several batches.

        Raises:
            Refused: For sequences of several batches, if the arguments depend on the tokens.
        """
        if self._depends_on_tokens:
            if batch is None:
                self.check_learning()
            return self._recorded(self._batches[batch or 0])[self._numbers[block]]
        if size not in self._by_size:
            self._by_size[size] = self._recorded(self._batches[0][:1].expand(size, -1))
        return self._by_size[size][self._numbers[block]]

    def check_learning(self) -> None:
        """Check that the arguments don't depend on the tokens.

        Raises:
            Refused: If they do.
        """
        if self._depends_on_tokens:
            raise Refused(
                f"blocks of {self._decoder.title} get embeddings of the tokens beside the hidden state, which a "
                "method that learns over a block does not follow",
                self._loaded.checkpoint.name,
                "Use a method that solves single layers, such as gptq+saliency.",
            )


def last_states(loaded: LoadedModel, sequences: Tensor) -> Iterator[Tensor]:
    """Yield the head's input (1, T, D) for each of the sequences (n_sequences, T), with each weight loaded once.

    This is for a model whose blocks are streamed: the states of all sequences are held instead.
    """
    walk = BlockWalk(loaded, sequences)
    for block in loaded.blocks():
        with loaded.at(block):
            walk.advance(walk.outputs(block))
    with torch.no_grad():
        for hidden in walk.hidden:
            for states in hidden.split(1):
                if loaded.checkpoint.decoder is None:
                    yield loaded.model.get_submodule(loaded.family.norm)(states)
                else:
                    tokens = torch.zeros(states.shape[:2], dtype=torch.long, device=states.device)
                    yield head_input(loaded.model, loaded.checkpoint.decoder, tokens, states)


def _states_in(returned: Any) -> Tensor:
    """Return the hidden state among the outputs of a block."""
    states: Tensor = returned[0] if isinstance(returned, tuple | list) else returned
    return states


def _same(first: Any, second: Any) -> bool:
    """Return True for arguments with equal numbers."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return torch.equal(first, second)
    if isinstance(first, tuple | list) and isinstance(second, tuple | list):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_same(first[name], second[name]) for name in first)
    return True  # objects of the model's own


def _arguments_of(model: PreTrainedModel, blocks: nn.ModuleList, sequence: Tensor) -> dict[nn.Module, dict[str, Any]]:
    """Return the arguments of each block beside the states, for all sequences of the length of this one (1, T).

    The model's own forward pass makes them, masks of sliding windows among them, while the blocks only record them.
    Masks and positions broadcast over the batch; blocks of one kind share one mask (1, 1, T, T).
    """
    arguments: dict[nn.Module, dict[str, Any]] = {}

    def record(index: int, hidden: Tensor, **given: Any) -> Tensor:
        arguments[blocks[index]] = given
        return hidden

    with replaced(blocks, lambda index: partial(record, index)):
        model.base_model(sequence, use_cache=False)
    return arguments
