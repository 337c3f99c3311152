"""Decoders without a written family: described, admitted or refused, and quantized as plain hooks say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.initialization import no_init_weights

from sarqc.errors import Refused
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.models import derived
from sarqc.models.admission import admit
from sarqc.models.checkpoint import promised_checkpoint, read_checkpoint
from sarqc.models.decoder import Decoder
from sarqc.models.derivation import derive
from sarqc.models.families import FAMILIES
from sarqc.models.loading import load
from tests.every_model.__main__ import RESULTS, TABLE, table
from tests.every_model.check import check
from tests.every_model.small import small_config, small_model
from tests.models.cases import CASES

CPU = torch.device("cpu")


def described(model_type: str) -> Decoder:
    with FakeTensorMode(), no_init_weights():
        model = AutoModelForCausalLM.from_config(small_config(model_type)).eval()
        model.tie_weights()
        return derive(model, model_type)


def saved(model: PreTrainedModel, folder: Path, tokenizer: Path) -> Path:
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, folder / name)
    return folder


# One each with: stacked experts, transposed and with biases; a state space beside attention; transposed linears and a
# learned embedding of positions; scaled embeddings, and norms on both sides of attention.
@pytest.mark.parametrize("model_type", ["gpt_oss", "falcon_h1", "gpt2", "gemma3_text"])
def test_from_files_to_files(model_type: str, tiny_llama: Path, tmp_path: Path) -> None:
    outcome = check(model_type, tmp_path, tiny_llama)
    assert outcome.rows > 1000
    assert outcome.other_rows == 0
    assert outcome.share > 0.9


@pytest.mark.parametrize("name", [name for name in CASES if "deepseek" not in name])  # whose class is our own
def test_a_written_family_is_what_would_be_derived(name: str) -> None:
    config = CASES[name].config
    with FakeTensorMode(), no_init_weights():
        model = AutoModelForCausalLM.from_config(config).eval()
        model.tie_weights()
        decoder = derive(model, name)
    family = next(family for family in FAMILIES if config.model_type in family.model_types)
    assert (decoder.blocks, decoder.embedding, decoder.head) == (family.blocks, family.embedding, family.head)
    for block in range(config.num_hidden_layers):
        kind = decoder.kind(block)
        groups = family.groups(None if kind.experts is None else kind.experts.number)
        assert [group.linears for group in kind.groups] == [group.linears for group in groups]
    for path, linear in decoder.linears.items():
        assert linear.tensor == f"{family.in_file(path)}.weight"
        assert linear.is_own


def test_blocks_of_a_hybrid_are_of_several_kinds() -> None:
    decoder = described("qwen3_next")
    assert len(decoder.kinds) == 2
    assert {decoder.kind_of[0], decoder.kind_of[1]} == {0, 1}
    read = {linear for kind in decoder.kinds for group in kind.groups for linear in group.linears}
    assert "linear_attn.in_proj_qkvz" in read
    assert "self_attn.q_proj" in read
    reasons = {module.path.rpartition("*.")[2]: module.reason for module in decoder.floats}
    assert reasons["mlp.gate"] == "a router"
    assert reasons["mlp.shared_expert_gate"] == "few rows or columns"
    assert reasons["linear_attn.conv1d"] == "not a linear"


@pytest.mark.parametrize(
    ("model_type", "words"),
    [("hrm_text", "is called 6 times in a forward pass"), ("xlm", "can't be followed without numbers")],
)
def test_what_can_not_be_walked_is_refused(model_type: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        described(model_type)


def test_a_second_state_between_blocks_is_noticed(tiny_llama: Path, tmp_path: Path) -> None:
    folder = saved(small_model("zaya"), tmp_path / "zaya", tiny_llama)
    loaded = load(read_checkpoint(folder), CPU)
    with pytest.raises(Refused, match=r"block model\.layers\.\d \(ZayaDecoderLayer\) gives another hidden state"):
        admit(loaded)


def test_admission_leaves_the_weights_as_they_were(tiny_llama: Path, tmp_path: Path) -> None:
    folder = saved(small_model("olmo2"), tmp_path / "olmo2", tiny_llama)
    for scratch in (None, tmp_path / "scratch"):
        loaded = load(read_checkpoint(folder), CPU, scratch=scratch)
        before = loaded.weights()
        admit(loaded)
        assert all(torch.equal(value, before[name]) for name, value in loaded.weights().items())
        assert scratch is not None or not any("forward" in vars(block) for block in loaded.blocks())


@pytest.mark.parametrize("model_type", ["cohere", "gemma2", "granite"])  # a scale, a cap and a division after the head
def test_perplexity_is_that_of_the_models_own_logits(model_type: str, tiny_llama: Path, tmp_path: Path) -> None:
    model = small_model(model_type)
    model.get_output_embeddings().weight.data.mul_(20)
    folder = saved(model, tmp_path / model_type, tiny_llama)
    ids = np.random.default_rng(0).integers(0, 4096, 64)
    with torch.no_grad():
        logits = model(torch.from_numpy(ids)[None], use_cache=False).logits[0]
    expected = float(torch.nn.functional.cross_entropy(logits[:-1].double(), torch.from_numpy(ids[1:])).exp())
    for scratch in (None, tmp_path / "scratch"):
        loaded = load(read_checkpoint(folder), CPU, scratch=scratch)
        assert measure_perplexity(loaded, ids, "noise", 64).value == pytest.approx(expected, rel=1e-4)


def test_a_checkpoint_may_leave_the_prefix_out(tiny_llama: Path, tmp_path: Path) -> None:
    """As the published files of GPT-2, which are of the model without its head."""
    model = small_model("gpt2")
    folder = saved(model.transformer, tmp_path / "gpt2", tiny_llama)
    loaded = load(read_checkpoint(folder), CPU)
    tokens = torch.arange(16)[None]
    with torch.no_grad():
        assert torch.equal(loaded.model(tokens).logits, model(tokens).logits)
    assert {name for name, _ in loaded.stored_tensors(0)} <= loaded.checkpoint.shapes.keys()


def test_a_head_of_its_own_beside_a_tied_embedding(tiny_llama: Path, tmp_path: Path) -> None:
    model = small_model("gemma3_text")
    folder = saved(model, tmp_path / "gemma", tiny_llama)
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    assert read_checkpoint(folder).tied
    save_file(tensors | {"lm_head.weight": torch.ones(4096, 64)}, folder / "model.safetensors", {"format": "pt"})
    checkpoint = read_checkpoint(folder)
    assert not checkpoint.tied
    assert torch.equal(load(checkpoint, CPU).model.get_output_embeddings().weight, torch.ones(4096, 64))


def test_a_plan_needs_the_configuration_alone(tiny_llama: Path, tmp_path: Path) -> None:
    folder = saved(small_model("qwen3_next"), tmp_path / "model", tiny_llama)
    here = read_checkpoint(folder)
    promised = promised_checkpoint("somebody/model", here.config)
    assert promised.layers == here.layers
    assert promised.shapes == here.shapes
    assert promised.parameters == here.parameters


def test_a_description_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.loads(small_config("phi3").to_json_string(use_diff=False))
    first = derived.decoder_of(config, "phi3")
    derived._derived.cache_clear()

    def fail(*_given: object, **_named: object) -> None:
        raise AssertionError("a second process")

    monkeypatch.setattr(derived.subprocess, "run", fail)
    assert derived.decoder_of(config | {"transformers_version": "another"}, "phi3") == first


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "qwen99"}, "no causal language model of type “qwen99”"),
        ({"model_type": "vit"}, "no causal language model of type “vit”"),
        ({"num_hidden_layers": 1 << 40}, "num_hidden_layers is 1099511627776"),
        ({"hidden_size": "wide"}, "does not describe a model"),
        ({"num_attention_heads": 0}, "does not describe a model|can't be followed"),
    ],
)
def test_a_hostile_configuration_is_refused(changes: dict[str, object], words: str) -> None:
    config = json.loads(small_config("phi3").to_json_string(use_diff=False))
    with pytest.raises(Refused, match=words):
        derived.decoder_of(config | changes, "somebody/model")


def test_the_table_of_models_is_that_of_the_results() -> None:
    assert TABLE.read_text(encoding="utf-8") == table(json.loads(RESULTS.read_text(encoding="utf-8")))
