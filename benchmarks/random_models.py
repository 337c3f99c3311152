"""Checkpoints with random weights of any shape, with the tokenizer of an embedded model: for speed and memory alone."""

import shutil
from pathlib import Path
from typing import Any

import torch

from benchmarks.known_models import known_configuration
from sarqc.models.catalogue import embedded_models
from sarqc.settings import Settings

# Two blocks of TinyLlama-1.1B.
TINYLLAMA = {
    "hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 4,
    "num_hidden_layers": 2,
}  # fmt: skip


def made(folder: Path, **shape: int) -> Path:
    """A LLaMA, or with ``num_experts`` a Qwen3-MoE, in bfloat16; an older one of that name is taken as it is."""
    kind = "qwen3_moe" if "num_experts" in shape else "llama"
    return _made(folder, {"model_type": kind, "vocab_size": 4096, "max_position_embeddings": 2048} | shape, "cpu")


def blocks_of(name: str, blocks: int, folder: Path, dtype: torch.dtype = torch.bfloat16, device: str = "cpu") -> Path:
    """A published model's shapes with so many blocks, made on a device; an older one is taken as it is."""
    configuration = known_configuration(name) | {"num_hidden_layers": blocks}
    folder = folder / f"{name}-{blocks}-{str(dtype).removeprefix('torch.')}"
    return _made(folder, configuration, device, dtype)


def _made(folder: Path, configuration: dict[str, Any], device: str, dtype: torch.dtype = torch.bfloat16) -> Path:
    if (folder / "config.json").exists():
        return folder
    from transformers import AutoConfig, AutoModelForCausalLM

    known = dict(configuration)
    kind = known.pop("model_type")
    known.pop("torch_dtype", None)
    source, _ = embedded_models(Settings())["tiny-moe" if kind == "qwen3_moe" else "tiny-llama"]
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **known), dtype=dtype)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, folder / name)
    return folder
