"""Families of architectures: a declarative entry for each, without code.

Nothing here imports torch: the web process reads it to plan a run.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field

from sarqc.errors import Refused
from sarqc.files.names import shortened
from sarqc.models.architecture import Frozen

_USUAL_GROUP_SIZES = (256, 128, 64, 32, 16, 8)


class LayerInfo(Frozen):
    """A linear of a model that is or can be quantized."""

    name: str  # full path, e.g. model.layers.3.mlp.down_proj or model.layers.3.mlp.experts.7.down_proj
    block: int
    module: str  # short name within the block, e.g. down_proj or experts.down_proj
    shape: tuple[int, int]  # (out_features, in_features)
    expert: int | None = None  # number of the expert that it belongs to
    has_own_tensor: bool = Field(default=True, exclude=True)  # (O, I) in checkpoints; else part of one, or transposed

    def path_in_block(self, blocks: str) -> str:
        """Return its path within its block; ``blocks`` is the path of the family's blocks."""
        return self.name.removeprefix(f"{blocks}.{self.block}.")


def fitting_group_sizes(layers: Iterable[LayerInfo]) -> list[int]:
    """Return the usual group sizes that divide the input channels of every layer, the largest first."""
    widths = {layer.shape[1] for layer in layers}
    return [size for size in _USUAL_GROUP_SIZES if all(width % size == 0 for width in widths)]


@dataclass(frozen=True)
class InputGroup:
    """The linears of a block that read one tensor, and the operation that it comes from; paths within the block.

    Attributes:
        linears: Paths of the linears.
        source: The operation that can take up a scale for each channel of that tensor, because nothing else reads it: a
            norm that multiplies by its weight, or a linear of an earlier group between which and this one everything is
            linear in its rows (values under attention, the factor beside a gate). None without such an operation.
        also: Other readers of the tensor that are never quantized, such as a router; a scale must reach them as well.
    """

    linears: tuple[str, ...]
    source: str | None
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """Places of the parts of a decoder; paths are module paths as in ``named_modules``.

    ``dense`` and ``mixture`` group the linears of a block by the tensor that they read, in the order of the forward
    pass; a block that has a ``router`` is a mixture. “*” in a path stands for each expert: those of a group with one
    source read parts of one tensor, each the tokens that were routed to it. Where transformers has all experts in one
    tensor, such a path means a slice of it. The other paths are those of nearly all decoders. Biases, norms of queries
    and keys, sliding windows and tied embeddings need no entry: they are the model's own. If they are named here, a
    plan requires them before the load does.
    """

    title: str
    model_types: tuple[str, ...]  # config.json's model_type
    dense: tuple[InputGroup, ...]  # empty where every block is a mixture
    mixture: tuple[InputGroup, ...] = ()
    router: str = "mlp.gate"
    experts: str = "mlp.experts"
    in_files: tuple[tuple[str, str], ...] = ()  # parts of the paths above, and their spelling in checkpoints
    embedding: str = "model.embed_tokens"
    blocks: str = "model.layers"
    norm: str = "model.norm"
    head: str = "lm_head"
    biased: tuple[str, ...] = ()  # linears with a bias that config.json does not mention
    head_norms: tuple[str, ...] = ()  # norms over the width of a head
    head_size: int | None = None  # default for a config.json without one; None: an equal share of the hidden size

    def groups(self, n_experts: int | None) -> tuple[InputGroup, ...]:
        """Return the input groups of a block with ``n_experts`` experts, or of a dense block (None)."""
        if n_experts is None:
            return self.dense
        return tuple(whole for group in self.mixture for whole in _for_each_expert(group, n_experts))

    def in_file(self, path: str) -> str:
        """Return the name in checkpoints of the module, or the expert's linear, at a path."""
        for part, spelling in self.in_files:
            path = path.replace(part, spelling)
        return path

    def in_mlx(self, layer: LayerInfo) -> str:
        """Return the name of a linear in checkpoints for MLX; for experts that of their stack."""
        if layer.expert is None:
            return self.in_file(layer.name)
        experts = self.in_file(f"{self.blocks}.{layer.block}.{self.experts}")
        return f"{experts.removesuffix('experts')}switch_mlp.{layer.name.rpartition('.')[2]}"

    def expert_of(self, path: str) -> int | None:
        """Return the number of the expert in a path; None for other paths."""
        _, _, rest = path.partition(f"{self.experts}.")
        number = rest.partition(".")[0]
        return int(number) if number.isdigit() else None

    def layer(self, block: int, path: str, shape: tuple[int, int], *, has_own_tensor: bool = True) -> LayerInfo:
        """Return the linear at a path within a block."""
        expert = self.expert_of(path)
        module = path.removeprefix("self_attn.").removeprefix("mlp.")
        if expert is not None:
            module = module.replace(f".{expert}.", ".", 1)
        name = f"{self.blocks}.{block}.{path}"
        return LayerInfo(
            name=name, block=block, module=module, shape=shape, expert=expert, has_own_tensor=has_own_tensor
        )


def _for_each_expert(group: InputGroup, n_experts: int) -> list[InputGroup]:
    """Return the group with its “*” written out: one group for each expert where they have sources of their own."""

    def written_out(paths: tuple[str, ...], experts: range) -> tuple[str, ...]:
        patterns = tuple(path for path in paths if "*" in path)
        others = tuple(path for path in paths if "*" not in path)
        return (*(path.replace("*", str(expert)) for expert in experts for path in patterns), *others)

    if group.source is None or "*" not in group.source:
        return [InputGroup(written_out(group.linears, range(n_experts)), group.source, group.also)]
    return [
        InputGroup(written_out(group.linears, range(e, e + 1)), group.source.replace("*", str(e)), group.also)
        for e in range(n_experts)
    ]


_ATTENTION = (
    InputGroup(("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "input_layernorm"),
    InputGroup(("self_attn.o_proj",), "self_attn.v_proj"),
)
_HEAD_NORMS = ("self_attn.q_norm", "self_attn.k_norm")
# Attention and a gated MLP, each behind a norm of its own.
_DENSE = (
    *_ATTENTION,
    InputGroup(("mlp.gate_proj", "mlp.up_proj"), "post_attention_layernorm"),
    InputGroup(("mlp.down_proj",), "mlp.up_proj"),
)
# The same with experts for an MLP, of which a router chooses a few for each token.
_MIXTURE = (
    *_ATTENTION,
    InputGroup(("mlp.experts.*.gate_proj", "mlp.experts.*.up_proj"), "post_attention_layernorm", also=("mlp.gate",)),
    InputGroup(("mlp.experts.*.down_proj",), "mlp.experts.*.up_proj"),
)

FAMILIES: tuple[Family, ...] = (
    Family("LLaMA, dense", ("llama",), _DENSE),
    Family("Mistral, dense", ("mistral",), _DENSE),
    Family("Qwen2, dense", ("qwen2",), _DENSE, biased=_ATTENTION[0].linears),
    Family("Qwen3, dense", ("qwen3",), _DENSE, head_norms=_HEAD_NORMS, head_size=128),
    Family(
        "Mixtral",
        ("mixtral",),
        (),
        _MIXTURE,
        in_files=(("mlp.", "block_sparse_moe."), ("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2")),
    ),
    Family("Qwen3-MoE", ("qwen3_moe",), _DENSE, _MIXTURE, head_norms=_HEAD_NORMS),
)


def is_written(model_type: object) -> bool:
    """Return True for a ``model_type`` with an entry."""
    return any(model_type in family.model_types for family in FAMILIES)


def family_of(model_type: str, where: str) -> Family:
    """Return the family of a ``model_type``.

    Raises:
        Refused: For an unknown type, with the names of the known ones.
    """
    for family in FAMILIES:
        if model_type in family.model_types:
            return family
    known = ", ".join(name for family in FAMILIES for name in family.model_types)
    what = f"models of type “{shortened(model_type)}” are not known here"
    raise Refused(what, where, f"Known types: {known}.")
