"""A second device for hosts without one: tensors that say they are elsewhere, compute here, and refuse to be mixed.

What an accelerator refuses is refused: an operation on tensors of two devices, but for numbers without axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_COPIES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}
_INDEXING = {torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default}  # places may be on the CPU


class Elsewhere(torch.Tensor):
    """A tensor of the CPU under another device's name."""

    here: torch.Tensor

    @staticmethod
    def __new__(cls, here: torch.Tensor) -> Elsewhere:
        made = torch.Tensor._make_wrapper_subclass(
            cls, here.size(), strides=here.stride(), storage_offset=here.storage_offset(), dtype=here.dtype,
            device=torch.device("elsewhere", 0),
        )  # fmt: skip
        made.here = here
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        return _run(function, given, named or {})

    def tolist(self) -> Any:
        return self.here.tolist()


class _Everywhere(TorchDispatchMode):
    """So that tensors that are made of nothing can be elsewhere too."""

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        return _run(function, given, named or {})


@contextmanager
def second_device() -> Iterator[torch.device]:
    """A context in which there is another device."""
    if torch._C._get_privateuse1_backend_name() != "elsewhere":
        _setup_privateuseone_for_python_backend("elsewhere")
    with _Everywhere():
        yield torch.device("elsewhere", 0)


def _run(function: Any, given: Any, named: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_leaves((given, named)) if isinstance(leaf, torch.Tensor)]
    away = any(isinstance(tensor, Elsewhere) for tensor in tensors)
    if function in _INDEXING:
        tensors = tensors[:1]
    mixed = any(not isinstance(tensor, Elsewhere) and tensor.ndim for tensor in tensors)
    if away and mixed and function not in _COPIES:
        raise RuntimeError(f"Expected all tensors to be on the same device: {function}")
    if named.get("device") is not None:
        away = torch.device(named["device"]).type == "elsewhere"
        named = named | {"device": torch.device("cpu")}
    elif function in _COPIES:
        away = isinstance(given[0], Elsewhere)
    inside = lambda leaf: leaf.here if isinstance(leaf, Elsewhere) else leaf  # noqa: E731
    made = function(*tree_map(inside, given), **tree_map(inside, named))
    if function._schema.is_mutable:
        return given[0]
    return tree_map(lambda leaf: Elsewhere(leaf) if away and isinstance(leaf, torch.Tensor) else leaf, made)
