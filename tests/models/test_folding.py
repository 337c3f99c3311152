"""Folding changes how a model is written and not what it says, in floating point and after quantization."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from sarqc import Grid, LayerStatistics, method, quantize_layer
from sarqc.errors import NumericalError, Refused
from sarqc.models.families import FAMILIES, family_of
from sarqc.models.folding import Fold, channel_ties, folds, take_up, write_folded
from sarqc.quantization.methods import ScaleSearch
from sarqc.quantization.quantized_layer import QuantizedLayer
from tests import oracles
from tests.quantizing import quantize_group

FAMILY = family_of("llama", "tests")
TOKENS = torch.randint(0, 64, (2, 12), generator=torch.Generator().manual_seed(3))
SEARCH = ScaleSearch(lam=0.3, mode="foldable", include_identity=False)
GRID = Grid(3, 16, "asymmetric")


def llama(kv_heads: int, *, biases: bool = False, head_dim: int = 8, dtype: torch.dtype = torch.float64) -> nn.Module:
    """2 blocks, hidden 32, 4 heads; everything is random, the norms and biases too."""
    torch.manual_seed(kv_heads)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=kv_heads, head_dim=head_dim, attention_bias=biases, mlp_bias=biases,
        max_position_embeddings=64,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(dtype)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data.normal_(std=0.3)
        else:
            parameter.data.uniform_(0.5, 1.5)
    return model.eval().requires_grad_(False)


def logits(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(TOKENS).logits.double()


def distance(one: nn.Module, other: nn.Module) -> float:
    """Largest difference of the logits, relative to the largest logit."""
    expected = logits(other)
    return float((logits(one) - expected).abs().max() / expected.abs().max())


def blocks(model: nn.Module) -> nn.ModuleList:
    return model.get_submodule(FAMILY.blocks)


def fold(block: nn.Module, step: Fold, scale: torch.Tensor, dtype: torch.dtype) -> None:
    """Multiply the readers' columns by a scale, which the source takes up: nothing is quantized."""
    for path in step.linears:
        block.get_submodule(path).weight.mul_(scale)
    take_up(block.get_submodule(step.source), step.source_scale(scale), dtype)


def random_scale(step: Fold, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(int(step.ties.max()) + 1, dtype=dtype).uniform_(-1.5, 1.5).exp()[step.ties]


def quantize(
    block: nn.Module, heads: int, dtype: torch.dtype, search: ScaleSearch = SEARCH
) -> dict[str, QuantizedLayer]:
    """All of a block's linears, readers first, on made-up inputs."""
    layers, taken = {}, {}
    for step in folds(block, FAMILY.dense, heads):
        weights = {path: block.get_submodule(path).weight.to(dtype) for path in step.linears}
        width = next(iter(weights.values())).shape[-1]
        inputs = torch.from_numpy(oracles.correlated_inputs(width, 80, width))
        layers |= quantize_group(
            weights, LayerStatistics.from_inputs(inputs), GRID, search, ties=step.ties,
            row_scales={path: taken[path] for path in step.linears if path in taken},
        )  # fmt: skip
        scale = layers[step.linears[0]].channel_scale
        if scale is not None:
            taken[step.source] = step.source_scale(scale)
    return layers


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.title)
def test_a_linear_that_takes_up_a_scale_is_solved_after_its_readers(family):
    for groups in (family.groups(None), family.groups(3)):
        for position, group in enumerate(groups):
            earlier = [path for before in groups[:position] for path in before.linears]
            later = [path for after in groups[position:] for path in after.linears]
            assert group.source in earlier or group.source not in later
        paths = [path for group in groups for path in group.linears]
        assert len(set(paths)) == len(paths)
        assert not any("*" in path for path in paths)


class TestTies:
    @pytest.mark.parametrize(("kv_heads", "head_dim"), [(4, 8), (2, 8), (1, 8), (2, 16), (1, 4)])
    def test_are_the_channels_that_a_row_of_values_reaches(self, kv_heads, head_dim):
        """One row of v_proj at a time; whatever then reaches o_proj comes from it."""
        model = llama(kv_heads, head_dim=head_dim)
        attention = blocks(model)[0].self_attn
        step = folds(blocks(model)[0], FAMILY.dense, model.config.num_attention_heads)[-2]
        assert step.linears == ("self_attn.o_proj",)
        weight = attention.v_proj.weight.clone()
        seen = {}
        attention.o_proj.register_forward_pre_hook(lambda _module, inputs: seen.update(x=inputs[0]))
        for row in range(len(weight)):
            attention.v_proj.weight.zero_()
            attention.v_proj.weight[row] = weight[row]
            logits(model)
            reached = seen["x"].abs().amax(dim=(0, 1)) > 0
            assert torch.equal(reached, step.ties == row)
            assert int(reached.sum()) == 4 // kv_heads

    @pytest.mark.parametrize(
        ("rows", "channels", "head_dim"), [(12, 32, 8), (24, 32, 8), (4, 32, 8), (64, 32, 8), (0, 32, 8)]
    )
    def test_sizes_that_do_not_fit(self, rows, channels, head_dim):
        assert channel_ties(rows, channels, head_dim) is None


@pytest.mark.parametrize(("dtype", "least"), [(torch.float64, 1e-9), (torch.float32, 1e-4)], ids=str)
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_folding_changes_logits_by_rounding_only(kv_heads, biases, dtype, least):
    model = llama(kv_heads, biases=biases, dtype=dtype)
    folded = copy.deepcopy(model)
    for block in blocks(folded):
        for step in folds(block, FAMILY.dense, model.config.num_attention_heads):
            fold(block, step, random_scale(step, dtype), dtype)
    assert distance(folded, model) < least
    for name, tensor in blocks(folded).state_dict().items():
        moved = name.endswith(("weight", "v_proj.bias", "up_proj.bias"))
        assert torch.equal(tensor, blocks(model).state_dict()[name]) != moved, name


class TestSourcesThatDoNotFit:
    def test_values_of_another_size(self):
        block = blocks(llama(2))[0]
        block.self_attn.v_proj = nn.Linear(32, 12, bias=False, dtype=torch.float64).requires_grad_(False)
        steps = folds(block, FAMILY.dense, llama(2).config.num_attention_heads)
        assert steps[2] == Fold(("self_attn.o_proj",), None, steps[2].ties)
        assert torch.equal(steps[2].ties, torch.zeros(32, dtype=torch.long))
        layers = quantize(block, llama(2).config.num_attention_heads, torch.float64)
        assert layers["self_attn.o_proj"].channel_scale is None
        assert layers["self_attn.v_proj"].row_scale is None
        assert layers["self_attn.v_proj"].channel_scale is not None
        write_folded(block, FAMILY.dense, layers, lambda _: torch.float64)

    def test_a_norm_without_weight(self):
        """Its readers are not scaled, and the others' scales are still taken up."""
        model = llama(2)
        for block in blocks(model):
            block.input_layernorm = nn.LayerNorm(32, elementwise_affine=False)
        folded, spelt_out = copy.deepcopy(model), copy.deepcopy(model)
        for index, block in enumerate(blocks(model)):
            layers = quantize(block, model.config.num_attention_heads, torch.float64)
            assert layers["self_attn.q_proj"].channel_scale is None
            assert layers["self_attn.v_proj"].row_scale is not None
            write_folded(blocks(folded)[index], FAMILY.dense, layers, lambda _: torch.float64)
            for path, layer in layers.items():
                blocks(spelt_out)[index].get_submodule(path).weight.copy_(layer.dequantized)
        assert distance(folded, spelt_out) < 1e-9


class TestTakeUp:
    def test_a_norm_with_a_bias_and_a_linear(self):
        torch.manual_seed(5)
        x, scale = torch.randn(7, 6, dtype=torch.float64), torch.rand(6, dtype=torch.float64) + 0.5
        for module in (nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 6, bias=False), nn.RMSNorm(6)):
            for parameter in module.double().parameters():
                parameter.data.uniform_(0.5, 1.5)
            expected = module(x) / scale
            take_up(module, scale, torch.float64)
            torch.testing.assert_close(module(x), expected, rtol=1e-12, atol=1e-12)
            assert all(parameter.requires_grad for parameter in module.parameters())

    def test_is_rounded_to_the_storage_dtype(self):
        norm = nn.RMSNorm(3)
        take_up(norm, torch.tensor([3.0, 7.0, 1.0]).bfloat16(), torch.bfloat16)
        assert norm.weight.dtype == torch.float32
        assert torch.equal(norm.weight, torch.tensor([1 / 3, 1 / 7, 1.0]).bfloat16().float())

    def test_what_a_dtype_cannot_hold(self):
        norm = nn.RMSNorm(2).half()
        norm.weight.data.fill_(20.0)
        with pytest.raises(NumericalError, match="float16"):
            take_up(norm, torch.tensor([1.0, 2.0**-14]).half(), torch.float16)


class TestLayersThatDoNotBelongTogether:
    @pytest.fixture
    def block(self) -> nn.Module:
        return blocks(llama(2))[0]

    @pytest.fixture
    def layers(self, block: nn.Module) -> dict[str, QuantizedLayer]:
        return quantize(block, llama(2).config.num_attention_heads, torch.float64)

    @pytest.mark.parametrize("path", ["self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj"])
    @pytest.mark.parametrize("name", ["rtn", "sarqc-gs"])
    def test_one_was_quantized_by_itself(self, block, layers, path, name):
        before = copy.deepcopy(block.state_dict())
        inputs = torch.from_numpy(oracles.correlated_inputs(9, 80, 32))
        alone = quantize_layer(
            block.get_submodule(path).weight, LayerStatistics.from_inputs(inputs), GRID, method(name)
        )
        with pytest.raises(Refused):
            write_folded(block, FAMILY.dense, layers | {path: alone}, lambda _: torch.float64)
        assert all(torch.equal(tensor, before[key]) for key, tensor in block.state_dict().items())

    def test_rows_divided_by_another_scale(self, block, layers):
        down = layers["mlp.down_proj"]
        readers = {"mlp.down_proj": replace(down, channel_scale=2 * down.channel_scale)}
        with pytest.raises(Refused, match=r"^mlp\.up_proj: "):
            write_folded(block, FAMILY.dense, layers | readers, lambda _: torch.float64)
