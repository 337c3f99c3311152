"""Sites of studies as zip files for download, and their routes.

Each is written by a process of its own, one at a time; requests for the same study share a file, and a site is given up
once nobody waits for it. The files used last are stored.
"""

import asyncio
import json
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from sarqc.errors import Busy, SarqcError, TooLarge
from sarqc.extras import Host
from sarqc.extras.publish.sites import SitePlan, plan_site
from sarqc.files.limited import GIB, Exhausted, answer_of
from sarqc.files.room import check_room
from sarqc.plain import mib
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.web.access import Access, Who
from sarqc.web.planning import Planning
from sarqc.web.responses import ApiRoute, json_body
from sarqc.web.visitor import Visitor

WRITTEN_AT_ONCE, WAITING = 1, 4  # sites
STORED_BYTES = 1 << 30  # of files
VIEWS_AT_MOST = 1000
BYTES_AT_MOST = 512 << 20
CPU_SECONDS = 600  # for a site
MEMORY = 4 * GIB
PART_BYTES = 1 << 18  # of a file, as it is sent

log = logging.getLogger(__name__)


def install(app: FastAPI, host: Host) -> None:
    """Add the routes."""
    app.include_router(_sites_router(host.settings, host.access))


def _sites_router(settings: Settings, access: Access) -> APIRouter:
    sites = SiteArchives(settings)
    router = APIRouter(prefix="/api/studies/{study_id}", route_class=ApiRoute, tags=["studies"])

    def planned(who: Visitor, study_id: str) -> tuple[Hashable, Study, SitePlan]:
        """Return the version of a study, the study, and the size of its site. Raise ``TooLarge``."""
        version = access.library.version(access.study(who, study_id))  # before opening: a change in between is no older
        study = access.library.open(study_id)
        plan = study.once(None, "site", lambda: plan_site(study, "opening"))
        check_size(plan)
        return version, study, plan

    @router.get("/site")
    def get_site_plan(request: Request, who: Who, study_id: str) -> Response:
        """About how much the study takes as a site of files, see ``site.zip``; an error where that is too much."""
        who.require_runner("GET site")
        _, _, plan = planned(who, study_id)
        return json_body(request, {**vars(plan), "words": plan.words})

    @router.get("/site.zip")
    async def get_site(request: Request, who: Who, study_id: str) -> Response:
        """Return the Lab of the study as a site of files, as ``python -m sarqc publish`` writes it, in one zip file. It
        is written when it is first asked for, which may take a minute."""
        who.require_runner("GET site.zip")
        version, study, plan = await run_in_threadpool(planned, who, study_id)
        file, size = await sites.open(request, study, version, plan)
        headers = {
            "Content-Disposition": f'attachment; filename="{study_id}-site.zip"',
            "Content-Length": str(size),
            "Cache-Control": "no-store",
        }
        return StreamingResponse(parts_of(file), media_type="application/zip", headers=headers)

    return router


@dataclass
class _PendingSite:
    """A site under way, and the number of requests for it."""

    task: asyncio.Task[Path]
    unwanted: threading.Event
    waiting: int = 0


@dataclass
class SiteArchives:
    """The zip files of one host; for its event loop alone."""

    settings: Settings
    _under_way: dict[Hashable, _PendingSite] = field(default_factory=dict)
    _files: dict[Hashable, Path] = field(default_factory=dict)  # the last used one last
    _begins: float = 0.0  # when the next may be written (monotonic): together they take half the time of a core

    def __post_init__(self) -> None:
        self._folder = self.settings.resolved_state_dir() / "sites"
        shutil.rmtree(self._folder, ignore_errors=True)  # of the app's last life, which may have been cut off
        self._writing = Planning("sites are being written or wait", WRITTEN_AT_ONCE, WAITING)

    async def open(self, request: Request, study: Study, version: Hashable, plan: SitePlan) -> tuple[BinaryIO, int]:
        """Return the site of a study within the limits of ``check_size`` as an open file, and its bytes.

        ``version``: equal for equal contents. Raise ``Busy`` where too many sites wait, ``NoRoom``, and ``SarqcError``
        where it can't be written.
        """
        key = (study.id, version)
        if key not in self._files:
            await self._wait(request, key, study, plan)
        path = self._files.pop(key, None)
        if path is None:
            raise Busy("other sites took the place of this one meanwhile", "site.zip", "Try again in a moment.")
        self._files[key] = path
        return path.open("rb"), path.stat().st_size

    async def _wait(self, request: Request, key: Hashable, study: Study, plan: SitePlan) -> None:
        """Wait for a site, made for this request or another one, unless its client disconnects."""
        making = self._under_way.get(key)
        if making is None:
            unwanted = threading.Event()
            making = _PendingSite(asyncio.create_task(self._make(study, key, plan, unwanted)), unwanted)
            self._under_way[key] = making
        making.waiting += 1
        left = asyncio.create_task(_wait_for_disconnect(request))
        try:
            await asyncio.wait({making.task, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            making.waiting -= 1
            if not making.waiting and self._under_way.get(key) is making:
                del self._under_way[key]
                making.unwanted.set()
                making.task.cancel()  # where it has not begun
        if making.task.done() and not making.task.cancelled():
            making.task.result()

    async def _make(self, study: Study, key: Hashable, plan: SitePlan, unwanted: threading.Event) -> Path:
        path = await self._writing.run(lambda: self._write(study, plan, unwanted))
        self._files[key] = path
        sizes = {site: file.stat().st_size for site, file in self._files.items()}
        for oldest in list(self._files)[:-1]:
            if sum(sizes.values()) > STORED_BYTES:
                del sizes[oldest]
                shutil.rmtree(self._files.pop(oldest).parent)  # readers have it open
        return path

    def _write(self, study: Study, plan: SitePlan, unwanted: threading.Event) -> Path:
        unwanted.wait(self._begins - time.monotonic())
        self._folder.mkdir(parents=True, exist_ok=True)
        check_room(self._folder, 2 * plan.bytes)  # its files, and the archive of them
        folder, began = Path(tempfile.mkdtemp(dir=self._folder)), time.monotonic()
        path = folder / f"{study.folder.name}-site.zip"
        own = {"assets_dir": str(self.settings.assets_dir), "state_dir": str(self.settings.resolved_state_dir())}
        request = json.dumps({"study": str(study.folder), "path": str(path), "settings": own}).encode()
        try:
            answer_of(
                "sarqc.extras.publish.sites:write_own_archive",
                request,
                cpu_seconds=CPU_SECONDS,
                memory=MEMORY,
                unwanted=unwanted,
            )
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if not isinstance(error, Exhausted):
                raise
            if not unwanted.is_set():
                log.warning("the site of %s was not written: %s", study.folder.name, error.what)
            raise SarqcError("the site could not be written", "site.zip", "See the app's log.") from None
        finally:
            self._begins = 2 * time.monotonic() - began
        return path


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def check_size(plan: SitePlan) -> None:
    """Raise ``TooLarge`` for a site that only the command line may write."""
    if plan.views > VIEWS_AT_MOST or plan.bytes > BYTES_AT_MOST:
        raise TooLarge(
            f"the site would have {plan.views} views and about {mib(plan.bytes)}; from here at most "
            f"{VIEWS_AT_MOST} and {mib(BYTES_AT_MOST)} are written",
            "site.zip",
            "Download the study, and use python -m sarqc publish with --detail none.",
        )


def parts_of(file: BinaryIO) -> Iterator[bytes]:
    """Return the bytes of an open file, and close it."""
    with file:
        while part := file.read(PART_BYTES):
            yield part
