"""Admission of a derived model: its blocks, run one by one, must give its own logits."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sarqc.errors import Refused
from sarqc.models.decoder import Decoder
from sarqc.models.linears import weight_of
from sarqc.models.loading import LoadedModel
from sarqc.models.partial_pass import first_tensor, head_input, replaced
from sarqc.models.walk import BlockWalk

_TOKENS = 16
_TOLERANCE = 1e-4  # of the largest logit, in float32
_LEVELS = 3  # largest code of the rounded linears: 3 bits


def admit(loaded: LoadedModel, *, learns: bool) -> None:
    """Check a model on 16 tokens, with its linears rounded to 3 bits while their block is in use.

    Data that pass between blocks beside the hidden state and are recorded from the float model are wrong for a rounded
    one: on the float model alone this would go unnoticed. The linears of a group, which read one tensor in a pass
    without numbers, are checked here to read equal numbers.

    Args:
        loaded: A model without a written family.
        learns: Whether a method learns over its blocks.

    Raises:
        Refused: If the logits of both passes differ, with the first block that does, if linears of a group read
            different numbers, or if nothing can be learned over its blocks.
    """
    decoder = loaded.checkpoint.decoder
    assert decoder is not None
    try:
        _compare(loaded, decoder, learns=learns)
    except Refused:
        raise
    except Exception as error:  # architectures raise errors of any kind
        reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise Refused(
            f"its blocks can't be run one by one ({reason[:200]})", loaded.checkpoint.name, "Use another model."
        ) from error


def _compare(loaded: LoadedModel, decoder: Decoder, *, learns: bool) -> None:
    """Compare the hidden states and logits of both passes; raise ``Refused`` where they differ."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(loaded.vocabulary, (1, _TOKENS), generator=generator).to(loaded.device)
    inputs: list[Tensor] = []
    with torch.no_grad():
        with _rounded_blocks(loaded, decoder, inputs):
            own = head_input(loaded.model, decoder, tokens)
        walk = BlockWalk(loaded, tokens)
        if learns:
            walk.check_learning()
        for index, block in enumerate(loaded.blocks()):
            with loaded.at(block), _rounded(block, decoder, index):
                if not _is_near(walk.hidden[0], inputs[index]):
                    raise _refusal(loaded, decoder, max(0, index - 1))
                with _reads(block, decoder, index) as reads:
                    walk.advance(walk.outputs(block))
                _check_groups(loaded, decoder, index, reads)
        walked = head_input(loaded.model, decoder, tokens, walk.hidden[0])
        if not _is_near(loaded.logits(own), loaded.logits(walked)):
            raise _refusal(loaded, decoder, len(inputs) - 1)


def _refusal(loaded: LoadedModel, decoder: Decoder, index: int) -> Refused:
    kind = decoder.kind(index).module
    return Refused(
        f"run by itself, block {decoder.blocks}.{index} ({kind}) gives another hidden state than in the model's own "
        "forward pass: something else passes between its blocks",
        loaded.checkpoint.name,
        "Use another model.",
    )


@contextmanager
def _reads(block: nn.Module, decoder: Decoder, index: int) -> Iterator[dict[str, list[Tensor]]]:
    """Keep the inputs of the linears of a block outside its experts, by path, within this context."""
    reads: dict[str, list[Tensor]] = {path: [] for group in _shared_groups(decoder, index) for path in group}

    def keep(path: str, _module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        reads[path].append(next(iter((*given, *named.values()))))

    with ExitStack() as hooks:
        for path in reads:
            module = block.get_submodule(path)
            hooks.callback(module.register_forward_pre_hook(partial(keep, path), with_kwargs=True).remove)
        yield reads


def _check_groups(loaded: LoadedModel, decoder: Decoder, index: int, reads: dict[str, list[Tensor]]) -> None:
    """Refuse linears that are not called once, or that read other numbers than the first of their group."""
    for group in _shared_groups(decoder, index):
        first = reads[group[0]]
        for path in group:
            given, name = reads[path], f"{decoder.blocks}.{index}.{path}"
            if len(given) != 1:
                what = f"{name} is called {len(given)} times in a forward pass"
            elif not torch.equal(given[0].reshape(-1), first[0].reshape(-1)):
                what = f"{name} does not read what {group[0]} reads"
            else:
                continue
            raise Refused(
                f"on real tokens {what}, other than on tensors without numbers",
                loaded.checkpoint.name,
                "Use another model.",
            )


def _shared_groups(decoder: Decoder, index: int) -> list[list[str]]:
    """Return the groups of a block without linears of experts, whose inputs are seen where tokens are routed."""
    kind = decoder.kind(index)
    inside = "" if kind.experts is None else f"{kind.experts.path}."
    groups = ([path for path in group.linears if not inside or not path.startswith(inside)] for group in kind.groups)
    return [group for group in groups if group]


def _is_near(first: Tensor, second: Tensor) -> bool:
    largest = max(float(first.abs().max()), 1e-6)
    return first.shape == second.shape and float((first - second).abs().max()) <= _TOLERANCE * largest


def _rounded_blocks(loaded: LoadedModel, decoder: Decoder, inputs: list[Tensor]) -> AbstractContextManager[None]:
    """Round the linears of each block during its forward pass within this context, and record its inputs."""

    def forward(index: int, own: Callable[..., Any], *given: Any, **named: Any) -> Any:
        block = loaded.blocks()[index]
        inputs.append(first_tensor(given, named))
        with loaded.at(block), _rounded(block, decoder, index):
            return own(*given, **named)

    return replaced(loaded.blocks(), lambda index: partial(forward, index, loaded.blocks()[index].forward))


@contextmanager
def _rounded(block: nn.Module, decoder: Decoder, index: int) -> Iterator[None]:
    """Round the linears of a block within this context."""
    paths = [
        path
        for group in decoder.kind(index).groups
        for path in group.linears
        if f"{decoder.blocks}.{index}.{path}" not in decoder.small
    ]
    weights = {path: weight_of(block, path).detach().clone() for path in paths}
    try:
        for path, weight in weights.items():
            scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / _LEVELS
            weight_of(block, path).data.copy_((weight / scale).round() * scale)
        yield
    finally:
        for path, weight in weights.items():
            weight_of(block, path).data.copy_(weight)
