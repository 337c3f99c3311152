"""A kernel and a loop given the same block, and a solver made to use either."""

from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest
import torch

from sarqc.quantization import column_updates
from sarqc.quantization.columns import Block, copied
from sarqc.quantization.grid import Grid


def same_bits(
    block: Block, grid: Grid, kernel: Callable[[Block, Grid], None], loop: Callable[[Block, Grid], None],
    names: tuple[str, ...],
) -> None:  # fmt: skip
    """Both on copies of the block: the tensors of these names must be equal."""
    results = []
    for solve in (kernel, loop):
        results.append(copied(block))
        solve(results[-1], grid)
    for name in names:
        one, other = (getattr(result, name) for result in results)
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other), name


def with_kernels(patch: pytest.MonkeyPatch, kernels: ModuleType | None) -> list[str]:
    """Solvers take these kernels, or loops; returns what will be called of them."""
    calls: list[str] = []
    if kernels is None:
        patch.setattr(column_updates, "_kernels_for", lambda device: None)
        return calls

    def counted(name: str) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            calls.append(name)
            getattr(kernels, name)(*arguments)

        return call

    counting = SimpleNamespace(take_turns=counted("take_turns"), descend=counted("descend"))
    patch.setattr(column_updates, "_kernels_for", lambda device: counting)
    return calls
