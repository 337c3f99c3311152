"""Tensors of a checkpoint by name, from one file or several, read on demand; the checkpoint may be of any origin."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import safetensors
from torch import Tensor

from sarqc.files.names import read_object
from sarqc.models.tensor_files import read_tensors

_AGAIN = "Write or download the checkpoint again."


class CheckpointReader:
    """Tensors of a folder by name, and its configuration; a context manager that closes the files.

    Attributes:
        config: Content of config.json.

    Raises:
        Refused: If a file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.config: dict[str, Any] = read_object(folder / "config.json", folder.name, remedy=_AGAIN)
        self._places = {name: entry.file for name, entry in read_tensors(folder, folder.name).items()}
        self._open = ExitStack()
        self._files: dict[Path, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def path_of(self, name: str) -> Path:
        """Return the file that contains a tensor."""
        return self._places[name]

    def read(self, name: str) -> Tensor:
        """Return a tensor on the CPU.

        Raises:
            KeyError: If there is no such tensor.
        """
        path = self._places[name]
        if path not in self._files:
            self._files[path] = self._open.enter_context(safetensors.safe_open(path, "pt"))
        tensor: Tensor = self._files[path].get_tensor(name)
        return tensor

    @property
    def names(self) -> list[str]:
        """Names of all tensors."""
        return list(self._places)

    def __enter__(self) -> CheckpointReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()
