"""Headers of GGUF files: fields of a model, and places of its tensors; no weight is read, and no torch.

Every count and length is checked against a bound and against the file before it is used, in a process with limits. Of
lists, the vocabulary above all, only the lengths are read, and of texts only short ones.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import BinaryIO

from pydantic import TypeAdapter

from sarqc.errors import Refused
from sarqc.files.limited import Exhausted, answer_of
from sarqc.files.names import file_identity, is_regular, shortened
from sarqc.files.once import once

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_FIELDS, _MOST_TENSORS, _MOST_ENTRIES, _MOST_STRINGS = 1 << 12, 1 << 16, 1 << 24, 1 << 20
_LONGEST_NAME, _LONGEST_HEADER = 1 << 10, 1 << 27  # bytes
_LARGEST = 1 << 22  # of a dimension
_MOST_DIMENSIONS = 4
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_PIECE = re.compile(r"(.{1,200})-\d{5}-of-(\d{5})\.gguf")
_CHUNK = 1 << 20
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
    """All pieces of the model that a file is named as a piece of."""
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
    """Return the header of the files of a request as JSON; raises the errors of ``read_header``, which asks for it."""
    where, *names = json.loads(request)
    return _HEADER.dump_json(_joined(tuple(map(Path, names)), where))


def _joined(files: tuple[Path, ...], where: str) -> GgufHeader:
    pieces: list[GgufHeader] = []
    tensors: dict[str, GgufTensor] = {}
    digest = hashlib.sha256()
    for number, path in enumerate(files):
        try:
            with path.open("rb") as file:
                piece = _Reading(file, path, where).header()
        except (OSError, struct.error) as error:
            reason = error.strerror if isinstance(error, OSError) else "it ends within its header"
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


class _Reading:
    """A file that is read from its first byte to the end of its header."""

    def __init__(self, file: BinaryIO, path: Path, where: str) -> None:
        self._file, self._path, self._where = file, path, where
        self._length = path.stat().st_size
        self._strings = 0  # in lists, so far

    def header(self) -> GgufHeader:
        if self._file.read(len(MAGIC)) != MAGIC:
            raise self._damaged("it does not begin as GGUF files do")
        version = self._number("<I")
        if version not in _VERSIONS:
            raise self._damaged(f"version {version} is not read", "Convert it anew; versions 2 and 3 are read.")
        n_tensors, n_fields = self._number("<Q"), self._number("<Q")
        if n_tensors > _MOST_TENSORS or n_fields > _MOST_FIELDS:
            raise self._damaged(f"it claims {n_tensors:,} tensors and {n_fields:,} fields")
        fields: dict[str, Scalar] = {}
        lengths: dict[str, int] = {}
        for _ in range(n_fields):
            key = self._string()
            if key in fields or key in lengths:
                raise self._damaged(f"{shortened(key)!r} is there twice")
            kind = self._number("<I")
            if kind == _ARRAY:
                lengths[key] = self._pass_list(key)
            else:
                fields[key] = self._text(key) if kind == _STRING else self._finite(kind, key)
        found = list(self._tensors(n_tensors))
        alignment = fields.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 8 <= alignment <= 1 << 16 or alignment & (alignment - 1):
            raise self._damaged(f"an alignment of {alignment!r}")
        end = self._file.tell()
        begin = -(-end // alignment) * alignment
        tensors: dict[str, GgufTensor] = {}
        for name, shape, kind, offset in found:
            kind_name, size = self._stored(name, shape, kind)
            if offset % alignment or begin + offset + size > self._length:
                raise self._damaged(f"{name} lies outside of the file, or between its places")
            if name in tensors:
                raise self._damaged(f"{name} is there twice")
            tensors[name] = GgufTensor(shape, kind_name, self._path, begin + offset, size)
        return GgufHeader((self._path,), fields, lengths, tensors, self._identity(end))

    def _tensors(self, count: int) -> Iterator[tuple[str, tuple[int, ...], int, int]]:
        """Name, shape, type and offset of each."""
        for _ in range(count):
            name = self._string()
            n_dimensions = self._number("<I")
            if not 1 <= n_dimensions <= _MOST_DIMENSIONS:
                raise self._damaged(f"{shortened(name)!r} has {n_dimensions:,} dimensions")
            shape = tuple(reversed([self._number("<Q") for _ in range(n_dimensions)]))
            if not all(0 < size <= _LARGEST for size in shape):
                raise self._damaged(f"{shortened(name)!r} has the shape {shape}")
            yield name, shape, self._number("<I"), self._number("<Q")

    def _stored(self, name: str, shape: tuple[int, ...], kind: int) -> tuple[str, int]:
        """ggml's name of a type, and the bytes of a tensor of it."""
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

        try:
            known = GGMLQuantizationType(kind)
        except ValueError:
            raise self._damaged(f"{name} is of type {kind}, which is not known here") from None
        in_block, size = GGML_QUANT_SIZES[known]
        if shape[-1] % in_block:
            raise self._damaged(f"{name} has rows of {shape[-1]}, and {known.name} comes in blocks of {in_block}")
        return known.name, prod(shape) // in_block * size

    def _identity(self, end: int) -> str:
        digest = hashlib.sha256()
        self._file.seek(0)
        for begin in range(0, end, _CHUNK):
            digest.update(self._file.read(min(_CHUNK, end - begin)))
        state = self._path.stat()
        return f"{digest.hexdigest()} {state.st_size} {state.st_mtime_ns}"

    def _number(self, layout: str) -> int:
        value: int = struct.unpack(layout, self._file.read(struct.calcsize(layout)))[0]
        return value

    def _format(self, kind: int, key: str) -> str:
        if kind not in _NUMBERS:
            raise self._damaged(f"{shortened(key)!r} is of type {kind}, which is not known here")
        return _NUMBERS[kind]

    def _finite(self, kind: int, key: str) -> int:
        value = self._number(self._format(kind, key))
        if not math.isfinite(value):
            raise self._damaged(f"{shortened(key)!r} is {value}")
        return value

    def _text(self, key: str) -> str:
        """A text, or the beginning of a long one, which is of no use here."""
        length = self._number("<Q")
        self._file.seek(-struct.calcsize("<Q"), os.SEEK_CUR)
        if length <= _LONGEST_NAME:
            return self._string(what=repr(shortened(key)))
        self._pass(struct.calcsize("<Q") + length)
        return ""

    def _string(self, most: int = _LONGEST_NAME, what: str = "a name") -> str:
        length = self._number("<Q")
        if length > most:
            raise self._damaged(f"{what} has {length:,} bytes")
        content = self._file.read(length)
        if len(content) < length:
            raise self._damaged("it ends within its header")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise self._damaged(f"{what} is not UTF-8") from None

    def _pass_list(self, key: str) -> int:
        """The length of a list, which is passed over."""
        kind, count = self._number("<I"), self._number("<Q")
        if kind == _STRING:
            self._strings += count
            if self._strings > _MOST_STRINGS:
                raise self._damaged(f"its lists claim {self._strings:,} texts")
            for _ in range(count):
                self._pass(self._number("<Q"))
        elif kind == _ARRAY:
            raise self._damaged(f"{shortened(key)!r} is a list of lists, which is not read")
        else:
            layout = self._format(kind, key)
            if count > _MOST_ENTRIES:
                raise self._damaged(f"{shortened(key)!r} claims {count:,} numbers")
            self._pass(count * struct.calcsize(layout))
        return count

    def _pass(self, size: int) -> None:
        if size > _LONGEST_HEADER or (end := self._file.tell() + size) > min(self._length, _LONGEST_HEADER):
            raise self._damaged("it ends within its header")
        self._file.seek(end)

    def _damaged(self, reason: str, remedy: str = _AGAIN) -> Refused:
        return Refused(f"{self._path.name} is damaged: {reason}", self._where, remedy)
