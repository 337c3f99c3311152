"""Headers of GGUF files: fields of a model, and places of its tensors; no weight is read, and no torch.

The gguf package reads them in a process with limits: nothing behind the end of a file, of lists, the vocabulary above
all, only the lengths, and of texts only short ones.
"""

import hashlib
import json
import math
import re
import struct
from dataclasses import dataclass, replace
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
_PIECE = re.compile(r"(.{1,200})-\d{5}-of-(\d{5})\.gguf")
_AGAIN = "Download the file again."
_CPU_SECONDS = 30
_NAMES = "Give all pieces in one folder, under the names that they were published with."

Scalar = str | int | float | bool


@dataclass(frozen=True)
class GgufTensor:
    """Place and type of a tensor."""

    shape: tuple[int, ...]  # as in torch: the last dimension is contiguous
    type: str  # ggml's name, such as Q4_1
    file: Path
    begin: int  # bytes from the beginning of the file
    size: int  # bytes


@dataclass(frozen=True)
class GgufHeader:
    """Header of a model, in one file or in pieces."""

    files: tuple[Path, ...]
    fields: dict[str, Scalar]
    lengths: dict[str, int]  # of lists
    tensors: dict[str, GgufTensor]
    identity: str  # changes with the headers, the sizes and the times of the files

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.files)


_HEADER = TypeAdapter(GgufHeader)


def gguf_files(path: Path) -> tuple[Path, ...]:
    """Return the GGUF file at a path, of any name, with its further pieces, or that of a folder without config.json.

    The result is empty if there is none.

    Raises:
        Refused: For a folder with several models.
    """
    if not path.is_dir():
        return _pieces(path) if is_gguf(path) else ()
    if (path / "config.json").exists():
        return ()
    models = sorted({_pieces(file) for file in path.glob("*.gguf") if is_regular(file)})
    if len(models) > 1:
        names = ", ".join(files[0].name for files in models[:5])
        raise Refused(f"there are {len(models)} GGUF models", path.name, f"Give the path of one file: {names}.")
    return models[0] if models else ()


def is_gguf(path: Path) -> bool:
    """Return True if a file begins as GGUF files do."""
    try:
        if not is_regular(path):
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _pieces(path: Path) -> tuple[Path, ...]:
    """Return all pieces of the model to which a file belongs by its name."""
    # A link to a file of another name counts by its own, and one to a piece by that of the piece.
    path = next((named for named in (path, path.resolve()) if _PIECE.fullmatch(named.name)), path)
    parts = _PIECE.fullmatch(path.name)
    count = 0 if parts is None else int(parts[2])
    if parts is None or not 0 < count <= 1000:
        return (path,)
    return tuple(path.with_name(f"{parts[1]}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1))


def read_header(files: tuple[Path, ...], where: str) -> GgufHeader:
    """Return the header of a model's files.

    Raises:
        Refused: If a file is missing, damaged, or of a kind that is not read.
    """
    for path in files:
        if not is_regular(path):
            raise Refused(f"{path.name} is missing", where, _NAMES)
    return _of_identity(files, where, tuple(map(file_identity, files)))


@once(64)
def _of_identity(files: tuple[Path, ...], where: str, _identities: tuple[object, ...]) -> GgufHeader:
    request = json.dumps([where, *map(str, files)]).encode()
    try:
        answer = answer_of("sarqc.models.gguf_header:header", request, cpu_seconds=_CPU_SECONDS)
    except Exhausted:
        raise Refused(f"the header takes more than {_CPU_SECONDS} s, or fails", where, _AGAIN) from None
    return _HEADER.validate_json(answer)


def header(request: bytes) -> bytes:
    """Return the header of the files of a request as JSON; raises the errors of its caller ``read_header``."""
    where, *names = json.loads(request)
    return _HEADER.dump_json(_joined(tuple(map(Path, names)), where))


def _joined(files: tuple[Path, ...], where: str) -> GgufHeader:
    pieces: list[GgufHeader] = []
    tensors: dict[str, GgufTensor] = {}
    digest = hashlib.sha256()
    for number, path in enumerate(files):
        try:
            piece = _piece(path)
        except (OSError, EOFError, ValueError, LookupError, OverflowError, struct.error) as error:
            reason = getattr(error, "strerror", None) or shortened(str(error))
            raise Refused(f"{path.name} is damaged: {reason}", where, _AGAIN) from None
        place = piece.fields.get("split.no", 0), piece.fields.get("split.count", 1)
        if place != (number, len(files)):
            raise Refused(f"{path.name} says it is piece {place[0]} of {place[1]}", where, _NAMES)
        if twice := tensors.keys() & piece.tensors.keys():
            raise Refused(f"{min(twice)} is in two pieces", where, _AGAIN)
        digest.update(piece.identity.encode())
        pieces.append(piece)
        tensors |= piece.tensors
    return replace(pieces[0], files=files, tensors=tensors, identity=digest.hexdigest())


def _piece(path: Path) -> GgufHeader:
    """Return the header of one file as the gguf package reads it; raises that package's errors for a damaged one."""
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
        tensors[tensor.name] = GgufTensor(shape, tensor.tensor_type.name, path, tensor.data_offset, tensor.n_bytes)
    state, digest = path.stat(), hashlib.sha256(reader.data[: reader.end].data)
    return GgufHeader((path,), fields, lengths, tensors, f"{digest.hexdigest()} {state.st_size} {state.st_mtime_ns}")
