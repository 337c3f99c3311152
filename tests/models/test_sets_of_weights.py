"""Folders with two sets of weights, and tensors that a model does not read: read as by transformers, or refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from sarqc.checkpoints.plain import save_plain
from sarqc.engine.stamp import stored_weights
from sarqc.errors import Refused
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import load
from sarqc.models.weight_files import WeightFiles

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
Change = Callable[[Path], None]


@pytest.fixture
def copy(random_llama: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(random_llama, tmp_path / "copy"))


def in_pieces(folder: Path, target: Path, factor: float = 1.0) -> None:
    """Write the weights of a folder, multiplied, as three files and their index in another one."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    for parameter in model.parameters():
        parameter.data.mul_(factor)
    model.save_pretrained(target / "made", max_shard_size="200KB")
    for path in (target / "made").glob("model*"):
        shutil.move(path, target / path.name)


def is_read_as_transformers_reads_it(folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder)
    files = WeightFiles(checkpoint := read_checkpoint(folder))
    assert checkpoint.parameter_names
    for name in checkpoint.parameter_names:
        assert torch.equal(files.read(name), model.get_parameter(name))


@pytest.mark.parametrize("indexed", [True, False])
def test_two_sets_are_refused_with_both_names(copy, indexed):
    in_pieces(copy, copy, factor=2)
    if not indexed:
        (copy / INDEX).unlink()
    with pytest.raises(Refused) as error:
        read_checkpoint(copy)
    assert SINGLE in error.value.what
    assert (INDEX if indexed else "model-00001-of-") in error.value.what
    assert "Remove one" in error.value.remedy


def test_an_index_whose_files_are_gone_is_passed_over(copy):
    in_pieces(copy, copy, factor=2)
    for path in copy.glob("model-*"):
        path.unlink()
    assert INDEX in read_checkpoint(copy).notice
    is_read_as_transformers_reads_it(copy)
    (copy / SINGLE).unlink()
    with pytest.raises(Refused, match="is missing"):
        read_checkpoint(copy)


def with_tensors(folder: Path, **more: Tensor) -> Path:
    save_file(load_file(folder / SINGLE) | more, folder / SINGLE, {"format": "pt"})
    return folder


Q = "model.layers.1.self_attn.q_proj"
REFUSED: dict[str, dict[str, Tensor]] = {
    "scales of FP8": {f"{Q}.weight_scale_inv": torch.ones(1, 1)},
    "a scale": {f"{Q}.weight_scale": torch.ones(1)},
    "a bias": {f"{Q}.bias": torch.ones(32)},
    "LoRA": {f"{Q}.lora_A.weight": torch.ones(4, 32), f"{Q}.lora_B.weight": torch.ones(32, 4)},
    "LoRA as peft names it": {f"base_model.model.{Q}.lora_A.weight": torch.ones(4, 32)},
    "norms of heads": {"model.layers.0.self_attn.q_norm.weight": torch.ones(8)},
    "a bias of the last norm": {"model.norm.bias": torch.ones(32)},
    "a further block": {"model.layers.3.mlp.up_proj.weight": torch.ones(48, 32)},
}


@pytest.mark.parametrize("case", REFUSED)
def test_tensors_that_change_what_is_computed_are_refused(copy, case):
    with pytest.raises(Refused) as error:
        read_checkpoint(with_tensors(copy, **REFUSED[case]))
    assert next(iter(REFUSED[case])) in error.value.what
    assert "again" not in error.value.remedy


def test_an_adapter_beside_the_weights_is_refused(copy):
    (copy / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    with pytest.raises(Refused, match="an adapter") as error:
        read_checkpoint(copy)
    assert "Merge it" in error.value.remedy


# As GLM-4-MoE and DeepSeek-V3 store the layers by which tokens are guessed ahead.
GUESSING = {f"model.layers.3.{part}.weight": torch.rand(32) for part in ("enorm", "hnorm", "shared_head.norm")}
GUESSING |= {"model.layers.3.eh_proj.weight": torch.rand(32, 64), "mtp.fc.weight": torch.rand(32, 64)}
HARMLESS = {
    "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4),
    "model.layers.0.self_attn.masked_bias": torch.ones(1),
    "model.layers.0.self_attn.bias": torch.ones(1, 1, 16, 16), f"{Q}.bias": torch.zeros(32),
    "value_head.weight": torch.ones(1, 32),
}  # fmt: skip


def test_what_changes_nothing_stays_in_the_export_and_outside_the_stamp_of_blocks(copy, tmp_path):
    before = load_file(copy / SINGLE)
    plain = stored_weights(own := read_checkpoint(copy), WeightFiles(own))
    guessing = read_checkpoint(with_tensors(copy, **GUESSING))
    stamped = stored_weights(guessing, WeightFiles(guessing))
    assert stamped.blocks == plain.blocks
    assert stamped.outside != plain.outside
    checkpoint = read_checkpoint(folder := with_tensors(copy, **HARMLESS))
    assert {*checkpoint.unread} == {*GUESSING, *HARMLESS}
    assert {*checkpoint.parameter_names} == {*before}
    loaded = load(checkpoint, torch.device("cpu"))
    assert loaded.checkpoint.parameters == sum(parameter.numel() for parameter in loaded.model.parameters())
    save_plain(loaded, tmp_path / "export")
    written = load_file(tmp_path / "export" / SINGLE)
    assert {name: tensor.tolist() for name, tensor in written.items()} == {
        name: tensor.tolist() for name, tensor in load_file(folder / SINGLE).items()
    }


@pytest.mark.thorough
@pytest.mark.parametrize(("model_type", "more"), [("glm4_moe", {}), ("deepseek_v3", {"kv_lora_rank": 16})])
def test_layers_of_speculation_are_no_blocks_of_a_derived_model(model_type, more, tmp_path, tiny_llama):
    from transformers import AutoConfig

    config = AutoConfig.for_model(
        model_type, **more, n_routed_experts=4, vocab_size=4096, hidden_size=32, intermediate_size=48,
        moe_intermediate_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
        num_experts_per_tok=2, n_group=1, topk_group=1, head_dim=8, q_lora_rank=16, qk_rope_head_dim=8,
        qk_nope_head_dim=8, v_head_dim=8, max_position_embeddings=64, first_k_dense_replace=1,
        num_nextn_predict_layers=1,
    )  # fmt: skip
    torch.manual_seed(0)
    folder = tmp_path / "model"
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_llama / name, folder / name)
    ahead = {name.replace("layers.1.", "layers.2."): tensor
             for name, tensor in load_file(folder / SINGLE).items() if ".layers.1." in name}  # fmt: skip
    before = read_checkpoint(folder)
    checkpoint = read_checkpoint(with_tensors(folder, **ahead))
    assert {*checkpoint.unread} == {*ahead}
    assert {*checkpoint.parameter_names} == {*before.parameter_names}
    assert len(stored_weights(checkpoint, WeightFiles(checkpoint)).blocks) == 2


def test_quantization_that_is_null_is_none_and_one_left_over_says_what_helps(copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"quantization_config": None}))
    is_read_as_transformers_reads_it(copy)
    left = {"quant_method": "gptq", "bits": 4}
    (copy / "config.json").write_text(json.dumps(config | {"quantization_config": left}))
    with pytest.raises(Refused, match="quantized already") as error:
        read_checkpoint(copy)
    assert "take quantization_config out" in error.value.remedy
