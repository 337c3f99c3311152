"""Entries of the list of studies, kept between starts of the app; reading two thousand studies takes seconds."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sarqc.files.modes import for_the_owner

Stamp = tuple[int, int]  # time of the last change of a study.json in nanoseconds, and its bytes

log = logging.getLogger(__name__)


class KeptEntries:
    """A file with the entries of studies that could be read, each valid while its ``study.json`` has the same stamp.

    Args:
        path: The file.
        form: Description of the parts of an entry; entries of another form are not read.
    """

    def __init__(self, path: Path, form: str) -> None:
        self._path, self._form = path, form
        self._written: dict[str, Stamp] | None = None  # content of the file; None before it was read

    def read(self) -> dict[str, tuple[Stamp, Any]]:
        """Return the entries by folder; empty without a file, or for a file of another form."""
        self._written = {}
        try:
            document = json.loads(self._path.read_bytes())
            if document["form"] != self._form:
                return {}
            entries = {folder: ((modified, size), entry) for folder, modified, size, entry in document["entries"]}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s can't be read, so all studies are read again: %s", self._path.name, error)
            return {}
        self._written = {folder: stamp for folder, (stamp, _) in entries.items()}
        return entries

    def write(self, entries: Mapping[str, tuple[Stamp, Any]]) -> None:
        """Replace the kept entries, if they have changed."""
        stamps = {folder: stamp for folder, (stamp, _) in entries.items()}
        if stamps == self._written:
            return
        listed = [(folder, *stamp, entry) for folder, (stamp, entry) in entries.items()]
        document = {"form": self._form, "entries": listed}
        partial = self._path.with_name(f"{self._path.name}.partial")
        try:
            with open(partial, "w", encoding="utf-8", opener=for_the_owner) as file:
                json.dump(document, file, ensure_ascii=False, separators=(",", ":"))
            partial.replace(self._path)
        except OSError as error:  # the list of studies does not depend on a full disk
            log.warning("%s can't be written, so studies are read again at the next start: %s", self._path.name, error)
            partial.unlink(missing_ok=True)
            return
        self._written = stamps
