"""What stands is held against what stood: shipped studies, codes of every method, events of every kind of run.

``SARQC_WRITE_GOLDEN=1 python -m pytest tests/golden`` writes what is compared with, for a change that is meant; the
difference in git shows which parts it touched.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sarqc.settings import Settings
from tests.golden.codes import GRIDS, LAYERS, TIED_ROWS, codes_of
from tests.golden.run_events import (
    KINDS,
    documents,
    events_of,
    numbers_in,
    survey_numbers,
    survey_of,
    types_in,
)
from tests.golden.studies import study_digests

FOLDER = Path(__file__).parent
WRITES = bool(os.environ.get("SARQC_WRITE_GOLDEN"))
STUDIES = sorted(path.parent.name for path in (FOLDER.parents[1] / "assets" / "studies").glob("*/study.json"))


@pytest.mark.parametrize("name", STUDIES)
def test_shipped_studies_show_what_they_showed(name: str, settings: Settings) -> None:
    file = FOLDER / "studies.json"
    now: dict[str, Any] = json.loads(json.dumps(study_digests(settings.assets_dir / "studies" / name)))
    if WRITES:
        kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        known = {key: value for key, value in (kept | {name: now}).items() if key in STUDIES}
        file.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    assert now == json.loads(file.read_text(encoding="utf-8"))[name]


@pytest.mark.parametrize("model", LAYERS)
def test_codes_are_what_they_were(model: str, settings: Settings) -> None:
    file = FOLDER / f"codes-{model}.npz"
    now = codes_of(model, settings)
    if WRITES:
        np.savez_compressed(file, **{name: codes.astype(np.int8) for name, codes in now.items()})
    with np.load(file) as then:
        assert now.keys() == set(then.files)
        for name, codes in now.items():
            assert codes.shape[0] == len(GRIDS)
            other = (codes != then[name]).any(axis=-1)
            assert other.mean() <= TIED_ROWS, f"{name}: {np.argwhere(other)[:5].tolist()} (grid, row)"


@pytest.mark.parametrize("kind", KINDS)
def test_runs_say_what_they_said(
    kind: str, random_llama: Path, text_file: Path, fresh_settings: Settings, tmp_path: Path
) -> None:
    events = events_of(
        documents(random_llama, text_file)[kind], fresh_settings, study_dir=tmp_path / "studies", study_id="one"
    )
    compare_numbers(kind, numbers_in(events), types_in(events))


def test_a_survey_measures_what_it_measured(
    random_llama: Path, text_file: Path, fresh_settings: Settings, tmp_path: Path
) -> None:
    survey = survey_of(random_llama, text_file)
    compare_numbers("survey", survey_numbers(survey, fresh_settings, tmp_path / "small"), {})


def test_a_repaired_checkpoint_measures_what_it_measured(
    random_llama: Path, text_file: Path, fresh_settings: Settings, tmp_path: Path
) -> None:
    document = documents(random_llama, text_file)["run"] | {"tasks": [], "prompts": [], "baseline": False}
    made = document | {"method": "rtn", "grid": "full_range"}
    del made["lambda"], made["gamma"]
    folder = tmp_path / "rounded"
    events_of(made, fresh_settings, checkpoint_dir=folder, checkpoint_format="packed")
    repair = {name: value for name, value in document.items() if name not in ("bits", "group_size", "gamma")}
    repair |= {"quantized_checkpoint": str(folder), "method": "rqc-gbs", "lambda": 0.05}
    events = events_of(repair, fresh_settings)
    compare_numbers("repair", numbers_in(events), types_in(events))


def compare_numbers(kind: str, numbers: np.ndarray, types: dict[str, int]) -> None:
    """Compare the numbers and the types of a run's events with those that are stored."""
    arrays, names = FOLDER / "runs.npz", FOLDER / "runs.json"
    if WRITES:
        stored = dict(np.load(arrays)) if arrays.exists() else {}
        np.savez_compressed(arrays, **(stored | {kind: numbers}))
        listed = json.loads(names.read_text(encoding="utf-8")) if names.exists() else {}
        text = json.dumps(listed | {kind: types}, indent=1, sort_keys=True, ensure_ascii=False)
        names.write_text(text + "\n", encoding="utf-8")
    assert types == json.loads(names.read_text(encoding="utf-8"))[kind]
    with np.load(arrays) as then:
        np.testing.assert_allclose(numbers, then[kind], rtol=1e-5, atol=1e-9)
