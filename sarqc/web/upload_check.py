"""The check of an uploaded study, in a process of its own: an archive is unpacked to an empty folder, within a limit of
bytes.

Nothing is unpacked by the names in the archive: the only files read are study.json and those of its arrays, and every
other entry is a reason to refuse the whole. A study of a former version is stored in the current one.
"""

import hashlib
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from sarqc.errors import Refused, TooLarge
from sarqc.study.document import Study, array_files, rewrite, tensor_name, write_document
from sarqc.study.tensors import FILE, tensors_of
from sarqc.web.uploads import REMEDY, too_large

READ_BYTES = 1 << 20
ENTRIES = 8192  # of an archive; up to version 3 each array is a file
DOCUMENT_BYTES = 4 << 20  # of study.json, as uploaded and as stored
LINES, LAYERS = 64, 10_000
VALUES = 500_000  # numbers, texts, lists and objects in study.json
TEXT_LENGTH = 16_384  # characters of a text in it
NAME_LENGTH = 256  # characters of a name in it
LARGEST_NUMBER = 2**63  # of whole ones
VIEW_BYTES = 16 << 20  # of the Lab's view of a line and layer
Z_MEM_ERROR = -4  # of zlib.h; Python says it as "Error -4 while …"
TAG_DIGITS = 8  # of a hash of the content, at the end of the name of an uploaded study


def checked(request: bytes) -> bytes:
    """Return the id for the study of an archive; the request holds archive, folder and limit, see ``check``."""
    archive, folder, limit = json.loads(request)
    return check(Path(archive), Path(folder), limit).encode()


def check(archive: Path, folder: Path, limit: int) -> str:
    """Return the id for the study of an archive; it lies in ``folder`` then, ready to be used.

    Raises ``Refused``, ``TooLarge``.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            study = _unpack(opened, folder, limit)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        if str(error).startswith(f"Error {Z_MEM_ERROR} "):
            raise MemoryError from None  # zlib's own word for it
        what = f"the file is not a zip archive that can be read: {error}"
        raise Refused(what, "upload", REMEDY) from None
    study = study.model_copy(update={"id": _id_for(study)})
    write_document(study, folder)
    if (folder / "study.json").stat().st_size > DOCUMENT_BYTES:
        _document_too_large()
    _check_drawable(study)
    return study.id


def _unpack(archive: zipfile.ZipFile, folder: Path, limit: int) -> Study:
    """Return the archive's study, its arrays written to ``folder``."""
    entries = _entries(archive)
    if sum(entry.file_size for entry in entries.values()) > limit:
        raise too_large(limit)
    if "study.json" not in entries:
        _refuse("no study.json in it", "archive")
    if entries["study.json"].file_size > DOCUMENT_BYTES:
        _document_too_large()
    _extract(archive, entries.pop("study.json"), folder / "study.json")
    study = _study(folder)
    files = array_files(study)
    if missing := sorted(set(files) - entries.keys()):
        _refuse(f"{len(missing)} of its files are missing", missing[0])
    if extra := sorted(entries.keys() - set(files)):
        _refuse("it has a file that is not a part of the study", extra[0])
    for name in files:
        digest = _extract(archive, entries[name], folder / name)
        if digest != study.checksum if name == FILE else digest[:32] != PurePosixPath(name).stem:
            _refuse("the file is not what its hash says", name)
    _check_arrays(study)
    return study if files == [FILE] else rewrite(study, folder)


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the files of an archive by their path in the study; all are in one folder, or in none."""
    if len(archive.infolist()) > ENTRIES:
        _refuse(f"it has more than {ENTRIES} entries", "archive")
    files = [entry for entry in archive.infolist() if not entry.is_dir()]
    tops = {entry.filename.removesuffix("study.json") for entry in files if entry.filename.endswith("study.json")}
    top = min(tops, key=len, default="")
    by_name: dict[str, zipfile.ZipInfo] = {}
    for entry in files:
        name = entry.filename
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            _refuse("an entry is not a plain file but a link or something else", name)
        if not name.startswith(top) or ".." in PurePosixPath(name).parts or name.startswith("/") or "\\" in name:
            _refuse("an entry leads out of the study's folder", name)
        if entry.flag_bits & 0x1:
            _refuse("an entry is encrypted", name)
        inner = name.removeprefix(top)
        if inner in by_name:
            _refuse("an entry is there twice", name)
        by_name[inner] = entry
    return by_name


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> str:
    """Write the content of an entry to ``target`` and return its SHA-256.

    It may not exceed its declared size: the sum of these has been judged.
    """
    digest, size = hashlib.sha256(), 0
    target.parent.mkdir(exist_ok=True)
    with archive.open(entry) as file, target.open("wb") as written:
        while chunk := file.read(READ_BYTES):
            size += len(chunk)
            if size > entry.file_size:
                _refuse("an entry is longer than it says", entry.filename)
            digest.update(chunk)
            written.write(chunk)
    return digest.hexdigest()


def _study(folder: Path) -> Study:
    """Return the study in the current schema, no part of it larger than in studies made here."""
    try:
        study = Study.open(folder)
    except Refused as error:
        raise Refused(error.what, "upload, study.json", error.remedy) from None
    if not study.lines or not study.layers:
        _refuse("it has no lines or no layers", "study.json")
    if len(study.lines) > LINES or len(study.layers) > LAYERS:
        _refuse(f"it has more than {LINES} lines or {LAYERS} layers", "study.json")
    if len({(line.name, line.bits) for line in study.lines}) < len(study.lines):
        _refuse("two lines have one name and one width", "study.json")
    names = [study.id, study.title, study.created, *(layer.name for layer in study.layers)]
    names += [name for line in study.lines for name in (line.method, line.title, line.baseline, line.grid)]
    if any(len(name) > NAME_LENGTH for name in names):
        _refuse(f"a name in it has more than {NAME_LENGTH} characters", "study.json")
    for number, value in enumerate(_values(study.model_dump(mode="python")), 1):
        if number > VALUES:
            _refuse(f"it has more than {VALUES} values", "study.json")
        if isinstance(value, str) and len(value) > TEXT_LENGTH:
            _refuse(f"a text in it has more than {TEXT_LENGTH} characters", "study.json")
        if isinstance(value, int) and abs(value) >= LARGEST_NUMBER:
            _refuse("a number in it has more than 63 bits", "study.json")
    return study


def _values(value: Any) -> Iterator[Any]:
    """Yield a value, then all that it holds: names of an object too."""
    yield value
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _values(item)


def _check_arrays(study: Study) -> None:
    """Check that every array can be read, and no tensor belongs to none."""
    names = {tensor_name(line, name) for line in study.lines for name in line.arrays}
    try:
        for line in study.lines:
            for name in line.arrays:
                study.array(line, name)
        if (study.folder / FILE).exists() and (extra := sorted(tensors_of(study.folder / FILE).keys() - names)):
            _refuse("it has an array that is not a part of the study", extra[0])
    except Refused as error:
        raise Refused(error.what, "upload", REMEDY) from None
    except (ValueError, IndexError):  # from mapping a file of another length
        _refuse("an array has not the bytes that its shape asks for", "arrays")


def _check_drawable(study: Study) -> None:
    """Make the figures of every line: whatever else may be wrong with a study, the Lab can show it."""
    from sarqc.figures import lab_view

    for line in study.lines:
        where = f"{line.name} at {line.bits} bits"
        for layer in (None, "0"):
            try:
                view = lab_view(study, method=line.name, bits=line.bits, layer=layer)
                size = len(json.dumps(view, ensure_ascii=False, allow_nan=False).encode())
            except Exception as error:  # made elsewhere: wrong in unforeseen ways
                _refuse(f"its figures can't be drawn: {type(error).__name__}", where)
            if size > VIEW_BYTES:
                _refuse(f"its figures have more than {VIEW_BYTES >> 20} MiB", where)


def _id_for(study: Study) -> str:
    """Return the id of an uploaded study: always the same for the same content, uploaded or not."""
    content = study.model_dump(mode="json") | {"id": ""}
    tag = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:TAG_DIGITS]
    own = re.sub(r"[^A-Za-z0-9._-]", "-", study.id).strip(".-").removesuffix(f"-{tag}")[:100]
    return f"{own or 'study'}-{tag}"


def _document_too_large() -> NoReturn:
    what = f"study.json has more than {DOCUMENT_BYTES >> 20} MiB"
    raise TooLarge(what, "upload, study.json", REMEDY)


def _refuse(what: str, where: str) -> NoReturn:
    raise Refused(what[:300], f"upload, {where}"[:200], REMEDY)
