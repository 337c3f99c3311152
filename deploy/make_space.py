"""Puts together what is pushed to a Space of Hugging Face: ``python deploy/make_space.py FOLDER``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APP = ("app.py", "sarqc", "pages", "assets", "requirements-cpu.txt", "requirements.txt", "LICENSE", ".dockerignore")


def make_space(folder: Path) -> None:
    """Writes the app, and the Space's own README and Dockerfile, into a new folder or over an older one; what else is
    there, such as .git, stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in APP:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for name in ("README.md", "Dockerfile"):
        shutil.copy(ROOT / "deploy" / "space" / name, folder / name)


if __name__ == "__main__":
    make_space(Path(sys.argv[1]))
