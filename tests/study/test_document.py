"""Studies: what is written is what is read, and every shipped version opens."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sarqc.errors import NotFound, Refused
from sarqc.settings import Settings
from sarqc.study.document import SCHEMA_VERSION, Line, ModelFacts, Study, StudyWriter


def a_study(folder: Path, values: np.ndarray) -> Study:
    writer = StudyWriter(folder)
    axes = ("draw", "gamma", "lambda")
    line = Line(
        method="rqc-gbs", title="t", baseline="gptq", bits=2, grid="asymmetric", group_size=None, lams=(0.0, 1.0),
        gammas=(None,), draws=(0,), arrays={"perplexity": writer.add(values, axes)},
    )  # fmt: skip
    return writer.finish(
        Study(
            id="a", title="t", created="2026-01-01T00:00:00+00:00", prefix="float",
            model=ModelFacts(name="m", parameters=1, share_quantized=0.5, perplexity=float("nan")),
            protocol={"nan": float("nan")}, layers=(), lines=(line,),
        )
    )  # fmt: skip


def test_arrays_round_trip(tmp_path: Path) -> None:
    values = np.array([[[np.nan, 2.5]]])
    a_study(tmp_path / "a", values)
    study = Study.open(tmp_path / "a")
    np.testing.assert_array_equal(study.array(study.line("rqc-gbs", 2), "perplexity"), values.astype(np.float32))
    assert study.model.perplexity is None
    assert study.schema_version == SCHEMA_VERSION
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_writing_again_replaces_the_whole(tmp_path: Path) -> None:
    a_study(tmp_path / "a", np.zeros((1, 1, 2)))
    a_study(tmp_path / "a", np.ones((1, 1, 2)))
    study = Study.open(tmp_path / "a")
    assert study.array(study.lines[0], "perplexity").tolist() == [[[1, 1]]]
    assert len(list((tmp_path / "a" / "arrays").iterdir())) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_no_study_a_newer_one_and_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Study.open(tmp_path)
    a_study(tmp_path / "a", np.zeros((1, 1, 2)))
    path = tmp_path / "a" / "study.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"schema_version": SCHEMA_VERSION + 1}))
    with pytest.raises(Refused, match="Update"):
        Study.open(tmp_path / "a")
    path.write_text(path.read_text()[:-5])
    with pytest.raises(Refused, match="damaged"):
        Study.open(tmp_path / "a")


def test_a_study_from_before_texts_and_speed(tmp_path: Path) -> None:
    a_study(tmp_path / "a", np.zeros((1, 1, 2)))
    path = tmp_path / "a" / "study.json"
    document = json.loads(path.read_text())
    for line in document["lines"]:
        assert line.pop("texts") == []
        assert line.pop("speed") is None
    path.write_text(json.dumps(document | {"schema_version": 2}))
    study = Study.open(tmp_path / "a")
    assert (study.schema_version, study.lines[0].texts, study.lines[0].speed) == (SCHEMA_VERSION, (), None)


def test_every_shipped_study_opens(settings: Settings) -> None:
    folders = [path.parent for path in (settings.assets_dir / "studies").glob("*/study.json")]
    assert folders
    for folder in folders:
        study = Study.open(folder)
        assert study.id == folder.name
        for line in study.lines:
            points = (len(line.draws), len(line.gammas), len(line.lams))
            for name, ref in line.arrays.items():
                array = study.array(line, name)
                assert array.shape == ref.shape
                lengths = dict(zip(ref.axes, ref.shape, strict=True))
                assert lengths.get("layer", len(study.layers)) == len(study.layers)
                if name in ("perplexity", "accuracy"):
                    assert array.shape == points
                    assert np.isfinite(array).all()
                if name in ("recon", "sar", "drift", "held_out"):
                    assert array.shape == (points[0], len(study.layers), *points[1:])
                    assert np.isfinite(array).all()
