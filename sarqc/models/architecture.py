"""The config.json of a decoder, checked field by field before it is used; no torch.

Fields that no family here needs are ignored; a missing field has the default of transformers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

from sarqc.errors import Refused

_Heads = Annotated[int, Field(ge=1, le=1 << 12)]
_Blocks = Annotated[int, Field(ge=1, le=1 << 12)]
_Experts = Annotated[int, Field(ge=0, le=1 << 12)]
_Width = Annotated[int, Field(ge=1, le=1 << 22)]
_Tokens = Annotated[int, Field(ge=2, le=1 << 30)]
_Index = Annotated[int, Field(ge=0, le=1 << 12)]  # of a block
_Positive = Annotated[float, Field(gt=0, le=1e12)]
_Activation = Literal[
    "silu",
    "swish",
    "gelu",
    "gelu_new",
    "gelu_fast",
    "gelu_python",
    "gelu_pytorch_tanh",
    "quick_gelu",
    "relu",
    "relu2",
    "relu6",
    "sigmoid",
    "tanh",
    "mish",
]
_STRICT = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False, populate_by_name=True)


class Frozen(BaseModel):
    """A description that does not change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Strict(BaseModel):
    """A part of a document from outside: values of exactly these types, among others that are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class Rope(BaseModel):
    """Rotation of queries and keys by their positions: ``rope_parameters``, formerly ``rope_scaling``."""

    model_config = _STRICT

    rope_type: Literal["default", "linear", "dynamic", "yarn", "longrope", "llama3"] = Field(
        "default", validation_alias=AliasChoices("rope_type", "type")
    )
    rope_theta: _Positive | None = None
    factor: _Positive | None = None
    original_max_position_embeddings: _Tokens | None = None
    low_freq_factor: _Positive | None = None
    high_freq_factor: _Positive | None = None
    attention_factor: _Positive | None = None
    beta_fast: _Positive | None = None
    beta_slow: _Positive | None = None
    short_factor: tuple[_Positive, ...] | None = Field(None, strict=False)
    long_factor: tuple[_Positive, ...] | None = Field(None, strict=False)
    partial_rotary_factor: Annotated[float, Field(gt=0, le=1)] | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Rope:
        needed = {
            "linear": ("factor",),
            "dynamic": ("factor",),
            "yarn": ("factor",),
            "longrope": ("short_factor", "long_factor"),
            "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
        }.get(self.rope_type, ())
        missing = [name for name in needed if getattr(self, name) is None]
        if missing:
            raise ValueError(f"positions of type {self.rope_type} need {', '.join(missing)}")
        if self.rope_type == "llama3" and self.low_freq_factor == self.high_freq_factor:
            raise ValueError("low_freq_factor and high_freq_factor are equal")
        return self


class Architecture(BaseModel):
    """Sizes and choices of a decoder, as far as a plan and the families here depend on them."""

    model_config = _STRICT

    model_type: str
    hidden_size: _Width
    intermediate_size: _Width
    num_hidden_layers: _Blocks
    num_attention_heads: _Heads
    num_key_value_heads: _Heads | None = None
    head_dim: Annotated[int, Field(ge=2, le=1 << 16, multiple_of=2)] | None = None
    vocab_size: Annotated[int, Field(ge=1, le=1 << 24)]
    max_position_embeddings: _Tokens = 2048
    rms_norm_eps: Annotated[float, Field(gt=0, lt=1)] = 1e-6
    hidden_act: _Activation = "silu"
    tie_word_embeddings: bool | None = None
    attention_bias: bool | None = None
    mlp_bias: bool | None = None
    rope_parameters: Rope | None = None
    rope_scaling: Rope | None = None
    rope_theta: _Positive | None = None
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    use_sliding_window: bool | None = None
    sliding_window: Annotated[int, Field(ge=1)] | None = None
    max_window_layers: Annotated[int, Field(ge=0)] | None = None
    layer_types: list[Literal["full_attention", "sliding_attention"]] | None = None
    # Mixtures of experts.
    experts: _Experts | None = Field(None, validation_alias=AliasChoices("num_local_experts", "num_experts"))
    num_experts_per_tok: Annotated[int, Field(ge=1)] | None = None
    moe_intermediate_size: _Width | None = None
    norm_topk_prob: bool | None = None
    mlp_only_layers: list[_Index] | None = None
    decoder_sparse_step: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _is_consistent(self) -> Architecture:
        heads, groups = self.num_attention_heads, self.num_key_value_heads or self.num_attention_heads
        if heads % groups:
            raise ValueError(f"{heads} attention heads can't share {groups} heads of keys and values")
        if self.head_dim is None and (self.hidden_size % heads or self.hidden_size // heads % 2):
            raise ValueError(f"a hidden size of {self.hidden_size} doesn't divide into {heads} heads of an even size")
        if self.layer_types is not None and len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(f"layer_types has {len(self.layer_types)} entries for {self.num_hidden_layers} blocks")
        if self.experts and (self.num_experts_per_tok or 1) > self.experts:
            raise ValueError(f"{self.num_experts_per_tok} experts a token can't be chosen of {self.experts}")
        if self.pad_token_id is not None and not -self.vocab_size <= self.pad_token_id < self.vocab_size:
            raise ValueError(f"pad_token_id {self.pad_token_id} is outside of a vocabulary of {self.vocab_size}")
        return self

    def head_size(self, usual: int | None) -> int:
        """Return the width of a head.

        Args:
            usual: The family's default where config.json has none; None for an equal share of the hidden size.
        """
        return self.head_dim or usual or self.hidden_size // self.num_attention_heads

    def is_mixture(self, block: int) -> bool:
        """Return True if a block of a family with mixtures is a mixture."""
        return (
            bool(self.experts)
            and block not in (self.mlp_only_layers or ())
            and (block + 1) % self.decoder_sparse_step == 0
        )


def architecture_of(config: dict[str, Any], where: str) -> Architecture:
    """Return the architecture that a config.json describes.

    Raises:
        Refused: For an invalid value, with the name of the first such field.
    """
    try:
        return Architecture.model_validate(config)
    except ValidationError as error:
        raise Refused(f"config.json: {first_problem(error)}", where, "Repair it, or download it again.") from None


def first_problem(error: ValidationError) -> str:
    """Return the first complaint about a document from outside, on one line: field, value cut short, and reason."""
    first = error.errors(include_url=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        return f"{name[:60]!r} is missing"
    if not name or first["type"] == "value_error":
        return f"{name[:60]}: {message}" if name else message
    return f"{name[:60]} is {repr(first['input'])[:60]}: {message[0].lower()}{message[1:]}"
