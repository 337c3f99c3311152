"""Tiny models of every family with random weights, as their configurations say them."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

WINDOW = 8  # of attention, where a model has one; sequences here have 32 tokens
SIZES = {
    "vocab_size": 4096, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128,
}  # fmt: skip
EXPERTS = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
SLIDING = {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}


@dataclass(frozen=True)
class Case:
    """A model as its configuration says it, and which of its blocks see a window only."""

    config: PreTrainedConfig
    windows: tuple[bool, bool, bool]
    dtype: torch.dtype = torch.float32


NONE, SOME, ALL = (False, False, False), (False, True, True), (True, True, True)
CASES = {
    "llama": Case(LlamaConfig(**SIZES, tie_word_embeddings=True), NONE),
    "mistral": Case(MistralConfig(**SIZES, sliding_window=WINDOW), ALL),
    "mistral, wide heads, no window": Case(MistralConfig(**SIZES, head_dim=16, sliding_window=None), NONE),
    "qwen2": Case(Qwen2Config(**SIZES, tie_word_embeddings=True, use_sliding_window=False, sliding_window=4), NONE),
    "qwen2, windows": Case(Qwen2Config(**SIZES, **SLIDING), SOME),
    "qwen3": Case(Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True), NONE, torch.bfloat16),
    "qwen3, windows": Case(Qwen3Config(**SIZES, head_dim=16, **SLIDING), SOME),
    "mixtral": Case(MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2, sliding_window=None), NONE),
    "qwen3_moe, one block dense": Case(
        Qwen3MoeConfig(**SIZES, **EXPERTS, head_dim=16, num_experts=6, norm_topk_prob=True, mlp_only_layers=[1]), NONE
    ),
    "qwen3_moe": Case(Qwen3MoeConfig(**SIZES, **EXPERTS, num_experts=3, tie_word_embeddings=True), NONE, torch.float16),
}


def make_checkpoint(name: str, folder: Path, tokenizer: Path, **changes: object) -> Path:
    """Make the checkpoint of a case in a folder, with the tokenizer of another. Norms and biases are random too."""
    case = CASES[name]
    torch.manual_seed(list(CASES).index(name))
    config = type(case.config).from_dict(case.config.to_dict() | changes)
    model = AutoModelForCausalLM.from_config(config)
    for path, parameter in model.named_parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(std=0.2)
        elif path.endswith("bias"):
            parameter.data.normal_(std=0.5)
        else:
            parameter.data.uniform_(0.5, 1.5)
    model.to(case.dtype).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / file, folder / file)
    return folder
