"""The header of a GGUF file: fields of a model, and places of its tensors; no weight is read, and no torch.

The gguf package reads it in a process with limits: nothing behind the end of a file, of lists, the vocabulary above
all, only the lengths, and of texts only short ones.
"""

import hashlib
import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from sarqc.errors import Refused
from sarqc.files.limited import Exhausted, answer_of
from sarqc.files.names import file_identity, is_regular, shortened
from sarqc.files.once import once

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_FIELDS, _MOST_TENSORS = 1 << 12, 1 << 16
_LONGEST_NAME, _LONGEST_HEADER = 1 << 10, 1 << 27  # bytes
_LARGEST = 1 << 22  # of a dimension
_MOST_DIMENSIONS = 4
_AGAIN = "Download the file again."
_CPU_SECONDS = 30

Scalar = str | int | float | bool


@dataclass(frozen=True)
class GgufTensor:
    """Place and type of a tensor."""

    shape: tuple[int, ...]  # as in torch: the last dimension is contiguous
    type: str  # ggml's name, such as Q4_1
    begin: int  # bytes from the beginning of the file
    size: int  # bytes


@dataclass(frozen=True)
class GgufHeader:
    """Header of a model."""

    file: Path
    fields: dict[str, Scalar]
    lengths: dict[str, int]  # of lists
    tensors: dict[str, GgufTensor]
    identity: str  # changes with the header, the size and the time of the file


_HEADER = TypeAdapter(GgufHeader)


def gguf_file(path: Path) -> Path | None:
    """Return the GGUF file at a path, of any name, or that of a folder without config.json; None if there is none.

    Raises:
        Refused: For a folder with several.
    """
    if not path.is_dir():
        return path if is_gguf(path) else None
    if (path / "config.json").exists():
        return None
    files = sorted(filter(is_regular, path.glob("*.gguf")))
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:5])
        raise Refused(f"there are {len(files)} GGUF files", path.name, f"Give the path of one: {names}.")
    return files[0] if files else None


def is_gguf(path: Path) -> bool:
    """Return True if a file begins as GGUF files do."""
    try:
        if not is_regular(path):
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_header(path: Path, where: str) -> GgufHeader:
    """Return the header of a file.

    Raises:
        Refused: If it is missing, damaged, or of a kind that is not read.
    """
    if not is_regular(path):
        raise Refused(f"{path.name} is missing", where, _AGAIN)
    return _of_identity(path, where, file_identity(path))


@once(64)
def _of_identity(path: Path, where: str, _identity: tuple[object, ...]) -> GgufHeader:
    request = json.dumps([where, str(path)]).encode()
    try:
        answer = answer_of("sarqc.models.gguf_header:header", request, cpu_seconds=_CPU_SECONDS)
    except Exhausted:
        raise Refused(f"the header takes more than {_CPU_SECONDS} s, or fails", where, _AGAIN) from None
    return _HEADER.validate_json(answer)


def header(request: bytes) -> bytes:
    """Return the header of the file of a request as JSON; raises the errors of its caller ``read_header``."""
    where, name = json.loads(request)
    path = Path(name)
    try:
        whole = _header(path)
    except (OSError, EOFError, ValueError, LookupError, OverflowError, struct.error) as error:
        reason = getattr(error, "strerror", None) or shortened(str(error))
        raise Refused(f"{path.name} is damaged: {reason}", where, _AGAIN) from None
    if (count := whole.fields.get("split.count", 1)) != 1:
        raise Refused(f"{path.name} is one of {count} pieces", where, "Join them: llama-gguf-split --merge.")
    return _HEADER.dump_json(whole)


def _header(path: Path) -> GgufHeader:
    """Return the header of a file as the gguf package reads it; raises that package's errors for a damaged one."""
    from gguf.constants import GGUFValueType
    from gguf.gguf_reader import GGUFReader

    class Reader(GGUFReader):
        """The package's reader, which does not read on behind the end and makes no array of each entry of a list."""

        end = 0  # of the header

        def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> Any:
            if offset + int(count) * np.dtype(dtype).itemsize > len(self.data):
                raise EOFError("it ends too early")
            return super()._get(offset, dtype, count, override_order)

        def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
            if raw_type != GGUFValueType.ARRAY:
                return super()._get_field_parts(orig_offs, raw_type)
            kind, count = struct.unpack_from("<IQ", self.data.data, orig_offs)
            end = orig_offs + struct.calcsize("<IQ")
            if kind == GGUFValueType.ARRAY:
                raise ValueError("a list of lists is not read")
            if kind == GGUFValueType.STRING:
                for _ in range(count):
                    end += struct.calcsize("<Q") + struct.unpack_from("<Q", self.data.data, end)[0]
            else:
                end += count * np.dtype(self.gguf_scalar_to_np[GGUFValueType(kind)]).itemsize
            return end - orig_offs, [count], [], [GGUFValueType.ARRAY]

        def _build_tensor_info(self, offs: int, count: int) -> Any:
            self.end, fields = super()._build_tensor_info(offs, count)
            return self.end, fields

    with path.open("rb") as file:
        magic, version, *claimed = struct.unpack("<4sIQQ", file.read(24).ljust(24, b"\0"))
    if magic != MAGIC:
        raise ValueError("it does not begin as GGUF files do")
    if version not in _VERSIONS:
        raise ValueError(f"version {version} is not read; convert it to version 3")
    if any(count > most for count, most in zip(claimed, (_MOST_TENSORS, _MOST_FIELDS), strict=True)):
        raise ValueError(f"it claims {claimed[0]:,} tensors and {claimed[1]:,} fields")
    reader = Reader(path)
    if reader.end > _LONGEST_HEADER or any(len(name) > _LONGEST_NAME for name in reader.fields):
        raise ValueError(f"its header has more than {_LONGEST_HEADER >> 20} MiB, or a name of more than 1 KiB")
    fields: dict[str, Scalar] = {}
    lengths: dict[str, int] = {}
    for key, field in reader.fields.items():
        if field.types[0] == GGUFValueType.ARRAY:
            lengths[key] = int(field.parts[-1])
        elif not key.startswith("GGUF."):  # where the reader puts facts of the header itself
            value = field.contents() if len(field.parts[-1]) <= _LONGEST_NAME else ""
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{shortened(key)!r} is {value}")
            fields[key] = value
    tensors: dict[str, GgufTensor] = {}
    for tensor in reader.tensors:
        shape = tuple(reversed(tensor.shape.tolist()))
        if not 1 <= len(shape) <= _MOST_DIMENSIONS or not all(0 < size <= _LARGEST for size in shape):
            raise ValueError(f"{shortened(tensor.name)!r} has the shape {shape}")
        offset = tensor.data_offset - int(reader.data_offset)
        if offset < 0 or offset % int(reader.alignment):
            raise ValueError(f"{shortened(tensor.name)!r} lies between its places")
        tensors[tensor.name] = GgufTensor(shape, tensor.tensor_type.name, tensor.data_offset, tensor.n_bytes)
    state, digest = path.stat(), hashlib.sha256(reader.data[: reader.end].data).hexdigest()
    identity = hashlib.sha256(f"{digest} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()
    return GgufHeader(path, fields, lengths, tensors, identity)
