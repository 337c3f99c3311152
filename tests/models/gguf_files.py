"""GGUF files as llama.cpp's converter writes them, made of checkpoints by the gguf package's own writer."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf.constants import GGMLQuantizationType
from gguf.quants import quantize
from safetensors.torch import load_file

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3moe"}


def permuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries or keys of a llama, in the order of llama.cpp: the halves of a head interleaved."""
    return (
        weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)
    )


def write_gguf(
    checkpoint: Path, path: Path, kind: str = "Q8_0", *, fields: dict[str, Any] | None = None, **more: np.ndarray
) -> Path:
    """Write the weights of a checkpoint, matrices as ggml's type ``kind`` where rows allow and others as F16, with
    further ``fields`` of its architecture, and tensors.
    """
    config = json.loads((checkpoint / "config.json").read_text())
    said = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(path, said)
    heads, keys = config["num_attention_heads"], config.get("num_key_value_heads") or config["num_attention_heads"]
    head = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_name("a model")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(keys)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(
        (config.get("rope_parameters") or {}).get("rope_theta", config.get("rope_theta", 10000.0))
    )
    if said == "llama":
        writer.add_rope_dimension_count(head)
        writer.add_vocab_size(config["vocab_size"])
    else:
        writer.add_key_length(head)
        writer.add_value_length(head)
    if said == "qwen3moe":
        writer.add_expert_count(config.get("num_experts") or config["num_local_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    for name, value in (fields or {}).items():
        add = writer.add_string if isinstance(value, str) else writer.add_float32 if isinstance(value, float) else (
            writer.add_uint32)  # fmt: skip
        add(f"{said}.{name}", value)
    _add_tokenizer(writer, checkpoint, config["vocab_size"])
    names = gguf.get_tensor_name_map(
        next(one for one, name in gguf.MODEL_ARCH_NAMES.items() if name == said), config["num_hidden_layers"]
    )
    for name, value in _stacked(load_file(checkpoint / "model.safetensors")).items():
        module, _, part = name.rpartition(".")
        weight = value.float().numpy()
        if said == "llama" and module.endswith(("q_proj", "k_proj")):
            weight = permuted(weight, heads if module.endswith("q_proj") else keys)
        _add(writer, f"{names.get_name(module)}.{part}", weight, kind)
    for name, weight in more.items():
        _add(writer, name, weight, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, name: str, weight: np.ndarray, kind: str) -> None:
    weight = np.ascontiguousarray(weight)
    wanted = GGMLQuantizationType[kind]
    if weight.ndim == 1:
        writer.add_tensor(name, weight)
    elif weight.shape[-1] % gguf.GGML_QUANT_SIZES[wanted][0] or kind == "F16":
        writer.add_tensor(name, weight.astype(np.float16))
    elif kind == "F32":
        writer.add_tensor(name, weight)
    else:
        writer.add_tensor(name, quantize(weight, wanted), raw_dtype=wanted)


def _stacked(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors with those of experts in one."""
    together: dict[str, torch.Tensor] = {}
    of_experts: dict[str, list[torch.Tensor]] = {}
    for name in sorted(tensors, key=lambda name: [int(part) if part.isdigit() else 0 for part in name.split(".")]):
        before, found, rest = name.partition(".experts.")
        if found:
            of_experts.setdefault(f"{before}.experts.{rest.partition('.')[2]}", []).append(tensors[name])
        else:
            together[name] = tensors[name]
    return together | {name: torch.stack(values) for name, values in of_experts.items()}


def _add_tokenizer(writer: gguf.GGUFWriter, checkpoint: Path, vocabulary: int) -> None:
    document = json.loads((checkpoint / "tokenizer.json").read_text())["model"]
    tokens = [f"[unused {number}]" for number in range(vocabulary)]
    for token, number in document["vocab"].items():
        tokens[number] = token
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * vocabulary)
    writer.add_token_merges([" ".join(merge) if isinstance(merge, list) else merge for merge in document["merges"]])
    writer.add_eos_token_id(0)
