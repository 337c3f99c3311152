"""The safetensors files of a folder and their headers; no weight is read, and no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from safetensors import SafetensorError, safe_open

from sarqc.errors import Refused
from sarqc.files.names import file_identity, is_regular, read_object
from sarqc.models.architecture import Strict, first_problem

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_AGAIN = "Download the checkpoint again."
_CHUNK = 1 << 20  # bytes that are compared at once


@dataclass(frozen=True)
class TensorEntry:
    """Shape and type of a tensor by a header, and its file."""

    shape: tuple[int, ...]
    dtype: str  # as safetensors spells it
    file: Path


class _Index(Strict):
    """File of each tensor."""

    weight_map: dict[str, str]


def read_tensors(folder: Path, where: str) -> dict[str, TensorEntry]:
    """Return all tensors of a checkpoint by name.

    Raises:
        Refused: If a file is missing, damaged or of another kind.
    """
    tensors: dict[str, TensorEntry] = {}
    for path in weight_files(folder, where):
        for name, entry in _read_header(path, where).items():
            if name in tensors:
                raise Refused(f"{name} is in {tensors[name].file.name} and in {path.name}", where, _AGAIN)
            tensors[name] = entry
    return tensors


def weight_files(folder: Path, where: str) -> list[Path]:
    """Return the safetensors files of a checkpoint.

    Raises:
        Refused: If a file is missing, or there are only pickles.
    """
    if (folder / INDEX).is_file():
        try:
            index = _Index.model_validate(read_object(folder / INDEX, where, remedy=_AGAIN))
        except ValidationError as error:
            raise Refused(f"{INDEX} is damaged: {first_problem(error)}", where, _AGAIN) from None
        names = sorted({*index.weight_map.values()})
    elif (folder / SINGLE).is_file():
        names = [SINGLE]
    else:
        pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
        if pickled:
            raise Refused(
                f"the weights are pickled ({pickled[0]}), which can run code when they are read",
                where,
                "Convert them to safetensors; pickles are never opened.",
            )
        raise Refused(f"no {SINGLE}", where, _AGAIN)
    for name in names:
        if Path(name).name != name or not is_regular(folder / name):
            raise Refused(f"the weight file {name[:100]!r} is missing", where, _AGAIN)
    return [folder / name for name in names]


def _read_header(path: Path, where: str) -> dict[str, TensorEntry]:
    """The tensors of a file by name, after safetensors has checked types, shapes and offsets against its length."""
    try:
        with safe_open(path, framework="np") as file:
            names = file.keys()
            slices = {name: file.get_slice(name) for name in names}
            return {
                name: TensorEntry(tuple(entry.get_shape()), entry.get_dtype(), path) for name, entry in slices.items()
            }
    except (SafetensorError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
        what = f"{path.name} is not a whole safetensors file: {reason[:200]}"
        raise Refused(what, where, _AGAIN) from None


def same_bits(first: tuple[Path, str], second: tuple[Path, str]) -> bool:
    """Return True if two tensors, each a name in a file whose header was checked, have the same bytes; cached."""
    return _same_bits(*first, file_identity(first[0]), *second, file_identity(second[0]))


@lru_cache(maxsize=16)
def _same_bits(
    path: Path, name: str, _identity: tuple[object, ...], other: Path, other_name: str, _other: tuple[object, ...]
) -> bool:
    with path.open("rb") as file, other.open("rb") as other_file:
        (begin, end), (other_begin, other_end) = byte_ranges(path)[name], byte_ranges(other)[other_name]
        left = end - begin
        if left != other_end - other_begin:
            return False
        file.seek(begin)
        other_file.seek(other_begin)
        while left > 0:
            size = min(left, _CHUNK)
            if file.read(size) != other_file.read(size):
                return False
            left -= size
    return True


def byte_ranges(path: Path) -> dict[str, tuple[int, int]]:
    """Return begin and end of the bytes of each tensor in a file whose header was checked."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    offsets = {name: entry["data_offsets"] for name, entry in header.items()}
    return {name: (8 + length + begin, 8 + length + end) for name, (begin, end) in offsets.items()}
