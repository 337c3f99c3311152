"""Operations of a derived decoder that take up channel scales: candidates, each checked on random numbers.

An operation is accepted for a group if a block computes the same with the columns of the group's linears multiplied by
random scales and the operation divided by them, and another result without the division. That depends on the block's
computation and not on its weights; so linears and experts are replaced by small random functions, and a block of any
size takes little memory and time. Scales are powers of two, so that division and multiplication restore the same bits,
and far apart, so that a clamp between the operation and the group is noticed.

Axes: B sequences, T tokens of a sequence, R rows of the operation, I channels of the tensor that a group reads, O
output channels of a linear, K taps of a sparse linear.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sarqc.models.decoder import BlockKind, Decoder
from sarqc.models.families import InputGroup
from sarqc.models.folding import Fold, folds, take_up
from sarqc.models.linears import (
    bias_of,
    is_linear,
    is_plain_linear,
    is_stacked,
    join_factors,
    readers_of_states,
    routes_tokens,
    rows_and_columns,
    weight_of,
)
from sarqc.models.partial_pass import BlockCall, first_tensor, identity, recorded_calls

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_TOKENS = 16
_TAPS = 4  # columns that a row of a sparse linear reads, at least
_LARGE = 1 << 16  # numbers of a tensor
_WHOLE = 1 << 22  # numbers of a random tensor; a larger one has fewer, which overlap
_STEP = 7  # between the rows of such a tensor
_EXPONENT = 10  # of the largest scale
_EQUAL = 1e-5  # of the largest number of a result, in float32
_DIFFERENT = 1e-3


def with_sources(decoder: Decoder, model: PreTrainedModel) -> Decoder:
    """Return a description with the operations that take up channel scales, and the float readers beside each group.

    The model's buffers have their numbers; all of its parameters are replaced. Made within ``LowMemoryMode`` it takes
    little.
    """
    generator = torch.Generator().manual_seed(0)
    _fill(model, generator)
    blocks = list(model.get_submodule(decoder.blocks).children())
    shared = Counter(id(parameter) for block in blocks for parameter in set(block.parameters()))
    whole = {tensor.parameter for tensor in decoder.stored.values() if not tensor.stride}
    tokens = torch.randint(decoder.vocabulary, (1, _TOKENS), generator=generator)
    kinds = []
    with torch.no_grad(), _small_functions(model, generator):
        try:
            calls = recorded_calls(model, decoder, tokens)
        except Exception:  # architectures raise errors of any kind; plans name layers that nothing serves
            return decoder
        for number, kind in enumerate(decoder.kinds):
            own = [index for index, of_kind in enumerate(decoder.kind_of) if of_kind == number]
            # Blocks of a kind may differ by their number: an operation is accepted if the first and the last have it.
            probed = []
            for index in dict.fromkeys((own[0], own[-1])):
                prefix = f"{decoder.blocks}.{index}."
                changeable = {
                    name
                    for name, parameter in blocks[index].named_parameters()
                    if shared[id(parameter)] == 1 and f"{prefix}{name}" in whole
                }
                probed.append(_Probe(blocks[index], kind, calls[index], decoder.heads, changeable, generator).groups())
            groups = tuple(
                first if first == last else InputGroup(first.linears, None)
                for first, last in zip(probed[0], probed[-1], strict=True)
            )
            kinds.append(kind.model_copy(update={"groups": groups}))
    return decoder.model_copy(update={"kinds": tuple(kinds)})


class LowMemoryMode(TorchFunctionMode):
    """A mode in which large tensors without numbers, or of experts, have one number in memory.

    Other modes without memory leave buffers without numbers, or take the memory of each parameter for a moment.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.empty, torch.zeros):
            shape = func(*args, **kwargs | {"device": "meta"}).shape
            if shape.numel() > _LARGE and (func is torch.empty or len(shape) == 3):
                return func((), **{name: value for name, value in kwargs.items() if name != "size"}).expand(shape)
        return func(*args, **kwargs)


@dataclass
class _Seen:
    """Inputs and outputs of modules in one pass through a block, by path or by ``identity``."""

    reads: dict[str, Hashable] = field(default_factory=dict)
    made_by: dict[Hashable, str] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    held: list[Tensor] = field(default_factory=list)


@dataclass
class _Probe:
    """A block with random numbers."""

    block: nn.Module
    kind: BlockKind
    call: BlockCall
    heads: int
    changeable: set[str]  # parameters that are tensors in checkpoints, and in no other block
    generator: torch.Generator

    def __post_init__(self) -> None:
        self._hidden = torch.randn(self.call.hidden.shape, generator=self.generator)  # (B, T, D)

    def groups(self) -> tuple[InputGroup, ...]:
        """Return the input groups with the operations that were accepted; without any if the block can't be run."""
        try:
            self._seen, self._own = self._watched(), self._results()
            return tuple(self._accepted())
        except Exception:  # see above
            return tuple(InputGroup(group.linears, None) for group in self.kind.groups)

    def _accepted(self) -> Iterator[InputGroup]:
        earlier: list[str] = []  # linears of the groups before that take up no scale
        experts_have = self.kind.experts is not None and self._is_linear_in_up(self.kind.experts.path)
        for group in self.kind.groups:
            expert = group.linears[0].removesuffix(".down_proj")
            if self._is_expert(expert) and expert != group.linears[0]:
                yield replace(group, source=f"{expert}.up_proj" if experts_have else None)
                continue
            chosen = next(filter(self._is_taken_up, self._candidates(group, earlier)), InputGroup(group.linears, None))
            if chosen.source in earlier:
                earlier.remove(chosen.source)
            earlier += [path for path in group.linears if not self._is_expert(path)]
            yield chosen

    def _candidates(self, group: InputGroup, earlier: Sequence[str]) -> Iterator[InputGroup]:
        """Yield the group with each operation that could take up its scale."""
        first = group.linears[0]
        readers = set(map(self._reader, group.linears))
        given = self._seen.reads[self._reader(first)]
        others = tuple(path for path, read in self._seen.reads.items() if read == given and path not in readers)
        norm = self._seen.made_by.get(given)
        if norm is not None:
            width = weight_of(self.block, first).shape[-1]
            if self._can_take_up(norm) and all(self._can_follow(path, width) for path in others):
                yield InputGroup(group.linears, norm, others)
        elif not others:
            yield from (InputGroup(group.linears, path) for path in reversed(earlier) if self._can_divide(path))

    def _can_take_up(self, path: str) -> bool:
        """Return True if the parameters of a norm can be divided."""
        parameters = self.block.get_submodule(path).named_parameters(recurse=False)
        return all(f"{path}.{name}" in self.changeable for name, _ in parameters)

    def _can_divide(self, path: str) -> bool:
        """Return True if the rows of a quantized linear can be divided; its bias is divided in its checkpoint."""
        module = self.block.get_submodule(path)
        has_bias = bias_of(self.block, path) is not None
        return is_plain_linear(module) and (not has_bias or f"{path}.bias" in self.changeable)

    def _can_follow(self, path: str, width: int) -> bool:
        """Return True if the columns of a float reader can be multiplied; it must not read another tensor as well."""
        module = self.block.get_submodule(path)
        if self._seen.times[path] != 1 or f"{path}.weight" not in self.changeable or is_stacked(module):
            return False
        return weight_of(self.block, path).shape[-1] == width and (is_plain_linear(module) or not is_linear(module))

    def _is_expert(self, path: str) -> bool:
        return self.kind.experts is not None and path.startswith(f"{self.kind.experts.path}.")

    def _reader(self, path: str) -> str:
        """Return the module that is called with the input of a linear: for an expert's that of all experts."""
        experts = self.kind.experts
        return experts.path if experts is not None and self._is_expert(path) else path

    def _is_taken_up(self, group: InputGroup) -> bool:
        """Return True if the block computes the same after the operation took up a random scale."""
        fold = folds(self.block, [group], self.heads)[0]
        if fold.source is None:
            return False
        scale = self._powers(int(fold.ties.max()) + 1)[fold.ties]
        with self._scaled(group, scale):
            without = self._results()
            with self._divided(fold, scale):
                taken_up = self._results()
        return (
            _relative_difference(taken_up, self._own) <= _EQUAL
            and _relative_difference(without, self._own) > _DIFFERENT
        )

    def _powers(self, number: int) -> Tensor:
        """Return random scales, powers of two."""
        return torch.randint(-_EXPONENT, _EXPONENT + 1, (number,), generator=self.generator).float().exp2()

    def _is_linear_in_up(self, path: str) -> bool:
        """Return True if the input of an expert's second linear is proportional to the outputs of the one before."""
        experts = self.block.get_submodule(path)
        if any(name.endswith("bias") for name, _ in experts.named_parameters(recurse=False)):
            return False  # stored in one tensor for all experts, which cannot be divided in parts
        width = weight_of(self.block, f"{path}.0.down_proj").shape[1]
        scale = self._powers(width)
        *gate, up = torch.randn(len(readers_of_states(experts)), _TOKENS, width, generator=self.generator)
        own, other = (join_factors(experts, [*gate, values]) for values in (up, up / scale))
        return _relative_difference([other * scale], [own]) <= _EQUAL

    @contextmanager
    def _scaled(self, group: InputGroup, scale: Tensor) -> Iterator[None]:
        """Multiply the columns of a group's linears, and of their float readers, by (I,) within this context."""

        def multiply(_module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
            states = first_tensor(given, named)
            return (
                tuple(value * scale if value is states else value for value in given),
                {name: value * scale if value is states else value for name, value in named.items()},
            )

        with ExitStack() as changes:
            for path in sorted(set(map(self._reader, (*group.linears, *group.also)))):
                module = self.block.get_submodule(path)
                if is_plain_linear(module) or routes_tokens(module) or is_stacked(module):  # a product: scale its input
                    changes.callback(module.register_forward_pre_hook(multiply, with_kwargs=True).remove)
                else:
                    weight = module.get_parameter("weight")
                    changes.callback(weight.data.copy_, weight.detach().clone())
                    weight.data.mul_(scale)
            yield

    @contextmanager
    def _divided(self, fold: Fold, channel_scale: Tensor) -> Iterator[None]:
        """Let an operation take up a scale (I,) within this context."""
        assert fold.source is not None
        module, rows = self.block.get_submodule(fold.source), fold.source_scale(channel_scale)
        with ExitStack() as changes:
            if is_linear(module):
                hook = module.register_forward_hook(lambda _module, _given, made: made / rows)
                changes.callback(hook.remove)
            else:
                for parameter in module.parameters(recurse=False):
                    changes.callback(parameter.data.copy_, parameter.detach().clone())
                take_up(module, rows, torch.float32)
            yield

    def _results(self) -> list[Tensor]:
        """Return all floating-point numbers that the block returns or writes into its arguments."""
        _, others, named = self.call
        returned = self.block(self._hidden.clone(), *others, **named)
        return [tensor.clone() for tensor in _tensors((returned, others, named)) if tensor.is_floating_point()]

    def _watched(self) -> _Seen:
        """Run one pass and record inputs and outputs of modules."""
        seen = _Seen()

        def read(path: str, _module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            states = first_tensor(given, named)
            seen.held.append(states)
            seen.times[path] += 1
            seen.reads[path] = identity(states)

        def made(path: str, _module: nn.Module, _given: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                seen.held.append(output)
                seen.made_by[identity(output)] = path

        with ExitStack() as hooks:
            for path, module in self.block.named_modules():
                if is_linear(module) or is_stacked(module) or _has_columns(module):
                    hooks.callback(module.register_forward_pre_hook(partial(read, path), with_kwargs=True).remove)
                elif _has_channels(module):
                    hooks.callback(module.register_forward_hook(partial(made, path)).remove)
            self._results()
        return seen


def _has_channels(module: nn.Module) -> bool:
    """Return True for a module whose only parameters are a weight and perhaps a bias for each channel, as a norm's."""
    own = dict(module.named_parameters(recurse=False))
    return "weight" in own and own.keys() <= {"weight", "bias"} and all(each.ndim == 1 for each in own.values())


def _has_columns(module: nn.Module) -> bool:
    """Return True for a module with a matrix of weights, as a router's."""
    return isinstance(weight := getattr(module, "weight", None), nn.Parameter) and weight.ndim == 2


def _tensors(values: Any) -> Iterator[Tensor]:
    """Yield the tensors within tuples, lists and dictionaries."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, tuple | list | dict):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _tensors(value)


def _relative_difference(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the largest difference relative to the largest number of its tensor; infinite for other shapes and NaN."""
    if [tensor.shape for tensor in actual] != [tensor.shape for tensor in expected]:
        return torch.inf
    most = 0.0
    for value, other in zip(actual, expected, strict=True):
        equal = value == other  # infinities of masks among them
        difference = torch.where(equal, 0.0, (value - other).abs())
        size = other[other.isfinite()].abs().max() if bool(other.isfinite().any()) else other.new_ones(())
        relative = float(difference.max() / size.clamp(min=1e-6)) if value.numel() else 0.0
        most = max(most, relative if relative == relative else torch.inf)
    return most


def _fill(model: PreTrainedModel, generator: torch.Generator) -> None:
    """Give all parameters and stored buffers random numbers, but those that ``_small_functions`` replaces NaN."""
    unused: set[int] = set()
    used: set[int] = set()
    for module in model.modules():
        is_replaced = is_plain_linear(module) or routes_tokens(module)
        for name, parameter in module.named_parameters(recurse=False):
            (unused if is_replaced and name != "bias" else used).add(id(parameter))
    unused -= used
    made: dict[int, tuple[nn.Parameter, nn.Parameter]] = {}  # with the former parameter, so that its id is not reused
    for module in model.modules():
        for name, former in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            if id(former) not in made:
                nothing = torch.full((), torch.nan).expand(former.shape)
                numbers = nothing if id(former) in unused else _random(former.shape, generator)
                made[id(former)] = former, nn.Parameter(numbers, requires_grad=False)
            module._parameters[name] = made[id(former)][1]
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                is_stored = name not in module._non_persistent_buffers_set
                module._buffers[name] = _random(buffer.shape, generator) if is_stored else buffer.float()


def _random(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Return a random tensor; one of many numbers has parts that overlap."""
    if len(shape) < 2:
        return torch.empty(shape).uniform_(0.5, 1.5, generator=generator)
    strides = [1]
    while len(strides) < len(shape):
        strides.insert(0, _STEP * strides[0])
    if shape.numel() <= _WHOLE:
        return torch.randn(shape, generator=generator) / sqrt(shape[-1])
    length = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return (torch.randn(length, generator=generator) / sqrt(shape[-1])).as_strided(shape, strides)


@contextmanager
def _small_functions(model: PreTrainedModel, generator: torch.Generator) -> Iterator[None]:
    """Make linears sparse, and experts a function without products of their own, within this context."""
    with ExitStack() as changes:
        for module in model.modules():
            if is_plain_linear(module):
                rows, columns = rows_and_columns(module)
                module.forward = _sparse(columns, rows, getattr(module, "bias", None), generator)
            elif routes_tokens(module):
                module.forward = _experts(generator)
            else:
                continue
            changes.callback(vars(module).pop, "forward", None)
        yield


def _sparse(columns: int, rows: int, bias: Tensor | None, generator: torch.Generator) -> Callable[[Tensor], Tensor]:
    """Return a random linear in which each row reads a few columns, and each column is read."""
    taps = max(_TAPS, -(-2 * columns // rows))
    made: list[Tensor] = []

    def forward(states: Tensor) -> Tensor:
        if not made:
            times = -(-rows * taps // columns)
            order = torch.cat([torch.randperm(columns, generator=generator) for _ in range(times)])
            made[:] = order[: rows * taps].view(rows, taps), torch.randn(rows, taps, generator=generator)
        at, factors = made  # (O, K)
        product = (states[..., at] * factors).sum(-1) / sqrt(taps)
        return product if bias is None else product + bias

    return forward


def _experts(generator: torch.Generator) -> Callable[..., Tensor]:
    """Return a random function of states (N, D), chosen experts and their weights, which depends on all of them."""
    made: list[Callable[[Tensor], Tensor]] = []

    def forward(states: Tensor, *given: Any, **named: Any) -> Tensor:
        if not made:
            made.append(_sparse(states.shape[-1], states.shape[-1], None, generator))
        output = made[0](states).tanh()
        for routing in _tensors((given, named)):
            factor = (routing.float() * torch.arange(1, 1 + routing.shape[-1])).sin().mean(-1)
            fits = factor.numel() == output[..., 0].numel()
            output = output * (2 + (factor.reshape(*output.shape[:-1], 1) if fits else factor.mean()))
        return output

    return forward
