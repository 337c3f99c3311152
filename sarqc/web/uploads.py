"""Studies made elsewhere: the zip file of a download, checked to the last byte before anything of it is kept.

Nothing is unpacked by the names in the archive: the only files read are study.json and those that its arrays are in,
and every other entry is a reason to refuse the whole. A study of a former version is kept in the current one.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import NoReturn

from pydantic import ValidationError

from sarqc.errors import NoRoom, Refused, TooLarge
from sarqc.study.document import ArrayRef, Study, array_files, rewrite, tensor_name, write_document
from sarqc.study.tensors import FILE, tensors_of

AT_MOST = 64  # uploaded studies on this host
READ_BYTES = 1 << 20
REMEDY = "Upload the zip file that “Download” gives, as it is."
ORDER = ("draw", "layer", "size", "candidate_gamma", "candidate_lambda", "gamma", "lambda")  # of axes, see Study
TAG_DIGITS = 8  # of a hash of the content, at the end of the name of an uploaded study


def too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"the study has more than the {limit / 2**20:.4g} MiB that may be uploaded here",
        "upload",
        "Put its folder into the state folder's “uploads” by hand, or raise SARQC_UPLOAD_MIB.",
    )


def store_upload(archive: Path, root: Path, limit: int) -> tuple[str, bool]:
    """Checks an archive and puts its study below ``root``; returns its new id, and False where it was there already.

    ``limit``: bytes that it may have when unpacked. The id is the study's own with a part of the content's hash, so
    that it never takes the place of another. Raises ``Refused``, ``TooLarge``, ``NoRoom``.
    """
    root.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".upload-", dir=root))
    try:
        try:
            with zipfile.ZipFile(archive) as opened:
                study = _unpacked(opened, partial, limit)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise Refused(f"the file is no zip archive that can be read: {error}", "upload", REMEDY) from None
        study = study.model_copy(update={"id": _named(study)})
        write_document(study, partial)
        _check_drawable(study)
        folder = root / study.id
        if folder.exists():
            return study.id, False
        count = sum(not path.name.startswith(".") for path in root.iterdir())
        if count >= AT_MOST:
            raise NoRoom(f"{count} uploaded studies are here, as many as are kept", "uploads", "Delete one of them.")
        partial.chmod(0o755)
        partial.rename(folder)
        return study.id, True
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _unpacked(archive: zipfile.ZipFile, folder: Path, limit: int) -> Study:
    """The archive's study, its arrays written to ``folder``."""
    entries = _entries(archive)
    if sum(entry.file_size for entry in entries.values()) > limit:
        raise too_large(limit)
    if "study.json" not in entries:
        _refuse("there is no study.json in it", "archive")
    study = _study(_read(archive, entries.pop("study.json")), folder)
    files = array_files(study)
    if missing := sorted(set(files) - entries.keys()):
        _refuse(f"{len(missing)} of its files are missing", missing[0])
    if extra := sorted(entries.keys() - set(files)):
        _refuse("it has a file that is no part of the study", extra[0])
    _check_shapes(study)
    for name in files:
        content = _read(archive, entries[name])
        digest = hashlib.sha256(content).hexdigest()
        if digest != study.checksum if name == FILE else digest[:32] != PurePosixPath(name).stem:
            _refuse("the file is not what its hash says", name)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    _check_arrays(study)
    return study if files == [FILE] else rewrite(study, folder)


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The files of an archive by their path in the study; all are in one folder, or in none."""
    files = [entry for entry in archive.infolist() if not entry.is_dir()]
    tops = {entry.filename.removesuffix("study.json") for entry in files if entry.filename.endswith("study.json")}
    top = min(tops, key=len, default="")
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in files:
        name = entry.filename
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            _refuse("an entry is no plain file but a link or something else", name)
        if not name.startswith(top) or ".." in PurePosixPath(name).parts or name.startswith("/") or "\\" in name:
            _refuse("an entry leads out of the study's folder", name)
        if entry.flag_bits & 0x1:
            _refuse("an entry is encrypted", name)
        inner = name.removeprefix(top)
        if inner in found:
            _refuse("an entry is there twice", name)
        found[inner] = entry
    return found


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """The content of an entry, which may not be longer than it says (the sum of what they say has been judged)."""
    content = bytearray()
    with archive.open(entry) as file:
        while chunk := file.read(READ_BYTES):
            content += chunk
            if len(content) > entry.file_size:
                _refuse("an entry is longer than it says", entry.filename)
    return bytes(content)


def _study(content: bytes, folder: Path) -> Study:
    """The document in the current schema."""
    try:
        document = json.loads(content.decode("utf-8"), parse_constant=_no_constant)
        if not isinstance(document, dict):
            raise ValueError("it is not an object")
        (folder / "study.json").write_bytes(content)
        return Study.open(folder)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        _refuse(f"study.json is wrong at {place}: {first['msg'][0].lower() + first['msg'][1:]}", "study.json")
    except Refused as error:
        raise Refused(error.what, "study.json", error.remedy) from None
    except (ValueError, RecursionError) as error:
        _refuse(f"study.json can't be read: {error}", "study.json")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _check_shapes(study: Study) -> None:
    """Every array has the axes that its line and the study give it."""
    for line in study.lines:
        lengths = {
            "draw": len(line.draws), "layer": len(study.layers), "gamma": len(line.gammas), "lambda": len(line.lams),
            "size": len(line.sizes), "candidate_gamma": len(line.candidate_gammas),
            "candidate_lambda": len(line.candidate_lams),
        }  # fmt: skip
        for name, ref in line.arrays.items():
            if not _fits(ref, lengths):
                _refuse(f"the shape of {name} does not fit its axes", f"study.json, {line.name} at {line.bits} bits")


def _check_arrays(study: Study) -> None:
    """Every array can be read, and no tensor is there that belongs to none; names tell the lines apart."""
    names = {tensor_name(line, name) for line in study.lines for name in line.arrays}
    if len(names) < sum(len(line.arrays) for line in study.lines):
        _refuse("two lines have one name and one width", "study.json")
    try:
        for line in study.lines:
            for name in line.arrays:
                study.array(line, name)
        if (study.folder / FILE).exists() and (extra := sorted(tensors_of(study.folder / FILE).keys() - names)):
            _refuse("it has an array that is no part of the study", extra[0])
    except Refused as error:
        raise Refused(error.what, "upload", REMEDY) from None
    except (ValueError, IndexError):  # from mapping a file of another length
        _refuse("an array has not the bytes that its shape asks for", "arrays")


def _fits(ref: ArrayRef, lengths: dict[str, int]) -> bool:
    known = [ORDER.index(axis) for axis in ref.axes if axis in ORDER]
    in_order = known == sorted(set(known)) and ref.axes[: len(known)] == tuple(ORDER[place] for place in known)
    return (
        in_order
        and len(ref.shape) == len(ref.axes)
        and all(size >= 1 and size == lengths.get(axis, size) for axis, size in zip(ref.axes, ref.shape, strict=True))
    )


def _check_drawable(study: Study) -> None:
    """The figures of every line can be made: whatever else may be wrong with a study, the Lab can show it."""
    from sarqc.figures import lab_view

    if not study.lines or not study.layers:
        _refuse("it has no lines or no layers", "study.json")
    for line in study.lines:
        try:
            for layer in (None, "0"):
                json.dumps(lab_view(study, method=line.name, bits=line.bits, layer=layer), allow_nan=False)
        except (
            Exception
        ) as error:  # made elsewhere, perhaps by hand: it may be wrong in ways that nobody has thought of
            _refuse(f"its figures can't be drawn: {type(error).__name__}", f"{line.name} at {line.bits} bits")


def _named(study: Study) -> str:
    """The id that an uploaded study gets: the same again for the same content, uploaded or not."""
    content = study.model_dump(mode="json") | {"id": ""}
    tag = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:TAG_DIGITS]
    own = re.sub(r"[^A-Za-z0-9._-]", "-", study.id).strip(".-").removesuffix(f"-{tag}")[:100]
    return f"{own or 'study'}-{tag}"


def _refuse(what: str, where: str) -> NoReturn:
    raise Refused(what, f"upload, {where}"[:200], REMEDY)
