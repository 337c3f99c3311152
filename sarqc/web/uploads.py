"""Studies made elsewhere: the zip file of a download, checked to the last byte before any of it is stored.

The process that serves the app reads nothing of an archive. ``upload_check`` reads it in a process of its own with
bounded memory and time; what it has unpacked and approved is moved into place here.
"""

import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from sarqc.errors import NoRoom, QueueFull, Refused, TooLarge
from sarqc.files.limited import Exhausted, answer_of
from sarqc.files.modes import usual_mode
from sarqc.files.names import remove
from sarqc.files.room import check_room
from sarqc.files.settled import settle
from sarqc.study.library import STUDY_ID

AT_MOST = 64  # uploaded studies on this host
UNDER_WAY = 8  # uploads that are sent or checked at once
CHECKED_AT_ONCE = 2
CHECK = "sarqc.web.upload_check:checked"
CPU_SECONDS = 20  # of a check
MEMORY_BYTES = 2 << 30  # of a check
REMEDY = "Upload the zip file that “Download” gives, as it is."
LEFTOVERS = (".upload-*", ".body-*")  # of uploads that the end of the app cut off


def too_large(limit: int) -> TooLarge:
    """Return the error of an upload above the limit (bytes)."""
    return TooLarge(
        f"the study has more than the {limit / 2**20:.4g} MiB that may be uploaded here",
        "upload",
        "Put its folder into the state folder's “uploads” by hand, or raise SARQC_UPLOAD_MIB.",
    )


def too_busy() -> QueueFull:
    """Return the error of an upload while too many are being checked."""
    what = f"{UNDER_WAY} studies are uploaded at this moment"
    return QueueFull(what, "upload", "Try again in a minute.")


def clear_leftovers(root: Path) -> None:
    """Remove leftovers of uploads that the end of the app cut off; to be called before the first."""
    for pattern in LEFTOVERS:
        for path in root.glob(pattern):
            remove(path)


@asynccontextmanager
async def received(request: Request, root: Path, limit: int, error: TooLarge) -> AsyncIterator[tuple[Path, int]]:
    """Return the body of a request as a file below ``root``, which is removed at the end unless it was moved, and its
    size.

    Raises ``error`` for one of more than ``limit`` bytes.
    """
    root.mkdir(parents=True, exist_ok=True)
    check_room(root, min(limit, int(request.headers.get("content-length", 0))))
    with tempfile.NamedTemporaryFile(dir=root, prefix=".body-", delete=False) as file:
        path, size = Path(file.name), 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise error
                await run_in_threadpool(file.write, chunk)
            file.flush()
            await run_in_threadpool(os.fsync, file.fileno())
            yield path, size
        finally:
            path.unlink(missing_ok=True)


def store_upload(archive: Path, root: Path, limit: int) -> tuple[str, bool]:
    """Check an archive and put its study below ``root``; return its new id, and False where it was there already.

    ``limit``: bytes that it may have when unpacked. The id is the study's own with a part of the content's hash, so
    that it never takes the place of another. Raises ``Refused``, ``TooLarge``, ``NoRoom``.
    """
    root.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".upload-", dir=root))
    try:
        study_id = _check(archive, partial, limit)
        folder = root / study_id
        if folder.exists():
            return study_id, False
        count = sum(not path.name.startswith(".") for path in root.iterdir())
        if count >= AT_MOST:
            raise NoRoom(f"{count} uploaded studies are here, as many as are kept", "uploads", "Delete one of them.")
        partial.chmod(usual_mode(0o755))
        settle(*partial.rglob("*"), partial)
        partial.rename(folder)
        settle(root)
        return study_id, True
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _check(archive: Path, folder: Path, limit: int) -> str:
    """Return the id of the archive's study, which lies in ``folder`` then. Raise the check's error."""
    request = json.dumps([str(archive), str(folder), limit]).encode()
    try:
        answer = answer_of(CHECK, request, cpu_seconds=CPU_SECONDS, memory=MEMORY_BYTES)
    except Exhausted:
        what = f"the study can't be checked within {CPU_SECONDS} s and {MEMORY_BYTES / 2**30:g} GiB"
        raise Refused(what, "upload", REMEDY) from None
    study_id = answer.decode()
    if not STUDY_ID.fullmatch(study_id):
        raise Refused("its id is invalid", "upload", REMEDY)
    return study_id
