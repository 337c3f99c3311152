"""Sites of studies as zip files for download. Each is written by ``python -m sarqc publish`` in a process of its own,
one at a time; who asks for the same study meanwhile waits for the same file. The last few files are kept.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import BinaryIO

from sarqc.errors import Busy, SarqcError, TooLarge
from sarqc.plain import mib
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.web.limits import Planning
from sarqc.web.publish import SitePlan

WRITTEN_AT_ONCE, WAITING = 1, 4  # sites
KEPT = 2  # files
VIEWS_AT_MOST = 1000
BYTES_AT_MOST = 512 << 20
WALL_SECONDS = 900
PART_BYTES = 1 << 18  # of a file, as it is sent

log = logging.getLogger(__name__)


class SiteArchives:
    """The zip files of one host; to be used in its event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._folder = settings, settings.resolved_state_dir() / "sites"
        shutil.rmtree(self._folder, ignore_errors=True)  # of the app's last life, which may have been cut off
        self._writing = Planning("sites are being written or wait", WRITTEN_AT_ONCE, WAITING)
        self._under_way: dict[Hashable, asyncio.Task[Path]] = {}
        self._kept: dict[Hashable, Path] = {}  # the last used one last

    async def opened(self, study: Study, version: Hashable) -> tuple[BinaryIO, int]:
        """The site of a study within the limits of ``check_size`` as an open file, and its bytes.

        ``version``: equal for equal contents. Raises ``Busy`` where too many sites wait, and ``SarqcError`` where it
        can't be written.
        """
        key = (study.id, version)
        if key not in self._kept:
            task = self._under_way.get(key)
            if task is None:
                task = self._under_way[key] = asyncio.create_task(self._made(study, key))
                task.add_done_callback(lambda _: self._under_way.pop(key))
            await asyncio.shield(task)  # others wait for it too
        path = self._kept.pop(key, None)
        if path is None:
            raise Busy("other sites took the place of this one meanwhile", "site.zip", "Try again in a moment.")
        self._kept[key] = path
        return path.open("rb"), path.stat().st_size

    async def _made(self, study: Study, key: Hashable) -> Path:
        path = await self._writing.run(lambda: self._written(study))
        self._kept[key] = path
        for oldest in list(self._kept)[:-KEPT]:
            shutil.rmtree(self._kept.pop(oldest).parent)  # who reads it has it open
        return path

    def _written(self, study: Study) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        path = folder / f"{study.folder.name}-site.zip"
        try:
            _publish(study.folder, path, self._settings)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return path


def check_size(plan: SitePlan) -> None:
    """Raise ``TooLarge`` for a site that is for the command line."""
    size = plan.view_bytes + plan.file_bytes + plan.model_bytes
    if plan.views > VIEWS_AT_MOST or size > BYTES_AT_MOST:
        raise TooLarge(
            f"the site would have {plan.views} views and about {mib(size)}; from here at most {VIEWS_AT_MOST} and "
            f"{mib(BYTES_AT_MOST)} are written", "site.zip",
            "Download the study, and use python -m sarqc publish with --detail none.",
        )  # fmt: skip


def parts_of(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of an open file, which is closed behind them."""
    with file:
        while part := file.read(PART_BYTES):
            yield part


def _publish(study: Path, path: Path, settings: Settings) -> None:
    """Write the site of a study by the command. Raises ``SarqcError`` where that fails; see the log."""
    command = [sys.executable, "-m", "sarqc", "publish", str(study), "--output", str(path)]
    command += ["--processes", "1"]
    own = {"SARQC_ASSETS_DIR": str(settings.assets_dir), "SARQC_STATE_DIR": str(settings.resolved_state_dir())}
    process = subprocess.Popen(
        command, env={**os.environ, **own, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        _, said = process.communicate(timeout=WALL_SECONDS)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise SarqcError(f"writing it takes more than {WALL_SECONDS} s", "site.zip", "Use the command line.") from None
    if process.returncode:
        log.warning("publish of %s ended with %s: %s", study.name, process.returncode, said.decode(errors="replace"))
        raise SarqcError("the site could not be written", "site.zip", "See the app's log.")
