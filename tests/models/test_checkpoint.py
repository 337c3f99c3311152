"""What must never be loaded is refused from bytes alone, and sizes are read without loading."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from sarqc.checkpoints.plain import save_plain
from sarqc.errors import NotFound, Refused, Unreachable
from sarqc.models.catalogue import checkpoint_of, local_folder, offered
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import load
from tests.models.damaged import config


@pytest.fixture
def copy(random_llama: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(random_llama, tmp_path / "copy"))


def test_sizes_are_those_of_the_loaded_model(tiny_llama):
    checkpoint = read_checkpoint(tiny_llama)
    model = AutoModelForCausalLM.from_pretrained(tiny_llama)
    linears = {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    linears.pop("lm_head")
    assert {layer.name: layer.shape for layer in checkpoint.layers} == {
        name: tuple(module.weight.shape) for name, module in linears.items()
    }
    assert checkpoint.parameters == sum(parameter.numel() for parameter in model.parameters())
    quantized = sum(module.weight.numel() for module in linears.values())
    assert checkpoint.share_quantized == quantized / checkpoint.parameters


def with_head(folder: Path, change: float) -> Path:
    """Return the tied checkpoint with its head stored as well, each weight changed by a factor."""
    tensors = load_file(folder / "model.safetensors")
    head = tensors["model.embed_tokens.weight"] * change
    save_file(tensors | {"lm_head.weight": head}, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_a_head_of_other_values_is_used_though_the_flag_says_tied(copy, tmp_path):
    loaded = load(read_checkpoint(with_head(copy, 1.5)), torch.device("cpu"))
    ids = torch.arange(40).reshape(2, 20) * 97
    with torch.no_grad():
        expected = AutoModelForCausalLM.from_pretrained(copy)(ids).logits
        assert torch.equal(loaded.model(ids).logits, expected)
        loaded.model.tie_weights()  # as lm-eval does
        assert torch.equal(loaded.model(ids).logits, expected)
        save_plain(loaded, tmp_path / "out")
        assert torch.equal(AutoModelForCausalLM.from_pretrained(tmp_path / "out")(ids).logits, expected)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["tie_word_embeddings"] is False
    separate = 4096 * 32
    assert loaded.checkpoint.parameters == loaded.model.num_parameters()
    assert loaded.checkpoint.parameters == sum(p.numel() for p in loaded.model.base_model.parameters()) + separate


def test_what_is_stored_twice_or_is_a_buffer_is_no_further_parameter(random_llama, copy):
    path = with_head(copy, 1.0) / "model.safetensors"
    buffers = {f"model.layers.{block}.self_attn.rotary_emb.inv_freq": torch.ones(4) for block in range(3)}
    save_file(load_file(path) | buffers, path, {"format": "pt"})
    once, twice = read_checkpoint(random_llama), read_checkpoint(copy)
    assert twice.size_bytes > once.size_bytes
    assert twice.parameters == once.parameters == load(twice, torch.device("cpu")).model.num_parameters()
    assert twice.share_quantized == once.share_quantized
    assert twice.parameters_of(0) == once.parameters_of(0)
    assert twice.parameter_bytes == once.parameter_bytes == 4


def test_a_head_of_another_shape_is_refused(copy):
    path = copy / "model.safetensors"
    save_file(load_file(path) | {"lm_head.weight": torch.ones(4096, 31)}, path, {"format": "pt"})
    with pytest.raises(Refused, match=r"lm_head\.weight"):
        read_checkpoint(copy)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"auto_map": {"AutoModel": "evil.Model"}}, "code"),
        pytest.param(
            {"model_type": "mamba"},
            r"config\.json asks for backbone\.\S+ of .*, which is not there",
            marks=pytest.mark.thorough,
        ),
        pytest.param({"model_type": "qwen9"}, "no causal language model of type “qwen9”", marks=pytest.mark.thorough),
        ({"num_hidden_layers": 4}, r"model\.layers\.3\.self_attn\.q_proj"),
        ({"quantization_config": {}}, "quantized already"),
    ],
)
def test_what_a_configuration_may_not_say(copy, changes, words):
    config(**changes)(copy)
    with pytest.raises(Refused, match=words):
        read_checkpoint(copy)


def test_pickled_weights_are_refused_unopened(copy):
    (copy / "model.safetensors").unlink()
    (copy / "pytorch_model.bin").write_bytes(b"this is never opened")
    with pytest.raises(Refused, match="pickle"):
        read_checkpoint(copy)


def test_names_resolve(settings, tiny_llama, random_llama):
    assert local_folder("tiny-llama", settings) == tiny_llama
    assert local_folder(str(random_llama), settings) == random_llama
    assert local_folder("meta-llama/Llama-2-7b-hf", settings) is None
    for wrong in ("no-such-model", "a/b/c", "https://example.org/a"):
        with pytest.raises(NotFound):
            local_folder(wrong, settings)


def test_a_hub_that_is_away_is_said_at_once(settings):
    with pytest.raises(Unreachable) as caught:
        checkpoint_of("meta-llama/Llama-2-7b-hf", None, settings)
    assert caught.value.remedy


def test_local_models_are_offered(settings, random_llama):
    here = settings.model_copy(update={"model_dirs": str(random_llama.parent)})
    entries = {entry.name: entry for entry in offered(here)}
    assert entries["tiny-llama"].where == "embedded"
    assert entries[random_llama.name].parameters == read_checkpoint(random_llama).parameters


def test_what_others_made_of_a_model_is_offered_with_it(settings, random_llama, tmp_path):
    config = json.loads((random_llama / "config.json").read_text())
    quantized = {"quantization_config": {"quant_method": "gptq"}}
    said = {"by-others": config | quantized, "of-another": config | quantized | {"hidden_size": 8}, "float": config}
    for name, content in said.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(content))
    here = settings.model_copy(update={"model_dirs": f"{random_llama.parent}:{tmp_path}"})
    entries = {entry.name: entry for entry in offered(here)}
    assert entries[random_llama.name].opened == ("by-others",)
    assert entries["tiny-llama"].opened == ()


def test_weights_keep_their_bits(tiny_llama):
    loaded = load(read_checkpoint(tiny_llama), torch.device("cpu"))
    weight = loaded.model.get_submodule("model.layers.0.mlp.down_proj").weight
    assert loaded.stored_as("model.layers.0.mlp.down_proj.weight") == torch.float16
    assert weight.dtype == torch.float32
    assert torch.equal(weight.to(torch.float16).to(torch.float32), weight)


def test_layers_are_excluded_by_patterns(copy):
    checkpoint = read_checkpoint(copy)
    part = checkpoint.restricted(None, None, ("*.down_proj", "model.layers.0.self_attn.*"))
    left = {layer.name for layer in part.layers}
    assert left == {
        layer.name for layer in checkpoint.layers
        if not layer.name.endswith("down_proj") and not layer.name.startswith("model.layers.0.self_attn.")
    }  # fmt: skip
    assert 0 < part.share_quantized < checkpoint.share_quantized
    in_block = part.restricted(None, (1,), ("*.up_proj",))
    assert {layer.block for layer in in_block.layers} == {1}
    with pytest.raises(Refused, match=r"no layer of the model is called “\*\.fc1”"):
        checkpoint.restricted(None, None, ("*.fc1",))
    with pytest.raises(Refused, match="no layer is left"):
        checkpoint.restricted(None, None, ("*",))
