"""A checkpoint that was quantized elsewhere: measured as it was found, repaired on its own scales, or refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from sarqc.checkpoints.quantized_checkpoint import QuantizedCheckpoint
from sarqc.engine.plan import plan, resolve
from sarqc.engine.repair import gain_words
from sarqc.errors import NotFound, Refused
from sarqc.events import Warned
from sarqc.figures import lab_view
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.hub import NotCached
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.study.evidence import Evidence
from sarqc.study.paired import paired_difference
from tests.engine.running import of_type, reports_of, run, summary_of


@pytest.fixture(scope="module")
def document(random_llama, text_file):
    return {
        "model": str(random_llama), "calibration": str(text_file), "samples": 8, "length": 32, "held_out_samples": 4,
        "test": str(text_file), "window": 32, "baseline": False,
    }  # fmt: skip


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """A state of its own that the tests of this module share: what one has measured, the next finds."""
    return Settings(state_dir=tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module")
def rounded(document, state, tmp_path_factory):
    """The model rounded to nearest at 3 bits in compressed-tensors' format, and the run that made it."""
    folder = tmp_path_factory.mktemp("made") / "rounded"
    made = {**document, "bits": 3, "grid": "full_range", "group_size": 16, "method": "rtn"}
    return folder, run(made, state, checkpoint_dir=folder, checkpoint_format="packed")


@pytest.fixture(scope="module")
def as_found(document, rounded):
    """The recipe that measures it as it is."""
    return {**document, "quantized_checkpoint": str(rounded[0]), "method": "as-found"}


@pytest.fixture(scope="module")
def repaired(as_found, state, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "repaired"
    recipe = {**as_found, "method": "rqc-gbs", "lambda": 0.05}
    return folder, run(recipe, state, checkpoint_dir=folder, checkpoint_format="as-found")


@pytest.mark.thorough
def test_it_is_measured_as_the_model_that_it_is(as_found, rounded, state, tmp_path):
    made = rounded[1]
    events = run(as_found, state, study_dir=tmp_path, study_id="one")
    summary, before = summary_of(events), summary_of(made)
    for name in ("perplexity", "kl", "kl_standard_error", "perplexity_float", "quantized_layers"):
        assert summary[name] == before[name]
    own = reports_of(made)
    for name, report in reports_of(events).items():
        for quantity in ("recon_loss", "drift", "held_out_loss"):
            assert report[quantity] == pytest.approx(own[name][quantity], rel=1e-6)
        assert report["chosen"] == {"method": "ExistingCodes"}
    recipe = summary["recipe"]
    assert (recipe["bits"], recipe["grid"], recipe["group_size"]) == (3, "full_range", 16)
    opened = summary["opened"]
    assert (opened["name"], opened["format"], opened["layers"]) == ("rounded", "compressed-tensors", 21)
    assert summary["repair"] is None
    study = Study.open(tmp_path / "one")
    assert study.protocol["opened"] == opened
    assert [line.title for line in study.lines] == ["As found"]
    assert lab_view(study)["figures"]


@pytest.mark.thorough
def test_a_repair_has_other_codes_in_the_same_files(rounded, repaired, random_llama):
    folder, events = repaired
    summary = summary_of(events)
    repair, checkpoint = summary["repair"], read_checkpoint(random_llama)
    assert repair["layers"] == 21
    assert summary["kl"] - repair["kl_found"] == pytest.approx(repair["kl_difference"])
    assert repair["kl_found"] == summary_of(rounded[1])["kl"]
    assert repair["words"].startswith("The repair lowers KL")
    assert summary["written"]["other_tensors"] == []
    assert summary["written"]["parts_at"] is None
    before, after = (QuantizedCheckpoint.open(one, checkpoint) for one in (rounded[0], folder))
    changed = 0
    for info in before.layers:
        one, other = before.read(info), after.read(info)
        assert torch.equal(one.scales, other.scales)
        assert torch.equal(one.zero_points, other.zero_points)
        changed += not torch.equal(one.codes, other.codes)
    assert changed == repair["layers"] - repair["kept"] > 0
    for path in rounded[0].glob("*"):
        if path.suffix != ".safetensors":
            assert (folder / path.name).read_bytes() == path.read_bytes()
    own = reports_of(rounded[1])
    first = next(iter(own))  # on the same inputs as before
    assert reports_of(events)[first]["relative_recon"] < own[first]["relative_recon"]
    assert reports_of(events)[first]["chosen"]["found_recon"] == pytest.approx(own[first]["relative_recon"], rel=1e-6)


@pytest.mark.thorough
def test_files_of_a_repair_without_gain_are_not_written(document, repaired, state, tmp_path):
    recipe = {**document, "quantized_checkpoint": str(repaired[0]), "method": "rqc-gbs", "lambda": 100}
    events = run(recipe, state, checkpoint_dir=tmp_path / "again", checkpoint_format="as-found")
    summary = summary_of(events)
    assert summary["repair"]["verdict"] in (0, 1)
    assert summary["repair"]["words"].startswith("No gain")
    assert summary["repair"]["kept"] > 0
    assert summary["written"] is None
    assert not (tmp_path / "again").exists()
    assert any("nothing was written" in event.what for event in of_type(events, Warned))


@pytest.mark.thorough
def test_auto_chooses_for_each_layer_of_a_repair(as_found, state, tmp_path):
    recipe = {**as_found, "method": "rqc-gbs", "lambda": "auto"}
    events = run(recipe, state, study_dir=tmp_path, study_id="auto")
    assert summary_of(events)["selection"]["by"] == "layer"
    assert all(len(report["candidates"]) == 6 for report in reports_of(events).values())
    assert lab_view(Study.open(tmp_path / "auto"))["figures"]


@pytest.mark.thorough
def test_scales_that_norms_took_up_are_found_again(document, state, tmp_path):
    folder = tmp_path / "folded"
    made = run(
        {**document, "bits": 4, "group_size": 16, "method": "awq", "mode": "foldable"}, state, checkpoint_dir=folder,
        checkpoint_format="packed",
    )  # fmt: skip
    events = run({**document, "quantized_checkpoint": str(folder), "method": "as-found"}, state)
    assert summary_of(events)["perplexity"] == summary_of(made)["perplexity"]
    assert any("fitted" in event.what for event in of_type(events, Warned))
    own = reports_of(made)
    for name, report in reports_of(events).items():
        if name.endswith(("q_proj", "k_proj", "gate_proj")):  # the others' rows or columns have fitted scales
            assert report["relative_recon"] == pytest.approx(own[name]["relative_recon"], rel=1e-3), name
        assert report["relative_recon"] == pytest.approx(own[name]["relative_recon"], rel=0.3)
        assert report["relative_drift"] < 0.2


def changed(folder: Path, target: Path, name: str, factor: float) -> Path:
    """The checkpoint with one tensor multiplied."""
    shutil.copytree(folder, target)
    path = target / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors[name] = tensors[name] * factor
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    return target


def test_the_checkpoint_of_another_model_is_refused_before_any_work(as_found, rounded, state, tmp_path):
    other = changed(rounded[0], tmp_path / "other", "model.norm.weight", 1.5)
    with pytest.raises(Refused, match=r"model\.norm\.weight differs"):
        run({**as_found, "quantized_checkpoint": str(other)}, state)
    linear = "model.layers.0.self_attn.q_proj.weight"
    float_other = changed(Path(as_found["model"]), tmp_path / "float", linear, -1.0)
    with pytest.raises(Refused, match="as far from the original"):
        run({**as_found, "model": str(float_other)}, state)


def test_its_grid_is_taken_where_none_is_given(as_found, rounded, state):
    job = resolve(Recipe.parse(as_found), state)
    whole, shown = job.recipe, job.plan
    again = resolve(Recipe.parse(whole.to_json()), state)
    assert (again.recipe, again.plan) == (whole, shown)
    assert shown.bytes_after == sum(path.stat().st_size for path in rounded[0].glob("*.safetensors"))
    assert shown.opened.startswith("rounded, compressed-tensors")
    assert shown.opened.endswith("21 linears with codes, 3 bits, full range, groups of 16")
    with pytest.raises(Refused, match="bits is 4, and the quantized checkpoint has 3") as refused:
        plan(Recipe.parse({**as_found, "bits": 4}), state)
    assert [fix.values for fix in refused.value.fixes] == [{"bits": 3}]
    with pytest.raises(NotFound, match="no checkpoint"):
        plan(Recipe.parse({**as_found, "quantized_checkpoint": "nothing-of-that-name"}), state)
    with pytest.raises(Refused, match="says nothing of quantization"):
        plan(Recipe.parse({**as_found, "quantized_checkpoint": as_found["model"]}), state)


def test_it_is_planned_before_its_float_model_is_downloaded(as_found, state, monkeypatch):
    recipe = Recipe.parse(as_found)
    here = resolve(recipe, state)
    config = dict(read_checkpoint(Path(as_found["model"]), "model").config)

    def fetch(model, *_, **__):
        raise NotCached(model, config)

    monkeypatch.setattr("sarqc.models.catalogue.fetch", fetch)
    promised = resolve(recipe.model_copy(update={"model": "somebody/model"}), state)
    assert promised.prepared is None
    assert promised.recipe == here.recipe.model_copy(update={"model": "somebody/model"})
    for name in ("opened", "bits_per_weight", "bytes_after", "layers"):
        assert getattr(promised.plan, name) == getattr(here.plan, name), name


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"method": "awq"}, "makes scales of its own"),
        ({"method": "nothing"}, "unknown method"),
        ({"kind": "tune", "method": "sarqc-gbs"}, "tuning quantizes the float model"),
        ({"blocks": [0]}, "measured as a whole"),
        ({"inputs_from": "float"}, "behind its own blocks"),
        ({"method": "gptq", "samples": 1}, "only one"),
        ({"quantized_checkpoint": None}, "no codes to take as they are"),
    ],
)
def test_what_is_no_choice_for_an_opened_checkpoint(document, more, what):
    with pytest.raises(Refused, match=what):
        Recipe.parse({**document, "quantized_checkpoint": "somewhere", "method": "as-found", **more})


def test_the_words_of_a_gain():
    before = np.array([0.30, 0.32, 0.31, 0.33])
    better, worse = before - np.array([0.10, 0.11, 0.10, 0.11]), before + np.array([0.10, 0.11, 0.10, 0.11])
    unclear = before + np.array([0.1, -0.1, 0.1, -0.09])

    def words(after, before=before):
        share = paired_difference(after, before).scaled(1 / before.mean())
        evidence = Evidence.of_windows(share, quantity="KL", reference="the file as found", text="a.txt")
        return gain_words(float(before.mean()), float(after.mean()), evidence).replace("\u00a0", " ")

    assert words(better) == (
        "KL from the original went from 0.315 to 0.21 nats a token, not known yet: 33.3 % lower than the file as "
        "found on a.txt (95 %: 30.4 to 36.2 %, four windows of one draw)."
    )
    assert words(worse).startswith("No gain: KL from the original went from 0.315 to 0.42 ")
    assert words(worse).endswith(" Keep the file as it is.")
    assert words(unclear).startswith("No gain: KL from the original went")
    assert words(unclear).endswith(
        "0.8 % higher than the file as found on a.txt (95 %: −56.1 to 57.7 %, four windows of one draw)."
    )
    assert "(one draw, no interval)" in words(better[:1], before[:1])
