"""The safetensors files of a folder and their headers; no weight is read, and no torch."""

import json
import re
from collections.abc import Iterator
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
_ADAPTER = "adapter_config.json"
_AGAIN = "Download the checkpoint again."
_TWICE = "Keep one of the two files, or save the model into an empty folder."
_PIECE = re.compile(r"model-\d{5}-of-(\d{5})\.safetensors")
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


def check_folder(folder: Path, where: str) -> None:
    """Refuse a folder without a config.json, or with an adapter."""
    if (folder / _ADAPTER).is_file():
        what = f"there is an adapter ({_ADAPTER}), with which peft and transformers change the weights"
        raise Refused(what, where, "Merge it into the weights (merge_and_unload of peft), or take its files away.")
    if not (folder / "config.json").is_file():
        raise Refused("no config.json", where, "Give the folder of a checkpoint for transformers.")


def read_tensors(folder: Path, where: str) -> dict[str, TensorEntry]:
    """Return all tensors of a checkpoint by name.

    Raises:
        Refused: If a file is missing, damaged or of another kind.
    """
    tensors: dict[str, TensorEntry] = {}
    for path in weight_files(folder, where):
        for name, entry in _read_header(path, where).items():
            if name in tensors:
                raise Refused(f"{name} is in {tensors[name].file.name} and in {path.name}", where, _TWICE)
            tensors[name] = entry
    return tensors


def weight_files(folder: Path, where: str) -> list[Path]:
    """Return the safetensors files of a checkpoint, see ``weight_set``."""
    return weight_set(folder, where)[0]


def weight_set(folder: Path, where: str) -> tuple[list[Path], str]:
    """Return the safetensors files that ``from_pretrained`` reads, and a notice of others that are ignored.

    Raises:
        Refused: If a file is missing, if there are only pickles, or if there are two whole sets of weights.
    """
    (first, chosen), *others = [*_sets(folder, where)] or [("", [])]
    if not chosen:
        raise _no_weights(folder, where)
    for path in chosen:
        if not is_regular(path):
            raise Refused(f"the weight file {path.name[:100]!r} is missing", where, _AGAIN)
    notices = []
    for name, files in others:
        if files == chosen:
            continue
        if missing := [path.name for path in files if not is_regular(path)]:
            notices.append(f"{name} is passed over for {first}: it names {missing[0][:100]}, which is not there")
        else:
            what = f"there are two sets of weights, in {first} and in the files of {name}"
            raise Refused(what, where, f"Remove one of them; transformers reads {first}.")
    return chosen, ". ".join(notices)


def _sets(folder: Path, where: str) -> Iterator[tuple[str, list[Path]]]:
    """Yield the sets of weights in a folder, in transformers' order: a name for each, and its files, maybe missing."""
    for base in _bases(folder, where):
        single, index = f"{base}.safetensors", f"{base}.safetensors.index.json"
        has_single = is_regular(folder / single)
        if has_single:
            yield single, [folder / single]
        if is_regular(folder / index):
            try:
                content = _Index.model_validate(read_object(folder / index, where, remedy=_AGAIN))
            except ValidationError as error:
                raise Refused(f"{index} is damaged: {first_problem(error)}", where, _AGAIN) from None
            names = sorted({*content.weight_map.values()})
            if outside := next((name for name in names if Path(name).name != name), None):
                raise Refused(f"{index} names {outside[:100]!r}, which is not a file beside it", where, _AGAIN)
            yield index, [folder / name for name in names]
        elif has_single:  # pieces without their index, which transformers does not look for
            pieces = (_PIECE.fullmatch(path.name) for path in folder.glob("model-*.safetensors"))
            for count in sorted({piece[1] for piece in pieces if piece}):
                names = [f"model-{number:05}-of-{count}.safetensors" for number in range(1, int(count) + 1)]
                yield names[0], [folder / name for name in names]


def _bases(folder: Path, where: str) -> Iterator[str]:
    """Yield the names of weight files without their endings: transformers', and that of AutoGPTQ."""
    yield "model"
    for name in ("quantize_config.json", "config.json"):
        content = read_object(folder / name, where, remedy=_AGAIN) if (folder / name).is_file() else {}
        settings = content if name == "quantize_config.json" else content.get("quantization_config")
        if isinstance(settings, dict):
            base = settings.get("model_file_base_name") or settings.get("model_basename")
            base = str(base or f"gptq_model-{settings.get('bits')}bit-{settings.get('group_size')}g")
            if Path(base).name == base != "model":
                yield base
                return


def _no_weights(folder: Path, where: str) -> Refused:
    pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
    if pickled:
        what = f"the weights are pickled ({pickled[0]}), which can run code when they are read"
        return Refused(what, where, "Convert them to safetensors; pickles are never opened.")
    if others := sorted(path.name for path in folder.glob("*.safetensors")):
        what = f"there is neither {SINGLE} nor {INDEX}, by which {others[0]} would be read"
        return Refused(what, where, f"Download {INDEX} too, or rename a single file to {SINGLE}.")
    return Refused(f"no {SINGLE}", where, "Give the folder of a checkpoint with all of its weights.")


def _read_header(path: Path, where: str) -> dict[str, TensorEntry]:
    """Return the tensors of a file, after safetensors has checked types, shapes and offsets against its length."""
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


def is_zero(entry: TensorEntry, name: str) -> bool:
    """Return True if no bit of a tensor of any type is set."""
    begin, end = byte_ranges(entry.file)[name]
    with entry.file.open("rb") as file:
        file.seek(begin)
        return not any(file.read(end - begin))


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
