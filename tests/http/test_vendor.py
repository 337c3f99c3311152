"""Scripts and typefaces of others: exactly the packages' own, all of them needed, with their licences."""

from __future__ import annotations

import json
import re
from importlib import util
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app import create_app
from pages.scripts import bundled, modules
from sarqc.settings import Settings
from sarqc.web.static import assets_root

ASSETS = Path("assets").resolve()
VENDOR = ASSETS / "vendor"


@pytest.fixture(scope="module")
def copies() -> dict[str, bytes]:
    """What belongs into the folder, by its path, as the installed packages have it."""
    spec = util.spec_from_file_location("update", VENDOR / "update.py")
    assert spec
    assert spec.loader
    update = util.module_from_spec(spec)
    spec.loader.exec_module(update)
    return {path.as_posix(): content for path, content in update.copies().items()}


def test_the_copies_equal_the_installed_package_and_there_are_no_others(copies: dict[str, bytes]) -> None:
    files = {path.relative_to(VENDOR).as_posix(): path.read_bytes() for path in VENDOR.glob("*/**/*") if path.is_file()}
    assert files == copies


@pytest.mark.parametrize("name", ["lit-html", "@expo-google-fonts/inter"])
def test_the_version_written_is_the_pinned_and_the_installed_one(name: str) -> None:
    installed = json.loads(Path(f"node_modules/{name}/package.json").read_text())
    pinned = json.loads(Path("package.json").read_text())["devDependencies"][name]
    assert pinned == installed["version"]
    readme = (VENDOR / "README.md").read_text()
    assert f"| {name} | {pinned} | {installed['license']}," in readme


def test_every_script_of_others_is_imported_by_our_one_door(copies: dict[str, bytes]) -> None:
    reached = set(modules(ASSETS, ("js/base/html.js",))) - {"js/base/html.js"}
    assert reached == {f"vendor/{name}" for name in copies if name.endswith(".js")}


def test_their_licences_travel_with_them(copies: dict[str, bytes]) -> None:
    text = bundled(ASSETS, ("base/html.js",))
    licences = {
        re.search(rb"/\*\*\s*\* @license.*?\*/", copies[name], re.DOTALL) for name in copies if name.endswith(".js")
    }
    assert all(licence and licence[0].decode() in text for licence in licences)


def test_nothing_of_the_assets_folder_is_served_by_its_path(settings: Settings) -> None:
    app = create_app(settings.model_copy(update={"assets_dir": ASSETS}), with_pages=False)
    with TestClient(app) as client:
        for name in ("vendor/lit-html/lit-html.js", "js/base/html.js", "css/base.css", "vendor/update.py"):
            for root in ("/assets", assets_root(ASSETS, "")):
                assert client.get(f"{root}/{name}").status_code == 404
