"""Lectures over HTTP.

Below ``JOIN`` nobody has to sign in: a phone has only the code of a lecture, which opens these routes and the page of
the lecture alone.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.sse import EventSourceResponse

from sarqc.extras.classroom.lectures import (
    REQUESTS,
    HallState,
    Lecture,
    LectureBegun,
    Lectures,
    LectureWish,
    PhoneGuess,
    PhoneState,
    new_code,
)
from sarqc.jobs.bell import Bell
from sarqc.settings import Settings
from sarqc.web.access import Holder, Who
from sarqc.web.gate import Crowd
from sarqc.web.responses import ApiRoute, own_address, refuse_other_sites
from sarqc.web.streams import STREAM_HEADERS, states

BODY_BYTES = 4096
JOIN = ("/join/", "/api/join/")  # what the code of a lecture opens

Secret = Annotated[str, Header(alias="X-Lecture-Secret", max_length=128)]
Phone = Annotated[str, Query(pattern=r"^[0-9a-f]{32}$")]


def crowd_of(lectures: Lectures) -> Crowd:
    """Return the phones of all lectures."""

    def group(path: str) -> tuple[str, int] | None:
        code = path.removeprefix("/api").removeprefix("/join/").partition("/")[0] if path.startswith(JOIN) else ""
        return (code, REQUESTS) if code in lectures else None

    # A hall is one address, and a lecture counts its phones.
    return Crowd(JOIN, group, lambda path: path.startswith("/api/join/") and path.endswith("/events"))


class _SmallRoute(ApiRoute):
    body_bytes = BODY_BYTES


def lecture_router(lectures: Lectures, settings: Settings, bell: Bell) -> APIRouter:
    """Return all routes."""
    router = APIRouter(
        prefix="/api", route_class=_SmallRoute, dependencies=[Depends(refuse_other_sites)], tags=["lectures"]
    )
    root = settings.root()

    def end_idle() -> None:
        left = lectures.end_idle(time.monotonic())
        if left is not None:
            asyncio.get_running_loop().call_later(left + 1, end_idle)

    @router.post("/lectures", status_code=201)
    async def begin(request: Request, who: Who, holder: Holder) -> dict[str, Any]:
        """Begin a lecture. Its secret is told only here."""
        who.require_runner("POST /api/lectures")
        code = new_code()
        address = f"{own_address(request)}{root}/join/{code}"
        qr = qr_rows(address)
        is_first = not len(lectures)
        _, secret = lectures.begin(code, holder, time.monotonic())
        if is_first:
            end_idle()
        begun: LectureBegun = {"code": code, "secret": secret, "address": address, "qr": qr}
        return {**begun}

    @router.put("/lectures/{code}")
    async def tell(code: str, secret: Secret, wish: LectureWish) -> dict[str, Any]:
        """Say what the lecturer's page shows."""
        lecture = lectures.of_lecturer(code, secret)
        lecture.tell(wish, time.monotonic())
        return {**lecture.hall_state()}

    @router.delete("/lectures/{code}", status_code=204)
    async def end(code: str, secret: Secret) -> None:
        """End a lecture for all phones."""
        lectures.end(lectures.of_lecturer(code, secret))

    @router.get("/lectures/{code}/events")
    async def hall(code: str, secret: Secret) -> Response:
        """Stream the lecture as it is and after each change: server-sent events."""
        lecture = lectures.of_lecturer(code, secret)

        def state() -> tuple[HallState, bool]:
            return lecture.hall_state(), lecture.is_over

        return EventSourceResponse(states(bell, lecture.hall_topic, state), headers=STREAM_HEADERS)

    @router.get("/join/{code}/events")
    async def join(code: str, phone: Phone) -> Response:
        """Stream what a phone shows: server-sent events."""
        return EventSourceResponse(
            await _start(_stream_to_phone(lectures.of(code), phone, bell)), headers=STREAM_HEADERS
        )

    @router.post("/join/{code}/guess", status_code=204)
    async def guess(code: str, sent: PhoneGuess) -> Response:
        """Take the guess of a phone."""
        lectures.of(code).guess(sent, time.monotonic())
        return Response(status_code=204, headers={"Connection": "close"})  # waiting phones would keep it open

    return router


async def _stream_to_phone(lecture: Lecture, phone: str, bell: Bell) -> AsyncIterator[bytes]:
    """Yield a lecture's states for one phone, until the phone opens a later stream."""
    with lecture.joined(phone) as number:

        def state() -> tuple[PhoneState, bool] | None:
            return (lecture.phone_state(), lecture.is_over) if lecture.is_heard(phone, number) else None

        async for part in states(bell, lecture.phone_topic(phone), state):
            yield part


async def _start(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return the same stream after its first part: an error there can still be an answer of its own."""
    first = await anext(parts)

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for part in parts:
            yield part

    return whole()


def qr_rows(text: str) -> list[str]:
    """Return the modules of a text as a QR code, row by row: “1” is dark. There is no margin around them."""
    from segno import make_qr  # imported here: most apps never have a lecture

    return ["".join("1" if module else "0" for module in row) for row in make_qr(text, error="m").matrix]
