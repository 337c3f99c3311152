"""Derivation of a decoder's description from one forward pass without numbers, on fake tensors.

The list of blocks is the list of modules with the most parameters. Linears that are given the same tensor form a group;
tensors are the same if they share memory. Nothing here depends on the names of an architecture.

Axes: B sequences, T tokens of a sequence, D hidden size.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Hashable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.overrides import TorchFunctionMode

from sarqc.errors import Refused
from sarqc.files.names import shortened
from sarqc.models.decoder import BlockKind, Decoder, FloatModule, Linear, StackedExperts, StoredTensor
from sarqc.models.families import InputGroup
from sarqc.models.linears import (
    expert_counts,
    is_linear,
    is_stacked,
    readers_of_states,
    routes_tokens,
    rows_and_columns,
    weight_of,
)
from sarqc.models.partial_pass import first_tensor, identity
from sarqc.models.sources import LowMemoryMode, with_sources

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_TOKENS = 16
_NO_LIMIT = 1 << 20  # positions of a model that names no limit
# A linear with this many times more columns than rows, or the reverse, or with fewer than 16 of either, is a gate, a
# router or a side of a product of low rank: few parameters, on each of which much depends.
_LOPSIDED, _FEW = 16, 16
_OTHER = "Use another model."
_AGAIN = "Repair it, or download it again."
_POSITIONS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length")
_CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_k", "moe_top_k")


class NumberFreeMode(FakeTensorMode):
    """Fake tensors that answer questions about numbers: all elements are nonzero, and a number is 1.

    A model that asks is followed in one of its branches. The groups of linears rarely depend on the branch, and the
    blocks of a loaded model are compared with its forward pass on real numbers.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return the result of an operation."""
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        except DynamicOutputShapeException:
            if func is not torch.ops.aten.nonzero.default:
                raise
            return args[0].new_empty((args[0].numel(), args[0].ndim), dtype=torch.long)
        except DataDependentOutputException:
            if func is not torch.ops.aten._local_scalar_dense.default:
                raise
            return 1.0 if args[0].is_floating_point() else 1


def model_of(config: dict[str, Any], where: str) -> PreTrainedModel:
    """Return the causal language model of a config.json; within ``FakeTensorMode`` it takes no memory.

    Raises:
        Refused: If transformers has no such model, or can't make it of these values.
    """
    import transformers
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.initialization import no_init_weights
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    model_type = str(config["model_type"])
    if model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise Refused(
            f"transformers {transformers.__version__} has no causal language model of type “{shortened(model_type)}”",
            where,
            _OTHER,
        )
    try:
        with tempfile.TemporaryDirectory() as folder:  # read as a file: JSON has no infinity, and transformers' has
            Path(folder, "config.json").write_text(json.dumps(config), encoding="utf-8")
            described = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        with no_init_weights():
            made = AutoModelForCausalLM.from_config(described, trust_remote_code=False)
            made.tie_weights()
    except Exception as error:  # architectures raise errors of any kind
        reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise Refused(f"config.json does not describe a model ({reason[:200]})", where, _AGAIN) from error
    model: PreTrainedModel = made.eval()
    return model


def derive(model: PreTrainedModel, where: str) -> Decoder:
    """Return the description of a decoder, made within the same ``FakeTensorMode`` as the model.

    Raises:
        Refused: If its forward pass can't be followed, or if its blocks are not called once each in their order.
    """
    path, blocks = _blocks(model, where)
    head = model.get_output_embeddings()
    if head is None or not is_linear(head):
        raise Refused("its logits do not come from a linear", where, _OTHER)
    pass_ = _Pass(path, blocks)
    with pass_.recorded(model, head):
        logits = _forward(model, where)
    _check_order(pass_, where)
    shared = Counter(id(parameter) for block in blocks for parameter in set(block.parameters()))
    kinds: dict[BlockKind, int] = {}
    kind_of = []
    floats: Counter[tuple[str, str]] = Counter()
    for index, block in enumerate(blocks):
        kind, float_parts = _kind(block, pass_.reads[index], pass_.returned[index], shared)
        kind_of.append(kinds.setdefault(kind, len(kinds)))
        for name, reason, parameters in float_parts:
            floats[f"{path}.*.{name}", reason] += parameters
    block_kinds = [list(kinds)[kind] for kind in kind_of]
    with unset_fake_temporarily():  # thousands of views of meta tensors take a tenth of the time
        _replace_fakes(model)
        stored = _stored(model)
        linears = _linears(path, blocks, block_kinds, model, stored)
        integers = frozenset(name for name, own in model.state_dict().items() if not own.is_floating_point())
    config, embedding = model.config.get_text_config(decoder=True), model.get_input_embeddings()
    widths = [rows_and_columns(module) for block in blocks for module in block.modules() if is_linear(module)]
    return Decoder(
        title=type(model).__name__,
        model_type=model.config.model_type,
        blocks=path,
        embedding=_path_of(model, embedding),
        head=_path_of(model, head),
        tied=head.weight is embedding.weight,
        logits_are_changed=identity(logits) != identity(pass_.head_output),
        kinds=tuple(kinds),
        kind_of=tuple(kind_of),
        integers=integers,
        stored=stored,
        prefix=f"{model.base_model_prefix}.",
        linears=linears,
        heads=heads if isinstance(heads := getattr(config, "num_attention_heads", None), int) else 1,
        hidden_size=pass_.states[0].shape[-1],
        widest=max((rows for rows, _ in widths), default=1),
        vocabulary=logits.shape[-1],
        positions=_first_number(config, _POSITIONS) or _NO_LIMIT,
        experts_per_token=_first_number(config, _CHOSEN) if any(kind.experts for kind in kinds) else None,
        floats=tuple(FloatModule(path=name, reason=why, parameters=n) for (name, why), n in floats.items()),
        ignored=tuple(sorted(model._keys_to_ignore_on_load_unexpected or ())),
    )


class _Pass:
    """Record of one forward pass."""

    def __init__(self, path: str, blocks: nn.ModuleList) -> None:
        self.path, self.blocks = path, blocks
        self.calls: list[int] = []  # numbers of blocks
        self.reads: list[list[tuple[str, Tensor]]] = [[] for _ in blocks]  # linears and experts with their inputs
        self.states: list[Tensor] = []  # given to each block
        self.returned: list[Any] = [None for _ in blocks]
        self.head_output: Tensor

    def recorded(self, model: nn.Module, head: nn.Module) -> ExitStack:
        """Return a context in which the model's forward pass is recorded."""
        hooks = ExitStack()
        for index, block in enumerate(self.blocks):
            hooks.callback(block.register_forward_pre_hook(partial(self._record_input, index), with_kwargs=True).remove)
            hooks.callback(block.register_forward_hook(partial(self._record_output, index)).remove)
            for path, module in block.named_modules():
                if is_linear(module) or is_stacked(module):
                    hook = partial(self._record_reader, index, path)
                    hooks.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
                if routes_tokens(module):
                    _stub(module, hooks)
        hooks.callback(head.register_forward_hook(self._record_head).remove)
        return hooks

    def _record_input(self, index: int, _module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.calls.append(index)
        self.states.append(first_tensor(given, named))

    def _record_output(self, index: int, _module: nn.Module, _given: Any, returned: Any) -> None:
        self.returned[index] = returned

    def _record_reader(
        self, index: int, path: str, _module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        self.reads[index].append((path, first_tensor(given, named)))

    def _record_head(self, _module: nn.Module, _given: Any, made: Tensor) -> None:
        self.head_output = made


def _blocks(model: nn.Module, where: str) -> tuple[str, nn.ModuleList]:
    """Return the list of modules with the most parameters that a pass over text uses; the outermost of nested ones."""
    lists = [(path, module) for path, module in model.named_modules() if isinstance(module, nn.ModuleList) and module]
    used = _called_modules(model, [child for _, module in lists for child in module])
    lists = [(path, module) for path, module in lists if any(child in used for child in module)]
    if not lists:
        raise Refused("the model has no list of blocks", where, _OTHER)
    sizes = [sum(parameter.numel() for parameter in module.parameters()) for _, module in lists]
    return lists[max(range(len(lists)), key=lambda at: (sizes[at], -at))]


def _called_modules(model: nn.Module, modules: list[nn.Module]) -> set[nn.Module]:
    """Return those of some modules that a forward pass over text calls."""
    used: set[nn.Module] = set()
    with ExitStack() as hooks:
        for module in modules:
            hooks.callback(module.register_forward_pre_hook(lambda called, _given: used.add(called)).remove)
        for module in model.modules():
            if routes_tokens(module):
                _stub(module, hooks)
        _forward(model, "")
    return used


def _stub(experts: nn.Module, hooks: ExitStack) -> None:
    """Make experts return any states of the right shape: the route of a token depends on numbers."""
    experts.forward = lambda states, *_args, **_named: torch.empty_like(states)
    hooks.callback(vars(experts).pop, "forward")


def _forward(model: nn.Module, where: str) -> Tensor:
    """Return the logits (1, T, V) of one pass."""
    try:
        with torch.no_grad():
            logits: Tensor = model(torch.zeros(1, _TOKENS, dtype=torch.long), use_cache=False).logits
    except Exception as error:  # architectures raise errors of any kind
        reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise Refused(f"its forward pass can't be followed without numbers ({reason[:200]})", where, _OTHER) from error
    return logits


def _check_order(seen: _Pass, where: str) -> None:
    """Refuse blocks that are not called once each, in their order, with the states of the block before."""
    times = Counter(seen.calls)
    for index, block in enumerate(seen.blocks):
        if times[index] != 1:
            name = f"{seen.path}.{index} ({type(block).__name__})"
            raise Refused(f"block {name} is called {times[index]} times in a forward pass", where, _OTHER)
    if seen.calls != sorted(seen.calls):
        raise Refused(f"the blocks of {seen.path} are not called in their order", where, _OTHER)


def _kind(
    block: nn.Module, reads: list[tuple[str, Tensor]], returned: Any, shared: Counter[int]
) -> tuple[BlockKind, list[tuple[str, str, int]]]:
    """Return the kind of a block, and its parts that stay float: path, reason and number of parameters."""
    times = Counter(path for path, _ in reads)
    stacks = [(path, module) for path, module in block.named_modules() if is_stacked(module) and times[path]]
    experts, n_routes = None, 0
    if stacks:
        path, module = stacks[0]
        number, n_routes = expert_counts(module)
        experts = StackedExperts(path=path, number=number)
    floats, quantized = [], set()
    for path, module in block.named_modules():
        own, reason = list(module.parameters(recurse=False)), None
        if is_linear(module):
            rows, _ = rows_and_columns(module)
            if not times[path]:
                reason = "not used by the decoder"
            elif times[path] > 1:
                reason = "called more than once in its block"
            elif shared[id(module.weight)] > 1:
                reason = "shared by several blocks"
            elif experts is not None and rows == n_routes and _routes(block, path, experts):
                reason = "a router"
        elif is_stacked(module):
            reason = None if experts is not None and path == experts.path else "a second stack of experts"
        else:
            own = [parameter for parameter in own if parameter.ndim > 1]
            if not own:
                continue
            is_router = experts is not None and any(len(matrix) == n_routes for matrix in own)
            reason = "a router" if is_router else "not a linear"
        if reason is None:
            quantized.add(path)
        else:
            floats.append((path, reason, sum(map(torch.numel, own))))
    groups: dict[Hashable, list[str]] = {}
    downs: list[tuple[str, ...]] = []
    for path, given in reads:
        if path not in quantized:
            continue
        group = groups.setdefault(identity(given), [])
        if experts is None or path != experts.path:
            group.append(path)
            continue
        first = readers_of_states(block.get_submodule(path))
        group += [f"{path}.{expert}.{name}" for expert in range(experts.number) for name in first]
        downs = [(f"{path}.{expert}.down_proj",) for expert in range(experts.number)]
    ordered: list[InputGroup] = []
    for linears in groups.values():
        ordered.append(InputGroup(tuple(linears), None))
        if experts is not None and any(path.startswith(f"{experts.path}.") for path in linears):
            ordered += (InputGroup(down, None) for down in downs)
    outputs = len(returned) if isinstance(returned, tuple | list) else 0
    return BlockKind(module=type(block).__name__, groups=tuple(ordered), experts=experts, outputs=outputs), floats


def _routes(block: nn.Module, path: str, experts: StackedExperts) -> bool:
    """Return True for a linear with a row for each expert that stands beside them, or alone in a module there."""
    owner, holder = experts.path.rpartition(".")[0], path.rpartition(".")[0]
    if owner and not path.startswith(f"{owner}."):
        return False
    return holder == owner or sum(map(is_linear, block.get_submodule(holder).children())) == 1


def _replace_fakes(model: nn.Module) -> None:
    """Replace all parameters and buffers by meta tensors; shared ones stay shared."""
    made: dict[int, Tensor] = {}
    for module in model.modules():
        tables: list[dict[str, Any]] = [module._parameters, module._buffers]
        for table in tables:
            for name, tensor in table.items():
                if tensor is not None and id(tensor) not in made:
                    meta = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
                    is_parameter = isinstance(tensor, nn.Parameter)
                    made[id(tensor)] = nn.Parameter(meta, requires_grad=False) if is_parameter else meta
                table[name] = made.get(id(tensor))


def _stored(model: PreTrainedModel) -> dict[str, StoredTensor]:
    """Return the tensors that transformers writes, as views of parameters; without those composed of several."""
    from transformers.core_model_loading import revert_weight_conversion

    own = model.state_dict()
    head = model.get_output_embeddings()
    head_name = f"{_path_of(model, head)}.weight"
    is_tied = head.weight is model.get_input_embeddings().weight
    for name, source in model.all_tied_weights_keys.items():
        if own[name].untyped_storage()._cdata == own[source].untyped_storage()._cdata:
            del own[name]
    owner = {tensor.untyped_storage()._cdata: (name, tensor) for name, tensor in own.items()}
    stored = {}
    with _OnlyViews():
        reverted = revert_weight_conversion(model, dict(own))
    for file_name, tensor in reverted.items():
        name, parameter = owner.get(tensor.untyped_storage()._cdata, ("", None))
        if parameter is None:
            continue
        is_whole = tensor.shape == parameter.shape and tensor.stride() == parameter.stride()
        stored[file_name] = StoredTensor(
            parameter=name,
            shape=tuple(tensor.shape),
            stride=() if is_whole else tensor.stride(),
            offset=tensor.storage_offset(),
        )
    if is_tied:  # some checkpoints have it beside the embedding
        stored[head_name] = StoredTensor(parameter=head_name, shape=tuple(head.weight.shape))
    return stored


class _OnlyViews(TorchFunctionMode):
    """A mode in which ``contiguous`` copies nothing, so that a part of a tensor remains a view of it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func is Tensor.contiguous else func(*args, **(kwargs or {}))


def _linears(
    path: str, blocks: nn.ModuleList, kinds: list[BlockKind], model: nn.Module, stored: dict[str, StoredTensor]
) -> dict[str, Linear]:
    """Return the linears to quantize by their full paths."""
    parameters = model.state_dict()
    by_place: dict[Hashable, str] = {}
    by_storage: dict[Hashable, str] = {}
    for name, each in stored.items():
        parameter = parameters[each.parameter]
        by_storage[parameter.untyped_storage()._cdata] = name
        place = (parameter.untyped_storage()._cdata, each.offset, each.shape, each.stride or parameter.stride())
        by_place[place] = name
    linears = {}
    for index, (block, kind) in enumerate(zip(blocks, kinds, strict=True)):
        for linear in (linear for group in kind.groups for linear in group.linears):
            weight = weight_of(block, linear).detach()
            storage = weight.untyped_storage()._cdata
            own, transposed = (
                by_place.get((storage, weight.storage_offset(), tuple(each.shape), each.stride()))
                for each in (weight, weight.mT)
            )
            rows, columns = weight.shape
            tensor, (few, many) = own or transposed, sorted((rows, columns))
            if tensor is None and storage not in by_storage:
                raise Refused(f"{path}.{index}.{linear} is in no tensor of the checkpoints of transformers", "", _OTHER)
            linears[f"{path}.{index}.{linear}"] = Linear(
                shape=(rows, columns),
                tensor=tensor or by_storage[storage],
                is_own=own is not None,
                is_part=tensor is None,
                is_small=few < _FEW or few * _LOPSIDED < many,
            )
    return linears


def _path_of(model: nn.Module, module: nn.Module) -> str:
    path: str = next(path for path, each in model.named_modules() if each is module)
    return path


def _first_number(config: Any, names: tuple[str, ...]) -> int | None:
    values = (getattr(config, name, None) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def description(config: bytes) -> bytes:
    """Return the description of the decoder of a config.json, both as JSON.

    Raises:
        Refused: As by its caller ``decoder_of``.
    """
    document = json.loads(config)
    with NumberFreeMode():
        decoder = derive(model_of(document, ""), "")
    with suppress(Refused):  # without sources it is a decoder as well
        with LowMemoryMode():
            model = model_of(document, "")
        decoder = with_sources(decoder, model)
    return decoder.model_dump_json().encode()
