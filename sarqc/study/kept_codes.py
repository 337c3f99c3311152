"""Codes kept beside a study, with which pages run its model: which points there are, and their files.

The folder ``codes`` of a study has ``codes.json`` and a file for each kept point, written by a run or by
``python -m sarqc codes``. The float model, its tokenizer and a text are files of a model that ships with the app.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TypedDict, cast, final

from sarqc.errors import NotFound, Refused
from sarqc.files.names import read_object
from sarqc.study.document import Study

FOLDER = "codes"
FILE = "codes.json"
MODEL_FILES = ("config.json", "tokenizer.json", "model.safetensors", "held_out.txt")  # of the shipped model

_AGAIN = "Remove the folder codes of the study, which opens without it."
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


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
class KeptCodes(TypedDict):
    """Content of ``codes.json``."""

    model: str  # name of the shipped model
    draw: int  # seed of the calibration draw of all points
    files: list[ModelFile]  # of the float model, see ``MODEL_FILES``
    points: list[KeptPoint]


def kept_codes(study: Study) -> KeptCodes | None:
    """Return which points of a study have codes; None for a study without any.

    Raises:
        Refused: If the list of points is damaged.
    """
    path = None if study.is_in_memory else study.folder / FOLDER / FILE
    if path is None or not path.is_file():
        return None
    document = cast(KeptCodes, read_object(path, f"study {study.id}", remedy=_AGAIN))
    try:
        shipped = {file["name"] for file in document["files"]}
        names = [document["model"], *(file["name"] for file in files_of_model(document))]
        is_right = shipped == {*MODEL_FILES} and all(_NAME.fullmatch(name) for name in names)
    except (KeyError, TypeError):
        is_right = False
    if not is_right:
        raise Refused(f"{FILE} is damaged", f"study {study.id}", _AGAIN)
    return document


def write_kept(folder: Path, kept: KeptCodes) -> None:
    """Write which points of a study have codes; their files are there by then.

    Args:
        folder: The folder of the study.
        kept: The points.
    """
    partial = folder / FOLDER / f".{FILE}"
    partial.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    partial.rename(folder / FOLDER / FILE)


def files_of_model(kept: KeptCodes) -> list[ModelFile]:
    """Return all files of a model: those of the float one and those of its points."""
    return [*kept["files"], *(point["file"] for point in kept["points"])]


def model_files(study: Study, models: Path) -> dict[str, tuple[ModelFile, Path]]:
    """Return the files with which pages run a study's model, and their places, by name.

    Args:
        study: The study.
        models: The folder of the models that ship with the app.

    Raises:
        NotFound: If no codes of the study are kept.
    """
    kept = kept_codes(study)
    if kept is None:
        raise NotFound("no codes are kept of the study", f"study {study.id}", "Open the study of a run of tiny-llama.")
    shipped = [file["name"] for file in kept["files"]]
    places = {True: models / kept["model"], False: study.folder / FOLDER}
    return {file["name"]: (file, places[file["name"] in shipped] / file["name"]) for file in files_of_model(kept)}
