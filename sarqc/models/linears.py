"""A linear seen from outside: a module's weight, or an expert's slice of the tensor of all experts.

transformers keeps the experts of a mixture in two parameters, ``gate_up_proj`` (E, 2F, D), of each expert first the
gate's F rows and then those of the other factor, and ``down_proj`` (E, D, F). Checkpoints and everything here know each
expert's three linears by names of their own, such as mlp.experts.7.up_proj.

Axes: E experts, O out_features, I in_features, D hidden size, F width of an expert.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

_FUSED = {"gate_proj": ("gate_up_proj", 0), "up_proj": ("gate_up_proj", 1), "down_proj": ("down_proj", None)}
_PARTS = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}


def weight_of(block: nn.Module, path: str) -> Tensor:
    """Return the weight (O, I) of the linear, or (I,) of the norm, at a path within a block: the model's own memory."""
    container, number, name = _split(path)
    if number is None or not _is_fused(experts := block.get_submodule(container)):
        return block.get_submodule(path).get_parameter("weight")
    fused, half = _FUSED[name]
    weight = experts.get_parameter(fused)[number]
    return weight if half is None else weight.chunk(2)[half]


def bias_of(block: nn.Module, path: str) -> Tensor | None:
    """Return the bias of the linear or the norm at a path; None without one, as for experts in one tensor."""
    container, number, _ = _split(path)
    if number is not None and _is_fused(block.get_submodule(container)):
        return None
    bias: Tensor | None = getattr(block.get_submodule(path), "bias", None)
    return bias


def as_parameters(block: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights (O, I) by the paths of their linears as the block's parameters by name, with slices put together.

    A slice that is not given is the block's own.
    """
    parameters: dict[str, Tensor] = {}
    fused: set[str] = set()
    for path, weight in weights.items():
        container, number, name = _split(path)
        if number is None or not _is_fused(block.get_submodule(container)):
            parameters[f"{path}.weight"] = weight
        else:
            fused.add(f"{container}.{_FUSED[name][0]}")
    for name in sorted(fused):
        parts = slices_of(name, len(block.get_parameter(name)))
        stacked = [
            torch.cat([weights[path] if path in weights else weight_of(block, path) for path in of_expert])
            for of_expert in parts
        ]
        parameters[name] = torch.stack(stacked)
    return parameters


def slices_of(parameter: str, n_experts: int) -> list[tuple[str, ...]]:
    """Return for each expert the paths of the linears in a fused parameter, in the order of its rows."""
    container, _, name = parameter.rpartition(".")
    return [tuple(f"{container}.{expert}.{part}" for part in _PARTS[name]) for expert in range(n_experts)]


def is_fused_parameter(module: nn.Module, name: str) -> bool:
    """Return True if a parameter of the module holds slices of all experts."""
    container, _, last = name.rpartition(".")
    return last in _PARTS and _is_fused(module.get_submodule(container))


def _split(path: str) -> tuple[str, int | None, str]:
    """(module of the experts, number of the expert, name of its linear); the number is None for other linears."""
    parent, _, name = path.rpartition(".")
    container, _, number = parent.rpartition(".")
    return container, int(number) if number.isdigit() else None, name


def _is_fused(module: nn.Module) -> bool:
    return isinstance(getattr(module, "gate_up_proj", None), nn.Parameter)
