"""What is stored of a model is shown again of that model alone, not after a change of its files."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sarqc.engine.execute import execute
from sarqc.events import Finished, Measured, TextsCompared
from sarqc.recipe import Recipe
from sarqc.settings import Settings

CHANGES: dict[str, dict[str, Any]] = {
    "positions": {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
    "longer context": {
        "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32,
        }
    },
    "ε": {"rms_norm_eps": 0.1},
    "activation": {"hidden_act": "relu"},
}  # fmt: skip


@pytest.fixture
def folder(random_llama: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(random_llama, tmp_path / "model"))


def measured(folder: Path, text_file: Path, settings: Settings, **further: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the summary and the events of a run, without what a clock decides."""
    document = {
        "model": str(folder), "bits": 3, "group_size": 16, "method": "gptq", "calibration": str(text_file),
        "samples": 2, "length": 32, "test": str(text_file), "window": 64, "test_tokens": 640, "baseline": False,
    }  # fmt: skip
    events = list(execute(Recipe.parse(document | further), settings))
    assert isinstance(events[-1], Finished)
    numbers = ("perplexity", "perplexity_float", "kl", "log_ratio")
    summary = events[-1].summary
    return {name: summary[name] for name in numbers}, [e for e in events if isinstance(e, Measured | TextsCompared)]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_another_configuration_is_measured_anew(
    change: dict[str, Any], folder: Path, text_file: Path, fresh_settings: Settings, tmp_path: Path
) -> None:
    before, _ = measured(folder, text_file, fresh_settings)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | change), encoding="utf-8")
    after, _ = measured(folder, text_file, fresh_settings)
    alone = fresh_settings.model_copy(update={"state_dir": tmp_path / "alone"})
    assert after == measured(folder, text_file, alone)[0]
    assert after["perplexity_float"] != before["perplexity_float"]
    assert after["kl"] != before["kl"]


def test_another_tokenizer_answers_tasks_and_prompts_anew(
    folder: Path, text_file: Path, fresh_settings: Settings, tmp_path: Path
) -> None:
    further: dict[str, Any] = {
        "tasks": ["tiny-llama-continuations"], "task_limit": 12, "prompts": ["Once upon a time"], "new_tokens": 3,
    }  # fmt: skip
    measured(folder, text_file, fresh_settings, **further)
    document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    document["normalizer"] = {"type": "Lowercase"}
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    _, after = measured(folder, text_file, fresh_settings, **further)
    alone = fresh_settings.model_copy(update={"state_dir": tmp_path / "alone"})
    assert after == measured(folder, text_file, alone, **further)[1]


def test_the_same_files_are_measured_once(
    folder: Path, text_file: Path, fresh_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = measured(folder, text_file, fresh_settings)
    (folder / "README.md").write_text("not a part of the model", encoding="utf-8")
    monkeypatch.setattr("sarqc.engine.measure.perplexity_steps", None)  # so that a second measurement fails
    assert measured(folder, text_file, fresh_settings)[0] == first
