"""Runs of a rotated model: exported, verified, kept, refused; what they say, and what a rotation is worth."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from sarqc.checkpoints.model_card import model_card
from sarqc.engine.execute import execute
from sarqc.engine.plan import plan, prepare
from sarqc.errors import Refused
from sarqc.events import Stage, Warned
from sarqc.extras.verify.checks import VerificationRequest, verdict, verify
from sarqc.models import rotation_check
from sarqc.models.rotated_files import RandomHadamard
from sarqc.models.rotation import RotatedCheckpoint
from sarqc.recipe import Recipe
from sarqc.study.as_recipe import as_recipe
from sarqc.study.document import ROTATED, Study
from sarqc.study.frames import frame
from tests.engine.running import of_type, run, summary_of
from tests.models.cases import make_checkpoint


@pytest.fixture
def document(tiny_llama, text_file, tmp_path):
    model = make_checkpoint("llama", tmp_path / "small", tiny_llama, intermediate_size=64, hidden_size=64, head_dim=16)
    return {
        "model": str(model), "bits": 3, "group_size": 32, "grid": "asymmetric", "method": "gptq", "seed": 2,
        "calibration": str(text_file), "samples": 4, "length": 64, "test": str(text_file), "window": 64,
        "test_tokens": 512, "baseline": False, "rotate": "r1",
    }  # fmt: skip


def transformers_model(folder: Path):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def test_the_exported_model_is_untied_and_says_what_it_is(document, fresh_settings, tmp_path):
    events = run(
        document, fresh_settings, checkpoint_dir=tmp_path / "model", study_dir=tmp_path / "studies", study_id="one"
    )
    summary = summary_of(events)
    model = transformers_model(tmp_path / "model")
    assert model.config.tie_word_embeddings is False
    assert model.get_input_embeddings().weight is not model.get_output_embeddings().weight
    said = "residual stream rotated (Hadamard 64, seed 2), norms folded, head untied: +1 MiB"
    assert said in [event.what for event in of_type(events, Warned)]
    words = summary["rotation"]["words"]
    assert words.startswith(f"R{said[1:]}.")
    assert "turned back to the original basis" in words
    card = (tmp_path / "model" / "README.md").read_text()
    assert words in card
    assert "as it was in the rotated model" in card


def drift(found: Tensor, weight: Tensor) -> float:
    return float((found.double() - weight.double()).norm() / weight.double().norm())


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["r1", "r1+r2"])
def test_drift_in_the_original_basis_is_that_of_the_weights_turned_back(document, fresh_settings, tmp_path, kind):
    """From the files of the export, with dense products."""
    document["rotate"] = kind
    output = {"checkpoint_dir": tmp_path / "model", "study_dir": tmp_path / "studies", "study_id": "one"}
    summary = summary_of(run(document, fresh_settings, **output))
    study = Study.open(tmp_path / "studies" / "one")
    line = study.lines[0]
    own = load_file(Path(document["model"]) / "model.safetensors")
    made = load_file(tmp_path / "model" / "model.safetensors")
    q, r = (RandomHadamard(width, 2).rotate(torch.eye(width, dtype=torch.float64)) for width in (64, 16))
    heads = {width: torch.block_diag(*[r] * (width // 16)) for width in (32, 64)} if kind == "r1+r2" else {}
    found, expected = study.read(line, "original_drift"), []
    for layer in study.layers:
        weight, name = own[f"{layer.name}.weight"], layer.name
        turned = made[f"{name}.weight"].double()
        if heads and "v_proj" in name:
            turned = heads[len(turned)] @ turned
        if heads and "o_proj" in name:
            turned = turned @ heads[turned.shape[1]].T
        if name.endswith(("o_proj", "down_proj")):
            back = q @ turned
        else:
            norm = "post_attention_layernorm" if "mlp" in name else "input_layernorm"
            back = turned @ q.T / own[f"{name.partition('.self_attn')[0].partition('.mlp')[0]}.{norm}.weight"].double()
        expected.append(drift(back, weight))
    np.testing.assert_allclose(found[0], expected, rtol=1e-4)
    rows = {row["module"]: row for row in summary["rotation"]["modules"]}
    assert rows["all"]["layers"] == len(study.layers) == 21
    assert rows["all"]["original_drift"] == pytest.approx(np.mean(expected), rel=1e-4)
    own_drift = study.read(line, "drift")
    assert rows["all"]["drift"] == pytest.approx(own_drift.mean(), rel=1e-4)
    writers = [at for at, layer in enumerate(study.layers) if layer.module in ("o_proj", "down_proj")]
    np.testing.assert_allclose(found[0][writers], own_drift[0, writers, 0, 0], rtol=1e-4)  # norms of rows stay
    assert set(ROTATED) <= set(frame(study, "layers").columns)
    assert study.protocol["rotation"] == summary["rotation"]
    assert line.fitting == {"rotate": kind}
    words = {"r1": "residual stream rotated", "r1+r2": "residual stream and values rotated"}
    assert line.title == f"GPTQ 1 %, {words[kind]}"
    assert summary["rotation"]["kind"] == kind
    recipe = as_recipe(study, line)["recipe"]
    assert (recipe["rotate"], recipe["seed"]) == (kind, 2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("checkpoint_format", "changes"),
    [
        ("packed", {"grid": "symmetric", "bits": 4}),
        ("gptq", {"bits": 4}),
        ("mlx", {"bits": 4, "grid": "affine"}),
        ("plain", {"method": "awq", "mode": "foldable"}),
    ],
)
def test_every_format_has_the_rotated_model(document, fresh_settings, tmp_path, checkpoint_format, changes):
    document |= {"test": None} | changes
    output = {"checkpoint_dir": tmp_path / "model", "checkpoint_format": checkpoint_format}
    summary = summary_of(run(document, fresh_settings, **output))
    assert summary["written"]["other_tensors"] == []
    assert summary["written"]["parts_at"] is None
    wanted = VerificationRequest(linears=2, model=document["model"], calibration=document["calibration"])
    checks = list(verify(tmp_path / "model", fresh_settings, wanted))
    assert verdict(checks) == "equal", checks
    if checkpoint_format == "plain":
        tokens = torch.arange(5, 37).unsqueeze(0)
        with torch.no_grad():
            model = transformers_model(tmp_path / "model")
            first, second = model(tokens).logits, transformers_model(Path(document["model"]))(tokens).logits
        assert not torch.equal(first, second)


@pytest.mark.thorough
def test_a_rotation_is_compared_once_and_its_layers_are_not_those_of_another_basis(document, fresh_settings):
    first, second = run(document, fresh_settings), run(document, fresh_settings)
    stages = [[event.name for event in of_type(events, Stage)] for events in (first, second)]
    assert "comparing with the original weights" in stages[0]
    assert "comparing with the original weights" not in stages[1]
    plain = run(document | {"rotate": "none"}, fresh_settings)
    started = next(event for event in plain if event.type == "started")
    assert started.finished_layers == 0
    assert summary_of(plain)["rotation"] is None
    assert summary_of(plain)["perplexity_float"] == pytest.approx(summary_of(first)["perplexity_float"], rel=1e-4)


@pytest.mark.thorough
def test_a_mixture_is_rotated_with_its_router(document, tiny_llama, fresh_settings, tmp_path):
    document["model"] = str(make_checkpoint("qwen3_moe, one block dense", tmp_path / "mixture", tiny_llama))
    document |= {"group_size": 16, "method": "rtn", "bits": 4}
    output = {"checkpoint_dir": tmp_path / "model"}
    summaries = [
        summary_of(run(document | change, fresh_settings, **to))
        for change, to in (({}, output), ({"rotate": "none"}, {}))
    ]
    assert summaries[0]["written"]["other_tensors"] == []
    assert summaries[0]["written"]["parts_at"] is None
    both = [summary["perplexity_float"] for summary in summaries]
    assert both[0] == pytest.approx(both[1], rel=1e-4)
    assert summaries[0]["rotation"]["logit_difference"] < 1e-4


def test_a_run_ends_where_logits_differ(document, fresh_settings, monkeypatch):
    """No two sums are equal to the last bit, so that none agree within 0."""
    monkeypatch.setattr(rotation_check, "TOLERANCE", 0.0)
    told = []
    with pytest.raises(Refused, match="gives other logits") as caught:
        told.extend(event.type for event in execute(Recipe.parse(document), fresh_settings))
    assert caught.value.where == document["model"]
    assert "started" not in told


def test_the_plan_has_the_sizes_of_the_rotated_model(document, fresh_settings):
    rotated, plain = (plan(Recipe.parse(document | {"rotate": rotate}), fresh_settings) for rotate in ("r1", "none"))
    head = 4096 * 64
    assert rotated.parameters - plain.parameters == head
    assert rotated.bytes_before == plain.bytes_before
    assert rotated.bytes_after - plain.bytes_after == 4 * head
    assert any(words.startswith("residual stream rotated (Hadamard 64, seed 2)") for words in rotated.warnings)
    assert rotated.minutes > plain.minutes
    prepared = prepare(Recipe.parse(document), fresh_settings)
    assert isinstance(prepared.checkpoint, RotatedCheckpoint)
    stages = [phase["stage"] for phase in prepared.phases]
    assert stages[:2] == ["checking the rotation", "loading"]
    assert stages.index("quantizing") < stages.index("comparing with the original weights")


def test_a_card_without_rotation_says_nothing_of_it(document, fresh_settings):
    document |= {"rotate": "none", "method": "rtn", "test": None}
    summary = summary_of(run(document, fresh_settings))
    assert "otat" not in model_card(Recipe.parse(document), summary, "plain").partition("```yaml")[0]
