"""What is stored of a model is shown again of that model alone, not after a change of its files."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from sarqc.settings import Settings
from tests.golden.run_events import documents, events_of, numbers_in

YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
CHANGES = {
    "positions": {"config.json": {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}},
    "longer context": {"config.json": {"rope_parameters": YARN}},
    "ε": {"config.json": {"rms_norm_eps": 0.1}},
    "activation": {"config.json": {"hidden_act": "relu"}},
    "tokenizer": {"tokenizer.json": {"normalizer": {"type": "Lowercase"}}},
}


def measured(folder: Path, text_file: Path, settings: Settings) -> np.ndarray:
    """Return what a run measures: perplexities, divergences, accuracies and continuations."""
    events = events_of(documents(folder, text_file)["run"], settings)
    return numbers_in([event for event in events if event.type in ("measured", "diverged", "texts_compared")])


@pytest.fixture
def folder(random_llama, tmp_path):
    return shutil.copytree(random_llama, tmp_path / "model")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, marks=() if name in ("positions", "tokenizer") else pytest.mark.thorough, id=name)
        for name, change in CHANGES.items()
    ],
)
def test_a_changed_model_is_measured_anew(change, folder, text_file, fresh_settings, tmp_path):
    before = measured(folder, text_file, fresh_settings)
    for name, values in change.items():
        document = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(document | values))
    after = measured(folder, text_file, fresh_settings)
    alone = fresh_settings.model_copy(update={"state_dir": tmp_path / "alone"})
    np.testing.assert_array_equal(after, measured(folder, text_file, alone))
    assert not np.array_equal(before, after)


def test_the_same_model_is_measured_once(folder, text_file, fresh_settings, monkeypatch):
    first = measured(folder, text_file, fresh_settings)
    (folder / "README.md").touch()  # not a part of the model
    monkeypatch.setattr("sarqc.engine.measure.perplexity_steps", None)  # a second measurement would fail
    np.testing.assert_array_equal(measured(folder, text_file, fresh_settings), first)
