"""Quantized folders whose configuration, tokenizer or head is another than the original's; spellings do not count."""

import json
import shutil
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM

from sarqc.checkpoints.layout import describe
from sarqc.errors import Refused
from sarqc.models import effective
from sarqc.models.checkpoint import Checkpoint, read_checkpoint
from tests.checkpoints import foreign
from tests.models.cases import make_checkpoint

SIZES = {"num_hidden_layers": 1, "max_position_embeddings": 128}
SAID = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 16, "sym": False,
                                "checkpoint_format": "gptq_v2"}}  # fmt: skip
IDS = torch.arange(64)[None] * 41 % 4096
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0}
# Changes of a config.json, and the field that a refusal must name; empty where the model is the same.
CHANGES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "llama": [
        ({"rope_parameters": YARN}, "rope_parameters.rope_type"),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 4.0}}, "rope_parameters.factor"),
        ({"rope_parameters": None, "rope_theta": 77.0}, "rope_parameters.rope_theta"),
        ({"rms_norm_eps": 0.1}, "rms_norm_eps"), ({"hidden_act": "gelu"}, "hidden_act"),
        ({"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}, "num_attention_heads"),
        ({"rope_parameters": None, "rope_theta": 10000, "rope_scaling": None}, ""),
        ({"head_dim": None, "mlp_bias": None, "unsloth_version": "2026.1", "torch_dtype": "float16"}, ""),
        ({"bos_token_id": 5, "use_cache": False, "attention_dropout": 0.1, "max_position_embeddings": 99}, ""),
    ],
    "mistral": [({"sliding_window": 16}, "sliding_window")],
    "mixtral": [({"num_experts_per_tok": 1}, "num_experts_per_tok")],
    "qwen2": [({"head_dim": 8, "sliding_window": 7, "max_window_layers": 0}, ""), ({"head_dim": 16}, "head_dim")],
}  # fmt: skip


def changed(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with other fields; None takes one away."""
    return {name: value for name, value in (config | changes).items() if value is not None}


@pytest.mark.parametrize("model_type", CHANGES)
def test_fields_differ_where_transformers_computes_other_logits(model_type, tmp_path, tiny_llama):
    folder = make_checkpoint(model_type, tmp_path / "model", tiny_llama, **SIZES, layer_types=None)
    original = json.loads((folder / "config.json").read_text())

    def logits(config: dict[str, Any]) -> torch.Tensor | None:
        (folder / "config.json").write_text(json.dumps(config))
        described = AutoConfig.from_pretrained(folder)
        try:
            model = AutoModelForCausalLM.from_pretrained(
                folder, config=described, dtype=torch.float64, experts_implementation="eager"
            )
        except (RuntimeError, ValueError):
            return None  # of other shapes
        with torch.no_grad():
            return model(IDS).logits

    expected = logits(original)
    for changes, field in CHANGES[model_type]:
        config = changed(original, changes)
        named = json.loads(effective.differences(json.dumps([config, original]).encode()))
        found = logits(config)
        assert (found is not None and torch.equal(found, expected)) == (not named) == (not field), changes
        assert not field or any(each.startswith(f"{field} is ") for each in named), named


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, tiny_llama: Path) -> Path:
    return make_checkpoint("llama", tmp_path_factory.mktemp("configurations") / "float", tiny_llama, **SIZES)


def theirs(source: Path, target: Path, stored: Any = foreign.gptq, **more: Any) -> tuple[Checkpoint, Path]:
    checkpoint, rng = read_checkpoint(source), np.random.default_rng(0)
    linears = {info.name: foreign.linear(info.shape, 4, 16, rng) for info in checkpoint.layers}
    return checkpoint, foreign.write(source, target, linears, stored, SAID, more)


def test_another_configuration_is_refused_with_both_values(source, tmp_path, monkeypatch):
    def in_this_process(function: str, request: bytes, **limits: int) -> bytes:
        return resolve_name(function)(request)

    monkeypatch.setattr(effective, "answer_of", in_this_process)
    checkpoint, folder = theirs(source, tmp_path / "theirs")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16", "transformers_version": "4.40"}))
    assert describe(folder, checkpoint).layers
    (folder / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.25}))
    with pytest.raises(Refused, match=r"rms_norm_eps is 0\.25, not 1e-06"):
        describe(folder, checkpoint)


def edited(folder: Path, change: Any) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    change(tokenizer)
    tokenizer.save(str(folder / "tokenizer.json"))


def digits(tokenizer: Tokenizer) -> None:
    cut = pre_tokenizers.Split(Regex(r"\d"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, tokenizer.pre_tokenizer])


def lower(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = normalizers.Lowercase()


def test_another_tokenizer_is_refused_and_one_written_otherwise_is_not(source, tmp_path):
    for number, change in enumerate((digits, lower, lambda tokenizer: tokenizer.add_tokens(["the"]))):
        checkpoint, folder = theirs(source, tmp_path / str(number))
        edited(folder, change)
        with pytest.raises(Refused, match=r"tokenizer\.json reads texts otherwise"):
            describe(folder, checkpoint)
    for number, change in enumerate((
        lambda tokenizer: tokenizer.add_special_tokens(["<pad>"]),
        lambda tokenizer: tokenizer.enable_truncation(16),
    )):  # fmt: skip
        checkpoint, folder = theirs(source, tmp_path / f"same-{number}")
        edited(folder, change)
        assert describe(folder, checkpoint).layers
    (folder / "tokenizer.json").unlink()
    assert describe(folder, checkpoint).layers


def test_a_head_of_its_own_is_refused_beside_tied_embeddings(source, tmp_path):
    embedding = load_file(source / "model.safetensors")["model.embed_tokens.weight"]
    checkpoint, folder = theirs(source, tmp_path / "twice", **{"lm_head.weight": embedding.clone()})
    assert checkpoint.tied
    assert describe(folder, checkpoint).layers
    checkpoint, folder = theirs(source, tmp_path / "other", **{"lm_head.weight": embedding * 2})
    with pytest.raises(Refused, match=r"lm_head\.weight has other values than the embedding"):
        describe(folder, checkpoint)
    checkpoint, folder = theirs(source, tmp_path / "none")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    with pytest.raises(Refused, match="there is no head"):
        describe(folder, checkpoint)
    coded = foreign.gptq("lm_head", foreign.linear((4096, 32), 4, 16, np.random.default_rng(1)))
    checkpoint, folder = theirs(source, tmp_path / "coded", **coded)
    with pytest.raises(Refused, match="lm_head is quantized") as error:
        describe(folder, checkpoint)
    assert "float checkpoint" not in error.value.remedy


def test_names_and_settings_of_autogptq_are_read(source, tmp_path):
    checkpoint, folder = theirs(source, tmp_path / "theirs")
    tensors = {name: tensor for path in folder.glob("*.safetensors") for name, tensor in load_file(path).items()}
    for path in folder.glob("model*"):
        path.unlink()
    config = json.loads((folder / "config.json").read_text())
    settings = config.pop("quantization_config") | {"model_file_base_name": None}
    (folder / "config.json").write_text(json.dumps(config))
    for name, more in (("gptq_model-4bit-16g", {}), ("ours", {"model_file_base_name": "ours"})):
        (folder / "quantize_config.json").write_text(json.dumps(settings | more))
        save_file(tensors, folder / f"{name}.safetensors")
        assert {entry.name for entry in folder.glob("*.safetensors")} == {f"{name}.safetensors"}
        assert len(describe(folder, checkpoint).layers) == len(checkpoint.layers)
        (folder / f"{name}.safetensors").unlink()
    for base in ("x" * 5000, "../ours", "a\0b"):
        (folder / "quantize_config.json").write_text(json.dumps(settings | {"model_file_base_name": base}))
        with pytest.raises(Refused, match=r"no model\.safetensors"):
            describe(folder, checkpoint)
    (folder / "quantize_config.json").write_text(json.dumps(settings | {"model_file_base_name": "ours"}))
    shutil.copy(source / "model.safetensors", folder)
    save_file(tensors, folder / "ours.safetensors")
    with pytest.raises(Refused, match=r"model\.safetensors and in the files of ours\.safetensors"):
        describe(folder, checkpoint)
