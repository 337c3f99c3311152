"""The wheel: built, installed into a fresh environment, and started far from any checkout."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

import sarqc

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment with nothing but the wheel, and the libraries of this one behind it."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q", "--no-deps"]
    subprocess.run([*pip, wheel], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    libraries = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "libraries.pth").write_text(libraries)
    return folder / "bin"


def test_what_is_in_it(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    assert top == {"sarqc", f"sarqc-{sarqc.__version__}.dist-info"}
    assets = {path.relative_to(ROOT / "assets").as_posix() for path in tracked("assets")}
    packed = {name.removeprefix("sarqc/site/assets/") for name in names if name.startswith("sarqc/site/assets/")}
    assert assets <= packed


def tracked(folder: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / line for line in listed.splitlines() if (ROOT / line).is_file()]


def test_the_console_command(installed, tmp_path):
    def said(*words):
        done = subprocess.run(
            [installed / "sarqc", *words], cwd=tmp_path, check=True, capture_output=True, text=True, env=clean(tmp_path)
        )
        return done.stdout

    assert "--gamma" in said("quantize", "--help")
    recipe = ["--model", "tiny-llama", "--calibration", "tiny-llama-calibration", "--samples", "1", "--length", "16"]
    done = json.loads(said("quantize", *recipe, "--method", "rtn", "--output", "made", "--json"))
    assert (tmp_path / "made" / "model" / "model.safetensors").is_file()
    assert done["layers"]
    where = "from sarqc.settings import Settings; print(Settings().assets_dir)"
    printed = subprocess.check_output([installed / "python", "-c", where], cwd=tmp_path, text=True, env=clean(tmp_path))
    assert str(installed.parent) in printed  # its assets, and not those of a checkout


def test_the_app_starts(installed, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = clean(tmp_path) | {"SARQC_PORT": str(port)}
    process = subprocess.Popen([installed / "sarqc", "serve"], cwd=tmp_path, env=environment)
    try:
        page = answer(process, f"http://127.0.0.1:{port}/learn")
        (script,) = set(re.findall(r"/assets/v-\w+/learn\.js", page))
        assert "scripts" in answer(process, f"http://127.0.0.1:{port}{script}")
        studies = answer(process, f"http://127.0.0.1:{port}/api/studies")
        assert "tiny-moe" in studies
    finally:
        process.terminate()
        process.wait(60)


def clean(folder: Path) -> dict[str, str]:
    """An environment in which nothing points to this checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SARQC_", "PYTHON"))}
    return kept | {"SARQC_STATE_DIR": str(folder / "state"), "HF_HUB_OFFLINE": "1"}


def answer(process: subprocess.Popen[bytes], address: str) -> str:
    for _ in range(600):
        assert process.poll() is None, "the app ended"
        try:
            with urllib.request.urlopen(address, timeout=30) as reply:
                return reply.read().decode()
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"no answer from {address}")
