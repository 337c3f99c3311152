"""The scripts' own tests, run by node, so that one command runs everything."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_scripts_pass_their_own_tests():
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; it is only needed for the tests of assets/js")
    done = subprocess.run([node, "--test", str(HERE)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
