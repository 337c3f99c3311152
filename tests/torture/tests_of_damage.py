"""What other tests already do to a host: a full disk, flipped bytes, two apps on one folder, a Hub that is silent."""

from __future__ import annotations

import subprocess
import sys

from sarqc.settings import SITE
from tests.torture.figures import Figures

FILES = [
    "tests/http/test_full_disk.py", "tests/http/test_uploads.py", "tests/http/test_app.py",
    "tests/jobs/test_database.py", "tests/jobs/test_lease.py", "tests/test_artefacts.py",
    "tests/models/test_damaged.py", "tests/models/test_hub.py", "tests/study/test_document.py",
]  # fmt: skip
PLAYED, FAILED = "files of tests of damage", "of them failed"


def play(figures: Figures) -> None:
    """Runs each file of tests by itself."""
    figures.expect(FAILED)
    for name in FILES:
        figures.count(PLAYED)
        played = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name],
            cwd=SITE,
            capture_output=True,
            text=True,
        )
        if played.returncode:
            figures.complain(FAILED, f"{name}:\n{played.stdout[-2000:]}")
