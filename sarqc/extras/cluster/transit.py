"""Files between the app's host and a worker's, where they share object storage and no folder.

Uploaded texts go with the job, and a run's results come back before it counts as finished. Both wait below one name in
the storage, which the relay of the worker clears in the end.
"""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sarqc.files.object_storage import ObjectStorage
from sarqc.jobs.exports import arriving
from sarqc.settings import Settings

_TEXTS, _RESULTS = "texts", "results"


class Transit:
    """The way of one worker. Raises as ``ObjectStorage``."""

    def __init__(self, address: str, name: str) -> None:
        self._storage, self._name = ObjectStorage(address), f"transit/{name}"

    def send_texts(self, texts: Iterable[Path]) -> None:
        """Send text files to the worker."""
        for path in texts:
            self._storage.write(f"{self._name}/{_TEXTS}/{path.name}", path.read_bytes())

    def take_texts(self, folder: Path) -> None:
        """Fetch them into a folder."""
        self._storage.take(f"{self._name}/{_TEXTS}", folder)

    def send_results(self, folder: Path) -> None:
        """Send all files of a folder, and remove it: nobody looks for it on the worker's host."""
        try:
            self._storage.send(folder, f"{self._name}/{_RESULTS}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def take_results(self, folder: Path) -> None:
        """Make the folder anew of the files that were sent: whole or not at all."""
        partial = arriving(folder)
        shutil.rmtree(partial, ignore_errors=True)  # of an attempt that was killed
        self._storage.take(f"{self._name}/{_RESULTS}", partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)

    def close(self) -> None:
        """Remove everything that was on the way."""
        self._storage.clear(self._name)


def on_node(job: dict[str, Any], settings: Settings) -> tuple[Settings, Callable[[], None]]:
    """Fetch the texts of a job; return the settings with them, and a function that sends its results."""
    transit, texts = Transit(settings.storage, job["way"]), Path(job["texts_dir"])
    transit.take_texts(texts)

    def send_results() -> None:
        if not job["helps"]:
            transit.send_results(results_folder(job, settings))

    return settings.model_copy(update={"text_dirs": f"{settings.text_dirs}:{texts}"}), send_results


def results_folder(job: dict[str, Any], settings: Settings) -> Path:
    """Return the folder of all that a worker's job leaves, on the host that the settings are of."""
    study: Path = settings.studies_dir() / job["study_id"]
    return study if job["checkpoint"] is None else (settings.exports_dir() / str(job["checkpoint"])).parent


def uploaded_texts(recipe: dict[str, Any], settings: Settings) -> list[Path]:
    """Return the files of uploaded texts that a recipe names."""
    named = {recipe["calibration"], recipe["test"]}
    return [path for path in sorted(settings.text_uploads_dir().glob("[!.]*.*")) if path.stem in named]
