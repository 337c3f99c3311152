"""Studies from elsewhere: what “Download” gives comes back whole, and nothing that is wrong in any way stays."""

import hashlib
import io
import json
import shutil
import stat
import struct
import threading
import zipfile
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import or_
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.web import studies_api, upload_check, uploads
from sarqc.web.uploads import store_upload
from tests.former_studies import former_files
from tests.http.conftest import assert_error, finished, submit, write_study

Files = dict[str, bytes]


def send(client: TestClient, content: bytes):
    return client.post("/api/studies", content=content, headers={"Content-Type": "application/zip"})


def zipped(files: Files) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def files(tmp_path):
    """The files of a study made on another host."""
    study = write_study(tmp_path / "elsewhere", "theirs")
    folder = tmp_path / "elsewhere" / study.id
    return {f"theirs/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kept(settings: Settings) -> list[Path]:
    return list(settings.uploads_dir().iterdir()) if settings.uploads_dir().exists() else []


@pytest.mark.thorough
def test_what_is_downloaded_can_be_uploaded_elsewhere(client, settings):
    study = write_study(settings.studies_dir(), "mine")
    content = client.get("/api/studies/mine/download").content
    shutil.rmtree(settings.studies_dir() / "mine")
    answer = send(client, content)
    assert answer.status_code == 201, answer.text
    entry = answer.json()
    assert (entry["origin"], entry["shipped"], entry["title"]) == ("uploaded", False, study.title)
    assert entry["id"].startswith("mine-")
    assert client.get(answer.headers["location"]).json() == study.model_dump(mode="json") | {"id": entry["id"]}
    path = f"/api/studies/{entry['id']}/study.safetensors?v={study.checksum}"
    assert hashlib.sha256(client.get(path).content).hexdigest() == study.checksum
    assert client.get(f"/api/studies/{entry['id']}/view").json()["study"]["id"] == entry["id"]
    assert [one["origin"] for one in client.get("/api/studies").json()["studies"]] == ["uploaded"]
    again = send(client, client.get(f"/api/studies/{entry['id']}/download").content)
    assert (again.status_code, again.json()["id"]) == (200, entry["id"])  # the same study is there once
    assert send(client, content).json()["id"] == entry["id"]
    assert [path.name for path in kept(settings)] == [entry["id"]]
    assert client.delete(f"/api/studies/{entry['id']}").status_code == 204
    assert kept(settings) == []
    assert_error(client.delete(f"/api/studies/{entry['id']}"), 404, "not_found")


def changed(files: Files, change: Callable[[dict], None]) -> Files:
    document = json.loads(files["theirs/study.json"])
    change(document)
    return files | {"theirs/study.json": json.dumps(document).encode()}


def array(files: Files) -> str:
    return next(name for name in files if name.endswith(".safetensors"))


def resealed(files: Files, change: Callable[[bytes], bytes]) -> Files:
    """With other arrays, and the checksum of those."""
    content = change(files[array(files)])
    files = changed(files, lambda d: d.update(checksum=hashlib.sha256(content).hexdigest()))
    return files | {array(files): content}


def headed(files: Files, header: dict) -> Files:
    """With another header of the arrays, and the checksum of that."""
    text = json.dumps(header).encode()
    return resealed(files, lambda _: struct.pack("<Q", len(text)) + text + bytes(64))


def entry(shape: list[int], begin: int, end: int) -> dict:
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


def former(files: Files, change: Callable[[Files], Files]) -> Files:
    """A study of version 3 instead, changed."""
    return change(former_files("v3"))


def former_array(files: Files) -> str:
    return next(name for name in files if name.endswith(".bin"))


def an_array(document: dict, **changes):
    document["lines"][0]["arrays"]["recon"] |= changes


def more_lines(document: dict):
    document["lines"] = [document["lines"][0] | {"bits": bits} for bits in range(300)]


def more_layers(document: dict):
    document["layers"] *= 5001
    document["lines"][0]["arrays"] = {}


def without_gamma(document: dict):
    for ref in document["lines"][0]["arrays"].values():
        if ref["shape"] == [1, 2, 1, 3]:
            ref |= {"shape": [1, 2, 3], "axes": ["draw", "layer", "lambda"]}


def apart(files: Files, change: Callable[[Files], Files]) -> Files:
    """Files that no other way changes."""
    return change(files)


WRONG = {  # ways to change a study, each with names, changes and what is said of these
    changed: {
        "arrays without a checksum": (lambda d: d.update(checksum=""), "hash says"),
        "an array more": (lambda d: d["lines"][0]["arrays"].pop("sar"), "not a part"),
        "another shape of an array": (lambda d: an_array(d, dtype="uint8"), "has the shape"),
        "two lines of one name": (lambda d: d["lines"].append(d["lines"][0]), "one name"),
        "NaN": (lambda d: d["protocol"].update(x=float("nan")), "not a number"),
        "a newer one": (lambda d: d.update(schema_version=99), "schema version 99"),
        "a strange field": (lambda d: d.update(evil=1), "wrong at evil"),
        "a strange array name": (lambda d: an_array(d, file="../x.bin"), "wrong at lines"),
        "another shape": (lambda d: an_array(d, shape=[1, 2, 3, 1]), "does not fit"),
        "an empty shape": (lambda d: an_array(d, shape=[0, 2, 1, 3]), "does not fit"),
        "too many lines": (more_lines, "more than 64 lines"),
        "too many layers": (more_layers, "10000 layers"),
        "too many values": (lambda d: d["protocol"].update(x=[[]] * 600_000), "500000 values"),
        "a long text": (lambda d: d["protocol"].update(x="a" * 20_000), "16384 characters"),
        "a long name": (lambda d: d.update(title="a" * 300), "256 characters"),
        "a huge number": (lambda d: d["protocol"].update(x=10**400), "63 bits"),
        "half of a character": (lambda d: d["protocol"].update(x="\ud800"), "surrogates"),
        "half of a character in the title": (lambda d: d.update(title="\ud800"), "surrogates"),
        "axes in another order": (
            lambda d: an_array(d, shape=[3, 1, 2, 1], axes=["lambda", "gamma", "layer", "draw"]), "does not fit"),
        "an axis too few": (lambda d: an_array(d, shape=[1, 2, 3], axes=["draw", "layer", "lambda"]), "has the shape"),
    },
    resealed: {
        "arrays too short": (lambda c: c[:-1], "its header asks for"),
        "arrays of another kind": (lambda c: c.replace(b'"F32"', b'"I32"', 1), "damaged"),
        "an array under another name": (lambda c: c.replace(b"/recon", b"/recom"), "no tensor"),
        "no header": (lambda c: b"", "damaged"),
        "a deep header": (lambda c: struct.pack("<Q", 100_000) + b"[" * 100_000 + bytes(64), "damaged"),
        "a header of 2^62 bytes": (lambda c: struct.pack("<Q", 1 << 62) + b"{}" + bytes(64), "its header is longer"),
    },
    headed: {
        "a shape of 2^40": ({"a": entry([1 << 40] * 4, 0, 64)}, "the bytes of its shape"),
        "arrays that overlap": ({"a": entry([12], 0, 48), "b": entry([12], 16, 64)}, "the bytes of its shape"),
        "a hundred thousand arrays": ({str(number): entry([0], 0, 0) for number in range(100_000)}, "damaged"),
    },
    former: {
        "a former array missing": (lambda f: {k: v for k, v in f.items() if k != former_array(f)}, "files are missing"),
        "a former array changed": (lambda f: f | {former_array(f): bytes(len(f[former_array(f)]))}, "hash says"),
        "a file more beside former arrays": (lambda f: f | {"v3/arrays/run.sh": b"rm"}, "not a part of the study"),
    },
    or_: {
        "a file more": ({"theirs/run.sh": b"rm"}, "not a part of the study"),
        "another folder": ({"other/study.txt": b""}, "leads out"),
        "a way up": ({"theirs/../../evil.bin": b""}, "leads out"),
        "a way to the root": ({"/etc/passwd": b""}, "leads out"),
        "another system's way up": ({"theirs/..\\evil.bin": b""}, "leads out"),
        "no JSON": ({"theirs/study.json": b"{"}, "can't be read"),
        "no text": ({"theirs/study.json": b"\xff\xfe"}, "can't be read"),
        "a list": ({"theirs/study.json": b"[]"}, "not an object"),
        "deep JSON": ({"theirs/study.json": b"[" * 100_000}, "can't be read"),
        "too many entries": ({f"theirs/{number}": b"" for number in range(8192)}, "8192 entries"),
    },
    apart: {
        "no study": (lambda files: {"notes.txt": b"hello"}, "no study.json"),
        "the arrays missing": (
            lambda files: {k: v for k, v in files.items() if k != array(files)}, "files are missing"),
        "arrays changed": (lambda files: files | {array(files): bytes(len(files[array(files)]))}, "hash says"),
        "infinity": (lambda files: files | {"theirs/study.json": files["theirs/study.json"].replace(
            b'"protocol":{}', b'"protocol":{"x":1e999}')}, "not JSON compliant"),
        "no lines": (lambda files: changed(
            {"theirs/study.json": files["theirs/study.json"]}, lambda d: d.update(lines=[])), "no lines"),
        "an axis too few, in the arrays too": (lambda files: resealed(
            changed(files, without_gamma), lambda c: c.replace(b'[1,2,1,3]', b'[1,2,3]  ')), "be drawn"),
    },
}  # fmt: skip
CASES = [pytest.param(way, *case, id=name) for way, cases in WRONG.items() for name, case in cases.items()]


@pytest.mark.thorough
@pytest.mark.parametrize(("way", "change", "what"), CASES)
def test_what_is_wrong_is_refused_and_nothing_stays(client, settings, files, way, change, what):
    error = assert_error(send(client, zipped(way(files, change))), 422, "refused")
    assert what in error["what"]
    assert error["remedy"]
    assert kept(settings) == []
    assert client.get("/api/studies").json() == {"studies": [], "damaged": [], "first": None}
    assert not list(settings.resolved_state_dir().rglob("*evil*"))


@pytest.mark.thorough
def test_entries_that_are_no_files(client, settings, files):
    buffer = io.BytesIO(zipped(files))
    with zipfile.ZipFile(buffer, "a") as archive:
        link = zipfile.ZipInfo("theirs/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    assert "link" in assert_error(send(client, buffer.getvalue()), 422, "refused")["what"]
    twice = zipped(files | {"theirs/study.jsoN": b""}).replace(b"study.jsoN", b"study.json")
    assert "twice" in assert_error(send(client, twice), 422, "refused")["what"]
    for damaged in (b"", b"PK", b"not a zip at all", zipped(files)[:-30], zipped(files)[:100]):
        assert "zip archive" in assert_error(send(client, damaged), 422, "refused")["what"]
    flipped = bytearray(zipped(files))
    flipped[flipped.index(b".safetensors") + 16] ^= 255  # in the compressed bytes
    assert_error(send(client, bytes(flipped)), 422, "refused")
    assert kept(settings) == []


@pytest.mark.thorough
def test_too_much_is_refused_as_it_comes_and_as_it_unpacks(settings, files):
    settings = settings.model_copy(update={"upload_mib": 0.25})
    with TestClient(create_app(settings, with_pages=False)) as client:
        assert send(client, zipped(files)).status_code == 201
        bomb = zipped(files | {array(files): bytes(300_000)})
        assert len(bomb) < 60_000
        for content in (bomb, bytes(300_000)):
            error = assert_error(send(client, content), 413, "refused")
            assert "0.25 MiB" in error["what"]
            assert "SARQC_UPLOAD_MIB" in error["remedy"]
        assert len(kept(settings)) == 1


@pytest.mark.thorough
def test_a_document_has_an_end_of_its_own(client, files, settings):
    """A few kB of archive that would be a document of many MB, kept in memory by anyone who lists it."""
    content = zipped(changed(files, lambda d: d["protocol"].update(x=[[]] * 2_000_000)))
    assert len(content) < 1 << 20
    assert "more than 4 MiB" in assert_error(send(client, content), 413, "refused")["what"]
    assert kept(settings) == []
    content = zipped(changed(files, lambda d: d["protocol"].update(x=[0] * 100_000)))
    document = settings.uploads_dir() / send(client, content).json()["id"] / "study.json"
    assert document.stat().st_size < 300_000  # without blanks


def many_points(files: Files) -> Files:
    """A line with 50,000 values of λ and nothing but a perplexity: every figure and sentence is made for each."""
    count, numbers = 50_000, np.ones(50_000, "<f4").tobytes()
    header = {"sarqc-gbs/2/perplexity": {"dtype": "F32", "shape": [1, 1, count], "data_offsets": [0, 4 * count]}}
    text = json.dumps(header).encode()
    content = struct.pack("<Q", len(text)) + text + numbers

    def change(document: dict):
        line = document["lines"][0]
        line["arrays"] = {"perplexity": line["arrays"]["perplexity"] | {"shape": [1, 1, count]}}
        line["lams"] = [number / count for number in range(count)]
        document["checksum"] = hashlib.sha256(content).hexdigest()

    return changed(files, change) | {array(files): content}


@pytest.mark.thorough
def test_a_check_has_so_much_time_and_memory(client, files, settings, monkeypatch):
    with monkeypatch.context() as hurried:
        hurried.setattr(uploads, "CPU_SECONDS", 1)  # a fast host draws all these points in less than four
        error = assert_error(send(client, zipped(many_points(files))), 422, "refused")
        assert "can't be checked within 1 s" in error["what"]
    monkeypatch.setattr(uploads, "MEMORY_BYTES", 1 << 26)
    assert "0.0625 GiB" in assert_error(send(client, zipped(files)), 422, "refused")["what"]
    assert kept(settings) == []


@pytest.mark.thorough
def test_the_app_reads_nothing_that_was_not_approved(client, files, monkeypatch):
    def refuse(*_):
        raise AssertionError("the app has read what was sent")

    content = zipped(changed(files, lambda d: d.update(evil=1)))
    for name in ("zipfile.ZipFile", "sarqc.study.document.Study.open"):
        monkeypatch.setattr(name, refuse)
    assert "wrong at evil" in assert_error(send(client, content), 422, "refused")["what"]


@pytest.fixture
def one_at_once(monkeypatch):
    """Of an app that is made later."""
    monkeypatch.setattr(studies_api, "UNDER_WAY", 1)


@pytest.mark.thorough
def test_so_many_at_once(one_at_once, client, files, monkeypatch):
    began, goes_on = threading.Event(), threading.Event()

    def slow(*arguments):
        began.set()
        assert goes_on.wait(60)
        return store_upload(*arguments)

    monkeypatch.setattr(studies_api, "store_upload", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(send, client, zipped(files))
        assert began.wait(60)
        error = assert_error(send(client, zipped(files)), 429, "refused")
        assert "at this moment" in error["what"]
        goes_on.set()
        assert first.result().status_code == 201
    assert send(client, zipped(files)).status_code == 200


def test_what_a_stopped_upload_left_goes_at_the_next_start(settings):
    root = settings.uploads_dir()
    (root / ".upload-abc").mkdir(parents=True)
    (root / ".upload-abc" / "study.json").write_text("{")
    (root / ".body-abc").write_bytes(b"PK")
    write_study(root, "kept")
    with TestClient(create_app(settings, with_pages=False)):
        assert [path.name for path in root.iterdir()] == ["kept"]


@pytest.mark.thorough
def test_so_many_and_no_more(client, files, settings, monkeypatch):
    monkeypatch.setattr(uploads, "AT_MOST", 1)
    assert send(client, zipped(files)).status_code == 201
    other = zipped(changed(files, lambda d: d.update(title="Another")))
    assert "1 uploaded studies" in assert_error(send(client, other), 507, "refused")["what"]
    assert send(client, zipped(files)).status_code == 200  # the one that is here already
    assert len(kept(settings)) == 1


def test_other_sites_upload_nothing(client, files):
    answer = client.post("/api/studies", content=zipped(files), headers={"Origin": "http://elsewhere.example"})
    assert_error(answer, 403, "forbidden")


@pytest.mark.thorough
def test_studies_say_where_they_come_from_and_whose_they_are(client, settings):
    run_id = finished(client, submit(client)["id"])["id"]
    shutil.rmtree(settings.studies_dir() / run_id)
    write_study(settings.studies_dir(), run_id)
    write_study(settings.studies_dir(), "0123456789abcdef")  # as the command line names them
    write_study(settings.assets_dir / "studies", "shipped")
    origins = {one["id"]: one["origin"] for one in client.get("/api/studies").json()["studies"]}
    assert origins == {run_id: "run", "0123456789abcdef": "command_line", "shipped": "shipped"}
    for kept_one in (run_id, "shipped"):
        assert_error(client.delete(f"/api/studies/{kept_one}"), 409, "conflict")
    assert client.delete("/api/studies/0123456789abcdef").status_code == 204
    assert Study.open(settings.studies_dir() / run_id).id == run_id
    assert len(client.get("/api/studies").json()["studies"]) == 2


def test_what_zlib_says_of_memory_is_no_damaged_archive(files, tmp_path, monkeypatch):
    """Before Python 3.11.4 the archive of a process without memory ends so."""

    def without_memory(*_):
        raise zlib.error("Error -4 while decompressing data")

    monkeypatch.setattr(upload_check, "_unpack", without_memory)
    (tmp_path / "sent.zip").write_bytes(zipped(files))
    with pytest.raises(MemoryError):
        upload_check.check(tmp_path / "sent.zip", tmp_path, 1 << 20)
