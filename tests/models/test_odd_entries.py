"""Odd entries in the operator's folders of models and texts: they are left out, and all others are listed."""

import json
import os
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.calibration.corpora import declared_files
from sarqc.errors import Refused
from sarqc.files.yaml_document import read_yaml
from sarqc.models.catalogue import declared_models
from tests.jobs.conftest import settings_in

STRANGE = b"\xff\xfe.txt"  # no UTF-8


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return a folder with a model and one with a text, both with odd entries beside them."""
    models, texts = tmp_path / "models", tmp_path / "texts"
    for folder in (models / "fake", models / "sub", models / "looped", texts):
        folder.mkdir(parents=True)
    (models / "fake" / "config.json").write_text("{}")
    (texts / "none.txt").write_text("a text of some words")
    for path in (
        models / "loop", models / "loop.gguf", models / "sub" / "x.gguf", models / "sub" / "sha256-ab",
        models / "looped" / "config.json", texts / "loop.txt",
    ):  # fmt: skip
        path.symlink_to(path.name)
    (texts / "gone.txt").symlink_to("nowhere.txt")
    os.mkdir(os.fsencode(models) + b"/\xff")
    for path in (os.fsencode(texts) + b"/" + STRANGE, os.fsencode(models) + b"/\xff/config.json"):
        with open(path, "wb") as file:
            file.write(b"{}")
    return models, texts


def test_what_is_odd_is_left_out(tmp_path, folders):
    settings = settings_in(tmp_path)
    assert set(declared_models(settings)) == {"fake"}
    assert set(declared_files(settings)) == {"none.txt"}
    with TestClient(create_app(settings, with_pages=False), base_url="http://127.0.0.1") as client:
        assert client.get("/api/models").status_code == 200
        corpora = client.get("/api/corpora")
        assert corpora.status_code == 200
        assert "none.txt" in json.dumps(corpora.json())
        answer = client.post("/api/plan", json={"model": "nowhere", "calibration": "none.txt"})
        assert answer.status_code < 500, answer.text


def test_a_recipe_is_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        with pytest.raises(Refused, match="not a regular file"):
            read_yaml(path, "recipe")
    with pytest.raises(Refused, match="No such file"):
        read_yaml(tmp_path / "nowhere", "recipe")
