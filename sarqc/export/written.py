"""A checkpoint that was written, read again: its tensors by name, from one file or several."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import safetensors
from torch import Tensor


class Written:
    """The tensors of a folder by name, read on demand, and its ``config`` (config.json). A context that closes them."""

    def __init__(self, folder: Path) -> None:
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._open = ExitStack()
        self._files: dict[str, Any] = {}  # by tensor, the file that has it
        for path in sorted(folder.glob("model*.safetensors")):
            file = self._open.enter_context(safetensors.safe_open(path, "pt"))
            self._files |= dict.fromkeys(file.keys(), file)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def read(self, name: str) -> Tensor:
        """A tensor on the CPU. Raises ``KeyError`` for one that is not there."""
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor

    def __enter__(self) -> Written:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()
