"""DeepSeek-MoE (``model_type`` “deepseek”): an architecture that transformers hasn't and whose repository brings code.

That code is never run; the architecture is written here, under the published names, so that the published weights load
unchanged. Blocks are LLaMA's, except that most have a mixture of experts for an MLP: a router chooses a few of many
small experts for each token, and a shared one takes every token. Every expert has its own linears.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.modeling_rope_utils import dynamic_rope_update
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaDecoderLayer,
    LlamaForCausalLM,
    LlamaModel,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)
from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeMLP as GatedMLP  # of any width, without biases


class DeepseekConfig(PreTrainedConfig):
    """Keys of the published config.json; ``rope_theta`` and ``rope_scaling`` are read into ``rope_parameters``."""

    model_type = "deepseek"

    vocab_size: int = 102400
    hidden_size: int = 2048
    intermediate_size: int = 10944  # of the dense MLPs
    moe_intermediate_size: int = 1408  # of one expert
    num_hidden_layers: int = 28
    num_attention_heads: int = 16
    num_key_value_heads: int | None = None
    n_shared_experts: int | None = 2
    n_routed_experts: int | None = 64  # None: every block is dense
    num_experts_per_tok: int = 6
    moe_layer_freq: int = 1
    first_k_dense_replace: int = 1
    norm_topk_prob: bool = False
    scoring_func: str = "softmax"
    aux_loss_alpha: float = 0.001  # this and the next: for training only, and read by nothing here
    seq_aux: bool = True
    hidden_act: str = "silu"
    max_position_embeddings: int = 4096
    initializer_range: float = 0.02
    rms_norm_eps: float = 1e-6
    use_cache: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = 100000
    eos_token_id: int | list[int] | None = 100001
    pretraining_tp: int | None = 1
    tie_word_embeddings: bool = False
    rope_parameters: dict[str, Any] | None = None
    attention_bias: bool = False
    attention_dropout: float = 0.0

    def __post_init__(self, **kwargs: object) -> None:
        if self.num_key_value_heads is None:
            self.num_key_value_heads = self.num_attention_heads
        super().__post_init__(**kwargs)
        if self.scoring_func != "softmax":
            raise ValueError(f"scoring_func is {self.scoring_func!r}: experts are chosen by “softmax” only")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(f"hidden_size {self.hidden_size} isn't a multiple of {self.num_attention_heads} heads")
        if self.n_routed_experts is not None and not 1 <= self.num_experts_per_tok <= self.n_routed_experts:
            raise ValueError(f"{self.num_experts_per_tok} experts a token can't be chosen of {self.n_routed_experts}")

    def has_experts(self, block: int) -> bool:
        """Return True if a block's MLP is a mixture.

        The frequency counts from the first block, not from the first mixture.
        """
        return (
            self.n_routed_experts is not None
            and block >= self.first_k_dense_replace
            and block % self.moe_layer_freq == 0
        )


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of norms, angles and routing: float32, or float64 for a float64 model."""
    return torch.promote_types(dtype, torch.float32)


class DeepseekRMSNorm(LlamaRMSNorm):
    """LLaMA's norm, except that float64 stays float64."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        wide = hidden_states.to(_at_least_float32(hidden_states.dtype))
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * wide.to(hidden_states.dtype)


class DeepseekRotaryEmbedding(LlamaRotaryEmbedding):
    """LLaMA's rotary embedding, except that float64 stays float64."""

    @torch.no_grad()
    @dynamic_rope_update  # type: ignore[untyped-decorator]  # transformers gives it no types
    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        wide = _at_least_float32(x.dtype)
        angles = position_ids.unsqueeze(-1).to(wide) * self.inv_freq.to(device=x.device, dtype=wide)
        angles = torch.cat((angles, angles), dim=-1)
        return (angles.cos() * self.attention_scaling).to(x.dtype), (angles.sin() * self.attention_scaling).to(x.dtype)


class DeepseekRouter(nn.Module):
    """Router that returns the experts of each token and their weights."""

    def __init__(self, config: DeepseekConfig) -> None:
        super().__init__()
        self.top_k = config.num_experts_per_tok
        # Over a single expert the published model doesn't renormalise: all weights would be 1.
        self.renormalise = config.norm_topk_prob and self.top_k > 1
        assert config.n_routed_experts is not None  # else every block is dense
        self.weight = nn.Parameter(torch.empty(config.n_routed_experts, config.hidden_size))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return experts and their weights, (tokens, k) each; the weights in float32 or better."""
        wide = _at_least_float32(tokens.dtype)
        probabilities = nn.functional.linear(tokens.to(wide), self.weight.to(wide)).softmax(dim=-1)
        weights, experts = probabilities.topk(self.top_k, dim=-1)
        if self.renormalise:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return experts, weights


class DeepseekExperts(nn.ModuleList):
    """The routed experts, called like those that transformers stores in one tensor."""

    def __init__(self, config: DeepseekConfig) -> None:
        assert config.n_routed_experts is not None  # else every block is dense
        super().__init__(GatedMLP(config, config.moe_intermediate_size) for _ in range(config.n_routed_experts))
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, tokens: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted sum of the experts' outputs (N, D).

        Args:
            tokens: (N, D).
            chosen: (N, k), the experts of each token.
            weights: (N, k), the experts' weights.
        """
        # Pairs of token and expert, in the order of the experts; within an expert, in that of the tokens.
        order = chosen.flatten().argsort(stable=True)
        counts = chosen.flatten().bincount(minlength=len(self)).tolist()
        routed = torch.zeros_like(tokens, dtype=weights.dtype)
        for expert, pairs in zip(self, order.split(counts), strict=True):
            if len(pairs) == 0:
                continue
            rows = pairs // chosen.shape[-1]  # each at most once, so that the sum below has one order only
            routed.index_add_(0, rows, expert(tokens[rows]) * weights.flatten()[pairs].unsqueeze(-1))
        return routed.to(tokens.dtype)


class DeepseekMoE(nn.Module):
    """Routed experts, weighted, and shared experts, which take every token without a weight."""

    def __init__(self, config: DeepseekConfig) -> None:
        super().__init__()
        self.gate = DeepseekRouter(config)
        self.experts = DeepseekExperts(config)
        shared = config.n_shared_experts or 0
        self.shared_experts = GatedMLP(config, config.moe_intermediate_size * shared) if shared else None

    def forward(self, hidden_states: Tensor) -> Tensor:
        tokens = hidden_states.reshape(-1, hidden_states.shape[-1])
        mixed: Tensor = self.experts(tokens, *self.gate(tokens)).view_as(hidden_states)
        return mixed if self.shared_experts is None else mixed + self.shared_experts(hidden_states)


class DeepseekDecoderLayer(LlamaDecoderLayer):
    """A block of LLaMA with a dense MLP or a mixture of experts."""

    def __init__(self, config: DeepseekConfig, layer_idx: int) -> None:
        super(LlamaDecoderLayer, self).__init__()  # LLaMA's own would build LLaMA's MLP, to be thrown away
        self.hidden_size = config.hidden_size
        # LLaMA's parts read keys that both configurations have, and call whatever stands where its MLP would.
        self.self_attn = LlamaAttention(config=config, layer_idx=layer_idx)  # type: ignore[arg-type]  # see above
        experts = config.has_experts(layer_idx)
        mlp = DeepseekMoE(config) if experts else GatedMLP(config, config.intermediate_size)
        self.mlp = mlp  # type: ignore[assignment]  # see above
        self.input_layernorm = DeepseekRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = DeepseekRMSNorm(config.hidden_size, eps=config.rms_norm_eps)


class _Deepseek(PreTrainedModel):
    """Declarations of both models below that differ from LLaMA's."""

    config_class = DeepseekConfig
    _no_split_modules = ["DeepseekDecoderLayer"]  # noqa: RUF012 - as transformers declares it
    _can_compile_fullgraph = False  # how many tokens an expert gets depends on the tokens

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, DeepseekRouter):
            init.normal_(module.weight, mean=0.0, std=self.config.initializer_range)


class DeepseekModel(_Deepseek, LlamaModel):
    """The decoder; its forward pass, with masks and caches, is LLaMA's."""

    def __init__(self, config: DeepseekConfig) -> None:
        super(LlamaModel, self).__init__(config)
        self.padding_idx = config.pad_token_id
        self.vocab_size = config.vocab_size
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, self.padding_idx)
        self.layers = nn.ModuleList(DeepseekDecoderLayer(config, block) for block in range(config.num_hidden_layers))
        self.norm = DeepseekRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = DeepseekRotaryEmbedding(config=config)  # type: ignore[arg-type]  # reads keys that both have
        self.gradient_checkpointing = False
        self.post_init()


class DeepseekForCausalLM(_Deepseek, LlamaForCausalLM):
    """The decoder and its head; the forward pass and generation are LLaMA's."""

    def __init__(self, config: DeepseekConfig) -> None:
        super(LlamaForCausalLM, self).__init__(config)
        self.model = DeepseekModel(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()


def register() -> None:
    """Register these classes with transformers' automatic ones; harmless if repeated."""
    AutoConfig.register(DeepseekConfig.model_type, DeepseekConfig, exist_ok=True)
    AutoModelForCausalLM.register(DeepseekConfig, DeepseekForCausalLM, exist_ok=True)
