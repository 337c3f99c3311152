"""Tensors that a configuration promises, by their names in files; all of them must exist."""

from __future__ import annotations

from collections.abc import Iterator

from sarqc.models.architecture import Architecture
from sarqc.models.families import Family

Shape = tuple[int, ...]


def promised_shapes(architecture: Architecture, family: Family) -> Iterator[tuple[str, Shape]]:
    """Yield name and shape of each tensor that the model computes with.

    A family's linear of an unusual name is not among them, nor the tensors that depend on it: its shape is known from
    the file only.
    """
    width, vocabulary = architecture.hidden_size, architecture.vocab_size
    yield f"{family.embedding}.weight", (vocabulary, width)
    yield f"{family.norm}.weight", (width,)
    if architecture.tie_word_embeddings is False:
        yield f"{family.head}.weight", (vocabulary, width)
    for block in range(architecture.num_hidden_layers):
        for name, shape in _of_block(architecture, family, block):
            yield family.in_file(f"{family.blocks}.{block}.{name}"), shape


def _of_block(architecture: Architecture, family: Family, block: int) -> Iterator[tuple[str, Shape]]:
    mixture = bool(family.mixture) and (architecture.is_mixture(block) or not family.dense)
    if mixture and architecture.experts:
        yield f"{family.router}.weight", (architecture.experts, architecture.hidden_size)
    groups = family.groups(architecture.experts if mixture else None)
    linears: dict[str, Shape] = {}
    norms = dict.fromkeys(group.source for group in groups if group.source is not None)
    for path in (path for group in groups for path in group.linears):
        shape = _linear(architecture, family, path)
        if shape is not None and not (family.optional and path.startswith(family.optional) and not shape[0] * shape[1]):
            linears[path] = shape
    for path, shape in linears.items():
        yield f"{path}.weight", shape
        if _has_bias(architecture, family, path):
            yield f"{path}.bias", shape[:1]
    for path in norms:
        if path.rpartition(".")[2].endswith("norm") and path not in linears:
            yield f"{path}.weight", (architecture.hidden_size,)
    for path in family.head_norms:
        yield f"{path}.weight", (architecture.head_size(family.head_size),)


def _linear(architecture: Architecture, family: Family, path: str) -> Shape | None:
    """(out_features, in_features) of the linear at a path within a block; None for a name that is not usual."""
    width, head = architecture.hidden_size, architecture.head_size(family.head_size)
    queries = architecture.num_attention_heads * head
    keys = (architecture.num_key_value_heads or architecture.num_attention_heads) * head
    inner = architecture.intermediate_size
    if family.expert_of(path) is not None:
        inner = architecture.moe_intermediate_size or inner
    elif family.optional and path.startswith(family.optional):
        inner = (architecture.moe_intermediate_size or inner) * (architecture.n_shared_experts or 0)
    return {
        "self_attn.q_proj": (queries, width), "self_attn.k_proj": (keys, width), "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (width, queries),
        "gate_proj": (inner, width), "up_proj": (inner, width), "down_proj": (width, inner),
    }.get(path if path.startswith("self_attn.") else path.rpartition(".")[2])  # fmt: skip


def _has_bias(architecture: Architecture, family: Family, path: str) -> bool:
    if path in family.biased:
        return True
    if path.startswith("self_attn."):
        return bool(architecture.attention_bias)
    return bool(architecture.mlp_bias) and path.count(".") == 1  # never of an expert
