"""Studies over REST: found, cached, compressed, packed; and nothing beyond them to be had."""

import gc
import gzip
import hashlib
import io
import json
import os
import shutil
import weakref
import zipfile
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from sarqc.errors import Refused
from sarqc.study import library as library_module
from sarqc.study.document import Study
from sarqc.study.library import Library, first_study
from tests.former_studies import VERSIONS, former_study
from tests.http.conftest import assert_error, write_study


@pytest.fixture
def study(settings):
    return write_study(settings.studies_dir(), "mine")


def test_listing_tells_what_is_there_and_what_is_damaged(client, settings, study):
    write_study(settings.assets_dir / "studies", "shipped", created="2026-05-05T00:00:00Z")
    for name, content in (("broken", "{"), ("strange", '{"schema_version": 1}'), ("newer", '{"schema_version": 99}')):
        (settings.studies_dir() / name).mkdir()
        (settings.studies_dir() / name / "study.json").write_text(content)
    (settings.studies_dir() / ".half-written").mkdir()
    listing = client.get("/api/studies").json()
    assert [(one["id"], one["shipped"]) for one in listing["studies"]] == [("shipped", True), ("mine", False)]
    assert [one["has_curves"] for one in listing["studies"]] == [True, True]
    (line,) = listing["studies"][1]["lines"]
    assert [line[name] for name in ("name", "method", "bits", "grid")] == ["sarqc-gbs", "sarqc-gbs", 2, "asymmetric"]
    assert [line[name] for name in ("group_size", "draws", "lambdas", "lam")] == [None, [0], 3, 0.1]
    assert listing["first"] == "shipped"
    damaged = {one["id"]: one["error"]["kind"] for one in listing["damaged"]}
    assert damaged == dict.fromkeys(("broken", "strange", "newer"), "refused")
    assert_error(client.get("/api/studies/strange"), 422, "refused")


DAMAGED = {
    "list": "[]", "text": '"study"', "deep": "[" * 50_000, "types": '{"schema_version": "4"}',
    "version": '{"schema_version": true}', "lines": '{"schema_version": 4, "lines": 7}',
    "surrogate": '{"schema_version": 4, "title": "\\ud800"}',
    "infinity": '{"schema_version": 4, "protocol": {"x": 1e999}}', "latin": b"\xff\xfe", "empty": "",
}  # fmt: skip


@pytest.mark.thorough
def test_one_damaged_study_never_hides_the_others(client, settings, study):
    for name, content in DAMAGED.items():
        (settings.studies_dir() / name).mkdir()
        content = content if isinstance(content, bytes) else content.encode()
        (settings.studies_dir() / name / "study.json").write_bytes(content)
    (settings.studies_dir() / "folder" / "study.json").mkdir(parents=True)
    for _ in range(2):  # the second is remembered
        answer = client.get("/api/studies")
        assert answer.status_code == 200, answer.text
        assert [one["id"] for one in answer.json()["studies"]] == ["mine"]
        assert {one["id"] for one in answer.json()["damaged"]} == set(DAMAGED)
        for one in answer.json()["damaged"]:
            assert one["error"]["what"]
            assert one["error"]["remedy"]
            assert str(settings.resolved_state_dir()) not in str(one)
    for name in DAMAGED:
        assert_error(client.get(f"/api/studies/{name}"), 422, "refused")
        assert_error(client.get(f"/api/studies/{name}/view"), 422, "refused")
        assert client.delete(f"/api/studies/{name}").status_code == 204
    assert client.get("/api/studies").json()["damaged"] == []


def flip(path: Path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.thorough
def test_a_flipped_bit_is_named_and_not_served(client, settings, study):
    write_study(settings.studies_dir(), "other")
    path = settings.studies_dir() / "mine" / "study.safetensors"
    addresses = ["", "/view", "/download", "/study.safetensors", f"/study.safetensors?v={study.checksum}",
                 "/tables/deciles?method=sarqc-gbs&bits=2"]  # fmt: skip
    for address in addresses:
        assert client.get(f"/api/studies/mine{address}").status_code == 200
    flip(path)
    for address in addresses:
        error = assert_error(client.get(f"/api/studies/mine{address}"), 409, "conflict")
        assert "study.safetensors is damaged" in error["what"]
    assert_error(client.get("/api/compare?ids=mine,other"), 409, "conflict")
    assert client.get("/api/studies/other/view").status_code == 200
    flip(path)
    assert client.get("/api/studies/mine/view").status_code == 200
    path.unlink()
    for address in addresses:
        assert_error(client.get(f"/api/studies/mine{address}"), 404, "not_found")


def test_a_study_cut_short_while_it_is_read_is_refused(client, settings, study, monkeypatch):
    """Between the check of its hash and the figures: what is mapped then would end the process (SIGBUS)."""
    check = library_module._check_arrays

    def check_and_cut(study):
        check(study)
        os.truncate(study.folder / "study.safetensors", 8)

    whole = (settings.studies_dir() / "mine" / "study.safetensors").read_bytes()
    opened = Study.open(settings.studies_dir() / "mine")
    line = opened.lines[0]
    kept = opened.array(line, "surface")
    monkeypatch.setattr(library_module, "_check_arrays", check_and_cut)
    assert "damaged" in assert_error(client.get("/api/studies/mine/view"), 422, "refused")["what"]
    with pytest.raises(Refused, match="damaged"):
        opened.array(line, "recon")
    assert kept.tobytes() in whole  # what was read before stays what it was


def test_a_layer_is_read_by_itself(study):
    line = study.lines[0]
    for name, ref in line.arrays.items():
        if "layer" in ref.axes:
            whole = study.array(line, name)
            for layer in range(len(study.layers)):
                expected = np.take(whole, layer, ref.axes.index("layer"))
                np.testing.assert_array_equal(study.array(line, name, layer), expected)


@pytest.mark.thorough
def test_a_flipped_bit_in_an_array_of_a_former_version(client, settings):
    settings.studies_dir().mkdir(parents=True, exist_ok=True)
    former = former_study("v3", settings.studies_dir())
    path = next((former / "arrays").iterdir())
    assert client.get(f"/api/studies/v3/arrays/{path.name}").status_code == 200
    flip(path)
    assert_error(client.get(f"/api/studies/v3/arrays/{path.name}"), 409, "conflict")
    assert_error(client.get("/api/studies/v3/view"), 409, "conflict")


@pytest.mark.thorough
def test_a_deleted_study_is_forgotten(settings):
    library = Library(settings, lambda names: ())
    for name in ("a", "b"):
        write_study(settings.studies_dir(), name)
        opened = weakref.ref(library.open(name))
    assert [one["id"] for one in library.listing()["studies"]] == ["a", "b"]
    library.delete("b")
    gc.collect()
    assert opened() is None
    assert [one["id"] for one in library.listing()["studies"]] == ["a"]
    shutil.rmtree(settings.studies_dir() / "a")  # as a run's goes with the run
    assert library.listing() == {"studies": [], "damaged": [], "first": None}


def test_the_lab_opens_with_the_shipped_study_that_can_say_most():
    def entry(name, draws, points, *, shipped=True, curves=True, layers=1):
        line = {
            "name": "a", "method": "a", "bits": 2, "grid": "affine", "group_size": None, "draws": [*range(draws)],
            "lambdas": points, "lam": None,
        }  # fmt: skip
        return {
            "id": name, "title": "", "created": "", "shipped": shipped, "origin": "run", "has_curves": curves,
            "has_codes": False, "prefix": "float", "model": "", "layers": layers, "lines": [line],
        }  # fmt: skip

    own, flat = entry("own", 9, 9, shipped=False), entry("flat", 9, 1, curves=False)
    assert first_study([]) is None
    assert first_study([own]) == "own"
    assert first_study([own, flat]) == "flat"
    few, short, long = entry("few", 3, 20), entry("short", 5, 7), entry("long", 5, 10)
    assert first_study([own, flat, few]) == "few"
    assert first_study([own, flat, few, short]) == "short"
    assert first_study([own, flat, few, long, short]) == "long"
    assert first_study([entry("z", 5, 7), short]) == "short"
    assert first_study([long, entry("large", 3, 7, layers=2)]) == "large"


def test_the_listing_reads_a_study_once_over_all_starts(settings, monkeypatch):
    for name in ("a", "b", "run"):
        write_study(settings.studies_dir(), name)
    (settings.studies_dir() / "broken").mkdir()
    (settings.studies_dir() / "broken" / "study.json").write_text("{")
    first = Library(settings, lambda names: {"run"}).listing()
    assert {one["id"]: one["origin"] for one in first["studies"]}["run"] == "run"
    opened = []
    monkeypatch.setattr(
        Study, "open", classmethod(lambda cls, folder, real=Study.open: opened.append(folder.name) or real(folder))
    )
    again = Library(settings, lambda names: {"run"})
    assert again.listing() == again.listing() == first
    assert sorted(opened) == ["a", "b", "broken", "run"]
    write_study(settings.studies_dir(), "b", created="2026-09-09T00:00:00Z")
    assert again.listing()["studies"][0]["id"] == "b"
    assert opened[4:] == ["b"]
    shutil.rmtree(settings.studies_dir() / "a")
    assert {one["id"] for one in again.listing()["studies"]} == {"b", "run"}


def test_shipped_studies_are_found_without_the_others(settings):
    write_study(settings.assets_dir / "studies", "shipped")
    write_study(settings.studies_dir(), "other")
    library = Library(settings, lambda names: ())
    shipped = [{**one, "origin": "shipped"} for one in library.listing()["studies"] if one["shipped"]]
    assert library.shipped() == Library(settings, lambda names: ()).shipped() == shipped
    assert len(library.listing()["studies"]) == 2


@pytest.mark.thorough
def test_a_study_and_its_tag(client, settings, study):
    answer = client.get("/api/studies/mine")
    assert Study.model_validate(answer.json()) == study
    assert answer.headers["cache-control"] == "no-cache"
    tag = answer.headers["etag"]
    assert client.get("/api/studies/mine", headers={"If-None-Match": tag}).status_code == 304
    write_study(settings.studies_dir(), "mine", created="2026-02-02T00:00:00Z")
    again = client.get("/api/studies/mine", headers={"If-None-Match": tag})
    assert again.status_code == 200
    assert again.json()["created"].startswith("2026-02")


@pytest.mark.thorough
def test_arrays_are_raw_and_for_ever(client, settings, study):
    info = client.get("/api/studies/mine/view?layer=1").json()["arrays"]["surface"]
    assert (info["file"], info["version"]) == ("study.safetensors", study.checksum)
    path = f"/api/studies/mine/{info['file']}?v={info['version']}"
    content = (settings.studies_dir() / "mine" / info["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == study.checksum
    last = info["offset"] + info["length"] - 1
    part = client.get(path, headers={"Range": f"bytes={info['offset']}-{last}"})
    assert part.status_code == 206
    assert part.content == study.array(study.lines[0], "surface")[1].tobytes()
    whole = client.get(path)
    assert whole.content == content
    for answer in (whole, part):
        assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
        assert answer.headers["content-type"] == "application/octet-stream"
        assert "content-encoding" not in answer.headers
    for other in ("", "?v=", f"?v={'0' * 64}"):
        answer = client.get(f"/api/studies/mine/study.safetensors{other}")
        assert (answer.content, answer.headers["cache-control"]) == (content, "no-cache")


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
def test_arrays_of_former_versions(client, settings, version):
    settings.studies_dir().mkdir(parents=True, exist_ok=True)
    former = former_study(version, settings.studies_dir())
    study = Study.open(former)
    name, ref = next(iter(study.lines[0].arrays.items()))
    place = study.place(study.lines[0], name)
    answer = client.get(f"/api/studies/{version}/{place.file}?v={place.version}")
    assert answer.content == (former / "arrays" / ref.file).read_bytes()
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert client.get(f"/api/studies/{version}/study.safetensors").status_code == 404
    packed = client.get(f"/api/studies/{version}/download").content
    sent = client.post("/api/studies", content=packed, headers={"Content-Type": "application/zip"})
    assert sent.status_code == 201, sent.text
    folder = settings.uploads_dir() / sent.json()["id"]
    assert sorted(path.name for path in folder.iterdir()) == ["study.json", "study.safetensors"]  # kept as of today
    again = client.post("/api/studies", content=packed, headers={"Content-Type": "application/zip"})
    assert (again.status_code, again.json()["id"]) == (200, sent.json()["id"])
    views = [client.get(f"/api/studies/{one}/view").json()["figures"] for one in (version, sent.json()["id"])]
    assert views[0] == views[1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    [
        "../study.json",
        "..%2Fstudy.json",
        "....//study.json",
        "%2e%2e%2fstudy.json",
        "study.json",
        "0" * 31 + ".bin",
        "0" * 32 + ".bin",
        "0" * 32 + ".bin%00",
        "A" * 32 + ".bin",
        "0" * 32 + ".bin%0A",
    ],
)
def test_nothing_but_arrays(client, study, name):
    answer = client.get(f"/api/studies/mine/arrays/{name}")
    assert answer.status_code == 404
    assert "schema_version" not in answer.text


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["..", "../studies/mine", "/etc", "mine/../mine", ".hidden", "a" * 200, "mi ne", ""])
def test_nothing_but_studies(client, settings, study, name):
    (settings.resolved_state_dir() / "study.json").write_text('{"schema_version": 1}')
    (settings.studies_dir() / ".hidden").mkdir()
    (settings.studies_dir() / ".hidden" / "study.json").write_text('{"schema_version": 1}')
    for path in (f"/api/studies/{quote(name, safe='')}", f"/api/studies/{quote(name, safe='')}/download"):
        answer = client.get(path, follow_redirects=False)
        assert answer.status_code in (307, 404), answer.text  # 307: the empty name is the listing
        assert "schema_version" not in answer.text


@pytest.mark.thorough
def test_download(client, settings, study, tmp_path):
    (settings.studies_dir() / "mine" / "private.txt").write_text("not part of the study")
    answer = client.get("/api/studies/mine/download")
    assert answer.headers["content-type"] == "application/zip"
    assert 'filename="mine.zip"' in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        archive.extractall(tmp_path / "unpacked")
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}  # anybody may ask, often
    names = {path.name for path in (tmp_path / "unpacked").rglob("*") if path.is_file()}
    assert names == {"study.json", "study.safetensors"}
    assert Study.open(tmp_path / "unpacked" / "mine") == study


@pytest.mark.thorough
def test_views_come_from_the_figures(client, settings, study):
    view = client.get("/api/studies/mine/view?method=sarqc-gbs&bits=2&layer=1")
    assert view.status_code == 200, view.text
    assert view.json()["layer"] == 1
    assert client.get("/api/studies/mine/view").json()["line"]["method"] == "sarqc-gbs"
    assert_error(client.get("/api/studies/mine/view?method=rtn&bits=2"), 404, "not_found")
    assert_error(client.get("/api/studies/mine/view?bits=two"), 422, "refused")
    tag = {"If-None-Match": view.headers["etag"]}
    assert client.get("/api/studies/mine/view?method=sarqc-gbs&bits=2&layer=1", headers=tag).status_code == 304

    write_study(settings.studies_dir(), "other")
    compared = client.get("/api/compare?ids=mine,other")
    assert compared.status_code == 200, compared.text
    assert len(compared.json()["studies"]) == 2
    assert_error(client.get("/api/compare?ids=mine,mine"), 422, "refused")


def test_what_is_compressed_is_the_same(client, study):
    with client.stream("GET", "/api/studies/mine") as answer:
        packed = b"".join(answer.iter_raw())
    assert json.loads(gzip.decompress(packed)) == client.get("/api/studies/mine").json()
