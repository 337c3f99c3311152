"""Decoders without a written family: described, admitted or refused, and quantized as plain hooks say."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor
from torch._subclasses.fake_tensor import DynamicOutputShapeException
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.initialization import no_init_weights

from conformance.every_model.__main__ import RESULTS, TABLE, table
from conformance.every_model.check import check
from conformance.every_model.small import small_config, small_model
from sarqc import Recipe, execute
from sarqc.engine.plan import plan
from sarqc.errors import Refused
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.events import Finished, LayerDone
from sarqc.models import derived
from sarqc.models.admission import admit
from sarqc.models.checkpoint import promised_checkpoint, read_checkpoint
from sarqc.models.decoder import Decoder, DerivedFamily
from sarqc.models.derivation import NumberFreeMode, derive, description
from sarqc.models.families import InputGroup
from sarqc.models.linears import is_linear
from sarqc.models.loading import LoadedModel, load
from sarqc.models.walk import BlockWalk
from sarqc.settings import Settings

CPU = torch.device("cpu")


@pytest.fixture
def own_process() -> None:
    """Describe configurations in a process of their own, as in the app."""


@pytest.fixture(autouse=True)
def this_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Describe configurations here: another process would import transformers for each."""
    if "own_process" not in request.fixturenames:
        monkeypatch.setattr(derived, "answer_of", lambda _, config, **__: description(config))


def described(model_type: str) -> Decoder:
    with NumberFreeMode(), no_init_weights():
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
@pytest.mark.thorough
@pytest.mark.parametrize("model_type", ["gpt_oss", "falcon_h1", "gpt2", "gemma3_text"])
def test_from_files_to_files(model_type, tiny_llama, tmp_path):
    outcome = check(model_type, tmp_path, tiny_llama)
    assert outcome.rows > 1000
    assert outcome.other_rows == 0
    assert outcome.share > 0.9


@pytest.mark.thorough
@pytest.mark.parametrize(("model_type", "has_parts"), [("gpt_oss", True), ("granitemoe", True), ("phi3", False)])
def test_packed_files_have_codes_where_a_linear_is_a_tensor_of_its_own(
    model_type, has_parts, tiny_llama, fresh_settings, tmp_path
):
    """transformers goes on with the tokens of the model that was measured: experts of one tensor are values there."""
    folder = saved(small_model(model_type), tmp_path / "model", tiny_llama)
    recipe = Recipe.parse(
        {
            "model": str(folder), "calibration": "tiny-llama-calibration", "samples": 4, "length": 32, "bits": 4,
            "grid": "symmetric", "group_size": 16, "method": "gptq+saliency", "lambda": 0.1,
        }
    )  # fmt: skip
    packed = next(carrier for carrier in plan(recipe, fresh_settings).formats if carrier.format == "packed")
    assert packed.possible
    run = {"study_dir": tmp_path, "study_id": "one", "checkpoint_dir": tmp_path / "packed"}
    (finished,) = (
        event for event in execute(recipe, fresh_settings, checkpoint_format="packed", **run)
        if isinstance(event, Finished)
    )  # fmt: skip
    assert finished.summary["written"]["other_tensors"] == []
    assert finished.summary["written"]["parts_at"] is None
    with safe_open(tmp_path / "packed" / "model.safetensors", "pt") as files:
        names = files.keys()
    assert sum(name.endswith("weight_packed") for name in names) == 16  # all linears, or those of attention
    assert ("stored dequantized" in packed.note) == has_parts
    plain = save_again(recipe, fresh_settings, tmp_path / "plain")
    prompt = torch.arange(20).unsqueeze(0)
    tokens = [
        AutoModelForCausalLM.from_pretrained(made).generate(prompt, max_new_tokens=32, do_sample=False).tolist()
        for made in (tmp_path / "packed", plain)
    ]
    assert tokens[0] == tokens[1]


def save_again(recipe: Recipe, settings: Settings, folder: Path) -> Path:
    """Save the same run, whose finished layers are kept, as dequantized weights."""
    for _ in execute(recipe, settings, checkpoint_dir=folder):
        pass
    return folder


@pytest.mark.thorough
def test_blocks_of_a_hybrid_are_of_several_kinds():
    decoder = described("qwen3_next")
    assert len(decoder.kinds) == 2
    assert {decoder.kind_of[0], decoder.kind_of[1]} == {0, 1}
    read = {linear for kind in decoder.kinds for group in kind.groups for linear in group.linears}
    assert "linear_attn.in_proj_qkvz" in read
    assert "self_attn.q_proj" in read
    reasons = {module.path.rpartition("*.")[2]: module.reason for module in decoder.floats}
    assert reasons["mlp.gate"] == "a router"
    assert "model.layers.0.mlp.shared_expert_gate" in decoder.small
    assert reasons["linear_attn.conv1d"] == "not a linear"


def test_small_linears_stay_float_unless_they_are_included(tiny_llama, fresh_settings, tmp_path):
    folder = saved(small_model("qwen3_next"), tmp_path / "model", tiny_llama)
    document = {
        "model": str(folder), "calibration": "tiny-llama-calibration", "samples": 2, "length": 32, "bits": 3,
        "group_size": 16, "method": "gptq", "test": None, "baseline": False,
    }  # fmt: skip
    small = "model.layers.0.linear_attn.in_proj_ba"
    (said,) = (words for words in plan(Recipe.parse(document), fresh_settings).warnings if "stay float" in words)
    assert "model.layers.*.linear_attn.in_proj_ba (few rows or columns)" in said
    wanted = Recipe.parse(document | {"include": ["*.in_proj_ba"], "exclude": ["*.experts.*"]})
    (said,) = (words for words in plan(wanted, fresh_settings).warnings if "stay float" in words)
    assert "in_proj_ba" not in said
    for recipe, is_done in ((Recipe.parse(document), False), (wanted, True)):
        done = {event.name for event in execute(recipe, fresh_settings) if isinstance(event, LayerDone)}
        assert (small in done) == is_done
        assert any(".experts." in name for name in done) != is_done
    with pytest.raises(Refused, match="no small layer of the model is called"):
        plan(Recipe.parse(document | {"include": ["*.q_proj"]}), fresh_settings)


def test_a_linear_with_a_row_for_each_expert_need_not_be_a_router():
    """Keys, values and linears of the shared expert with 32 rows, beside 32 experts."""
    config = small_config("qwen3_next")
    config.update({"num_experts": 32, "shared_expert_intermediate_size": 32})
    with NumberFreeMode(), no_init_weights():
        decoder = derive(AutoModelForCausalLM.from_config(config).eval(), "qwen3_next")
    quantized = {path for kind in decoder.kinds for group in kind.groups for path in group.linears}
    assert {"self_attn.k_proj", "self_attn.v_proj", "mlp.shared_expert.gate_proj"} <= quantized
    assert {module.path for module in decoder.floats if module.reason == "a router"} == {"model.layers.*.mlp.gate"}


@pytest.mark.parametrize(
    ("model_type", "words"),
    [("hrm_text", "is called 6 times in a forward pass"), ("blt", "can't be followed without numbers")],
)
def test_what_can_not_be_walked_is_refused(model_type, words):
    with pytest.raises(Refused, match=words):
        described(model_type)


def test_what_depends_on_numbers_is_answered_as_for_ones():
    real = torch.ones(3, 4)
    places, chosen, largest = real.nonzero(), real[real > 0], real.max().item()
    with NumberFreeMode():
        values = torch.ones(3, 4)
        assert values.nonzero().shape == places.shape
        assert values[values > 0].shape == chosen.shape
        assert values.max().item() == largest
        assert (values > 0).any()
        with pytest.raises(DynamicOutputShapeException):
            values.unique()


# Experts in a loop over those that were chosen; adapters of a language; an index of visible tokens.
@pytest.mark.parametrize("model_type", ["dbrx", "xmod", "qwen4_exp_text"])
def test_groups_without_numbers_are_those_of_real_tokens(model_type):
    decoder, model = described(model_type), small_model(model_type)
    given: dict[str, list[Tensor]] = {}
    for path, module in model.get_submodule(decoder.blocks).named_modules():
        if is_linear(module):
            module.register_forward_pre_hook(
                lambda _module, args, path=path: given.setdefault(path, []).append(args[0])
            )
    with torch.no_grad():
        model(torch.arange(100, 132).reshape(2, 16), use_cache=False)
    for index in range(len(decoder.kind_of)):
        groups = [[path for path in group.linears if ".experts." not in path] for group in decoder.kind(index).groups]
        expected: dict[tuple[int, ...], list[str]] = {}
        for path in (path for group in groups for path in group):
            (read,) = given[f"{index}.{path}"]
            # Without any token, as with another language's adapter, memory says nothing.
            place = (read.data_ptr(),) if read.numel() else (0, len(expected))
            expected.setdefault(place, []).append(path)
        assert list(expected.values()) == [group for group in groups if group]


def with_groups(loaded: LoadedModel, groups: tuple[tuple[str, ...], ...]) -> LoadedModel:
    """Return the same model with other groups in its first kind of block."""
    decoder, family = loaded.checkpoint.decoder, loaded.family
    assert decoder is not None
    assert isinstance(family, DerivedFamily)
    changed = tuple(InputGroup(group, None) for group in groups)
    kinds = (decoder.kinds[0].model_copy(update={"groups": changed}), *decoder.kinds[1:])
    family = replace(family, decoder=decoder.model_copy(update={"kinds": kinds}))
    return replace(loaded, checkpoint=replace(loaded.checkpoint, family=family))


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ((("self_attn.q_proj", "fc1"),), r"on real tokens .*\.0\.fc1 does not read what self_attn\.q_proj reads"),
        ((("encoder_attn.q_proj",),), r"on real tokens .*\.0\.encoder_attn\.q_proj is called 0 times"),
    ],
)
def test_admission_looks_at_what_the_linears_of_a_group_read(groups, words, tiny_llama, tmp_path):
    loaded = load(read_checkpoint(saved(small_model("bart"), tmp_path / "bart", tiny_llama)), CPU)
    admit(loaded, learns=False)
    with pytest.raises(Refused, match=words):
        admit(with_groups(loaded, groups), learns=False)


def test_a_second_state_between_blocks_is_noticed(tiny_llama, tmp_path):
    folder = saved(small_model("zaya"), tmp_path / "zaya", tiny_llama)
    loaded = load(read_checkpoint(folder), CPU)
    with pytest.raises(Refused, match=r"block model\.layers\.\d \(ZayaDecoderLayer\) gives another hidden state"):
        admit(loaded, learns=False)


@pytest.mark.parametrize("model_type", ["gemma4_text", "zamba2"])  # embeddings of the tokens for each block
def test_learning_over_blocks_that_depend_on_tokens_is_refused_before_any_work(model_type, tiny_llama, tmp_path):
    loaded = load(read_checkpoint(saved(small_model(model_type), tmp_path / model_type, tiny_llama)), CPU)
    admit(loaded, learns=False)
    with pytest.raises(Refused, match=r"embeddings of the tokens .* learns over a block"):
        admit(loaded, learns=True)


def test_admission_leaves_the_weights_as_they_were(tiny_llama, tmp_path):
    folder = saved(small_model("olmo2"), tmp_path / "olmo2", tiny_llama)
    for scratch in (None, tmp_path / "scratch"):
        loaded = load(read_checkpoint(folder), CPU, scratch=scratch)
        before = loaded.weights()
        admit(loaded, learns=False)
        assert all(torch.equal(value, before[name]) for name, value in loaded.weights().items())
        assert scratch is not None or not any("forward" in vars(block) for block in loaded.blocks())


@pytest.mark.parametrize("model_type", ["cohere", "gemma2", "granite"])  # a scale, a cap and a division after the head
def test_perplexity_is_that_of_the_models_own_logits(model_type, tiny_llama, tmp_path):
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


def test_a_checkpoint_may_leave_the_prefix_out(tiny_llama, tmp_path):
    """As the published files of GPT-2, which are of the model without its head."""
    model = small_model("gpt2")
    folder = saved(model.transformer, tmp_path / "gpt2", tiny_llama)
    loaded = load(read_checkpoint(folder), CPU)
    tokens = torch.arange(16)[None]
    with torch.no_grad():
        assert torch.equal(loaded.model(tokens).logits, model(tokens).logits)
    assert {name for name, _ in loaded.stored_tensors(0)} <= loaded.checkpoint.shapes.keys()


def test_a_head_of_its_own_beside_a_tied_embedding(tiny_llama, tmp_path):
    model = small_model("gemma3_text")
    folder = saved(model, tmp_path / "gemma", tiny_llama)
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    assert read_checkpoint(folder).tied
    save_file(tensors | {"lm_head.weight": torch.ones(4096, 64)}, folder / "model.safetensors", {"format": "pt"})
    checkpoint = read_checkpoint(folder)
    assert not checkpoint.tied
    assert torch.equal(load(checkpoint, CPU).model.get_output_embeddings().weight, torch.ones(4096, 64))


def test_a_plan_needs_the_configuration_alone(tiny_llama, tmp_path):
    folder = saved(small_model("qwen3_next"), tmp_path / "model", tiny_llama)
    here = read_checkpoint(folder)
    promised = promised_checkpoint("somebody/model", here.config)
    assert promised.layers == here.layers
    assert promised.shapes == here.shapes
    assert promised.parameters == here.parameters


@pytest.mark.thorough
@pytest.mark.usefixtures("own_process")
def test_a_description_is_kept(monkeypatch):
    config = json.loads(small_config("phi3").to_json_string(use_diff=False))
    first = derived.decoder_of(config, "phi3")
    derived._description.cache_clear()

    def fail(*_given: object, **_named: object) -> None:
        raise AssertionError("a second process")

    monkeypatch.setattr(derived, "answer_of", fail)
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
def test_a_hostile_configuration_is_refused(changes, words):
    config = json.loads(small_config("phi3").to_json_string(use_diff=False))
    with pytest.raises(Refused, match=words):
        derived.decoder_of(config | changes, "somebody/model")


@pytest.mark.thorough
@pytest.mark.usefixtures("own_process")
def test_a_configuration_that_exhausts_its_process_is_refused(monkeypatch):
    monkeypatch.setattr(derived, "_MEMORY", 1 << 28)
    config = json.loads(small_config("phi3").to_json_string(use_diff=False))
    with pytest.raises(Refused, match=r"its configuration does not make a model"):
        derived.decoder_of(config | {"hidden_size": 128}, "somebody/model")


def test_the_table_of_models_is_that_of_the_results():
    assert TABLE.read_text(encoding="utf-8") == table(json.loads(RESULTS.read_text(encoding="utf-8")))


def test_blocks_get_the_arguments_of_their_own_sequences(tiny_llama, tmp_path):
    """CPM-Ant takes token 0 for padding, and makes masks of it for each batch."""
    loaded = load(read_checkpoint(saved(small_model("cpmant"), tmp_path / "cpmant", tiny_llama)), CPU)
    sequences = torch.randint(1, 4096, (3, 16), generator=torch.Generator().manual_seed(3))
    walk, own = BlockWalk(loaded, sequences), []
    for block in loaded.blocks():
        block.register_forward_hook(lambda _module, _given, states: own.append(states[0].clone()))
    with torch.no_grad():
        loaded.model(sequences, use_cache=False)
    expected = list(own)
    for block, states in zip(loaded.blocks(), expected, strict=True):
        walk.advance(walk.outputs(block))
        assert torch.equal(torch.cat(walk.hidden), states)
