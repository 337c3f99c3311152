"""Studies: what is written is what is read, and every shipped version opens."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from sarqc.errors import NotFound, Refused
from sarqc.figures import lab_view
from sarqc.recipe import method_title
from sarqc.study.document import SCHEMA_VERSION, Line, ModelFacts, Study, StudyWriter, one_draw, rewrite
from tests.former_studies import VERSIONS, former_study
from tests.synthetic_study import write_study


def a_study(folder: Path, values: np.ndarray) -> Study:
    writer = StudyWriter(folder)
    axes = ("draw", "gamma", "lambda")
    line = Line(
        method="rqc-gbs", title=method_title("rqc-gbs"), baseline="gptq", bits=2, grid="asymmetric",
        group_size=None, lams=(0.0, 1.0), gammas=(None,), draws=(0,), arrays={"perplexity": writer.add(values, axes)},
    )  # fmt: skip
    return writer.finish(
        Study(
            id="a", title="t", created="2026-01-01T00:00:00+00:00", prefix="float",
            model=ModelFacts(name="m", parameters=1, share_quantized=0.5, perplexity=float("nan")),
            protocol={"nan": float("nan")}, layers=(), lines=(line,),
        )
    )  # fmt: skip


def test_arrays_round_trip_and_writing_again_replaces_the_whole(tmp_path):
    values = np.array([[[np.nan, 2.5]]])
    a_study(tmp_path / "a", values)
    study = Study.open(tmp_path / "a")
    np.testing.assert_array_equal(study.array(study.line("rqc-gbs", 2), "perplexity"), values.astype(np.float32))
    assert study.model.perplexity is None
    assert study.schema_version == SCHEMA_VERSION
    a_study(tmp_path / "a", np.ones((1, 1, 2)))
    study = Study.open(tmp_path / "a")
    assert study.array(study.lines[0], "perplexity").tolist() == [[[1, 1]]]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["study.json", "study.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_no_study_a_newer_one_and_a_damaged_one(tmp_path):
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


def test_the_file_is_one_that_safetensors_reads(tmp_path):
    written = write_study(tmp_path / "toy", auto=True)
    read = load_file(tmp_path / "toy" / "study.safetensors")
    expected = {f"{line.name}/{line.bits}/{name}" for line in written.lines for name in line.arrays}
    assert read.keys() == expected
    for line in written.lines:
        for name, ref in line.arrays.items():
            theirs, ours = read[f"{line.name}/{line.bits}/{name}"], written.array(line, name)
            assert (theirs.dtype, theirs.shape) == (np.dtype(ref.dtype), ref.shape)
            assert theirs.tobytes() == ours.tobytes()
            place, content = written.place(line, name), (tmp_path / "toy" / "study.safetensors").read_bytes()
            assert content[place.offset : place.offset + theirs.nbytes] == theirs.tobytes()
            assert place.offset % theirs.itemsize == 0
    assert written.checksum == place.version == hashlib.sha256(content).hexdigest()
    assert Study.open(tmp_path / "toy") == written


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda content: content[:-1], "bytes and its header asks for"),
        (lambda content: content + b"x", "bytes and its header asks for"),
        (lambda content: content[:4], "damaged"),
        (lambda content: b"\xff" * 8 + content[8:], "longer than the file"),
        (lambda content: content.replace(b'"F32"', b'"F64"'), "damaged"),
        (lambda content: content.replace(b"[1,1,2]", b"[1,1,3]"), "bytes of its shape"),
        (lambda content: content.replace(b"[1,1,2]", b"[1,2,1]"), r"has the shape \(1, 2, 1\)"),
        (lambda content: content.replace(b"/perplexity", b"/perplexitx"), "no tensor"),
        (lambda content: None, "missing"),
    ],
)
def test_damaged_arrays_are_refused_by_what_is_wrong(tmp_path, change, what):
    study = a_study(tmp_path / "a", np.zeros((1, 1, 2)))
    path = tmp_path / "a" / "study.safetensors"
    content = change(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Refused, match=what):
        study.array(study.lines[0], "perplexity")


def test_a_writer_takes_its_own_arrays_once(tmp_path):
    study = a_study(tmp_path / "a", np.zeros((1, 1, 2)))
    writer = StudyWriter(tmp_path / "b")
    with pytest.raises(ValueError, match="not added here"):
        writer.finish(study)
    array = writer.add(np.zeros((1, 1, 2)), ("draw", "gamma", "lambda"))
    line = study.lines[0].model_copy(update={"arrays": {"perplexity": array}})
    with pytest.raises(ValueError, match="twice"):
        writer.finish(study.model_copy(update={"lines": (line, line)}))
    writer.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("version", VERSIONS)
def test_former_versions_open_and_are_rewritten_with_the_same_numbers(version, tmp_path):
    folder = former_study(version, tmp_path / "former")
    document = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    assert f"v{document['schema_version']}" == version
    study = Study.open(folder)
    assert (study.id, study.schema_version) == (version, SCHEMA_VERSION)
    assert (study.lines[0].texts, study.lines[0].speed, study.lines[0].selected) == ((), None, None)
    for line, was in zip(study.lines, document["lines"], strict=True):
        for name, ref in was["arrays"].items():
            content = (folder / "arrays" / ref["file"]).read_bytes()
            stored = np.frombuffer(content, ref["dtype"]).reshape(ref["shape"])
            expected = stored
            if version == "v3" and name in ("recon", "held_out"):
                assert (stored[:, 1] == 0).all()  # no token reached that expert
                expected = stored.copy()
                expected[:, 1] = np.nan
            assert study.array(line, name).tobytes() == expected.tobytes()
            place = study.place(line, name)
            assert (folder / place.file).read_bytes() == content
            assert (place.offset, place.version) == (0, ref["file"][:-4])
    alone = one_draw(study, study.lines[0].draws[1])
    np.testing.assert_array_equal(alone.read(alone.lines[0], "recon"), study.read(study.lines[0], "recon")[1:2])
    for layer in (None, 0, 1):
        json.dumps(lab_view(study, layer=layer), allow_nan=False)
    new = rewrite(study, tmp_path / "new")
    assert Study.open(tmp_path / "new") == new
    assert sorted(path.name for path in tmp_path.iterdir()) == ["former", "new"]
    for line, same in zip(study.lines, new.lines, strict=True):
        for name in line.arrays:
            assert new.array(same, name).tobytes() == study.array(line, name).tobytes()
    assert lab_view(new, layer=1)["figures"] == lab_view(study, layer=1)["figures"]


def test_every_shipped_study_opens(settings):
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
                if name == "perplexity":
                    assert array.shape == points
                    assert np.isfinite(array).all()
                if name in ("recon", "sar", "drift", "held_out"):
                    assert array.shape == (points[0], len(study.layers), *points[1:])


def test_an_opened_study_calls_methods_as_they_are_called_today(settings, tmp_path):
    """A method that is not known here keeps the title that it came with."""
    folder = tmp_path / "former"
    shutil.copytree(settings.assets_dir / "studies" / "tiny-llama-methods", folder)
    document = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    for line in document["lines"]:
        line["title"] = "A name of the past"
    document["lines"][0]["method"] = "elsewhere"
    (folder / "study.json").write_text(json.dumps(document), encoding="utf-8")
    study = Study.open(folder)
    assert study.lines[0].title == "A name of the past"
    assert study.line("gptq", 2).title == "GPTQ 1 %"
    assert study.line("sarqc-gbs-auto", 2).label == "GPTQ + saliency penalty, auto"
    refined = study.line("rqc-gbs-search-refine3", 2)
    assert refined.title == "GPTQ + identity penalty, searched range, refined × 3"
    refitted = refined.model_copy(update={"fitting": {"range": "joint", "refine": 3, "refit": 2}})
    assert refitted.name == "rqc-gbs-joint-refine3-refit2"
    words = "GPTQ + identity penalty, jointly searched range, refined × 3, scales refitted × 2"
    assert method_title(refitted.method, refitted.fitting) == words
