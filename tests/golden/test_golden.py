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

from tests.golden import run_events as runs
from tests.golden.codes import LAYERS, TIED_ROWS, codes_of
from tests.golden.studies import study_digests

FOLDER = Path(__file__).parent
TIED_NUMBERS = 1e-4  # share that may differ: another processor rounds otherwise, and a tie falls to the next level
WRITES = bool(os.environ.get("SARQC_WRITE_GOLDEN"))
STUDIES = sorted(path.parent.name for path in (FOLDER.parents[1] / "assets" / "studies").glob("*/study.json"))


@pytest.mark.parametrize("name", STUDIES)
def test_shipped_studies_show_what_they_showed(name, settings):
    now = study_digests(settings.assets_dir / "studies" / name)
    assert now == stored("studies.json", name, now)


@pytest.mark.parametrize(
    "model", [pytest.param(model, marks=() if model == "tiny-llama" else pytest.mark.thorough) for model in LAYERS]
)
def test_codes_are_what_they_were(model, settings):
    file, now = FOLDER / f"codes-{model}.npz", codes_of(model, settings)
    if WRITES:
        np.savez_compressed(file, **{name: codes.astype(np.int8) for name, codes in now.items()})
    with np.load(file) as then:
        assert now.keys() == set(then.files)
        for name, codes in now.items():
            other = (codes != then[name]).any(axis=-1)
            assert other.mean() <= TIED_ROWS, f"{name}: {np.argwhere(other)[:5].tolist()} (grid, row)"


@pytest.mark.parametrize("kind", sorted({*json.loads((FOLDER / "runs.json").read_text())} - {"survey"}))
def test_runs_say_what_they_said(kind, random_llama, text_file, fresh_settings, tmp_path):
    opened, output = None, {"study_dir": tmp_path / "studies", "study_id": "one"}
    if kind == "repair":
        opened, output = runs.make_rounded(random_llama, text_file, fresh_settings, tmp_path / "rounded"), {}
    events = runs.events_of(runs.documents(random_llama, text_file, opened)[kind], fresh_settings, **output)
    compare_numbers(kind, runs.numbers_in(events), runs.types_in(events))


def test_a_survey_measures_what_it_measured(random_llama, text_file, fresh_settings, tmp_path):
    numbers = runs.survey_numbers(runs.survey_of(random_llama, text_file), fresh_settings, tmp_path / "small")
    compare_numbers("survey", numbers, {})


def compare_numbers(kind: str, numbers: np.ndarray, types: dict[str, int]) -> None:
    """Compare the numbers and the types of a run's events with those that are stored."""
    arrays = FOLDER / "runs.npz"
    if WRITES:
        known = dict(np.load(arrays)) if arrays.exists() else {}
        np.savez_compressed(arrays, **(known | {kind: numbers}))
    assert types == stored("runs.json", kind, types)
    with np.load(arrays) as then:
        assert numbers.shape == then[kind].shape
        # Small ones are differences of large ones.
        other = ~np.isclose(numbers, then[kind], rtol=1e-5, atol=1e-6, equal_nan=True)
        assert other.mean() <= TIED_NUMBERS, f"{kind}: {np.flatnonzero(other)[:5].tolist()}"


def stored(name: str, key: str, now: Any) -> Any:
    """Return what a file has for a key; write ``now`` first where digests are written."""
    file = FOLDER / name
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if WRITES:
        known[key] = now
        text = json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False)
        file.write_text(text + "\n", encoding="utf-8")
    return known[key]
