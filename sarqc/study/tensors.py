"""Arrays of a study in one safetensors file.

Eight bytes with the length of a header, the header (JSON: dtype, shape and bytes of each tensor by name), and the
numbers, little-endian and in C order. It is written and read here so that a large study is never in memory as a whole,
and so that a browser can request the bytes of one layer: ``Tensor.offset`` counts from the start of the file.
"""

import json
import math
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sarqc.errors import Refused
from sarqc.files.hashes import sha256_of
from sarqc.files.names import file_identity, is_regular
from sarqc.files.once import once

FILE = "study.safetensors"
REMEDY = "Make or download the study again."
_CODES = {"float32": "F32", "uint8": "U8"}  # ours → safetensors'
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_MOST_HEADER = 16 << 20  # bytes; those of our studies have some thousands


class Tensor(NamedTuple):
    """Type, shape and place of a tensor in its file."""

    dtype: str  # "float32" or "uint8"
    shape: tuple[int, ...]
    offset: int  # bytes from the start of the file

    @property
    def length(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def write_tensors(path: Path, parts: Mapping[str, tuple[str, tuple[int, ...], Path]]) -> str:
    """Join files of raw numbers to one safetensors file.

    Tensors stand in the order of their names, floats first, so that each begins at a multiple of its item's size.

    Args:
        path: The file.
        parts: Dtype, shape and file of raw numbers, by tensor name.

    Returns:
        The SHA-256 of the file.
    """
    header: dict[str, object] = {}
    begin, order = 0, sorted(parts, key=lambda name: (parts[name][0] != "float32", name))
    for name in order:
        dtype, shape, _ = parts[name]
        length = Tensor(dtype, shape, 0).length
        header[name] = {"dtype": _CODES[dtype], "shape": list(shape), "data_offsets": [begin, begin + length]}
        begin += length
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            with parts[name][2].open("rb") as part:
                shutil.copyfileobj(part, file)
    return sha256_of(path)


def tensors_of(path: Path) -> Mapping[str, Tensor]:
    """Return the tensors of a file by name.

    Raises:
        Refused: If the file is missing, damaged, or holds other kinds of tensors.
    """
    if not is_regular(path):
        raise Refused(f"{path.name} is missing, or not a regular file", f"study {path.parent.name}", REMEDY)
    return _read_header(*file_identity(path))


@once(64)
def _read_header(name: str, *identity: int) -> Mapping[str, Tensor]:
    """Read and cache while the file is unchanged."""
    path, size = Path(name), identity[-2]
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(size - 8, _MOST_HEADER):
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(length).decode("utf-8"))
        header.pop("__metadata__", None)
        tensors, end = {}, 0
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, stop = entry["data_offsets"]
            shape = tuple(int(axis) for axis in entry["shape"])
            tensor = Tensor(_DTYPES[entry["dtype"]], shape, 8 + length + begin)
            if begin != end or stop != begin + tensor.length or min(shape, default=1) < 0:
                raise ValueError(f"{name} has not the bytes of its shape")
            tensors[name], end = tensor, stop
        if 8 + length + end != size:
            raise ValueError(f"it has {size} bytes and its header asks for {8 + length + end}")
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"{path.name} is damaged: {error}", f"study {path.parent.name}", REMEDY) from None
    return tensors


def read_tensor(path: Path, tensor: Tensor, axis: int = 0, at: int | None = None) -> np.ndarray:
    """Return the numbers of a tensor, read-only.

    Numbers are read and not mapped: if a mapped file is cut short, the process that reads it ends.

    Args:
        path: The file.
        tensor: The tensor.
        axis: Axis of ``at``.
        at: Index on that axis, whose numbers alone are read and returned, without that axis; None for all.

    Raises:
        Refused: If the file is too short or missing.
    """
    dtype = np.dtype(tensor.dtype).newbyteorder("<")
    if at is None:
        offsets, shape = [tensor.offset], tensor.shape
    else:
        before, length, after = tensor.shape[:axis], tensor.shape[axis], tensor.shape[axis + 1 :]
        step, shape = math.prod(after) * dtype.itemsize, (*before, *after)
        first = range(length)[at]
        offsets = [tensor.offset + (row * length + first) * step for row in range(math.prod(before))]
    array = np.empty(shape, dtype)
    parts = array.reshape(-1).view(np.uint8).data
    size = array.nbytes // max(1, len(offsets))
    try:
        with path.open("rb") as file:
            for number, offset in enumerate(offsets):
                file.seek(offset)
                if file.readinto(parts[number * size : (number + 1) * size]) != size:
                    raise EOFError("it has become shorter")
    except (OSError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Refused(f"{path.name} is damaged: {reason}", f"study {path.parent.name}", REMEDY) from None
    array.flags.writeable = False
    return array
