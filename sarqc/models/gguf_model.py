"""A model in a GGUF file, described by its header alone: its config.json, and the places of its tensors; no torch.

An unknown field of a header is refused: it could change the results of the model.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.errors import Refused
from sarqc.files.names import shortened
from sarqc.files.once import once
from sarqc.models.checkpoint import FLOATS, Checkpoint, check_config
from sarqc.models.gguf_header import GgufHeader, GgufTensor, read_header
from sarqc.models.origin import Origin
from sarqc.models.promised import check_tensor, promised_shapes

_AGAIN = "Download the file again, or give the model as safetensors."
_OTHERS = "Give the model as safetensors."
_SPELLINGS = {"qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe"}  # of architectures, in transformers
_ROPE_FACTORS = "rope_freqs.weight"
_LONGEST_ROPE = 1 << 14  # bytes
_FLOATS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}  # in ggml and safetensors, and in config.json
# llama3's rotation of positions: models differ in the factor alone.
_LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_LLAMA3_FACTORS = (8.0, 32.0)


@dataclass(frozen=True)
class TensorPlace:
    """Place of a checkpoint's tensor in GGUF: as a whole, or as that of one expert."""

    name: str
    tensor: GgufTensor
    expert: int | None = None


@dataclass(frozen=True)
class GgufModel:
    """Content of a GGUF file from which a checkpoint is made."""

    header: GgufHeader
    config: dict[str, Any]
    places: dict[str, TensorPlace]  # by the names in checkpoints
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]  # after unpacking, as safetensors spells them
    types: tuple[str, ...]  # ggml's types of the linears, the commonest first
    name: str

    @property
    def origin(self) -> Origin:
        return Origin(files=(self.header.file.name,), types=self.types)

    @property
    def folder_name(self) -> str:
        """Name of the folder that it is unpacked to: by the file's name and content."""
        stem = re.sub(r"[^A-Za-z0-9.-]+", "-", self.header.file.stem)[:60].strip(".-")
        return f"{stem or 'model'}-{self.header.identity[:16]}"

    @property
    def unpacked_bytes(self) -> int:
        """Bytes of the unpacked weights."""
        return sum(prod(shape) * FLOATS[self.dtypes[name]] for name, shape in self.shapes.items())

    def checkpoint(self, folder: Path) -> Checkpoint:
        """Return the checkpoint that the file will be unpacked to, for a plan."""
        architecture, family = check_config(self.config, self.name)
        return Checkpoint(
            self.name, folder, self.config, architecture, family, self.shapes, self.dtypes, {}, origin=self.origin
        )


def gguf_model(path: Path, where: str) -> GgufModel:
    """Return the model in a GGUF file.

    Raises:
        Refused: If the file is damaged, or of a model that is not read.
    """
    return _of_identity(path, where, read_header(path, where).identity)


@once(64)
def _of_identity(path: Path, where: str, _identity: str) -> GgufModel:
    from gguf.quants import _type_traits

    header = read_header(path, where)
    config = _config(header, where)
    architecture, family = check_config(config, where)
    names = _names(header, where, architecture.num_hidden_layers)
    places: dict[str, TensorPlace] = {}
    shapes = dict(promised_shapes(architecture, family))
    types = {*_FLOATS, *(kind.name for kind in _type_traits)}  # whose weights the gguf package computes
    for name, shape in shapes.items():
        module, _, kind = name.rpartition(".")
        expert = family.expert_of(module)
        stored = names.get_name(module.replace(f".experts.{expert}.", ".experts."))
        tensor = header.tensors.get(f"{stored}.{kind}")
        expected = shape if expert is None else (architecture.experts or 0, *shape)
        own = None if tensor is None else (tensor.shape, tensor.type)
        check_tensor(f"{stored or module}.{kind}", expected, own, types, "its header", where, _AGAIN)
        assert tensor is not None
        places[name] = TensorPlace(f"{stored}.{kind}", tensor, expert)
    unused = header.tensors.keys() - {place.name for place in places.values()} - {_ROPE_FACTORS}
    if unused:
        raise Refused(f"{min(unused)} has no place in a model of type {config['model_type']}", where, _OTHERS)
    dtypes = {name: place.tensor.type if place.tensor.type in _FLOATS else "F32" for name, place in places.items()}
    counts: Counter[str] = Counter()
    for name, place in places.items():
        if name.startswith(family.in_file(f"{family.blocks}.")) and len(shapes[name]) == 2:
            counts[place.tensor.type] += prod(shapes[name])
    linear_types = tuple(kind for kind, _ in counts.most_common())
    config["dtype"] = _FLOATS.get(linear_types[0], "float32")
    return GgufModel(header, config, places, shapes, dtypes, linear_types, where)


def _names(header: GgufHeader, where: str, blocks: int) -> Any:
    """Return the map from the names of an architecture's tensors in checkpoints to those in GGUF."""
    from gguf.constants import MODEL_ARCH_NAMES
    from gguf.tensor_mapping import get_tensor_name_map

    spelling = header.fields["general.architecture"]
    architecture = next((number for number, name in MODEL_ARCH_NAMES.items() if name == spelling), None)
    if architecture is None:
        raise Refused(f"the gguf package does not know the architecture {spelling!r}", where, _OTHERS)
    return get_tensor_name_map(architecture, blocks)


def _config(header: GgufHeader, where: str) -> dict[str, Any]:
    """Return the config.json of a model, by transformers' own table of the names of GGUF's fields."""
    from transformers.integrations.ggml import GGUF_CONFIG_DEFAULTS_MAPPING, GGUF_CONFIG_MAPPING

    if (kind := header.fields.get("general.type", "model")) != "model" or not header.tensors:
        what = f"the file is of type “{shortened(str(kind))}”" if header.tensors else "the file has a vocabulary alone"
        raise Refused(f"{what}, and no model", where, "Give the file with the model's weights (an adapter: merged).")
    spelling = header.fields.get("general.architecture")
    if not isinstance(spelling, str):
        raise Refused("the file does not name its architecture", where, _AGAIN)
    model_type = _SPELLINGS.get(spelling, spelling)
    tables: dict[str, Any] = GGUF_CONFIG_MAPPING
    table: dict[str, str | None] | None = tables.get(model_type)
    if table is None or model_type in ("general", "tokenizer"):
        raise Refused(f"GGUF files of “{shortened(spelling)}” are not read by transformers", where, _OTHERS)
    config: dict[str, Any] = {"model_type": model_type, **GGUF_CONFIG_DEFAULTS_MAPPING.get(model_type, {})}
    rest: dict[str, Any] = {}
    for key, value in header.fields.items():
        prefix, _, name = key.partition(".")
        if prefix != spelling:
            continue
        if (field := table.get(name)) is not None:
            config[field] = value
        elif name not in table or name == "rope.dimension_count":
            rest[name] = value
    _read_rest(rest, config, where)
    if unknown := [key for key in header.lengths if key.startswith(f"{spelling}.")]:
        raise Refused(f"{unknown[0]} differs between blocks, which is not read", where, _OTHERS)
    config.setdefault("vocab_size", header.lengths.get("tokenizer.ggml.tokens"))
    config["tie_word_embeddings"] = "output.weight" not in header.tensors
    if model_type == "llama" and "blk.0.attn_q.bias" in header.tensors:
        config["attention_bias"] = True
    for name in ("bos", "eos", "padding"):
        if (token := header.fields.get(f"tokenizer.ggml.{name}_token_id")) is not None:
            config[f"{name.removesuffix('ding')}_token_id"] = token
    config["rope_parameters"] = {"rope_theta": config.pop("rope_theta", 10_000.0), **config.pop("scaling")}
    if _ROPE_FACTORS in header.tensors:
        config["rope_parameters"] |= _rope_scaling(header, config, where)
    return config


def _read_rest(rest: dict[str, Any], config: dict[str, Any], where: str) -> None:
    """Read the fields that are missing in transformers' table, and refuse the rest."""
    head = rest.pop("attention.key_length", None)
    if head is not None:
        config["head_dim"] = head
    heads = config.get("num_attention_heads")
    width = config.get("head_dim") or (config.get("hidden_size", 0) // heads if heads else None)
    for name in ("attention.value_length", "rope.dimension_count"):
        if (channels := rest.pop(name, width)) != width:
            raise Refused(f"{name} is {channels}, and a head has {width} channels", where, _OTHERS)
    if (experts := rest.pop("expert_feed_forward_length", None)) is not None:
        config["moe_intermediate_size"] = experts
    for name in ("expert_count", "expert_used_count"):
        if rest.get(name) == 0:
            del rest[name]
    kind = rest.pop("rope.scaling.type", "linear")  # llama.cpp's default
    factor, original = (rest.pop(f"rope.scaling.{name}", None) for name in ("factor", "original_context_length"))
    if kind not in ("none", "linear", "yarn"):
        raise Refused(f"positions are scaled as {shortened(str(kind))!r}, which is not read", where, _OTHERS)
    scaling: dict[str, Any] = {"rope_type": "default"}
    if kind == "yarn" or (kind == "linear" and factor):
        scaling = {"rope_type": kind, "factor": factor}
        if kind == "yarn" and original is not None:
            scaling["original_max_position_embeddings"] = original
    config["scaling"] = scaling
    rest.pop("tensor_data_layout", None)
    if rest:
        name, value = next(iter(rest.items()))
        raise Refused(f"{name} is {shortened(str(value))}, which is not supported", where, _OTHERS)


def _rope_scaling(header: GgufHeader, config: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the rotation by the factors that a file states for each frequency: the usual one, or that of llama3."""
    tensor = header.tensors[_ROPE_FACTORS]
    if tensor.type != "F32" or tensor.size > _LONGEST_ROPE:
        raise Refused(f"{_ROPE_FACTORS} is {tensor.type} of {tensor.shape}", where, _AGAIN)
    with header.file.open("rb") as file:
        file.seek(tensor.begin)
        factors = np.frombuffer(file.read(tensor.size), dtype="<f4")
    if np.all(factors == 1):
        return {}
    theta = config["rope_parameters"]["rope_theta"]
    for factor in _LLAMA3_FACTORS:
        expected = _llama3_factors(2 * len(factors), float(theta), factor)
        if np.allclose(factors, expected, rtol=1e-4):
            return _LLAMA3 | {"factor": factor}
    raise Refused(f"{_ROPE_FACTORS} has an unsupported rotation of positions", where, _OTHERS)


def _llama3_factors(head: int, theta: float, factor: float) -> np.ndarray:
    """Return the divisors of the head/2 frequencies in llama3."""
    wavelengths = 2 * math.pi * theta ** (np.arange(0, head, 2) / head)
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    smooth = (_LLAMA3["original_max_position_embeddings"] / wavelengths - low) / (high - low)
    smooth = np.clip(smooth, 0, 1)
    factors: np.ndarray = 1 / ((1 - smooth) / factor + smooth)
    return factors
