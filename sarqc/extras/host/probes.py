"""``/healthz`` and ``/readyz``: whether the process answers, and whether it can work.

For monitoring: answered before any other check, without a login. A process that does not answer ``/healthz`` is to be
restarted; one that is not ready may recover, and is to get no visitors meanwhile.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sarqc.errors import SarqcError
from sarqc.files.places import MARK, place_at
from sarqc.jobs.supervisor import Supervisor
from sarqc.settings import Settings
from sarqc.web.middleware import HttpMiddleware

HEALTH, READINESS = "/healthz", "/readyz"
SECONDS = 5.0  # for which the answer of a check is good: asking often costs nothing
OK = "ok"

log = logging.getLogger(__name__)

Checks = dict[str, str]  # “ok” or the trouble in words, by condition


class Readiness:
    """Conditions of the work of the app, checked not more often than every ``SECONDS``.

    The words are for everybody: the log and ``GET /api/health`` say more to those who may know.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._known: tuple[float, Checks] | None = None
        self._looking = asyncio.Lock()

    async def checks(self) -> Checks:
        """Return each condition, with “ok” or its trouble."""
        async with self._looking:
            if self._known is None or time.monotonic() - self._known[0] >= SECONDS:
                checks = await run_in_threadpool(self._check)
                self._known = time.monotonic(), checks
            return self._known[1]

    def _check(self) -> Checks:
        supervisor = self._supervisor
        checks = {
            "store": self._store(),
            "supervisor": OK if supervisor.is_going() else "nothing starts or ends runs: restart the app",
            "disk": OK if supervisor.full_disk() is None else "the disk with the state folder is full",
        }
        if supervisor.settings.is_object_storage():
            lost = _lost_storage(supervisor.settings)
            if lost is not None:
                log.warning("%s", lost)
            checks["storage"] = OK if lost is None else "the object storage does not answer as it should"
        return checks

    def _store(self) -> str:
        try:
            self._supervisor.store.check_writable()
        except (SarqcError, OSError, sqlite3.Error):
            return "the database of runs can't be written"
        return OK


def _lost_storage(settings: Settings) -> str | None:
    """Return in words that object storage does not give what was written to it; None: it does."""
    try:
        mark = place_at(settings.storage_root()).read(MARK)
    except SarqcError as error:
        return str(error)
    return f"{settings.storage} has lost its mark, {MARK}: restart the app" if mark is None else None


class Probes(HttpMiddleware):
    """Gives GET and HEAD of some paths to an app each, and hands on all other requests."""

    def __init__(self, app: ASGIApp, probes: Mapping[str, ASGIApp]) -> None:
        super().__init__(app)
        self._probes = probes

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        probe = self._probes.get(scope["path"]) if scope["method"] in ("GET", "HEAD") else None
        await (probe or self.app)(scope, receive, send)


def health_probes(supervisor: Supervisor) -> dict[str, ASGIApp]:
    """Return the two probes by path."""
    readiness = Readiness(supervisor)

    async def ready(scope: Scope, receive: Receive, send: Send) -> None:
        checks = await readiness.checks()
        is_ready = all(words == OK for words in checks.values())
        document = {"status": OK if is_ready else "trouble", "checks": checks}
        await _answer(200 if is_ready else 503, document)(scope, receive, send)

    return {HEALTH: _answer(200, {"status": OK}), READINESS: ready}


def _answer(status: int, document: Mapping[str, object]) -> JSONResponse:
    return JSONResponse(document, status, headers={"Cache-Control": "no-store"})
