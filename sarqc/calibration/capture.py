"""Statistics of the inputs of a block's linears, gathered while sequences pass through it.

Axes: B sequences of a batch, T tokens of a sequence, D hidden size, N tokens, K experts of a token, I in_features.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from sarqc.calibration.input_means import InputMeans, RunningMeans
from sarqc.models.families import Family, InputGroup
from sarqc.models.linears import down_inputs, readers_of_states, rows_by_expert
from sarqc.models.walk import BlockWalk
from sarqc.quantization.layer_statistics import LayerStatistics, RunningSums

Statistics = dict[str, LayerStatistics]  # by path within the block
_Total = TypeVar("_Total", covariant=True)


class _Sums(Protocol[_Total]):
    """Sums over batches of inputs."""

    def add(self, inputs: Tensor, float_inputs: Tensor | None = None) -> None: ...

    def total(self) -> _Total: ...


def collect(
    walk: BlockWalk, block: nn.Module, float_walk: BlockWalk | None = None, *, outputs: bool = True
) -> tuple[Statistics, list[Tensor]]:
    """Collect the statistics of every linear of the block, and the block's outputs, in one pass of the walk's states.

    Linears that read the same tokens of the same tensor share one object. Statistics of an expert are of the tokens
    that were routed to it, possibly none. Both inputs are held for one batch at a time.

    Args:
        walk: Walk whose states are the block's inputs.
        block: The block.
        float_walk: Walk of the same sequences through float blocks, for a cross term. It is moved past the block, whose
            weights must still be float. Tokens are routed as in ``walk``, and their float inputs are those of the same
            tokens; where a model sorts states by expert, they are zero for a token that it routed elsewhere.
        outputs: Whether to return the outputs. Without them a batch ends at the inputs of the last linear, which saves
            a quarter of the products in a LLaMA block.

    Returns:
        The statistics by path within the block, and the outputs of each batch; none without ``outputs``.
    """
    collector = _Collector(block, walk.loaded.family, walk.loaded.groups(block), RunningSums)
    made = []
    with torch.no_grad():
        for batch, hidden in enumerate(walk.hidden):
            if float_walk is not None:
                # The float inputs come first: the statistics of the batch need both, and are added by the second pass.
                with _hooked(block, collector.keeping_hooks()):
                    float_walk.hidden[batch] = float_walk.run(block, float_walk.hidden[batch], batch)
            adding_hooks = collector.adding_hooks()
            with _hooked(block, adding_hooks if outputs else _stop_after(adding_hooks)), suppress(_AllSeen):
                states = walk.run(block, hidden, batch)
                if outputs:
                    made.append(states)
    return collector.statistics(), made


def input_means(walk: BlockWalk, block: nn.Module) -> tuple[dict[str, InputMeans], list[Tensor]]:
    """Return the means of the inputs of every linear of the block, by path, and its outputs of each batch."""
    collector = _Collector(block, walk.loaded.family, walk.loaded.groups(block), RunningMeans)
    with _hooked(block, collector.adding_hooks()):
        outputs = walk.outputs(block)
    return collector.statistics(), outputs


class _AllSeen(Exception):
    """End of a forward pass in which every hook has been called."""


class _Collector(Generic[_Total]):
    """Collector of inputs and statistics by hooks of one pass."""

    def __init__(
        self, block: nn.Module, family: Family, groups: Sequence[InputGroup], sums: Callable[[], _Sums[_Total]]
    ) -> None:
        self._sums: dict[tuple[str, ...], _Sums[_Total]] = {}  # by the linears that read the same tokens of one tensor
        self._new_sums = sums
        self._block, self._experts = block, family.experts
        self._float_inputs: dict[str, Tensor] = {}  # of the batch at hand, by the path of the module that reads them
        by_group = [[path for path in group.linears if family.expert_of(path) is None] for group in groups]
        self._shared = {paths[0]: paths for paths in by_group if paths}  # linears that read all tokens of one tensor
        numbers = (family.expert_of(path) for group in groups for path in group.linears)
        self._n_experts = 1 + max((number for number in numbers if number is not None), default=-1)

    def keeping_hooks(self) -> dict[str, Callable[..., None]]:
        """Return hooks that keep inputs until the next batch."""

        def keep(path: str, _module: nn.Module, given: tuple[Tensor, ...]) -> None:
            self._float_inputs[path] = given[0]

        return {path: partial(keep, path) for path in self.adding_hooks()}

    def adding_hooks(self) -> dict[str, Callable[..., None]]:
        """Return hooks that add inputs to the statistics."""

        def add(path: str, _module: nn.Module, given: tuple[Tensor, ...]) -> None:
            self._add(self._shared[path], given[0], self._float_inputs.pop(path, None))

        hooks: dict[str, Callable[..., None]] = {path: partial(add, path) for path in self._shared}
        if self._n_experts:
            hooks[self._experts] = self._add_experts
        return hooks

    def _add_experts(self, module: nn.Module, given: tuple[Tensor, ...]) -> None:
        """Add the inputs of experts, as a hook of their module, whose first argument is the states (N, D)."""
        states = given[0]
        float_states = self._float_inputs.pop(self._experts, None)  # (N, D)
        if float_states is not None:
            float_states = float_states.reshape(states.shape)
        for expert, rows in enumerate(rows_by_expert(module, given, self._n_experts)):
            path = f"{self._experts}.{expert}"
            inputs, float_inputs = states[rows], None if float_states is None else float_states[rows]
            self._add([f"{path}.{name}" for name in readers_of_states(module)], inputs, float_inputs)
            # No hook reaches the input of the second linear, inside the expert: it is computed again.
            inner = down_inputs(self._block, path, inputs)
            float_inner = None if float_inputs is None else down_inputs(self._block, path, float_inputs)
            self._add([f"{path}.down_proj"], inner, float_inner)

    def _add(self, paths: Sequence[str], inputs: Tensor, float_inputs: Tensor | None) -> None:
        self._sums.setdefault(tuple(paths), self._new_sums()).add(inputs, float_inputs)

    def statistics(self) -> dict[str, _Total]:
        """Return statistics of all batches so far."""
        return {path: total for paths, sums in self._sums.items() for total in [sums.total()] for path in paths}


def _stop_after(hooks: dict[str, Callable[..., None]]) -> dict[str, Callable[..., None]]:
    """Return the same hooks for one pass; the last one called raises ``_AllSeen`` after its work."""
    left = set(hooks)

    def call(path: str, module: nn.Module, given: tuple[Tensor, ...]) -> None:
        hooks[path](module, given)
        left.discard(path)
        if not left:
            raise _AllSeen

    return {path: partial(call, path) for path in hooks}


@contextmanager
def _hooked(block: nn.Module, hooks: dict[str, Callable[..., None]]) -> Iterator[None]:
    """Call hooks before the forward passes of some modules of the block, by path, within this context."""
    with ExitStack() as handles:
        for path, hook in hooks.items():
            handles.callback(block.get_submodule(path).register_forward_pre_hook(hook).remove)
        yield
