"""Tensors that a configuration promises, by their names in files, and those beside them; one check for all files."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from sarqc.errors import Refused
from sarqc.models.architecture import Architecture
from sarqc.models.decoder import DerivedFamily
from sarqc.models.families import Family
from sarqc.models.tensor_files import TensorEntry, is_zero

Shape = tuple[int, ...]
# Numbers that models compute and older programs stored: angles of positions, and masks.
_COMPUTED = re.compile(r"(.*\.)?(inv_freq|masked_bias|causal_mask|position_ids)")
_SPECULATIVE = re.compile(r"(.*\.)?(mtp(_[a-z]+)?|nextn)\..*")
_LONGEST_NUMBER = 9  # digits of a block's
_NAMED = 3  # of tensors that are not read
# Parts of a further block that predicts tokens ahead, by their names in GLM-4 and DeepSeek-V3.
_SPECULATIVE_PARTS = ("eh_proj.weight", "enorm.weight", "hnorm.weight")


def promised_shapes(architecture: Architecture, family: Family) -> Iterator[tuple[str, Shape]]:
    """Yield name and shape of each tensor that the model computes with."""
    width, vocabulary = architecture.hidden_size, architecture.vocab_size
    yield f"{family.embedding}.weight", (vocabulary, width)
    yield f"{family.norm}.weight", (width,)
    if architecture.tie_word_embeddings is False:
        yield f"{family.head}.weight", (vocabulary, width)
    for block in range(architecture.num_hidden_layers):
        for name, shape in _block_shapes(architecture, family, block):
            yield family.in_file(f"{family.blocks}.{block}.{name}"), shape


def check_tensor(
    name: str,
    shape: Shape,
    stored: tuple[Shape, str] | None,
    types: Collection[str],
    asker: str,
    where: str,
    remedy: str,
) -> None:
    """Refuse a tensor that is missing, of another shape or no float; ``stored`` is its shape and type there."""
    if stored is None or stored[0] != shape:
        instead = "which is not there" if stored is None else f"and it is {stored[0]}"
        raise Refused(f"{asker} asks for {name} of {shape}, {instead}", where, remedy)
    if stored[1] not in types:
        raise Refused(f"{name} is stored as {stored[1]}", where, "Give it in a checkpoint of floats.")


def unread_tensors(
    stored: Mapping[str, TensorEntry],
    read: Collection[str],
    family: Family,
    config: Mapping[str, Any],
    blocks: int,
    whose: str,
    where: str,
    remedy: str,
) -> tuple[str, ...]:
    """Return the names of tensors that the model does not read, and that change nothing.

    Args:
        stored: All tensors of the files.
        read: Names of those that are read.
        family: Family of the model.
        config: Its configuration.
        blocks: Number of its blocks.
        whose: Owner of the tensors that are read, in a refusal.
        where: Name of the files.
        remedy: Remedy of a refusal.

    Raises:
        Refused: For tensors that take part in the computation: in a block, or beside tensors of a module that is read.
    """
    prefix = family.in_file(f"{family.blocks}.")
    ignored = family.decoder.ignored if isinstance(family, DerivedFamily) else ()
    # Modules with tensors that are read, except those that contain the blocks.
    modules = {module for name in read if not prefix.startswith(f"{(module := name.rpartition('.')[0])}.")}
    n_ahead = config.get("num_nextn_predict_layers")
    unread, wrong = sorted(stored.keys() - set(read)), []
    for name in unread:
        entry, number = stored[name], name.removeprefix(prefix).partition(".")[0]
        in_block = name.startswith(prefix) and number.isdecimal() and len(number) < _LONGEST_NUMBER
        is_speculative = (
            in_block
            and int(number) >= blocks
            and (
                (isinstance(n_ahead, int) and int(number) < blocks + n_ahead)
                or all(f"{prefix}{number}.{part}" in stored for part in _SPECULATIVE_PARTS)
            )
        )
        is_mask = name.endswith(".bias") and len(entry.shape) == 4
        is_known = is_mask or _COMPUTED.fullmatch(name) or _SPECULATIVE.fullmatch(name)
        if is_speculative or is_known or any(re.search(pattern, name) for pattern in ignored):
            continue
        parents = accumulate(name.split(".")[:-1], "{}.{}".format)
        belongs = in_block or "lora_" in name or not modules.isdisjoint(parents)
        if belongs and not (name.endswith(".bias") and is_zero(entry, name)):  # AutoGPTQ gave one to every linear
            wrong.append(name)
    if wrong:
        more = f" and {len(wrong) - 1} others are" if len(wrong) > 1 else " is"
        raise Refused(f"{wrong[0]}{more} there, which {whose} has no place for", where, remedy)
    return tuple(unread)


def unread_notice(names: Sequence[str]) -> str:
    """Return a sentence on tensors that are not read; empty without any."""
    if not names:
        return ""
    named = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return f"{len(names)} tensors of its files are not read by the model and stay as they are: {named}"


def _block_shapes(architecture: Architecture, family: Family, block: int) -> Iterator[tuple[str, Shape]]:
    mixture = bool(family.mixture) and (architecture.is_mixture(block) or not family.dense)
    if mixture and architecture.experts:
        yield f"{family.router}.weight", (architecture.experts, architecture.hidden_size)
    groups = family.groups(architecture.experts if mixture else None)
    for path in (path for group in groups for path in group.linears):
        shape = _linear(architecture, family, path)
        yield f"{path}.weight", shape
        if _has_bias(architecture, family, path):
            yield f"{path}.bias", shape[:1]
    for source in dict.fromkeys(group.source for group in groups):
        if source is not None and source.endswith("norm"):
            yield f"{source}.weight", (architecture.hidden_size,)
    for path in family.head_norms:
        yield f"{path}.weight", (architecture.head_size(family.head_size),)


def _linear(architecture: Architecture, family: Family, path: str) -> Shape:
    """Return (out_features, in_features) of the linear at a path within a block."""
    width, head = architecture.hidden_size, architecture.head_size(family.head_size)
    queries = architecture.num_attention_heads * head
    keys = (architecture.num_key_value_heads or architecture.num_attention_heads) * head
    inner = architecture.intermediate_size
    if family.expert_of(path) is not None:
        inner = architecture.moe_intermediate_size or inner
    return {
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (width, queries),
        "gate_proj": (inner, width),
        "up_proj": (inner, width),
        "down_proj": (width, inner),
    }[path if path.startswith("self_attn.") else path.rpartition(".")[2]]


def _has_bias(architecture: Architecture, family: Family, path: str) -> bool:
    if path in family.biased:
        return True
    if path.startswith("self_attn."):
        return bool(architecture.attention_bias)
    return bool(architecture.mlp_bias) and path.count(".") == 1  # never of an expert
