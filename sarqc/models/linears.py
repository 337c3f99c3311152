"""A linear seen from outside: a module's weight, or an expert's slice of the tensor of all experts.

transformers keeps the experts of a mixture in stacked parameters: ``gate_up_proj`` (E, 2F, D) with the rows of the gate
before those of the other factor, or ``up_proj`` (E, F, D) without a gate, and ``down_proj`` (E, D, F). A module of
experts states differences of its layout: transposed, with alternating rows of both factors, with biases. Two classes do
not state it: the states of Llama 4 come sorted, those of all tokens for each expert, with zeros for tokens that are
routed elsewhere; LongCat's last experts are identities without weights. Everything here knows each expert's linears by
names of their own, such as mlp.experts.7.up_proj.

Axes: E experts, O out_features, I in_features, D hidden size, F width of an expert.
"""

from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

_FUSED: dict[str, tuple[str, int | None]] = {
    "gate_proj": ("gate_up_proj", 0),
    "up_proj": ("gate_up_proj", 1),
    "down_proj": ("down_proj", None),
}
_PARTS = {"gate_up_proj": ("gate_proj", "up_proj"), "up_proj": ("up_proj",), "down_proj": ("down_proj",)}
_IMPLICIT_LAYOUTS: dict[str, dict[str, bool]] = {
    "Llama4TextExperts": {"is_transposed": True},
    "LongcatFlashExperts": {},
}


def is_linear(module: nn.Module) -> bool:
    """Return True for a linear, also with a transposed weight as in GPT-2."""
    return isinstance(module, nn.Linear) or _is_transposed_linear(module)


def is_plain_linear(module: nn.Module) -> bool:
    """Return True for a linear that returns the product with its weight plus its bias, and nothing else."""
    forward = type(module).forward
    return is_linear(module) and (forward is nn.Linear.forward or _is_transposed_linear(module))


def is_stacked(module: nn.Module) -> bool:
    """Return True for a module that has the experts of a mixture in stacked parameters of a known layout."""
    if not hasattr(module, "is_transposed") and _implicit_layout(module) is None:
        return False
    stacks = (getattr(module, name, None) for name in ("down_proj", _input_parameter(module)))
    return all(isinstance(stack, nn.Parameter) and stack.ndim == 3 for stack in stacks)


def routes_tokens(module: nn.Module) -> bool:
    """Return True for a module that gives each token to some of its experts."""
    down = getattr(module, "down_proj", None)
    has_stack = isinstance(down, nn.Parameter) and down.ndim == 3
    return has_stack and len(signature(module.forward).parameters) > 1


def expert_counts(experts: nn.Module) -> tuple[int, int]:
    """Return the number of experts with weights in stacked parameters, and of those with identities beside them."""
    return len(experts.get_parameter("down_proj")), len(experts.get_parameter(_input_parameter(experts)))


def rows_by_expert(experts: nn.Module, given: tuple[Tensor, ...], number: int) -> Iterator[Tensor]:
    """Yield for each expert with weights the rows of the states that it gets, in their order.

    Args:
        experts: Module of the experts.
        given: Its arguments: states (N, D), the experts chosen for each token (N, K) and their weights (N, K); or the
            states (E·N, D) alone, sorted by expert.
        number: Number of experts with weights.
    """
    if len(given) == 1:
        is_given = given[0].reshape(number, -1, given[0].shape[-1]).any(dim=-1)  # (E, N)
        for expert, tokens in enumerate(is_given):
            yield tokens.nonzero()[:, 0] + expert * len(tokens)
        return
    chosen = given[1]
    # Pairs of token and expert in the order of the experts; within an expert in that of the tokens.
    order = chosen.flatten().argsort(stable=True)
    counts = chosen.flatten().bincount(minlength=number).tolist()
    for pairs in order.split(counts)[:number]:
        yield pairs // chosen.shape[-1]


def rows_and_columns(module: nn.Module) -> tuple[int, int]:
    """Return (out_features, in_features) of a linear."""
    rows, columns = module.get_parameter("weight").shape
    return (columns, rows) if _is_transposed_linear(module) else (rows, columns)


def weight_of(block: nn.Module, path: str) -> Tensor:
    """Return the weight (O, I) of the linear, or (I,) of the norm, at a path within a block: the model's own memory."""
    container, number, name = _split(path)
    if number is not None and is_stacked(experts := block.get_submodule(container)):
        fused, half = _place(experts, name)
        weight = experts.get_parameter(fused)[number]
        return _half(experts, weight.mT if _layout_flag(experts, "is_transposed", False) else weight, half)
    module = block.get_submodule(path)
    own = module.get_parameter("weight")
    return own.mT if _is_transposed_linear(module) else own


def bias_of(block: nn.Module, path: str) -> Tensor | None:
    """Return the bias of the linear, expert or norm at a path; None without one."""
    container, number, name = _split(path)
    if number is not None and is_stacked(experts := block.get_submodule(container)):
        fused, half = _place(experts, name)
        biases: Tensor | None = getattr(experts, f"{fused}_bias", None)
        return None if biases is None else _half(experts, biases[number], half)
    bias: Tensor | None = getattr(block.get_submodule(path), "bias", None)
    return bias


def as_parameters(block: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights (O, I) by the paths of their linears as the block's parameters by name, with slices joined.

    Weights (D,) of norms are taken as well.

    A slice that is not given is the block's own.
    """
    parameters: dict[str, Tensor] = {}
    stacked: set[str] = set()
    for path, weight in weights.items():
        container, number, name = _split(path)
        module = block.get_submodule(container)
        if number is not None and is_stacked(module):
            stacked.add(f"{container}.{_place(module, name)[0]}")
        else:
            transposed = _is_transposed_linear(block.get_submodule(path))
            parameters[f"{path}.weight"] = weight.mT if transposed else weight
    for name in sorted(stacked):
        experts = block.get_submodule(name.rpartition(".")[0])
        made = []
        for paths in slices_of(name, len(block.get_parameter(name))):
            parts = [weights[path] if path in weights else weight_of(block, path) for path in paths]
            if len(parts) == 2 and not _layout_flag(experts, "is_concatenated", True):
                made.append(torch.stack(parts, dim=1).flatten(0, 1))
            else:
                made.append(torch.cat(parts))
        whole = torch.stack(made)
        parameters[name] = whole.mT if _layout_flag(experts, "is_transposed", False) else whole
    return parameters


def readers_of_states(experts: nn.Module) -> tuple[str, ...]:
    """Return the names of an expert's linears that read the hidden state."""
    return _PARTS[_input_parameter(experts)]


def down_inputs(block: nn.Module, path: str, states: Tensor) -> Tensor:
    """Return the input (N, F) of the second linear of an expert, such as mlp.experts.7, for states (N, D)."""
    container = path.rpartition(".")[0]
    experts: Any = block.get_submodule(container)
    paths = [f"{path}.{name}" for name in readers_of_states(experts)]
    made = [nn.functional.linear(states, weight_of(block, linear), bias_of(block, linear)) for linear in paths]
    return join_factors(experts, made)


def join_factors(experts: Any, made: list[Tensor]) -> Tensor:
    """Return the input (N, F) of the second linear of an expert from the outputs of the first ones.

    Args:
        experts: Module of the experts.
        made: Outputs (N, F) of its first linears: of the gate and of the other factor, or of the only one.
    """
    if len(made) == 1:
        inner: Tensor = experts.act_fn(made[0])
    elif getattr(type(experts), "_apply_gate", None) in (None, _default_gate()):
        inner = experts.act_fn(made[0]) * made[1]
    else:  # a gate of the model's own, which takes both factors as they are stored
        is_concatenated = _layout_flag(experts, "is_concatenated", True)
        inner = experts._apply_gate(
            torch.cat(made, dim=-1) if is_concatenated else torch.stack(made, dim=-1).flatten(-2)
        )
    return inner


def slices_of(parameter: str, n_experts: int) -> list[tuple[str, ...]]:
    """Return for each expert the paths of the linears in a stacked parameter, in the order of its rows."""
    container, _, name = parameter.rpartition(".")
    return [tuple(f"{container}.{expert}.{part}" for part in _PARTS[name]) for expert in range(n_experts)]


def is_fused_parameter(module: nn.Module, name: str) -> bool:
    """Return True if a parameter of the module holds slices of all experts."""
    container, _, last = name.rpartition(".")
    return last in _PARTS and is_stacked(module.get_submodule(container))


def _half(experts: nn.Module, rows: Tensor, half: int | None) -> Tensor:
    if half is None:
        return rows
    return rows.chunk(2)[half] if _layout_flag(experts, "is_concatenated", True) else rows[half::2]


def _place(experts: nn.Module, name: str) -> tuple[str, int | None]:
    """Return the parameter that has a linear of all experts, and the half of its rows; None for all."""
    return ("up_proj", None) if name == _input_parameter(experts) == "up_proj" else _FUSED[name]


def _input_parameter(experts: nn.Module) -> str:
    """Return the name of the parameter that reads the hidden state."""
    return "gate_up_proj" if _layout_flag(experts, "has_gate", True) else "up_proj"


def _layout_flag(experts: nn.Module, name: str, usual: bool) -> bool:
    """Return a property of the layout of a module of experts, by its name in transformers."""
    return bool(getattr(experts, name, (_implicit_layout(experts) or {}).get(name, usual)))


def _implicit_layout(module: nn.Module) -> dict[str, bool] | None:
    """Return the layout of a class that does not state it; None for other classes."""
    return _IMPLICIT_LAYOUTS.get(type(module).__name__) if type(module).__module__.startswith("transformers.") else None


def _default_gate() -> object:
    from transformers.integrations.moe import _default_apply_gate

    return _default_apply_gate


def _is_transposed_linear(module: nn.Module) -> bool:
    return type(module).__name__ == "Conv1D" and type(module).__module__.startswith("transformers.")


def _split(path: str) -> tuple[str, int | None, str]:
    """Return the experts' module, the number of the expert and the name of its linear; for other linears no number."""
    parent, _, name = path.rpartition(".")
    container, _, number = parent.rpartition(".")
    return container, int(number) if number.isdigit() else None, name
