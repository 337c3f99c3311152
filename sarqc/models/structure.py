"""What a model looks like from outside: one declarative entry for each family, no code.

Nothing here imports torch: the web process reads it to plan a run.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from sarqc.errors import Refused


class LayerInfo(BaseModel):
    """One quantized linear of a model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str  # full module path, e.g. model.layers.3.mlp.down_proj
    block: int
    module: str  # short name within the block, e.g. down_proj
    shape: tuple[int, int]  # (out_features, in_features)


@dataclass(frozen=True)
class InputGroup:
    """The linears of a block that read one tensor, so that they share a Gram, and the operation that it comes from.

    ``source`` can take up a scale for each channel of that tensor, because nothing else reads it: a norm that
    multiplies by its weight, or a linear of an earlier group between which and this one everything is linear in its
    rows (values under attention, the factor beside a gate). None: there is no such operation. Paths within the block.
    """

    linears: tuple[str, ...]
    source: str | None


@dataclass(frozen=True)
class Family:
    """Where the parts of a decoder are. Paths are module paths as in ``named_modules``.

    ``inputs`` groups the linears of a block by the tensor that they read, in the order of the forward pass. The
    other paths are those of nearly all decoders. Biases, norms of queries and keys, sliding windows and tied
    embeddings need no entry: they are the model's own.
    """

    title: str
    model_types: tuple[str, ...]  # config.json's model_type
    inputs: tuple[InputGroup, ...]
    embedding: str = "model.embed_tokens"
    blocks: str = "model.layers"

    @property
    def linears(self) -> tuple[str, ...]:
        """Paths of a block's quantized linears within the block, in the order in which they are solved."""
        return tuple(path for group in self.inputs for path in group.linears)

    def linear_names(self, n_blocks: int) -> list[str]:
        """Full paths of every quantized linear of a model with ``n_blocks`` blocks."""
        return [f"{self.blocks}.{block}.{path}" for block in range(n_blocks) for path in self.linears]


# Attention and a gated MLP, each behind a norm of its own.
_DENSE = (
    InputGroup(("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "input_layernorm"),
    InputGroup(("self_attn.o_proj",), "self_attn.v_proj"),
    InputGroup(("mlp.gate_proj", "mlp.up_proj"), "post_attention_layernorm"),
    InputGroup(("mlp.down_proj",), "mlp.up_proj"),
)

FAMILIES: tuple[Family, ...] = (
    Family("LLaMA, dense", ("llama",), _DENSE),
    Family("Mistral, dense", ("mistral",), _DENSE),
    Family("Qwen2, dense", ("qwen2",), _DENSE),
    Family("Qwen3, dense", ("qwen3",), _DENSE),
)


def family_of(model_type: str, where: str) -> Family:
    """The family of a ``model_type``. Raises ``Refused`` naming those that are known."""
    for family in FAMILIES:
        if model_type in family.model_types:
            return family
    known = ", ".join(name for family in FAMILIES for name in family.model_types)
    raise Refused(f"models of type “{model_type}” are not known here", where, f"Known types: {known}.")
