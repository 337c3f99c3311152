"""Experts: their tokens, their statistics and their solutions, against one token and one expert at a time."""

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from sarqc import Grid, LayerStatistics, Recipe, execute, method, quantize_layer
from sarqc.calibration.capture import collect
from sarqc.calibration.job import SolvedLayer
from sarqc.engine.keys import describe, layer_keys
from sarqc.errors import Refused
from sarqc.events import LayerDone
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.linears import as_parameters, slices_of, weight_of
from sarqc.models.loading import LoadedModel
from sarqc.models.walk import BlockWalk
from sarqc.quantization.methods import METHODS
from sarqc.quantization.quantized_layer import CheckedLayer
from sarqc.quantization.solving import LayerJob
from tests.calibration.test_pipeline import a_plan, fresh, inputs_of, solved_by
from tests.models.cases import make_checkpoint
from tests.quantizing import quantize_layers

MIXTURES = ["mixtral", "qwen3_moe, one block dense"]
every_mixture = pytest.mark.parametrize("name", MIXTURES)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_llama: Path) -> dict[str, Path]:
    return {name: make_checkpoint(name, tmp_path_factory.mktemp("mixture"), tiny_llama) for name in MIXTURES}


@pytest.fixture(scope="module")
def sequences() -> Tensor:
    return torch.randint(0, 4096, (3, 16), generator=torch.Generator().manual_seed(2))


def states_and_choices(loaded: LoadedModel, sequences: Tensor) -> dict[int, tuple[Tensor, list[set[int]]]]:
    """For each mixture: what its MLP reads, and which experts each token goes to, from the router's logits alone."""
    names = {f"{loaded.family.blocks}.{index}.mlp": index for index in range(len(loaded.blocks()))}
    of_mixtures = [name for name, index in names.items() if loaded.checkpoint.experts(index)]
    chosen = {}
    for name, given in inputs_of(loaded, of_mixtures, sequences).items():
        index, states = names[name], given.flatten(0, 1)
        scores = states.double() @ loaded.blocks()[index].mlp.gate.weight.double().T
        chosen[index] = (states, [{int(expert) for expert in row.topk(2).indices} for row in scores])
    return chosen


def expert_weights(loaded: LoadedModel, index: int, expert: int) -> list[Tensor]:
    """gate, up and down in float64, read from the file."""
    family = loaded.family
    names = [f"{family.blocks}.{index}.mlp.experts.{expert}.{part}_proj" for part in ("gate", "up", "down")]
    return [loaded.files.read(f"{family.in_file(name)}.weight").double() for name in names]


@every_mixture
def test_statistics_without_outputs_are_the_same(folders, sequences, name):
    loaded = fresh(folders[name])
    walk = BlockWalk(loaded, sequences)
    for block in loaded.blocks():
        (whole, outputs), (statistics, nothing) = collect(walk, block), collect(walk, block, outputs=False)
        assert nothing == []
        assert set(statistics) == set(whole)
        for path, found in statistics.items():
            assert torch.equal(found.gram, whole[path].gram), path
            assert found.n_tokens == whole[path].n_tokens
        walk.advance(outputs)


@pytest.mark.thorough
@every_mixture
def test_a_cross_term_compares_the_same_tokens(folders, sequences, name):
    """Routed as the damaged model routes, whatever the float model would do."""
    damaged, original = fresh(folders[name]), fresh(folders[name])
    walk, float_walk = BlockWalk(damaged, sequences), BlockWalk(damaged, sequences)
    float_states = states_and_choices(original, sequences)
    differ = 0
    for index, block in enumerate(damaged.blocks()):
        with torch.no_grad():  # the states as they are here, in the damaged model
            seen: list[Tensor] = []
            handle = block.mlp.register_forward_pre_hook(
                lambda _m, given, seen=seen: seen.append(given[0].flatten(0, 1))
            )
            walk.outputs(block)
            handle.remove()
        statistics, _ = collect(walk, block, float_walk)
        if index in float_states:
            states, (exact, chosen_there) = torch.cat(seen), float_states[index]
            scores = states.double() @ block.mlp.gate.weight.double().T
            chosen = [{int(expert) for expert in row.topk(2).indices} for row in scores]
            differ += chosen != chosen_there
            for expert in range(damaged.checkpoint.experts(index)):
                rows = [row for row, experts in enumerate(chosen) if expert in experts]
                x, x_float = states[rows].double(), exact[rows].double()
                gate, up, _ = expert_weights(original, index, expert)
                inner, inner_float = (nn.functional.silu(part @ gate.T) * (part @ up.T) for part in (x, x_float))
                for path, (mine, there) in {"gate": (x, x_float), "down": (inner, inner_float)}.items():
                    found = statistics[f"mlp.experts.{expert}.{path}_proj"]
                    torch.testing.assert_close(found.cross.double(), (there - mine).T @ mine, rtol=1e-3, atol=2e-3)
        with torch.no_grad():
            for path in statistics:
                weight_of(block, path).mul_(0.8)
        walk.advance(walk.outputs(block))
    assert differ  # the damaged model does choose other experts somewhere


def solve(folder: Path, store: Path | None, name: str, **choices: object) -> tuple[LoadedModel, dict[str, SolvedLayer]]:
    loaded = fresh(folder)
    plan = replace(a_plan(loaded), method=method(name, **choices))
    return loaded, {step.info.name: step for step in solved_by(loaded, plan, store)}


@pytest.mark.thorough
@pytest.mark.parametrize("method_name", METHODS)
def test_a_starved_expert_is_rounded_and_said(folders, tiny_llama, tmp_path, method_name):
    """The router never chooses expert 3: its states are orthogonal to nothing, so its logits are the lowest."""
    folder = make_checkpoint("qwen3_moe, one block dense", tmp_path / "model", tiny_llama)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    router = tensors["model.layers.0.mlp.gate.weight"]
    router[3] = -10 * router.abs().max() * torch.ones(router.shape[1])
    norm = tensors["model.layers.0.post_attention_layernorm.weight"]
    tensors["model.embed_tokens.weight"].abs_()  # so that what the router reads is positive in sum
    tensors["model.layers.0.self_attn.o_proj.weight"].mul_(0.01)
    assert (norm > 0).all()
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    choices = {name: 1 for name in ("epochs", "steps") if name in METHODS[method_name].options}
    _, solved = solve(folder, None, method_name, **choices)
    for part in ("gate", "up", "down"):
        layer = solved[f"model.layers.0.mlp.experts.3.{part}_proj"]
        assert layer.quantized.report.n_tokens == layer.curve.tokens == 0
        assert "no_tokens" in layer.quantized.report.flags
        assert layer.quantized.report.relative_recon is None  # 0/0 is not 0
        assert all(math.isnan(value) for value in layer.curve.recon)
        weight = tensors[f"{layer.info.name}.weight"]
        if not choices:  # what learns does so through the whole block, where this expert plays no part
            nothing = LayerStatistics.from_inputs(torch.empty(0, weight.shape[1]))
            rounded = quantize_layer(weight, nothing, Grid(3, 16, "asymmetric"), method("rtn"))
            assert torch.equal(layer.quantized.dequantized, rounded.dequantized)
    counts = Counter(layer.info.expert for layer in solved.values() if layer.quantized.report.n_tokens == 0)
    assert counts[3] >= 3
    assert {layer.info.module for layer in solved.values()} >= {"q_proj", "experts.down_proj", "down_proj"}


@pytest.mark.thorough
def test_only_experts_are_damped_and_by_their_own_tokens(folders):
    """Each of the first block, which no other layer's weights precede, is a plain run's with the λ that it names."""
    _, damped = solve(folders["mixtral"], None, "rqc-gbs", lam=0.2, expert_damping="damped")
    _, plain = solve(folders["mixtral"], None, "rqc-gbs", lam=0.2)
    first = [name for name, layer in damped.items() if layer.info.block == 0]
    changed = False
    for name in first:
        report, ours = damped[name].quantized.report, damped[name].quantized
        if damped[name].info.expert is None or report.n_tokens == 0:
            assert torch.equal(ours.dequantized, plain[name].quantized.dequantized)
        if damped[name].info.expert is None:
            assert report.chosen == plain[name].quantized.report.chosen
        elif report.n_tokens:
            width = ours.codes.shape[1]
            assert report.chosen["lam_used"] == pytest.approx(0.2 * (1 + width / report.n_tokens))
            changed |= not torch.equal(ours.codes, plain[name].quantized.codes)
    assert changed
    tokens = {name: damped[name].quantized.report.n_tokens for name in first if damped[name].info.expert is not None}
    expert = min((name for name in tokens if tokens[name]), key=tokens.__getitem__)
    _, by_hand = solve(folders["mixtral"], None, "rqc-gbs", lam=damped[expert].quantized.report.chosen["lam_used"])
    assert torch.equal(by_hand[expert].quantized.dequantized, damped[expert].quantized.dequantized)


def test_the_choice_is_in_the_keys_where_it_is_made(folders):
    loaded = fresh(folders["mixtral"])
    plain, said, damped = (
        layer_keys(describe(loaded), replace(a_plan(loaded), method=method("gptq", **choices)))
        for choices in ({}, {"expert_damping": "plain"}, {"expert_damping": "damped"})
    )
    assert plain == said
    assert not set(plain.values()) & set(damped.values())


@pytest.mark.thorough
@pytest.mark.parametrize("method_name", ["gptq", "sarqc-gbs", "sarqc-gs", "gptaq-full"])
def test_experts_together_are_experts_one_by_one(method_name):
    generator = torch.Generator().manual_seed(5)
    given = []
    for tokens in (40, 3, 0, 200):
        inputs, shifted = (torch.randn(tokens, 32, generator=generator) for _ in range(2))
        weight = torch.randn(24, 32, generator=generator)
        given.append((weight, LayerStatistics.from_inputs(inputs, inputs + 0.1 * shifted)))
    grid, chosen = Grid(3, 16, "asymmetric"), method(method_name)

    def job(expert: int, weight: Tensor) -> LayerJob:
        return LayerJob(CheckedLayer(weight, given[expert][1], grid, None, name=f"expert {expert}"), [chosen])

    jobs = [job(expert, weight) for expert, (weight, _) in enumerate(given)]
    for budget in (1, 1 << 30):
        for (weight, statistics), (found,) in zip(given, quantize_layers(jobs, budget), strict=True):
            alone = quantize_layer(weight, statistics, grid, chosen)
            assert torch.equal(found.codes, alone.codes)
            torch.testing.assert_close(found.dequantized, alone.dequantized, rtol=1e-6, atol=1e-7)
    with pytest.raises(Refused, match="several shapes"):
        quantize_layers([jobs[0], job(1, torch.ones(8, 32))])
    with pytest.raises(Refused, match="points of"):
        quantize_layers([jobs[0], LayerJob(jobs[1].layer, [chosen, method("rtn")])])
    with pytest.raises(Exception, match="not finite") as caught:
        job(1, torch.full((24, 32), float("nan")))
    assert "expert 1" in caught.value.where


def test_weights_are_views_and_make_parameters(folders):
    block = fresh(folders["mixtral"]).blocks()[0]
    fused = block.mlp.experts.gate_up_proj
    half = fused.shape[1] // 2
    with torch.no_grad():
        weight_of(block, "mlp.experts.2.up_proj").fill_(7)
    assert (fused[2, half:] == 7).all()
    assert not (fused[2, :half] == 7).any()
    assert not (fused[1] == 7).any()
    given = torch.zeros(half, fused.shape[2])
    made = as_parameters(block, {"mlp.experts.1.gate_proj": given, "self_attn.q_proj": torch.ones(2, 2)})
    assert set(made) == {"mlp.experts.gate_up_proj", "self_attn.q_proj.weight"}
    assert (made["mlp.experts.gate_up_proj"][1, :half] == 0).all()
    assert torch.equal(made["mlp.experts.gate_up_proj"][0], fused[0])
    assert slices_of("mlp.experts.down_proj", 2) == [(f"mlp.experts.{expert}.down_proj",) for expert in (0, 1)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", MIXTURES)
def test_sizes_that_no_kernel_takes(tiny_llama, tmp_path, sequences, name):
    """Rows of 36 and 22 numbers: transformers' default for experts fails on them."""
    changes = {"hidden_size": 36, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 12}
    width = {"moe_intermediate_size": 22} if name != "mixtral" else {"intermediate_size": 22}
    folder = make_checkpoint(name, tmp_path / "model", tiny_llama, **changes, **width)
    loaded = fresh(folder)
    reference = AutoModelForCausalLM.from_pretrained(folder, experts_implementation="eager")
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(sequences).logits, reference(sequences).logits, rtol=1e-4, atol=1e-5)
    grids = {layer.name: Grid(2, None, "symmetric") for layer in loaded.checkpoint.layers}
    plan = replace(a_plan(loaded), grids=grids, method=method("sarqc-gbs"))
    assert len(solved_by(loaded, plan)) == len(loaded.checkpoint.layers)


class TestRefused:
    def test_an_expert_that_is_missing(self, tiny_llama, tmp_path):
        folder = make_checkpoint("mixtral", tmp_path / "model", tiny_llama)
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        missing = "model.layers.1.block_sparse_moe.experts.3.w3.weight"
        del tensors[missing]
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(Refused, match=r"experts\.3\.w3 was expected"):
            read_checkpoint(folder)
        for name in [name for name in tensors if "gate.weight" in name]:
            del tensors[name]
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(Refused, match=r"block_sparse_moe\.gate was expected"):
            read_checkpoint(folder)

    def test_a_configuration_of_another_model(self, tiny_llama, tmp_path):
        folder = make_checkpoint("qwen3_moe", tmp_path / "model", tiny_llama)
        config = json.loads((folder / "config.json").read_text())
        for change, words in (
            ({"num_local_experts": 9}, r"of \(9, 32\)"),
            ({"moe_intermediate_size": 24}, r"of \(24, 32\)"),
            ({"num_experts_per_tok": 40}, "40 experts a token"),
        ):
            (folder / "config.json").write_text(json.dumps(config | change))
            with pytest.raises(Refused, match=words) as caught:
                fresh(folder)
            assert str(folder) in caught.value.where


def test_a_run_says_how_many_tokens_its_experts_saw(folders, text_file, fresh_settings):
    recipe = {
        "model": str(folders["mixtral"]), "bits": 3, "grid": "asymmetric", "group_size": 16, "method": "rtn",
        "calibration": str(text_file), "samples": 1, "length": 16,
    }  # fmt: skip
    *events, finished = execute(Recipe.parse(recipe), fresh_settings)
    shapes = {layer.name: layer.shape for layer in read_checkpoint(folders["mixtral"]).layers}
    seen: dict[str, int] = {}  # by expert
    widths = []
    for layer in (event for event in events if isinstance(event, LayerDone)):
        owner, _, rest = layer.name.partition(".experts.")
        if rest:
            name = f"{owner}.{rest.split('.')[0]}"
            seen[name] = layer.report["n_tokens"]
            widths.append(shapes[layer.name][1])
    said = finished.summary["experts"]
    assert said["experts"] == len(seen)
    assert (said["tokens"], said["channels"]) == (16, max(widths))
    assert said["no_tokens"] == sum(count == 0 for count in seen.values())
    assert said["fewer_tokens_than_channels"] == sum(0 < count < max(widths) for count in seen.values())
    assert said["words"].startswith(f"Of {len(seen)} experts, ")
