"""Operations of derived decoders that take up channel scales: the same as in written families, and true by numbers."""

import copy
import resource
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForCausalLM, CohereConfig, PretrainedConfig
from transformers.initialization import no_init_weights

from conformance.every_model.small import small_config
from sarqc.models.decoder import Decoder
from sarqc.models.derivation import derive
from sarqc.models.families import FAMILIES
from sarqc.models.linears import bias_of, weight_of
from sarqc.models.sources import LowMemoryMode, with_sources
from tests.models.cases import CASES

pytestmark = pytest.mark.thorough


def described(config: PretrainedConfig) -> Decoder:
    with FakeTensorMode(), no_init_weights():
        model = AutoModelForCausalLM.from_config(config).eval()
        model.tie_weights()
        decoder = derive(model, config.model_type)
    assert all(group.source is None for kind in decoder.kinds for group in kind.groups)
    return with_sources(decoder, AutoModelForCausalLM.from_config(config).eval())


def sources(decoder: Decoder) -> dict[str, str | None]:
    """Return the operation before each group, by the group's first linear."""
    return {group.linears[0]: group.source for kind in decoder.kinds for group in kind.groups}


def folded(model: nn.Module, decoder: Decoder, *, readers: bool = True) -> int:
    """Folds random scales between 1/2 and 2 into all operations of a model, in place; returns their number."""
    generator, count = torch.Generator().manual_seed(4), 0
    for index, block in enumerate(model.get_submodule(decoder.blocks)):
        for group in decoder.kind(index).groups:
            if group.source is None:
                continue
            count += 1
            source = weight_of(block, group.source)
            rows = torch.rand(len(source), generator=generator, dtype=torch.float64) * 1.5 + 0.5
            width = weight_of(block, group.linears[0]).shape[1]
            per_head = width // model.config.get_text_config().num_attention_heads
            columns = rows
            if len(rows) < width:  # heads of values that several query heads read
                columns = rows.reshape(-1, 1, per_head).expand(-1, width // len(rows), -1).flatten()
            for path in (*group.linears, *(group.also if readers else ())):
                weight_of(block, path).mul_(columns)
            source.div_(rows if source.ndim == 1 else rows[:, None])
            bias = bias_of(block, group.source)
            if bias is not None:
                bias.div_(rows)
    return count


def random_model(config: PretrainedConfig) -> nn.Module:
    torch.manual_seed(1)
    config = copy.deepcopy(config)
    config._experts_implementation = "eager"  # the others take no float64
    model = AutoModelForCausalLM.from_config(config).double().eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.normal_(std=0.3)
        else:
            parameter.uniform_(0.5, 1.5)
    return model


def change(model: nn.Module, other: nn.Module) -> float:
    """Largest difference of the logits, relative to the largest logit."""
    tokens = torch.randint(4096, (2, 12), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        one, two = (each(tokens, use_cache=False).logits for each in (model, other))
    return float((one - two).abs().max() / one.abs().max())


@pytest.mark.parametrize("name", CASES)
def test_written_families_have_what_would_be_verified(name):
    config = CASES[name].config
    decoder = described(config)
    family = next(family for family in FAMILIES if config.model_type in family.model_types)
    assert (decoder.blocks, decoder.embedding, decoder.head) == (family.blocks, family.embedding, family.head)
    assert all(linear.is_own for linear in decoder.linears.values())
    for path, linear in decoder.linears.items():
        assert linear.tensor == f"{family.in_file(path)}.weight"
    for block in range(config.num_hidden_layers):
        kind = decoder.kind(block)
        assert kind.groups == family.groups(None if kind.experts is None else kind.experts.number)


# Biases; none in norms; norms and MLP beside attention; other norms of one architecture; stacks with shared experts.
@pytest.mark.parametrize(
    ("model_type", "least"),
    [("stablelm", 4), ("olmo", 2), ("olmo2", 2), ("cohere", 3), ("granite", 4), ("phi3", 2), ("opt", 4), ("phi", 2),
     ("gemma2", 2), ("olmoe", 7), ("qwen2_moe", 7), ("granitemoe", 7)],
)  # fmt: skip
def test_scales_that_are_taken_up_change_nothing(model_type, least):
    config = small_config(model_type)
    decoder = described(config)
    model = random_model(config)
    other = copy.deepcopy(model)
    assert folded(other, decoder) >= least * len(decoder.kind_of)
    assert change(model, other) < 1e-6  # some norms compute in float32
    if any(group.also for kind in decoder.kinds for group in kind.groups):
        alone = copy.deepcopy(model)
        folded(alone, decoder, readers=False)
        assert change(model, alone) > 1e-3


# A norm that multiplies by 1 + w; norms whose outputs are the residual as well, or the input of another linear alone;
# a squared activation; a clamp, which acts on large numbers only; another order of factors.
@pytest.mark.parametrize(
    ("model_type", "changes", "linear", "operation"),
    [
        ("gemma2", {}, "self_attn.q_proj", "input_layernorm"),
        ("bert", {}, "intermediate.dense", "attention.output.LayerNorm"),
        ("bart", {}, "fc1", "self_attn_layer_norm"),
        ("arcee", {}, "mlp.down_proj", "mlp.up_proj"),
        ("olmo", {"clip_qkv": 8.0}, "self_attn.o_proj", "self_attn.v_proj"),
        ("olmo2", {}, "mlp.gate_proj", "self_attn.o_proj"),
    ],
)
def test_what_takes_up_no_scale(model_type, changes, linear, operation):
    config = small_config(model_type)
    for name, value in changes.items():
        setattr(config, name, value)
    decoder = described(config)
    assert sources(decoder)[linear] is None
    group = next(group for group in decoder.kind(0).groups if linear in group.linears)
    forced = decoder.kinds[0].model_copy(update={"groups": (replace(group, source=operation),)})
    model = random_model(config)
    if changes:  # numbers that the clamp changes
        for name, parameter in model.named_parameters():
            if "v_proj" in name:
                parameter.mul_(8)
    other = copy.deepcopy(model)
    assert folded(other, decoder.model_copy(update={"kinds": (forced,)})) == len(decoder.kind_of)
    assert change(model, other) > 1e-3


def test_a_large_block_takes_little_memory():
    """The weights of these blocks, four billion in float32, would take 17 GB."""
    config = CohereConfig(hidden_size=16384, intermediate_size=65536, num_hidden_layers=1, num_attention_heads=128)
    with FakeTensorMode(), no_init_weights():
        decoder = derive(AutoModelForCausalLM.from_config(config).eval(), "large")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with LowMemoryMode(), no_init_weights():
        model = AutoModelForCausalLM.from_config(config).eval()
    assert list(sources(with_sources(decoder, model)).values()) == [
        "input_layernorm", "self_attn.v_proj", "mlp.up_proj",
    ]  # fmt: skip
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
