"""Studies over REST: found, cached, compressed, packed; and nothing beyond them to be had."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from sarqc.settings import Settings
from sarqc.study.document import Study
from tests.http.conftest import assert_error, write_study


@pytest.fixture
def study(settings: Settings) -> Study:
    return write_study(settings.studies_dir(), "mine")


def test_listing_tells_what_is_there_and_what_is_damaged(client: TestClient, settings: Settings, study: Study) -> None:
    write_study(settings.assets_dir / "studies", "shipped", created="2026-05-05T00:00:00Z")
    for name, content in (("broken", "{"), ("strange", '{"schema_version": 1}'), ("newer", '{"schema_version": 99}')):
        (settings.studies_dir() / name).mkdir()
        (settings.studies_dir() / name / "study.json").write_text(content)
    (settings.studies_dir() / ".half-written").mkdir()
    listing = client.get("/api/studies").json()
    assert [(one["id"], one["shipped"]) for one in listing["studies"]] == [("shipped", True), ("mine", False)]
    assert [one["has_curves"] for one in listing["studies"]] == [True, True]
    assert listing["studies"][1]["lines"] == [
        {"name": "sarqc-gbs", "method": "sarqc-gbs", "bits": 2, "grid": "asymmetric", "group_size": None, "draws": [0]}
    ]
    assert {one["id"]: one["error"]["kind"] for one in listing["damaged"]} == dict.fromkeys(
        ("broken", "strange", "newer"), "refused"
    )
    assert_error(client.get("/api/studies/strange"), 422, "refused")


def test_a_study_and_its_tag(client: TestClient, settings: Settings, study: Study) -> None:
    answer = client.get("/api/studies/mine")
    assert Study.model_validate(answer.json()) == study
    assert answer.headers["cache-control"] == "no-cache"
    tag = answer.headers["etag"]
    assert client.get("/api/studies/mine", headers={"If-None-Match": tag}).status_code == 304
    write_study(settings.studies_dir(), "mine", created="2026-02-02T00:00:00Z")
    again = client.get("/api/studies/mine", headers={"If-None-Match": tag})
    assert again.status_code == 200
    assert again.json()["created"].startswith("2026-02")


def test_arrays_are_raw_and_for_ever(client: TestClient, settings: Settings, study: Study) -> None:
    ref = study.lines[0].arrays["surface"]
    path = f"/api/studies/mine/arrays/{ref.file}"
    content = (settings.studies_dir() / "mine" / "arrays" / ref.file).read_bytes()
    packed = client.get(path)
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(content) / 4
    assert packed.content == content
    plain = client.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == content
    for answer in (packed, plain):
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["vary"] == "Accept-Encoding"
        assert answer.headers["content-type"] == "application/octet-stream"
    part = client.get(path, headers={"Range": "bytes=1024-2047"})
    assert part.status_code == 206
    assert part.content == content[1024:2048]
    tag = {"If-None-Match": packed.headers["etag"]}
    assert client.get(path, headers=tag).status_code == 304


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
def test_nothing_but_arrays(client: TestClient, study: Study, name: str) -> None:
    answer = client.get(f"/api/studies/mine/arrays/{name}")
    assert answer.status_code == 404
    assert "schema_version" not in answer.text


@pytest.mark.parametrize("name", ["..", "../studies/mine", "/etc", "mine/../mine", ".hidden", "a" * 200, "mi ne", ""])
def test_nothing_but_studies(client: TestClient, settings: Settings, study: Study, name: str) -> None:
    (settings.resolved_state_dir() / "study.json").write_text('{"schema_version": 1}')
    (settings.studies_dir() / ".hidden").mkdir()
    (settings.studies_dir() / ".hidden" / "study.json").write_text('{"schema_version": 1}')
    for path in (f"/api/studies/{quote(name, safe='')}", f"/api/studies/{quote(name, safe='')}/download"):
        answer = client.get(path, follow_redirects=False)
        assert answer.status_code in (307, 404), answer.text  # 307: the empty name is the listing
        assert "schema_version" not in answer.text


def test_download(client: TestClient, settings: Settings, study: Study, tmp_path: Path) -> None:
    (settings.studies_dir() / "mine" / "private.txt").write_text("not part of the study")
    answer = client.get("/api/studies/mine/download")
    assert answer.headers["content-type"] == "application/zip"
    assert 'filename="mine.zip"' in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        archive.extractall(tmp_path / "unpacked")
    files = {ref.file for ref in study.lines[0].arrays.values()}
    assert {path.name for path in (tmp_path / "unpacked").rglob("*") if path.is_file()} == {"study.json", *files}
    assert Study.open(tmp_path / "unpacked" / "mine") == study


def test_views_come_from_the_figures(client: TestClient, settings: Settings, study: Study) -> None:
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


def test_what_is_compressed_is_the_same(client: TestClient, study: Study) -> None:
    with client.stream("GET", "/api/studies/mine") as answer:
        packed = b"".join(answer.iter_raw())
    assert json.loads(gzip.decompress(packed)) == client.get("/api/studies/mine").json()
