"""An environment of its own for each engine, made once under a folder."""

import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.quality.contenders import ENGINES

_READY = "ready"  # a file that says that everything was installed


def python_of(engine: str, folder: Path) -> Path:
    """The interpreter that runs an engine's script, after its packages were installed where they are not yet.

    torch comes first and alone: what the engines ask for would otherwise bring a build for GPUs. Raises
    ``CalledProcessError`` where pip fails.
    """
    torch, requirements = ENGINES[engine].torch, ENGINES[engine].requirements
    if not requirements:
        return Path(sys.executable)
    home = folder / f"env-{engine}"
    python = home / "bin" / "python"
    if not (home / _READY).exists():
        venv.create(home, with_pip=True, clear=True)
        for packages in ((torch,), (torch, *requirements)):
            command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
            subprocess.run(command, check=True)
        (home / _READY).touch()
    return python
