"""Places and layouts of a linear's codes in a checkpoint of another tool; no torch.

Axes: O out_features, I in_features, G groups of a row.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import safe_open

from sarqc.errors import Refused
from sarqc.files.names import read_object
from sarqc.models.tensor_files import TensorEntry, check_folder, read_tensors

Layout = Literal["packed", "bytes", "gptq", "awq", "mlx"]
Kind = Literal["full_range", "asymmetric", "affine"]
AGAIN = "Download the checkpoint again."
TOGETHER = "Its config.json and its weights must belong together: take both from one place, or quantize it again."


@dataclass(frozen=True)
class Scheme:
    """Grid of a linear by its configuration; ``group_size`` is None for whole rows."""

    bits: int
    group_size: int | None
    symmetric: bool


@dataclass(frozen=True)
class StoredLinear:
    """The stored codes of one linear, or of one expert's slice in a stack.

    ``group_size`` is that of a ``Grid``: 1 if groups are not contiguous and equal. Then ``run`` is the number of
    channels after which another group follows, if the file has no order of its own.
    """

    layout: Layout
    module: str  # its name in the files, without the part after the last dot
    shape: tuple[int, int]  # (O, I)
    bits: int
    group_size: int | None
    kind: Kind
    tensors: tuple[str, ...]  # names of all its stored tensors, the codes first
    expert: int | None = None
    run: int | None = None
    less_one: bool = False  # zero points are stored less one

    @property
    def is_spread(self) -> bool:
        """True if every channel is a group of its own, because the groups are not contiguous and equal."""
        return self.run is not None


class Headers:
    """A folder's ``config`` and the headers of its safetensors files.

    Raises:
        Refused: If a file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.where = folder, folder.name
        check_folder(folder, self.where)
        self.config: dict[str, Any] = read_object(folder / "config.json", self.where, remedy=AGAIN)
        self._open: dict[Path, Any] = {}

    @cached_property
    def tensors(self) -> dict[str, TensorEntry]:
        return read_tensors(self.folder, self.where)

    @property
    def modules(self) -> dict[str, None]:
        """Return the names of all tensors without the part after the last dot, each once."""
        return dict.fromkeys(name.rpartition(".")[0] for name in self.tensors)

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def refused(self, what: str, remedy: str, module: str = "") -> Refused:
        """Return a refusal that names the folder, and a linear of it if given; ``remedy`` is a message."""
        return Refused(what, f"{self.where}: {module}" if module else self.where, remedy)

    def integers(self, name: str) -> np.ndarray:
        """Return a tensor of integers."""
        path = self.tensors[name].file
        if path not in self._open:
            self._open[path] = safe_open(path, framework="np")
        numbers: np.ndarray = self._open[path].get_tensor(name)
        return numbers

    def check(self, name: str, shape: tuple[int, ...], types: tuple[str, ...]) -> None:
        """Refuse a tensor that is missing, or of another shape or type."""
        entry = self.tensors.get(name)
        if entry is None:
            raise self.refused(f"{name} is not there", TOGETHER)
        if entry.shape != shape or entry.dtype not in types:
            actual = f"{entry.dtype} of {entry.shape}"
            raise self.refused(f"{name} should be {' or '.join(types)} of {shape}, and is {actual}", TOGETHER)


def groups_of(
    headers: Headers, module: str, width: int, scheme: Scheme, groups: int, order: str
) -> tuple[int | None, int | None]:
    """Return a linear's ``group_size`` and ``run`` as ``StoredLinear`` has them.

    Args:
        headers: Headers of the checkpoint.
        module: Name of the linear there.
        width: Input channels.
        scheme: Grid by the configuration; it is refused if the groups contradict it.
        groups: Number of groups in the scales of a row.
        order: Name of the tensor with the group of each channel; it may be missing in the file.
    """
    size = scheme.group_size or width
    if groups != -(-width // size):
        what = f"{groups} groups are stored where groups of {size} of {width} channels are said"
        raise headers.refused(what, TOGETHER, module)
    channels = np.arange(width) // size
    if order in headers:
        headers.check(order, (width,), ("I32", "I64"))
        group_numbers = headers.integers(order)
        if (group_numbers != -1).any():  # its value before any ordering
            if group_numbers.min() < 0 or group_numbers.max() >= groups:
                raise headers.refused(f"{order} names groups that are not there", TOGETHER)
            if (group_numbers != channels).any():
                return 1, size
    if width % size:
        return (None, None) if groups == 1 else (1, size)
    return scheme.group_size, None
