"""The node of this environment, which the development requirements bring."""

import subprocess
import sys
from pathlib import Path

NODE = Path(sys.executable).parent / "node"


def run_node(script: str, *arguments: object) -> str:
    """Return what a script of this folder prints."""
    command = [str(NODE), str(Path(__file__).with_name(script)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout
