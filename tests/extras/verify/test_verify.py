"""Stamps: what a run leaves is proven to be its own, and whatever was changed is found and named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sarqc.engine.execute import execute
from sarqc.engine.stamp import hashes_of
from sarqc.errors import NotFound, Refused
from sarqc.extras.verify.checks import Check, VerificationRequest, verdict, verify
from sarqc.extras.verify.exported import Exported
from sarqc.recipe import Recipe
from sarqc.study.document import Study
from sarqc.study.stamp import FILE, Stamp
from tests.engine.running import run
from tests.models.cases import make_checkpoint

LINEAR = "model.layers.1.mlp.up_proj"
SIZES = {"intermediate_size": 64, "num_key_value_heads": 4, "head_dim": 8}
ALL = VerificationRequest(linears=None)


@pytest.fixture(scope="module")
def state(settings, tmp_path_factory):
    return settings.model_copy(update={"state_dir": tmp_path_factory.mktemp("state")})


@pytest.fixture(scope="module")
def base(tiny_llama, text_file, tmp_path_factory):
    model = make_checkpoint("llama", tmp_path_factory.mktemp("float") / "small", tiny_llama, **SIZES)
    return {
        "model": str(model), "bits": 4, "grid": "asymmetric", "group_size": 32, "method": "sarqc-gbs", "lambda": 0.1,
        "gamma": 0.1, "calibration": str(text_file), "samples": 4, "length": 32,
    }  # fmt: skip


@pytest.fixture(scope="module")
def make(base, state, tmp_path_factory):
    """Runs a recipe once; returns the folder with its study and its model."""
    made = {}

    def run(checkpoint_format, **changes):
        name = json.dumps([checkpoint_format, changes])
        if name not in made:
            made[name] = tmp_path_factory.mktemp("made")
            *_, finished = execute(
                Recipe.parse(base | changes), state, study_dir=made[name], study_id="study",
                checkpoint_dir=made[name] / "model", checkpoint_format=checkpoint_format,
            )  # fmt: skip
            assert finished.summary["stamp"] == Stamp.read(made[name] / "model").digest
        return made[name]

    return run


@pytest.fixture
def given(base):
    """The names of model and text on this host, of which a stamp beside a model has no folders."""
    return {name: base[name] for name in ("model", "calibration")}


@pytest.fixture
def checked(state, given):
    """The checks of a model, with names on this host or others, of one linear or of more."""

    def checks(folder, linears=1, **others):
        return list(verify(folder, state, VerificationRequest(linears, **(given | others))))

    return checks


def outcomes(checks: list[Check]) -> dict[str, str]:
    return {check.what: check.outcome for check in checks}


def words(checks: list[Check], what: str) -> str:
    return next(check.words for check in checks if check.what == what)


KINDS = [
    ("plain", {}), ("packed", {}), ("gptq", {}), ("mlx", {"grid": "affine"}),
    ("mlx", {"grid": "symmetric", "group_size": None, "inputs_from": "float"}),
    ("packed", {"grid": "symmetric", "method": "sarqc-gs", "mode": "foldable", "gamma": None}),
]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(("checkpoint_format", "changes"), KINDS)
def test_what_is_sound_passes(make, state, given, checkpoint_format, changes):
    folder = make(checkpoint_format, **changes)
    study, stamp = Study.open(folder / "study"), Stamp.read(folder / "model")
    assert study.stamp == stamp
    assert len(stamp.layers) == 21
    assert bool(stamp.folded) == ("mode" in changes)
    said = (folder / "model" / FILE).read_text()
    assert all(str(Path(path).parent) not in said for path in given.values())
    for checked, wanted in (
        (folder / "model", VerificationRequest(2, 7, **given)),
        (folder / "study", VerificationRequest(1, 7)),
    ):
        checks = list(verify(checked, state, wanted))
        assert {check.outcome for check in checks} == {"equal"}, checks
        assert verdict(checks) == "equal"
        is_given = checked.name == "model" and "inputs_from" not in changes
        assert ("taken from the files" in words(checks, "solved again")) == is_given


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["tiny-llama", "tiny-moe"])
def test_the_embedded_models(state, tmp_path, model):
    recipe = Recipe.parse({
        "model": model, "bits": 4, "grid": "symmetric", "group_size": 32, "method": "gptq",
        "calibration": f"{model}-calibration", "samples": 2, "length": 32,
    })  # fmt: skip
    run(recipe, state, study_dir=tmp_path, study_id="s", checkpoint_dir=tmp_path / "m",
                 checkpoint_format="mlx")  # fmt: skip
    for folder in (tmp_path / "m", tmp_path / "s"):
        checks = list(verify(folder, state, VerificationRequest(1, 3)))
        assert {check.outcome for check in checks} == {"equal"}, checks


@pytest.fixture
def copied(make, tmp_path):
    """A packed model that may be spoiled."""
    return shutil.copytree(make("packed") / "model", tmp_path / "model")


def spoil(folder: Path, name: str, change: Callable[[torch.Tensor], object]):
    tensors = load_file(folder / "model.safetensors")
    change(tensors[name])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def one_bit(words: torch.Tensor):
    words[3, 1] ^= 1 << 5


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (f"{LINEAR}.weight_packed", one_bit, "codes, weight"),
        (f"{LINEAR}.weight_zero_point", lambda packed: packed.bitwise_xor_(1), "zero points, weight"),
        (f"{LINEAR}.weight_scale", lambda scales: scales[5].mul_(1.001), "scales, weight"),
    ],
)
def test_a_changed_linear_is_named(copied, checked, name, change, said):
    spoil(copied, name, change)
    checks = checked(copied)
    assert words(checks, "quantized linears") == f"{LINEAR}: {said}."
    assert outcomes(checks)["solved again"] == "unchecked"  # its codes can't give the blocks before
    assert verdict(checks) == "different"


def test_other_changes_are_named(copied, checked):
    spoil(copied, "model.layers.2.input_layernorm.weight", lambda norm: norm[0].mul_(2))
    checks = checked(copied)
    assert words(checks, "other tensors") == "model.layers.2.input_layernorm.weight: is not the float model's."
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.1}))
    assert "rms_norm_eps" in words(checked(copied), "config.json")
    tensors = load_file(copied / "model.safetensors")
    save_file(tensors | {f"{LINEAR}.weight_g_idx": torch.zeros(2)}, copied / "model.safetensors")
    assert "belongs to nothing" in words(checked(copied), "other tensors")
    del tensors[f"{LINEAR}.weight_scale"]
    save_file(tensors, copied / "model.safetensors")
    assert f"{LINEAR}: can't be read" in words(checked(copied), "quantized linears")


def test_a_changed_stamp_another_text_and_another_model(make, copied, checked, given, tmp_path):
    document = json.loads((copied / FILE).read_text())
    document["recipe"]["bits"] = 3
    (copied / FILE).write_text(json.dumps(document))
    checks = checked(copied)
    assert (outcomes(checks)["stamp"], verdict(checks)) == ("different", "different")
    assert "it was changed" in words(checks, "stamp")

    text = tmp_path / "other.txt"
    text.write_text(Path(given["calibration"]).read_text().replace("e", "a", 1))
    checks = checked(make("packed") / "model", calibration=str(text))
    assert outcomes(checks)["calibration tokens"] == "different"
    assert outcomes(checks)["solved again"] == "unchecked"

    other = shutil.copytree(given["model"], tmp_path / "float")
    spoil(other, "model.layers.1.mlp.down_proj.weight", lambda weight: weight[0, 0].add_(1))
    checks = checked(make("packed") / "model", model=str(other))
    assert words(checks, "float model") == "block 1: has other weights."
    assert outcomes(checks)["quantized linears"] == "equal"


def test_codes_that_do_not_come_out_again(make, copied, checked):
    """Files and stamp that agree, and were both changed."""
    spoil(copied, f"{LINEAR}.weight_packed", one_bit)
    stamp = Stamp.read(copied)
    with Exported.open(copied, stamp) as exported:
        forged = hashes_of(exported.levels(LINEAR), exported.weight(LINEAR))
    forged_stamp = stamp.model_copy(update={"layers": stamp.layers | {LINEAR: forged}}).sealed()
    assert forged_stamp.digest != Study.open(make("packed") / "study").stamp.digest
    (copied / FILE).write_text(forged_stamp.to_text())
    checks = checked(copied, None)
    assert [check.what for check in checks if check.outcome != "equal"] == ["solved again"]
    assert words(checks, "solved again") == f"{LINEAR}: other codes, weight (1 of 2,048 codes)."


def test_what_is_not_here_is_no_pass(copied, state, given):
    without_model = list(verify(copied, state, VerificationRequest(1)))
    assert outcomes(without_model)["float model"] == "unchecked"
    assert "--model" in words(without_model, "float model")
    without_text = list(verify(copied, state, VerificationRequest(1, model=given["model"])))
    assert (outcomes(without_text)["float model"], outcomes(without_text)["other tensors"]) == ("equal", "equal")
    assert "--calibration" in words(without_text, "calibration tokens")
    for checks in (without_model, without_text):
        assert (outcomes(checks)["quantized linears"], verdict(checks)) == ("equal", "unchecked")


def test_without_a_stamp(state, tmp_path, copied):
    with pytest.raises(NotFound, match="neither"):
        list(verify(tmp_path, state, ALL))
    shipped = state.assets_dir / "studies" / "tiny-llama"
    with pytest.raises(Refused, match="no stamp: it is a survey"):
        list(verify(shipped, state, ALL))
    (copied / FILE).unlink()
    with pytest.raises(NotFound, match="no stamp"):
        list(verify(copied, state, ALL))


@pytest.mark.thorough
def test_threads_are_noted_and_stamped_where_codes_depend_on_them(make, state, given):
    stamp = Stamp.read(make("packed") / "model")
    assert (stamp.made_with["threads"], stamp.computing.threads) == (torch.get_num_threads(), None)
    assert stamp.model_copy(update={"made_with": stamp.made_with | {"threads": 64}}).sealed().digest == stamp.digest
    learned = make("plain", method="signround", steps=1, **{"lambda": None, "gamma": None}) / "model"
    before = torch.get_num_threads()
    assert Stamp.read(learned).computing.threads == before
    try:
        torch.set_num_threads(before + 1)  # it is solved again with as many as then
        assert verdict(verify(learned, state, VerificationRequest(1, **given))) == "equal"
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["as-found", "gptq"])
def test_the_study_of_an_opened_checkpoint(make, base, state, tmp_path, method):
    theirs = shutil.copytree(make("packed") / "model", tmp_path / "theirs")
    without = ("lambda", "gamma", "bits", "grid", "group_size")
    document = {name: value for name, value in base.items() if name not in without}
    recipe = Recipe.parse(document | {"method": method, "quantized_checkpoint": str(theirs)})
    run(recipe, state, study_dir=tmp_path, study_id="study")
    stamp = Study.open(tmp_path / "study").stamp
    assert str(theirs.parent) not in stamp.to_text()
    checks = list(verify(tmp_path / "study", state, VerificationRequest(1, 5)))
    assert {check.outcome for check in checks} == {"equal"}, checks
    assert "quantized checkpoint" in outcomes(checks)
    spoil(theirs, f"{LINEAR}.weight_packed", one_bit)
    checks = list(verify(tmp_path / "study", state, VerificationRequest(1, 5)))
    assert (outcomes(checks)["quantized checkpoint"], verdict(checks)) == ("different", "different")
