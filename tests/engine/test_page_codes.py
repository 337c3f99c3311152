"""Codes that a run leaves beside its study: the weights of its model, where codes alone are these, and of a batch."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from sarqc.checkpoints.compressed_tensors import levels_in_packed
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.study.kept_codes import kept_codes, model_files
from tests.engine.running import run

RUN = {
    "model": "tiny-llama", "bits": 3, "group_size": 64, "grid": "asymmetric", "method": "rqc-gbs", "samples": 1,
    "length": 16, "calibration": "tiny-llama-calibration", "baseline": False,
}  # fmt: skip
RANDOM = {"sampling": "random"}


def study_of(changes: dict[str, Any], settings: Settings, folder: Path, **output) -> Study:
    run(RUN | changes, settings, study_dir=folder, study_id="own", **output)
    return Study.open(folder / "own")


def weight_of(path: Path, name: str) -> torch.Tensor:
    tensors = load_file(path)

    class Files(dict[str, torch.Tensor]):
        def read(self, name):
            return self[name]

    files = Files(tensors)
    width = int(tensors[f"{name}.weight_shape"][1])
    weight = levels_in_packed(files, name, 3, width).weight(torch.float32)
    return (weight / tensors.get(f"{name}.channel_scale", torch.ones(1)).float()).half()


SEARCH = {"method": "sarqc-gs", "group_size": 128, "refine": 1}


@pytest.mark.parametrize("changes", [{}, pytest.param(SEARCH, marks=pytest.mark.thorough)], ids=["solver", "search"])
def test_codes_are_the_weights_that_the_run_exports(fresh_settings, tmp_path, changes):
    study = study_of({"lambda": 0.25} | changes, fresh_settings, tmp_path, checkpoint_dir=tmp_path / "model")
    kept = kept_codes(study)
    (point,) = kept["points"]
    line = study.lines[0]
    assert (point["method"], point["bits"], point["gamma"], point["lam"]) == (line.name, 3, line.gammas[0], 0.25)
    files = model_files(study, fresh_settings.assets_dir / "models")
    assert all(path.stat().st_size == file["bytes"] for file, path in files.values())
    exported = load_file(tmp_path / "model" / "model.safetensors")
    for layer in study.layers:
        assert torch.equal(weight_of(files[point["file"]["name"]][1], layer.name), exported[f"{layer.name}.weight"])


def test_codes_of_a_method_without_lambda_are_kept_without_one(fresh_settings, tmp_path):
    kept = kept_codes(study_of({"method": "rtn"}, fresh_settings, tmp_path))
    assert [(point["method"], point["gamma"], point["lam"]) for point in kept["points"]] == [("rtn", None, None)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "changes",
    [
        {"grid": "symmetric"},
        {"layer": "model.layers.0.mlp.up_proj"},
        {"exclude": ["*down_proj"]},
        {"rotate": "r1"},
        {"lambda": "auto", "samples": 4},
        {"model": "tiny-moe", "calibration": "tiny-moe-calibration"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_no_codes_are_kept_where_they_are_not_the_model(fresh_settings, tmp_path, changes):
    assert kept_codes(study_of(changes, fresh_settings, tmp_path)) is None


@pytest.mark.thorough
def test_a_model_elsewhere_has_no_files_for_pages(fresh_settings, tmp_path, tiny_llama, text_file):
    shutil.copytree(tiny_llama, tmp_path / "copied")
    for folder, is_shipped in ((tiny_llama, True), (tmp_path / "copied", False)):
        changes = {"model": str(folder), "calibration": str(text_file)}
        kept = kept_codes(study_of(changes, fresh_settings, tmp_path))
        assert (kept is not None and kept["model"] == "tiny-llama") == is_shipped
