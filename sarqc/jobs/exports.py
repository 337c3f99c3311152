"""Exports: a finished run written to files once more, for download.

An export is a run of its own (``Run.parent``, ``Run.format``), so it waits, is cancelled and survives a restart like
any other, and whatever becomes of it, its parent stays as it is. Finished layers are on disk, so it takes seconds.
Its files are in a folder named by its id, in which a checkpoint appears whole or not at all.
"""

import os
import re
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sarqc.checkpoints.formats import check_export, is_no_gain, who_can_load
from sarqc.errors import Conflict, NoRoom, NotFound, Refused
from sarqc.files.room import free_bytes
from sarqc.jobs.checkpoint_files import damage, files_of
from sarqc.jobs.run import Run, State, advice
from sarqc.jobs.store import Store
from sarqc.plain import gib
from sarqc.recipe import Recipe
from sarqc.settings import Settings

CHUNK_BYTES = 1 << 20


def export_folder(settings: Settings, export_id: str) -> Path:
    """Return the folder with everything an export has on disk, also during writing."""
    return settings.exports_dir() / export_id


def checkpoint_folder(settings: Settings, export: Run) -> Path:
    """Return the folder in which an export's checkpoint appears."""
    return settings.exports_dir() / checkpoint_name(export)


def checkpoint_name(export: Run) -> str:
    """Return its path among the exports: a folder that still says what it is once unpacked, in the export's own."""
    recipe = export.recipe
    words = (Path(recipe["model"]).name, f"{recipe['bits']}bit", recipe["method"], export.format)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(str(word) for word in words)).lstrip(".-")
    return f"{export.id}/{name}"


def size_on_disk(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; what goes meanwhile counts nothing."""
    if path.is_file():
        return path.stat().st_size
    size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.lstat(os.path.join(folder, name)).st_size
    return size


def check_exportable(parent: Run, checkpoint_format: str) -> None:
    """Return when the run can be exported in the format. Raises ``Conflict`` or ``Refused``."""
    where = f"run {parent.id}"
    if parent.parent is not None:
        raise Conflict("it is an export itself", where, f"Export the run {parent.parent}.")
    if parent.state is not State.FINISHED:
        raise Conflict(f"a run that is {parent.state} can't be exported", where, advice(parent.state))
    check_export(Recipe.parse(parent.recipe), checkpoint_format)
    repair = (parent.summary or {}).get("repair")
    if repair is not None and is_no_gain(repair):
        raise Refused("the repair is not an improvement", where, "Keep the file as it was found.")


def size_at_most(checkpoint_format: str, *, before: int, after: int) -> int:
    """Return the expected bytes of an export. ``before``, ``after``: bytes of the linears, as planned."""
    if checkpoint_format == "plain":
        return before
    # MLX has a scale and a bias for at least 32 weights each; those of other formats take less.
    return after + (before // 16 if checkpoint_format == "mlx" else 0)


def check_room(store: Store, settings: Settings, size: int) -> None:
    """Return when an export of ``size`` bytes has room beside all others. Raises ``NoRoom`` with the numbers."""
    taken, expected = store.exported_bytes()
    quota = int(settings.export_gib * 2**30)
    if taken + expected + size > quota:
        what = f"exports take {gib(taken + expected)} of the {gib(quota)} that they may take here"
        remedy = "Delete an export you no longer need, or raise SARQC_EXPORT_GIB."
        raise NoRoom(f"the files take about {gib(size)}, and {what}", "exports", remedy)
    settings.resolved_state_dir().mkdir(parents=True, exist_ok=True)
    free = free_bytes(settings.resolved_state_dir())
    if expected + size > free:
        what = f"the files take about {gib(size)}, and {gib(free)} of the disk are free"
        if expected:
            what += f", {gib(expected)} of which others wait for"
        raise NoRoom(what, "exports", "Make room on the disk, or give SARQC_STATE_DIR a larger one.")


def formats_of(run: Run) -> list[dict[str, Any]] | None:
    """Return what a run can be exported as and who could load it, by format; None for a recipe of another version,
    which can't be exported."""
    try:
        recipe = Recipe.parse(run.recipe)
    except Refused:
        return None
    summary = run.summary or {}
    is_mixture = None if summary.get("derived") else summary.get("experts") is not None
    return [asdict(carrier) for carrier in who_can_load(recipe, is_mixture=is_mixture)]


def finished_checkpoint(store: Store, settings: Settings, run_id: str, checkpoint_format: str) -> Path:
    """Return the folder of a run's exported checkpoint. Raises ``NotFound`` where there is none (yet), ``Conflict``
    where its files have changed since."""
    run = store.get(run_id)
    for export in store.exports(run.id):
        folder = checkpoint_folder(settings, export)
        if export.format == checkpoint_format and export.state is State.FINISHED and folder.is_dir():
            if what := damage(folder):
                raise Conflict(f"the export is damaged: {what}", f"run {run_id}", "Export the run again.")
            return folder
    raise NotFound(
        f"no finished export “{checkpoint_format}” of this run",
        f"run {run_id}",
        f"POST /api/runs/{run_id}/export?format={checkpoint_format} makes one.",
    )


def tar_of(folder: Path) -> tuple[int, Iterator[bytes]]:
    """Return a folder of files as an uncompressed tar archive: its length in bytes, and its parts, read when they are
    sent.

    All names in it begin with the folder's own. Safetensors hardly shrink, so nothing is compressed.
    """
    entries = []
    for path in files_of(folder):
        entry = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}")
        stat = path.stat()
        entry.size, entry.mtime, entry.mode = stat.st_size, int(stat.st_mtime), 0o644
        entries.append((entry.tobuf(tarfile.PAX_FORMAT), entry.size, path))
    length = sum(len(head) + size + _padding(size) for head, size, _ in entries) + 2 * tarfile.BLOCKSIZE
    return length, _tar_parts(entries)


def _tar_parts(entries: list[tuple[bytes, int, Path]]) -> Iterator[bytes]:
    for head, size, path in entries:
        yield head
        with path.open("rb") as file:
            left = size
            while left:
                chunk = file.read(min(CHUNK_BYTES, left))
                if not chunk:
                    raise OSError(f"{path.name} has become shorter while it was sent")
                left -= len(chunk)
                yield chunk
        yield bytes(_padding(size))
    yield bytes(2 * tarfile.BLOCKSIZE)


def _padding(size: int) -> int:
    return -size % tarfile.BLOCKSIZE
