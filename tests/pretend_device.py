"""A device that is not there: its tensors compute on the CPU, and refuse what a GPU's would refuse.

A tensor here says that it is on ``gpu:0`` or ``gpu:1``. Refused are operations on tensors of two devices, other than a
copy or a single number of the CPU; reading a tensor as numpy; random numbers from a generator of the CPU; indices and
values of another device. Not shown are kernels, memory, speed and the order of sums: for these there is the doctor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "gpu"
# PyTorch has one kind of accelerator in a process, known before its first gradient: with this one, those of a real GPU
# would fail.
if not torch.cuda.is_available():
    _setup_privateuseone_for_python_backend(NAME)
    torch.get_device_module(NAME).get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]  # lm-eval asks
_ATEN = torch.ops.aten
_COPIES = {_ATEN._to_copy.default, _ATEN.copy_.default}
# May have indices of the CPU, which a GPU takes too.
_INDEXED = {_ATEN.index.Tensor, _ATEN.index_put_.default, _ATEN.index_put.default, _ATEN._index_put_impl_.default}


def _skip_beside_a_gpu() -> None:
    if torch.cuda.is_available():
        pytest.skip("a real GPU is here")


def pretend(index: int = 0) -> torch.device:
    """One of the devices."""
    _skip_beside_a_gpu()
    return torch.device(NAME, index)


class OnDevice(Tensor):
    """A tensor of a pretended device; ``inner`` is its memory, on the CPU."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor, device: torch.device) -> OnDevice:
        made: OnDevice = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            layout=inner.layout, device=device, requires_grad=inner.requires_grad,
        )  # fmt: skip
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"OnDevice({self.device}, {self.inner!r})"

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(f"can't convert a tensor of {self.device} to numpy; copy it to the CPU first")

    def __array__(self, *arguments: object) -> Any:
        return self.numpy()

    def __deepcopy__(self, memo: dict[int, Any]) -> OnDevice:
        memo[id(self)] = copied = OnDevice(self.inner.clone(), self.device)
        return copied

    # Numbers are read without a look at the dispatcher, which has no storage to read them from.

    def item(self) -> Any:
        return self.inner.item()

    def tolist(self) -> Any:
        return self.inner.tolist()

    def __bool__(self) -> bool:
        return bool(self.inner)

    def __int__(self) -> int:
        return int(self.inner)

    def __float__(self) -> float:
        return float(self.inner)

    def __index__(self) -> int:
        return self.inner.__index__()


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation of PyTorch on any tensors: checked, computed on the CPU, and put back where it belongs."""
    leaves = [*_leaves(args), *_leaves(tuple(kwargs.values()))]
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    devices = {part.device for part in tensors if isinstance(part, OnDevice)}
    asked = None if kwargs.get("device") is None else torch.device(kwargs["device"])
    if func not in _COPIES:
        _check(func, args, tensors, devices)
    target = asked or next(iter(devices), None)
    if func is _ATEN.copy_.default:
        target = args[0].device
    if target is not None and target.type == NAME:
        generators = [leaf for leaf in leaves if isinstance(leaf, torch.Generator)]
        if generators:
            raise RuntimeError(f"expected a generator of {target}, and it is of {generators[0].device} ({func})")
        if target.index is None:
            target = pretend()
    if asked is not None and asked.type == NAME:
        kwargs = kwargs | {"device": torch.device("cpu")}
    kwargs.pop("pin_memory", None)
    inner_args = _each(_inner, args)
    inner_kwargs = {name: _each(_inner, value) for name, value in kwargs.items()}
    if func is _ATEN.histc.default and not inner_args[0].is_floating_point():  # a GPU counts integers, the CPU does not
        result = func(inner_args[0].double(), *inner_args[1:], **inner_kwargs).to(inner_args[0].dtype)
    else:
        result = func(*inner_args, **inner_kwargs)
    returned = func._schema.returns
    if returned and returned[0].alias_info is not None and returned[0].alias_info.is_write and args:
        return kwargs.get("out", args[0])  # in place: what was given is what comes back
    if target is None or target.type != NAME:
        return result
    return _each(lambda leaf: OnDevice(leaf, target) if _is_plain(leaf) else leaf, result)


def _check(func: Any, args: Any, tensors: list[Tensor], devices: set[torch.device]) -> None:
    """Raises what a GPU would, for tensors of several devices."""
    if len(devices) > 1:
        raise RuntimeError(f"expected all tensors on one device, found {sorted(map(str, devices))} ({func})")
    if not devices:
        return
    strangers = [part for part in tensors if _is_plain(part) and part.ndim > 0]
    if func in _INDEXED and isinstance(args[0], OnDevice):
        indices = {id(leaf) for leaf in args[1]}
        strangers = [part for part in strangers if id(part) not in indices]
    if strangers:
        shapes = [tuple(part.shape) for part in strangers]
        raise RuntimeError(f"expected all tensors on {next(iter(devices))}, and {shapes} are on the CPU ({func})")


# What operations take and return is values, and lists and tuples of them; for these PyTorch's own walk through any tree
# takes longer than the operations.


def _leaves(part: Any) -> Iterator[Any]:
    """All values in lists and tuples."""
    if isinstance(part, list | tuple):
        for inside in part:
            yield from _leaves(inside)
    else:
        yield part


def _each(function: Callable[[Any], Any], part: Any) -> Any:
    """Lists and tuples with the function of each value in the place of the value."""
    if isinstance(part, list | tuple):
        return type(part)([_each(function, inside) for inside in part])
    return function(part)


def _inner(leaf: Any) -> Any:
    return leaf.inner if isinstance(leaf, OnDevice) else leaf


def _is_plain(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and not isinstance(leaf, OnDevice) and leaf.device.type == "cpu"


class _Operations(TorchDispatchMode):
    """Also operations without a tensor of the device among their arguments, such as making one there."""

    # PyTorch's own C++ takes the place of such devices for one of its fake ones and asks it for these.
    _mode_key = torch._C._TorchDispatchModeKey.FAKE
    allow_non_fake_inputs, shape_env, static_shapes = True, None, True

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, dict(kwargs or {}))


class _Functions(TorchFunctionMode):
    """Functions that look at a device before the dispatcher does."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if func in (torch.tensor, torch.as_tensor) and device is not None and torch.device(device).type == NAME:
            del kwargs["device"]
            return func(*args, **kwargs).to(device)
        if func is Tensor.new_tensor and isinstance(args[0], OnDevice):
            data = torch.tensor(args[1], dtype=kwargs.get("dtype") or args[0].dtype)
            return data.to(args[0].device if device is None else device)
        if func is torch.nn.functional.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        return func(*args, **kwargs)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Attention as its definition says: its kernels are chosen by what the device can do."""
    assert dropout_p == 0.0
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (part.repeat_interleave(groups, -3) for part in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    return scores.float().softmax(-1).to(value.dtype) @ value


@contextmanager
def pretended() -> Iterator[None]:
    """A context in which the devices are there, also in threads that get work within: PyTorch keeps modes by thread."""
    _skip_beside_a_gpu()
    submit = ThreadPoolExecutor.submit

    def submitted(pool: ThreadPoolExecutor, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        def there() -> Any:
            with _Operations(), _Functions():
                return work(*args, **kwargs)

        return submit(pool, there)

    with pytest.MonkeyPatch.context() as patch, _Operations(), _Functions():
        patch.setattr(ThreadPoolExecutor, "submit", submitted)
        yield
