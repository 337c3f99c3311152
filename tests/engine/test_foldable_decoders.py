"""Scale searches of derived decoders whose operations before take up the scales: planned, run, exported, loaded."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from conformance.every_model.small import small_config
from sarqc.engine.plan import plan
from sarqc.errors import Refused
from sarqc.events import LayerDone, Warned
from sarqc.recipe import Recipe
from tests.engine.running import of_type, perplexity, run

pytestmark = pytest.mark.thorough


def saved(model_type: str, folder: Path, tokenizer: Path) -> Path:
    """A random model; norms and biases are random too."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(small_config(model_type)).float()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(std=0.2)
        else:
            parameter.data.uniform_(0.5, 1.5)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, folder / name)
    return folder


def recipe_of(folder: Path, text: Path, **changes) -> Recipe:
    return Recipe.parse(
        {"model": str(folder), "bits": 3, "group_size": 16, "method": "awq", "mode": "foldable", "grid": "symmetric",
         "calibration": str(text), "samples": 6, "length": 32, "held_out_samples": 2, "test": str(text), "window": 64,
         "test_tokens": 1000, "baseline": False} | changes
    )  # fmt: skip


# Modules that no operation before serves, and a tensor that takes up a scale in some model. Norms of Gemma multiply by
# 1 + w; those of OLMo have no weight; in Phi-3 a part of the rows of a fused linear would be divided.
MODELS = {
    "stablelm": (set(), "model.layers.1.input_layernorm.bias"),
    "cohere": (set(), "model.layers.1.input_layernorm.weight"),
    "granite": (set(), "model.layers.1.post_attention_layernorm.weight"),
    "olmo": ({"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}, None),
    "phi3": ({"o_proj", "down_proj"}, "model.layers.1.input_layernorm.weight"),
    "gemma2": ({"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}, None),
    "opt": (set(), "model.decoder.layers.1.fc1.bias"),
    "olmoe": (set(), "model.layers.1.mlp.gate.weight"),
}


@pytest.mark.parametrize(
    ("model_type", "form"), [*((name, "plain") for name in MODELS), ("stablelm", "packed"), ("olmoe", "packed")]
)
def test_a_run_is_a_checkpoint_that_transformers_loads(
    model_type, form, fresh_settings, tiny_llama, text_file, tmp_path
):
    folder = saved(model_type, tmp_path / "float", tiny_llama)
    recipe = recipe_of(folder, text_file)
    without, changed = MODELS[model_type]
    planned = [words for words in plan(recipe, fresh_settings).warnings if "take up channel scales" in words]
    events = run(recipe, fresh_settings, checkpoint_dir=tmp_path / "model", checkpoint_format=form)
    done = of_type(events, LayerDone)
    left = {event.name for event in done if "not_foldable" in event.report["flags"]}
    assert {name.rpartition(".")[2] for name in left} == without
    assert {event.where for event in events if isinstance(event, Warned) and "take up scales" in event.what} == left
    assert len(planned) == bool(left)
    assert all(f"{len(left)} of the {len(done)} layers" in words for words in planned)
    assert any(event.report["chosen"].get("alpha") not in (None, 0) for event in done if event.name not in left)
    measured = events[-1].summary["perplexity"]
    assert perplexity(tmp_path / "model", text_file, torch.float32) == pytest.approx(measured, rel=1e-4)
    if changed is not None:
        before, after = (load_file(path / "model.safetensors")[changed] for path in (folder, tmp_path / "model"))
        assert not torch.equal(before, after)


def test_a_model_in_which_nothing_takes_up_scales_is_refused(fresh_settings, tiny_llama, tmp_path, text_file):
    """Norms are read by the residual as well, linears are fused, and their activation is curved."""
    folder = saved("openai-gpt", tmp_path / "float", tiny_llama)
    with pytest.raises(Refused, match="no operation of OpenAIGPTLMHeadModel can take up channel scales") as refused:
        plan(recipe_of(folder, text_file), fresh_settings)
    (fix,) = refused.value.fixes
    plan(recipe_of(folder, text_file, **fix.values), fresh_settings)


def test_linears_left_out_of_a_group_are_scaled_with_it(fresh_settings, tiny_llama, text_file, tmp_path):
    """They read what the norm has divided; a float linear takes up nothing."""
    folder = saved("stablelm", tmp_path / "float", tiny_llama)
    recipe = recipe_of(folder, text_file, exclude=["*.k_proj", "*.1.self_attn.v_proj"])
    events = run(recipe, fresh_settings, checkpoint_dir=tmp_path / "model")
    measured = events[-1].summary["perplexity"]
    assert perplexity(tmp_path / "model", text_file, torch.float32) == pytest.approx(measured, rel=1e-4)
    names = [f"model.layers.{block}.self_attn.{part}.weight" for block in range(4) for part in ("k_proj", "v_proj")]
    before, after = (load_file(made / "model.safetensors") for made in (folder, tmp_path / "model"))
    factor = {name: after[name] / before[name] for name in names}
    scales = [factor[f"model.layers.{block}.self_attn.k_proj.weight"] for block in range(4)]
    assert all(torch.allclose(scale, scale[:1].expand_as(scale), rtol=1e-4) for scale in scales)  # of each column
    assert any((scale - 1).abs().max() > 1e-3 for scale in scales)
    done = of_type(events, LayerDone)
    left = {event.name for event in done if "not_foldable" in event.report["flags"]}
    assert left == {"model.layers.1.self_attn.o_proj"}
    assert not {event.name for event in done} & {
        n.removesuffix(".weight") for n in names if "k_proj" in n or ".1." in n
    }
