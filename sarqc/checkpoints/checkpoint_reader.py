"""Tensors of a checkpoint by name, from one file or several, read on demand; the checkpoint may be of any origin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sarqc.files.names import read_object
from sarqc.models.tensor_files import read_tensors
from sarqc.models.weight_files import TensorReader

_AGAIN = "Write or download the checkpoint again."


class CheckpointReader(TensorReader):
    """Tensors of a folder by name, and its configuration; a context manager that closes the files.

    Attributes:
        config: Content of config.json.

    Raises:
        Refused: If a file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.config: dict[str, Any] = read_object(folder / "config.json", folder.name, remedy=_AGAIN)
        super().__init__({name: entry.file for name, entry in read_tensors(folder, folder.name).items()})

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def path_of(self, name: str) -> Path:
        """Return the file that contains a tensor."""
        return self._places[name]

    @property
    def names(self) -> list[str]:
        """Names of all tensors."""
        return list(self._places)

    def __enter__(self) -> CheckpointReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
