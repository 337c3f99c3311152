"""The generated page is current, and the written ones name what exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sarqc.quantization.methods import METHODS

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("page", ["reference", "results"])
def test_generated_pages_are_current(page: str) -> None:
    command = [sys.executable, f"docs/make_{page}.py", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_what_the_browser_shares_is_current() -> None:
    command = [sys.executable, "-m", "sarqc.web.browser_contract", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_every_method_is_described() -> None:
    text = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    for name in METHODS:
        assert f"`{name}`" in text, name


def test_files_named_in_the_pages_exist() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
