"""Scripts of others: exactly the packages' own, all of them needed, with their licences."""

import json
import re
from importlib import util
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from app import create_app
from pages.scripts import bundled, modules
from sarqc.web.static import WORKER, assets_root, assets_router

ASSETS = Path("assets").resolve()
VENDOR = ASSETS / "vendor"
DOORS = {"base/html.js": "lit-html", "model/vocabulary.js": "tokenizers"}  # our module, and whose scripts it imports


def code_of(path: Path) -> str:
    """A script without its comments, in which types of others are named."""
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


@pytest.fixture(scope="module")
def copies():
    """What belongs into the folder, by its path, as the installed packages have it."""
    spec = util.spec_from_file_location("update", VENDOR / "update.py")
    update = util.module_from_spec(spec)
    spec.loader.exec_module(update)
    return {path.as_posix(): content for path, content in update.copies().items()}


def test_the_copies_equal_the_installed_package_and_there_are_no_others(copies):
    files = {path.relative_to(VENDOR).as_posix(): path.read_bytes() for path in VENDOR.glob("*/**/*") if path.is_file()}
    assert files == copies


@pytest.mark.parametrize("name", ["lit-html", "@huggingface/tokenizers"])
def test_the_version_written_is_the_pinned_and_the_installed_one(name):
    installed = json.loads(Path(f"node_modules/{name}/package.json").read_text())
    pinned = json.loads(Path("package.json").read_text())["devDependencies"][name]
    assert pinned == installed["version"]
    readme = (VENDOR / "README.md").read_text()
    assert f"| {name} | {pinned} | {installed['license']}," in readme


@pytest.mark.parametrize(("door", "package"), DOORS.items())
def test_the_scripts_of_others_are_imported_by_a_door_each(door, package, copies):
    reached = set(modules(ASSETS, (f"js/{door}",))) - {f"js/{door}"}
    assert reached == {f"vendor/{name}" for name in copies if name.startswith(package) and name.endswith(".js")}
    importers = [path for path in (ASSETS / "js").rglob("*.js") if f"vendor/{package}/" in code_of(path)]
    assert importers == [ASSETS / "js" / door]


def test_their_licences_travel_with_them(copies):
    text = bundled(ASSETS, ("base/html.js",))
    scripts = [content for name, content in copies.items() if name.startswith("lit-html") and name.endswith(".js")]
    licences = [re.search(rb"/\*\*\s*\* @license.*?\*/", script, re.DOTALL) for script in scripts]
    assert all(licence and licence[0].decode() in text for licence in licences)
    # The tokenizers' own script names no licence, so its door does.
    assert "@license Tokenizers.js" in bundled(ASSETS, ("model/vocabulary.js",))


def test_nothing_of_the_assets_folder_is_served_by_its_path(settings):
    app = create_app(settings.model_copy(update={"assets_dir": ASSETS}), with_pages=False)
    with TestClient(app) as client:
        for name in ("vendor/lit-html/lit-html.js", "js/base/html.js", "css/base.css", "vendor/update.py"):
            for root in ("/assets", assets_root(ASSETS, "")):
                assert client.get(f"{root}/{name}").status_code == 404


def test_the_workers_script_alone_has_the_workers_policy():
    served = FastAPI()
    served.include_router(assets_router(ASSETS, {WORKER: lambda _: "1", "page.js": lambda _: "2"}))
    with TestClient(served) as client:
        answers = {name: client.get(f"{assets_root(ASSETS, '')}/{name}") for name in (WORKER, "page.js")}
    assert answers["page.js"].text == "2"
    assert "content-security-policy" not in answers["page.js"].headers
    policy = answers[WORKER].headers["content-security-policy"]
    assert policy == "default-src 'none'; connect-src 'self'; script-src 'wasm-unsafe-eval'"
