"""What travels between the app's host and that of a worker, where they share object storage and no folder.

Texts that people brought go with the job; what a run leaves comes back before it is said to be finished. Both wait
below one name in the storage, which the relay of the worker clears in the end.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sarqc.files.object_storage import ObjectStorage
from sarqc.settings import Settings

_TEXTS, _RESULTS = "texts", "results"


class Transit:
    """The way of one worker. Raises as ``ObjectStorage``."""

    def __init__(self, address: str, name: str) -> None:
        self._storage, self._name = ObjectStorage(address), f"transit/{name}"

    def send_texts(self, texts: Iterable[Path]) -> None:
        for path in texts:
            self._storage.write(f"{self._name}/{_TEXTS}/{path.name}", path.read_bytes())

    def take_texts(self, folder: Path) -> None:
        self._storage.take(f"{self._name}/{_TEXTS}", folder)

    def send_results(self, folder: Path) -> None:
        """Sends all files of a folder, which is removed: nobody looks for it on the worker's host."""
        try:
            self._storage.send(folder, f"{self._name}/{_RESULTS}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def take_results(self, folder: Path) -> None:
        """Makes the folder anew, of what was sent: whole or not at all."""
        partial = arriving(folder)
        shutil.rmtree(partial, ignore_errors=True)  # of an attempt that was killed
        self._storage.take(f"{self._name}/{_RESULTS}", partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)

    def close(self) -> None:
        self._storage.clear(self._name)


def arriving(folder: Path) -> Path:
    """Where the files of a folder are while they come."""
    return folder.with_name(f".{folder.name}-arriving")


def results_folder(job: dict[str, Any], settings: Settings) -> Path:
    """The folder of all that the job of a worker leaves, on the host that the settings are of."""
    study: Path = settings.studies_dir() / job["study_id"]
    return study if job["checkpoint"] is None else (settings.exports_dir() / str(job["checkpoint"])).parent


def uploaded_texts(recipe: dict[str, Any], settings: Settings) -> list[Path]:
    """The files of uploaded texts that a recipe names."""
    named = {recipe["calibration"], recipe["test"]}
    return [path for path in sorted(settings.text_uploads_dir().glob("[!.]*.*")) if path.stem in named]
