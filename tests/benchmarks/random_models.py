"""Checkpoints with random weights of any shape, with the tokenizer of an embedded model: for speed and memory alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from sarqc.models.catalogue import embedded_models
from sarqc.settings import Settings

# Two blocks of TinyLlama-1.1B.
TINYLLAMA = {
    "hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 4,
    "num_hidden_layers": 2,
}  # fmt: skip


def made(folder: Path, **shape: int) -> Path:
    """A LLaMA, or with ``num_experts`` a Qwen3-MoE, in bfloat16; an older one of that name is taken as it is."""
    if (folder / "model.safetensors").exists():
        return folder
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

    of_mixture = "num_experts" in shape
    source, _ = embedded_models(Settings())["tiny-moe" if of_mixture else "tiny-llama"]
    settings = {"vocab_size": 4096, "max_position_embeddings": 2048} | shape
    torch.manual_seed(0)
    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**settings)) if of_mixture else LlamaForCausalLM(LlamaConfig(**settings))
    model.to(torch.bfloat16).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, folder / name)
    return folder
