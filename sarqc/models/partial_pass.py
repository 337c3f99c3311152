"""Parts of a derived model's own forward pass: up to a block, up to the head, and from the head on.

No code of the model is copied: the model itself runs, and parts that are not needed are skipped.

Axes: B sequences, T tokens of a sequence, D hidden size, V size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from sarqc.models.decoder import Decoder

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class BlockCall(NamedTuple):
    """Arguments of a block: the hidden state (B, T, D) and the others, by position and by name."""

    hidden: Tensor
    others: tuple[Any, ...]
    named: dict[str, Any]


class _Done(Exception):
    """End of a forward pass whose rest is not needed."""


def recorded_calls(model: PreTrainedModel, decoder: Decoder, tokens: Tensor) -> list[BlockCall]:
    """Return the model's calls of its blocks for tokens (B, T), without running the blocks.

    Each block gets the first block's hidden state.
    """
    blocks = model.get_submodule(decoder.blocks)
    calls: list[BlockCall] = []

    def record(index: int, *given: Any, **named: Any) -> Any:
        hidden, others = (given[0], given[1:]) if given else (named.pop("hidden_states"), ())
        calls.append(BlockCall(hidden, others, named))
        if index == len(decoder.kind_of) - 1:
            raise _Done
        return _as_returned(hidden, decoder, index)

    with replaced(blocks, lambda index: partial(record, index)), suppress(_Done):
        model(tokens, use_cache=False)
    return calls


def head_input(model: PreTrainedModel, decoder: Decoder, tokens: Tensor, hidden: Tensor | None = None) -> Tensor:
    """Return the input (B, T, D) of the head for tokens (B, T).

    With the last block's output ``hidden`` (B, T, D) no block is run.
    """
    seen: list[Tensor] = []

    def see(_module: nn.Module, given: tuple[Tensor, ...]) -> None:
        seen.append(given[0])
        raise _Done

    with ExitStack() as changes:
        if hidden is not None:
            changes.enter_context(replaced(model.get_submodule(decoder.blocks), _returning(decoder, hidden)))
        changes.callback(model.get_submodule(decoder.head).register_forward_pre_hook(see).remove)
        changes.enter_context(suppress(_Done))
        model(tokens, use_cache=False)
    return seen[0]


def logits_of(
    model: PreTrainedModel, decoder: Decoder, states: Tensor, head: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Return the logits (…, V) of head inputs (…, D), with the model's operations after its own or another head."""
    whole = states.reshape(1, -1, states.shape[-1])
    own = model.get_submodule(decoder.head)
    if not decoder.logits_are_changed:
        return (head or own)(states)

    token = torch.zeros(1, 1, dtype=torch.long, device=states.device)
    with ExitStack() as changes:
        changes.enter_context(replaced(model.get_submodule(decoder.blocks), _returning(decoder)))
        changes.callback(own.register_forward_pre_hook(lambda *_: (whole,)).remove)
        changes.callback(own.register_forward_hook(lambda *_: None if head is None else head(whole)).remove)
        logits: Tensor = model(token, use_cache=False).logits
    return logits.reshape(*states.shape[:-1], logits.shape[-1])


def _as_returned(hidden: Tensor, decoder: Decoder, index: int) -> Any:
    """Return a hidden state in the form of a block's output."""
    outputs = decoder.kind(index).outputs
    return hidden if not outputs else (hidden, *[None] * (outputs - 1))


def _returning(decoder: Decoder, hidden: Tensor | None = None) -> Callable[[int], Callable[..., Any]]:
    """Return forward passes of blocks that return a hidden state: this one, or with None their input."""

    def return_hidden(index: int, *given: Any, **named: Any) -> Any:
        own = given[0] if given else named["hidden_states"]
        return _as_returned(own if hidden is None else hidden, decoder, index)

    return lambda index: partial(return_hidden, index)


def identity(tensor: Tensor) -> Hashable:
    """Return the memory of a tensor and its place in it; another shape of the same numbers is equal."""
    return tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.numel(), tensor.shape[-1]


def first_tensor(given: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
    """Return the first tensor among the arguments of a call, by position and by name."""
    return next(value for value in (*given, *named.values()) if isinstance(value, Tensor))


@contextmanager
def replaced(blocks: nn.Module, forward: Callable[[int], Callable[..., Any]]) -> Iterator[None]:
    """Give the blocks other forward passes, by their numbers, above those of their classes, within this context."""
    before = {block: vars(block).get("forward") for block in blocks.children()}
    try:
        for index, block in enumerate(blocks.children()):
            block.forward = forward(index)
        yield
    finally:
        for block, own in before.items():
            vars(block).pop("forward", None)
            if own is not None:
                block.forward = own
