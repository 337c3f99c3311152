"""A small random model of each causal type of the installed transformers, made from its default configuration.

Sizes are chosen by what a field of the configuration is called; a type whose fields depend on each other has further
values of its own.
"""

import re
from collections.abc import Iterator
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

TYPES = tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
LAYERS = 4
_MOST = 40_000_000  # parameters of a model that is small
# The first pattern that a field's whole name matches gives its size.
_RULES: tuple[tuple[str, int], ...] = (
    (r"num_(global_|swa_)?key_value_heads|num_kv_heads|(linear_)?num_key_heads|linear_num_key_heads", 2),
    (r"num_experts_per_(tok|token)|moe_(topk|k|top_k)|top_k_experts|num_selected_experts|expert_top_k", 2),
    (r"num_(local_|routed_|moe_)?experts|n_routed_experts|moe_num_experts", 4),
    (r"n_group|topk_group|(mamba_)?n_groups|n_shared_experts|(moe_)?num_shared_experts|first_k_dense_replace"
     r"|num_nextn_predict_layers", 1),
    (r"num_hidden_layers|n_layers?|num_(decoder_)?layers|(decoder|encoder)_layers|num_blocks", LAYERS),
    (r"(num_|n_|decoder_|encoder_)?(attention_)?heads?|num_attention_heads|n_heads?|(decoder|encoder)_attention_heads"
     r"|mamba_(n|num)_heads|linear_num_value_heads", 4),
    (r"moe_intermediate_size|(moe_)?shared_(expert_)?(intermediate_size|ffn_hidden_size)|expert_(dim|ffn_hidden_size)"
     r"|moe_ffn_hidden_size|moe_shared_expert_intermediate_size", 64),
    (r"(q|kv|o)_lora_rank|index_topk", 16),
    (r".*head_dim|mamba_d_head|attention_head_size", 16),
    (r".*intermediate_(size|dim|size_mlp)|(ffn|decoder_ffn|encoder_ffn)_dim|n_inner|d_ff|dff|(block_ff|feed_forward)_(dim|size)"
     r"|(ffn_)?hidden_ffn_size|ffn_hidden_size", 128),
    (r"(decoder_)?hidden_size|d_model|model_dim|n_embd|n_embed|dim|emb_dim|embed(ding|_dim)?(_size)?|embed_dim"
     r"|word_embed_proj_dim|mamba_d_ssm", 64),
    (r"max_position_embeddings|n_positions|n_ctx|seq_length|max_seq(uence)?_len(gth)?|model_max_length|sliding_window"
     r"|window_size|attention_window_size", 256),
    (r"(text_)?vocab_size(_per_layer_input)?", 4096),
    (r"pad_token_id", 0),
    (r"(bos|eos|sep|decoder_start)_token_id", 1),
)  # fmt: skip
_KINDS = ("layer_types", "layers_block_type", "mlp_layer_types", "block_types", "hybrid_override_pattern")
_PARTS = ("text_config", "vision_config", "audio_config", "speech_config")
_ENCODERS = re.compile(r".*(bert|electra|roformer|megatron|data2vec|big_bird|xmod).*|camembert|ernie")


def small_config(model_type: str) -> PretrainedConfig:
    """Return a configuration of a type with four blocks of width 64, of each kind that its default has."""
    if model_type in BY_HAND:
        return CONFIG_MAPPING[model_type](**BY_HAND[model_type])
    default = CONFIG_MAPPING[model_type]()
    values = dict(_sized(default.to_dict()))
    for part in _PARTS:
        inner = getattr(default, part, None)
        if isinstance(inner, PretrainedConfig) and inner is not default:
            values[part] = inner.to_dict() | dict(_sized(inner.to_dict())) | OF_TYPE.get(inner.model_type, {})
    if _ENCODERS.fullmatch(model_type):
        values["is_decoder"] = True
    return CONFIG_MAPPING[model_type](**values | OF_TYPE.get(model_type, {}))


def small_model(model_type: str) -> PreTrainedModel:
    """Return a model of a type with random weights, in float32.

    Raises:
        ValueError: If the model is not small.
    """
    config = small_config(model_type)
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in AutoModelForCausalLM.from_config(config).parameters())
    if count > _MOST:
        raise ValueError(f"its configuration has sizes of other names: {count:,} parameters")
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config).float().eval()
    return model


def _sized(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if name == "num_key_value_heads" and values.get("kv_lora_rank"):  # latent attention has one for each head
            yield name, 4
        elif name == "per_layer_config":
            yield name, {}
        elif (
            isinstance(value, list) and len(value) == values.get("num_hidden_layers") and not isinstance(value[0], str)
        ):
            size = next((size for pattern, size in _RULES if re.fullmatch(pattern, name)), value[0])
            yield name, [size] * LAYERS
        elif name in _KINDS and isinstance(value, list | str) and value:
            kinds = list(dict.fromkeys(value))
            chosen = (kinds * LAYERS)[: max(LAYERS, len(kinds))]
            yield name, "".join(chosen) if isinstance(value, str) else chosen
        elif name == "head_dim" or (isinstance(value, int) and not isinstance(value, bool)):
            size = next((size for pattern, size in _RULES if re.fullmatch(pattern, name)), None)
            if size is not None:
                yield name, size


# What the default configuration of a type does not say, or what its fields need of each other.
_ALTERNATING = ["sliding_attention", "full_attention"] * 2
OF_TYPE: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [2], "mamba_n_heads": 8},
    "codegen": {"rotary_dim": 8},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "bailing_hybrid": {"num_experts": 4, "n_group": 1, "num_group": 1},
    "cohere_compass_text": {
        "layer_types": ["full_attention"] * LAYERS,
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10_000.0}},
    },
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10_000.0, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2, "ffn_act_fn": {"name": "silu"}},
    },
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "dots3_note": {"vision_config": {"adapter_out_dim": 64}, "audio_config": {"adapter_out_dim": 64}},
    "dots3_note_text": {"num_key_value_heads": 4, "head_dim": 32, "index_n_heads": 4},
    "gemma3n_text": {
        "num_kv_shared_layers": 0, "layer_types": _ALTERNATING, "laurel_rank": 8, "hidden_size_per_layer_input": 16,
        "intermediate_size": [128] * LAYERS, "activation_sparsity_pattern": [0.0] * LAYERS,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "gptj": {"rotary_dim": 8},
    "granitemoehybrid": {"mamba_n_heads": 8, "layer_types": ["mamba", "attention"] * 2},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
              "mamba_dt_rank": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "longcat_flash": {"qk_head_dim": 32, "num_key_value_heads": 4, "zero_expert_num": 2},
    "mamba2": {"num_heads": 8},
    "nemotron": {"num_key_value_heads": 2, "num_attention_heads": 4, "head_dim": 16},
    "qwen4_exp_text": {
        "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 64,
        "indexer_compress_ratio": 4,
    },
    "reformer": {
        "attn_layers": ["local", "lsh"] * 2, "is_decoder": True, "axial_pos_embds_dim": (32, 32),
        "axial_pos_shape": (16, 16),
    },
    "xmod": {"default_language": "en_XX", "languages": ["en_XX", "de_DE"]},
    "zamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "attention_hidden_size": 128, "attention_head_dim": 32,
              "mamba_dt_rank": 8},
    "zamba2": {"mamba_headdim": 16, "n_mamba_heads": 8, "hybrid_layer_ids": [1, 3], "attention_head_dim": 32,
               "layers_block_type": ["mamba", "hybrid"] * 2},
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip
# Whole configurations of types whose defaults contradict themselves, or whose parts have names of their own.
_HALF = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 128}
_DRAFTING = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 16,
    "num_hidden_layers": LAYERS, "num_kv_shared_layers": LAYERS, "layer_types": _ALTERNATING, "intermediate_size": 128,
    "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "vocab_size": 4096, "pad_token_id": 0,
}  # fmt: skip
BY_HAND: dict[str, dict[str, Any]] = {
    "blt": {
        "patcher_config": _HALF | {"vocab_size": 4096}, "encoder_config": _HALF | {"vocab_size": 4096},
        "decoder_config": _HALF | {"vocab_size": 4096, "hidden_size_global": 128},
        "global_config": {"hidden_size": 128, "num_attention_heads": 4, "num_hidden_layers": LAYERS,
                          "intermediate_size": 256},
        "vocab_size": 4096, "encoder_hash_byte_group_vocab": 512,
    },
    "gemma4_assistant": {"text_config": {"model_type": "gemma4_text"} | _DRAFTING, "backbone_hidden_size": 64},
    "gemma4_unified_assistant": {
        "text_config": {"model_type": "gemma4_unified_text"} | _DRAFTING, "backbone_hidden_size": 64,
    },
}  # fmt: skip
