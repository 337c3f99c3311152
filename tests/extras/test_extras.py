"""An extra whose libraries are missing is absent: no command, no route, and a refusal that says how to install it."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc import extras
from sarqc.errors import Refused
from tests.jobs.conftest import settings

__all__ = ["settings"]


@pytest.fixture
def nothing_installed(monkeypatch):
    every = {name: dataclasses.replace(extra, requires=("no_such_module",)) for name, extra in extras.known().items()}
    monkeypatch.setattr(extras, "known", lambda: every)


def test_each_extra_has_the_name_of_its_module():
    assert extras.known()
    for name, extra in extras.known().items():
        assert extra.name == name
    for extra in extras.installed():
        assert extras.required(extra.name, "a test") is extra


def test_what_is_not_installed_is_refused_with_the_command_that_installs_it(nothing_installed):
    assert extras.installed() == []
    with pytest.raises(Refused) as refusal:
        extras.required("host", "SARQC_ACCESS")
    assert (refusal.value.where, refusal.value.remedy) == ("SARQC_ACCESS", "pip install 'sarqc[host]'")


def test_the_core_answers_without_extras(nothing_installed, settings):
    with TestClient(create_app(settings, with_pages=False), base_url="http://localhost") as client:
        assert client.get("/healthz").status_code == 404
        assert client.get("/api/runs").status_code == 200
        assert client.get("/metrics").status_code == 404


@pytest.mark.parametrize("is_installed", [True, False])
def test_pages_have_the_controls_of_installed_extras_alone(is_installed, settings, request):
    if not is_installed:
        request.getfixturevalue("nothing_installed")
    settings = settings.model_copy(update={"assets_dir": Path("assets").resolve()})
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        page = client.get("/learn").text
    is_hidden = '[data-control="lecture"] { display: none !important; }' in page
    assert is_hidden is not is_installed
    assert 'data-control=\\"lecture\\"' in page


def test_a_setting_of_an_extra_that_is_not_installed_is_refused(nothing_installed, settings, monkeypatch):
    with pytest.raises(Refused) as refusal:
        create_app(settings.model_copy(update={"access": "users", "hosts": "demo.example"}), with_pages=False)
    assert "sarqc[host]" in refusal.value.remedy
    monkeypatch.setenv("SARQC_METRICS", "local")
    with pytest.raises(Refused) as refusal:
        create_app(settings, with_pages=False)
    assert refusal.value.where == "SARQC_METRICS"


def test_commands_of_extras_are_there_and_their_libraries_are_not_loaded():
    code = """import sys
from sarqc.__main__ import app
names = {command.callback.__name__ for command in app.registered_commands}
print("backup" in names, [name for name in ("limits", "authlib", "fastapi") if name in sys.modules])"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "True []"
