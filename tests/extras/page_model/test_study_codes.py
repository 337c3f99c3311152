"""Codes of a study's further points: those that a run of each point leaves."""

import shutil

import pytest

from sarqc.errors import Refused
from sarqc.extras.page_model.study_codes import keep_points
from sarqc.study.document import Study
from sarqc.study.kept_codes import FOLDER, kept_codes
from tests.engine.test_page_codes import study_of


def bytes_of(study: Study, lam: float) -> bytes:
    kept = kept_codes(study)
    [file] = [point["file"] for point in kept["points"] if point["lam"] == lam]
    return (study.folder / FOLDER / file["name"]).read_bytes()


@pytest.mark.thorough
def test_further_points_have_the_codes_of_their_runs(fresh_settings, tmp_path):
    study = study_of({"lambda": 0.25, "sweep": [1]}, fresh_settings, tmp_path)
    before = bytes_of(study, 0.25)
    assert len(list(keep_points(study, fresh_settings))) == 1
    assert bytes_of(study, 0.25) == before
    assert list(keep_points(study, fresh_settings)) == []
    alone = study_of({"lambda": 1.0}, fresh_settings, tmp_path / "alone")
    assert bytes_of(study, 1.0) == bytes_of(alone, 1.0)


@pytest.mark.thorough
def test_lines_without_codes_for_pages_are_refused(fresh_settings, tmp_path):
    study = study_of({"lambda": 0.25}, fresh_settings, tmp_path)
    with pytest.raises(Refused, match="no such line"):
        list(keep_points(study, fresh_settings, bits=2))


@pytest.fixture
def shipped(fresh_settings, tmp_path):
    """A copy of a shipped study, without codes."""
    folder = fresh_settings.assets_dir / "studies" / "tiny-llama"
    return Study.open(shutil.copytree(folder, tmp_path / "tiny-llama", ignore=shutil.ignore_patterns(FOLDER)))


def test_rounded_codes_of_a_shipped_study_are_its_own(fresh_settings, shipped):
    assert len(list(keep_points(shipped, fresh_settings, method="rtn", bits=3))) == 1
    kept = kept_codes(shipped)
    assert [(point["method"], point["bits"], point["lam"]) for point in kept["points"]] == [("rtn", 3, None)]


@pytest.mark.thorough
def test_other_errors_than_those_of_the_study_are_refused(fresh_settings, shipped):
    shipped.protocol["calibration"] |= {"samples": 1, "length": 16}
    with pytest.raises(Refused, match="the study has"):
        list(keep_points(shipped, fresh_settings, method="rqc-gbs", bits=3))
    assert kept_codes(shipped) is None
