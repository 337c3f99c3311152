"""Codes stored beside a study, with which pages run its model: their points and their files.

The folder ``codes`` of a study has ``codes.json`` and a file for each point, written by a run or by ``python -m sarqc
codes``. The float model, its tokenizer and a text are files of a model that ships with the app.
"""

import json
import re
from pathlib import Path
from typing import final

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict  # which pydantic can check before Python 3.12

from sarqc.errors import NotFound, Refused
from sarqc.files.hashes import sha256_of
from sarqc.files.names import own_file, read_object
from sarqc.study.document import Study

FOLDER = "codes"
FILE = "codes.json"
MODEL_FILES = ("config.json", "tokenizer.json", "model.safetensors", "held_out.txt")  # of the shipped model

_AGAIN = "Remove the folder codes of the study, which opens without it."
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_VERSION = re.compile(r"[0-9a-f]{16}")
_MOST_BYTES = 1 << 40


@final
class ModelFile(TypedDict):
    """A file that pages fetch."""

    name: str
    bytes: int
    version: str  # the first 16 hex digits of its SHA-256


@final
class KeptPoint(TypedDict):
    """A point whose codes are kept."""

    method: str  # name of the line
    bits: int
    gamma: float | None
    lam: float | None  # None for a method without λ
    file: ModelFile


@final
@with_config(ConfigDict(allow_inf_nan=False))
class KeptCodes(TypedDict):
    """Content of ``codes.json``."""

    model: str  # name of the shipped model
    draw: int  # seed of the calibration draw of all points
    files: list[ModelFile]  # of the float model, see ``MODEL_FILES``
    points: list[KeptPoint]


_CODES = TypeAdapter(KeptCodes)


def kept_codes(study: Study) -> KeptCodes | None:
    """Return the points of a study with codes; None for a study without any.

    Raises:
        Refused: If the list of points is damaged.
    """
    if study.is_in_memory or not (study.folder / FOLDER / FILE).is_file():
        return None
    path = own_file(study.folder, f"{FOLDER}/{FILE}")
    document = {} if path is None else read_object(path, f"study {study.id}", remedy=_AGAIN)
    try:
        codes = _CODES.validate_python(document, strict=True)
    except ValidationError:
        raise _damaged(FILE, study) from None
    is_valid = {file["name"] for file in codes["files"]} == {*MODEL_FILES} and _NAME.fullmatch(codes["model"])
    if not is_valid or not all(map(_is_valid, files_of_model(codes))):
        raise _damaged(FILE, study)
    return codes


def _is_valid(file: ModelFile) -> bool:
    is_named = _NAME.fullmatch(file["name"]) and _VERSION.fullmatch(file["version"])
    return bool(is_named) and 0 <= file["bytes"] < _MOST_BYTES


def _damaged(name: str, study: Study) -> Refused:
    return Refused(f"{name} is damaged", f"study {study.id}", _AGAIN)


def write_codes(folder: Path, codes: KeptCodes) -> None:
    """Write the list of points with codes; their files exist by then.

    Args:
        folder: The folder of the study.
        codes: The points.
    """
    partial = folder / FOLDER / f".{FILE}"
    partial.write_text(json.dumps(codes, indent=1) + "\n", encoding="utf-8")
    partial.rename(folder / FOLDER / FILE)


def files_of_model(codes: KeptCodes) -> list[ModelFile]:
    """Return all files of a model: those of the float one and those of its points."""
    return [*codes["files"], *(point["file"] for point in codes["points"])]


def model_files(study: Study, models: Path, name: str | None = None) -> dict[str, tuple[ModelFile, Path]]:
    """Return the files with which pages run a study's model, and their places, by name.

    Args:
        study: The study.
        models: The folder of the models that ship with the app.
        name: Name of a single file; None for all.

    Raises:
        NotFound: If no codes of the study are stored.
        Refused: If a file is missing, is not what is listed, or if a link leads to it from elsewhere.
    """
    codes = kept_codes(study)
    if codes is None:
        raise NotFound("no codes are kept of the study", f"study {study.id}", "Open the study of a run of tiny-llama.")
    files: dict[str, tuple[ModelFile, Path]] = {}
    for file in files_of_model(codes):
        if name in (None, file["name"]):
            is_shipped = file["name"] in MODEL_FILES
            path = own_file(models / codes["model"] if is_shipped else study.folder / FOLDER, file["name"])
            if path is None or path.stat().st_size != file["bytes"] or sha256_of(path)[:16] != file["version"]:
                raise _damaged(f"{file['name']} of its model", study)
            files[file["name"]] = file, path
    return files
