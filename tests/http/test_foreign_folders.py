"""Folders of studies that others made: no link leads out of one, and what is damaged or endless is a sentence."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.settings import Settings
from sarqc.study import document
from sarqc.study.kept_codes import FILE, FOLDER
from sarqc.study.tensors import FILE as ARRAYS
from tests.extras.publish.sites import host_of_two, keep_codes
from tests.http.conftest import assert_error, write_study

ROUTES = ("", "/view", "/download", f"/{ARRAYS}")


@pytest.fixture
def host(tmp_path):
    """A host with the study “small”, whose codes are kept."""
    settings = host_of_two(tmp_path)
    keep_codes(settings.assets_dir / "studies" / "small")
    return settings


def codes_of(host: Settings) -> tuple[Path, dict[str, Any], str]:
    """The folder of codes, its list, and the name of a file of codes."""
    folder = host.assets_dir / "studies" / "small" / FOLDER
    kept = json.loads((folder / FILE).read_text())
    return folder, kept, kept["points"][0]["file"]["name"]


def answers(host: Settings, *routes: str):
    """Each route says what is damaged."""
    with TestClient(create_app(host, with_pages=False), base_url="http://127.0.0.1") as client:
        for route in routes:
            assert "damaged" in assert_error(client.get(f"/api/studies/small{route}"), 422, "refused")["what"]


@pytest.mark.parametrize("size", ["x", None, 10**30, math.nan, -1, True])
def test_a_forged_list_of_codes_is_damaged(host, size):
    folder, kept, name = codes_of(host)
    kept["points"][0]["file"]["bytes"] = size
    (folder / FILE).write_text(json.dumps(kept))
    answers(host, "/view", "/site", f"/model/{name}")


@pytest.mark.parametrize("lam", [math.nan, "0.1", [0.1]])
def test_a_forged_point_is_damaged(host, lam):
    folder, kept, _ = codes_of(host)
    kept["points"][0]["lam"] = lam
    (folder / FILE).write_text(json.dumps(kept))
    answers(host, "/view", "/site")


def test_codes_are_the_listed_ones_and_files_of_the_study(host, tmp_path):
    folder, kept, name = codes_of(host)
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    answers(host, f"/model/{name}")
    (tmp_path / "secret").write_bytes(content)
    (folder / name).symlink_to(tmp_path / "secret")
    answers(host, f"/model/{name}")
    (folder / name).unlink()
    (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    answers(host, f"/model/{name}")
    (folder / name).write_bytes(content)
    (folder / FILE).write_text(json.dumps(kept | {"model": "tiny-moe"}))
    answers(host, "/model/config.json")
    (tmp_path / FILE).write_text(json.dumps(kept))
    (folder / FILE).unlink()
    (folder / FILE).symlink_to(tmp_path / FILE)
    answers(host, "/view", f"/model/{name}")


@pytest.mark.parametrize("name", ["study.json", ARRAYS])
def test_no_file_of_a_study_is_elsewhere(client, settings, tmp_path, name):
    study = write_study(settings.studies_dir(), "mine")
    (study.folder / name).rename(tmp_path / name)
    (study.folder / name).symlink_to(tmp_path / name)
    for route in ROUTES:
        assert_error(client.get(f"/api/studies/mine{route}"), 422, "refused")
    assert client.delete("/api/studies/mine").status_code == 204
    assert (tmp_path / name).is_file()


def test_a_folder_that_is_a_link_is_removed_without_its_target(client, settings, tmp_path):
    study = write_study(tmp_path / "elsewhere", "mine")
    settings.studies_dir().mkdir(parents=True)
    (settings.studies_dir() / "mine").symlink_to(study.folder)
    assert client.get("/api/studies/mine/view").status_code == 200
    assert client.delete("/api/studies/mine").status_code == 204
    assert (study.folder / "study.json").is_file()
    assert_error(client.get("/api/studies/mine"), 404, "not_found")


def test_a_pipe_is_not_waited_for(client, settings):
    study = write_study(settings.studies_dir(), "mine")
    (study.folder / ARRAYS).unlink()
    os.mkfifo(study.folder / ARRAYS)
    for route in ROUTES:
        assert_error(client.get(f"/api/studies/mine{route}"), 422, "refused")


def test_a_document_has_an_end(client, settings, monkeypatch):
    study = write_study(settings.studies_dir(), "mine")
    path = study.folder / "study.json"
    text = path.read_text()
    monkeypatch.setattr(document, "MOST_VALUES", sum(map(text.count, ",[{")))
    assert client.get("/api/studies/mine").status_code == 200
    path.write_text(text.replace('"protocol":{}', '"protocol":{"x":[[],[]]}'))
    assert "values" in assert_error(client.get("/api/studies/mine"), 422, "refused")["what"]
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    assert "MiB" in assert_error(client.get("/api/studies/mine"), 422, "refused")["what"]
    [damaged] = client.get("/api/studies").json()["damaged"]
    assert damaged["id"] == "mine"


def test_arrays_have_an_end_and_the_shape_of_their_line(client, settings):
    study = write_study(settings.studies_dir(), "mine")
    path = study.folder / "study.json"
    written = json.loads(path.read_text())
    written["lines"][0]["arrays"]["recon"]["shape"] = [1, 2, 1, 10**9]
    path.write_text(json.dumps(written))
    for route in ROUTES:
        assert "does not fit" in assert_error(client.get(f"/api/studies/mine{route}"), 422, "refused")["what"]
    study = write_study(settings.studies_dir(), "other")
    with (study.folder / ARRAYS).open("r+b") as file:
        file.truncate(1 << 43)
    for route in ROUTES:
        assert "GiB" in assert_error(client.get(f"/api/studies/other{route}"), 422, "refused")["what"]
