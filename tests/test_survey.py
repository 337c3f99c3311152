"""A small survey end to end: its axes, its pairing, and that each point is what a run of it would be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from sarqc.errors import Refused
from sarqc.events import Finished
from sarqc.execution import execute
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study import Study, read_array
from sarqc.survey import Survey
from sarqc.surveying import conduct


@pytest.fixture
def survey_file(tmp_path: Path) -> Path:
    document = {
        "title": "small", "model": "tiny-llama", "grid": "asymmetric", "group_size": 128,
        "calibration": "tiny-llama-calibration", "samples": 2, "length": 64, "draws": [4, 7],
        "held_out": "tiny-llama-held-out", "held_out_samples": 2, "test": "tiny-llama-calibration", "window": 512,
        "task": "tiny-llama-continuations",
        "lines": [
            {"method": "rtn", "bits": 2},
            {"method": "sarqc-gbs", "bits": 2, "lambda": [0.0, 0.3], "gamma": [0.5]},
        ],
    }  # fmt: skip
    path = tmp_path / "survey.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_points_are_runs(
    survey_file: Path, fresh_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text_file: Path
) -> None:
    survey = Survey.from_file(survey_file).model_copy(update={"test": str(text_file)})
    words = list(conduct(survey, fresh_settings, tmp_path / "small"))
    assert sum("perplexity" in line for line in words) == 1 + 2 * 3
    study = Study.open(tmp_path / "small")
    assert study.prefix == "float"
    rtn, line = study.line("rtn", 2), study.line("sarqc-gbs", 2)
    folder = tmp_path / "small"
    flat = read_array(folder, rtn.arrays["perplexity"])
    assert flat.shape == (2, 1, 1)
    assert flat[0] == flat[1]  # nothing is drawn for it
    perplexity = read_array(folder, line.arrays["perplexity"])
    assert perplexity.shape == (2, 1, 2)
    assert perplexity[0, 0, 0] != perplexity[1, 0, 0]
    correct = read_array(folder, line.arrays["correct"])
    np.testing.assert_allclose(correct.mean(-1), read_array(folder, line.arrays["accuracy"]), rtol=1e-6)

    recipe = Recipe.parse(
        {
            "model": "tiny-llama", "bits": 2, "group_size": 128, "method": "sarqc-gbs", "lambda": 0.3, "gamma": 0.5,
            "calibration": "tiny-llama-calibration", "samples": 2, "length": 64, "sampling": "random", "seed": 7,
            "inputs_from": "float", "test": str(text_file), "window": 512,
        }
    )  # fmt: skip
    finished = next(event for event in execute(recipe, fresh_settings) if isinstance(event, Finished))
    assert perplexity[1, 0, 1] == pytest.approx(finished.summary["perplexity"], rel=2e-3)
    recon = read_array(folder, line.arrays["recon"])
    reports = [layer["report"]["relative_recon"] for layer in finished.summary["layers"]]
    np.testing.assert_allclose(recon[1, :, 0, 1], reports, rtol=2e-3)


def test_a_wrong_survey_is_refused(tmp_path: Path) -> None:
    (tmp_path / "survey.yaml").write_text("title: no more than this")
    with pytest.raises(Refused, match="survey"):
        Survey.from_file(tmp_path / "survey.yaml")


def test_methods_that_look_at_the_quantized_prefix_are_refused(
    survey_file: Path, fresh_settings: Settings, tmp_path: Path
) -> None:
    document = yaml.safe_load(survey_file.read_text())
    document["lines"].append({"method": "gptaq", "bits": 2})
    with pytest.raises(Refused, match="gptaq") as refused:
        next(conduct(Survey.model_validate(document), fresh_settings, tmp_path / "refused"))
    assert refused.value.remedy
    assert not (tmp_path / "refused").exists()
