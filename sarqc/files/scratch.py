"""Folders of a process at work, removed by the next one if it is killed."""

import os
import shutil
import tempfile
from pathlib import Path


def scratch_folder(parent: Path, kind: str) -> Path:
    """Make a folder of this process in ``parent``, which is made too. Folders of ended processes are removed.

    ``kind``: the beginning of the names of such folders.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for folder in parent.glob(f"{kind}-*"):
        process = folder.name.removeprefix(f"{kind}-").partition("-")[0]
        if process.isdigit() and not Path(f"/proc/{process}").exists() and Path("/proc/self").exists():
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(dir=parent, prefix=f"{kind}-{os.getpid()}-"))
