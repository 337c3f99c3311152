"""Halls full of phones, all from one address: each hears each change of its lecture, and the guesses add up."""

import asyncio
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

from conformance.torture.figures import Figures
from sarqc.extras.classroom.lectures import LECTURES_EACH, PHONES
from tests.event_loops import run_apart
from tests.http.conftest import App

LISTENED, MISSED, MISCOUNTED, REFUSED = "phones", "changes not heard", "guesses miscounted", "guesses refused"
EVENT, EVENT_95, GUESS_95 = "a change until the last phone", "the same, 95 of 100", "a guess, 95 of 100"
LAMS = [0.0, 0.01, 0.1, 1.0]
AT_ONCE = 40  # guesses
OPEN_SECONDS = 1.0  # that a browser keeps a connection, at least
PHASES = ("open", "closed", "revealed")
# Strangers may lecture, and an address may not even ask as often as its phones guess.
PUBLIC = {
    "SARQC_ACCESS": "open",
    "SARQC_STRANGERS": "runner",
    "SARQC_HOSTS": "127.0.0.1",
    "SARQC_REQUESTS_PER_MINUTE": 200,
}
SECONDS = 120.0  # a busy host is slow; a message that is lost never comes


def fill(
    folder: Path, figures: Figures, phones: int = PHONES, lectures: int = LECTURES_EACH, at_once: int = AT_ONCE,
    **limits: int,
) -> None:  # fmt: skip
    """Lectures at a time with so many phones each, from their first question to their end; where they are full, one
    phone more is turned away. ``limits``: settings of the app beside its usual ones."""
    figures.expect(LISTENED, MISSED, MISCOUNTED, REFUSED)
    if not phones:
        return
    folder.mkdir(parents=True, exist_ok=True)
    app = App(folder, "quick", ["env", *(f"{name}={value}" for name, value in (PUBLIC | limits).items())])
    try:
        begun = [app.http.post("/api/lectures").json() for _ in range(lectures)]
        run_apart(asyncio.wait_for(_halls(app.port, begun, figures, phones, at_once), 4 * SECONDS))
    finally:
        app.http.close()
        app.end(9)


async def _halls(port: int, begun: list[dict[str, Any]], figures: Figures, phones: int, at_once: int) -> None:
    hands = asyncio.Semaphore(at_once)
    await asyncio.gather(*(_lecture(port, one, figures, phones, hands) for one in begun))


async def _lecture(port: int, begun: dict[str, Any], figures: Figures, phones: int, hands: asyncio.Semaphore) -> None:
    code, secret = begun["code"], begun["secret"]
    heard: list[dict[str, float]] = [{} for _ in range(phones)]  # when each phase arrived at a phone
    counted: list[list[int]] = []  # as the phones have heard it
    listening = [asyncio.create_task(_listen(port, code, number, heard[number], counted)) for number in range(phones)]

    def all_heard(phase: str) -> bool:
        return all(phase in one or gone.done() for one, gone in zip(heard, listening, strict=True))

    await _until(partial(all_heard, "waiting"))
    figures.count(LISTENED, phones)
    if phones == PHONES and await _status(port, "GET", f"/api/join/{code}/events?phone={_phone(phones)}") != 503:
        figures.complain(REFUSED, "one phone too many was let in")
    times: list[float] = []
    for phase in PHASES:
        best = 2 if phase == "revealed" else None
        wish = {"stop": "model", "lams": LAMS, "phase": phase, "best": best, "band": None}
        began = time.monotonic()
        await _status(port, "PUT", f"/api/lectures/{code}", wish, f"X-Lecture-Secret: {secret}\r\n")
        await _until(partial(all_heard, phase))
        missing = sum(phase not in one for one in heard)
        if missing:
            figures.complain(MISSED, f"{phase}: {missing} phones")
        times += [one[phase] - began for one in heard if phase in one]
        if phase == "open":
            took = await asyncio.gather(*(_guess(port, code, number, hands, figures) for number in range(phones)))
            figures.took(GUESS_95, sorted(took)[int(0.95 * (len(took) - 1))])
    figures.took(EVENT, max(times))
    figures.took(EVENT_95, sorted(times)[int(0.95 * (len(times) - 1))])
    wanted = [len(range(position, phones, len(LAMS))) for position in range(len(LAMS))]
    for counts in counted:
        if counts != wanted:
            figures.complain(MISCOUNTED, str(counts))
    await _status(port, "DELETE", f"/api/lectures/{code}", None, f"X-Lecture-Secret: {secret}\r\n")
    await asyncio.wait_for(asyncio.gather(*listening), SECONDS)  # each stream ends with the lecture


def _phone(number: int) -> str:
    return f"{number:032x}"


async def _listen(port: int, code: str, number: int, heard: dict[str, float], counted: list[list[int]]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /api/join/{code}/events?phone={_phone(number)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    while line := await _line(reader):
        if line.startswith(b"data: "):
            document = json.loads(line[6:])
            heard[document["phase"]] = time.monotonic()
            if document["counts"] is not None:
                counted.append(document["counts"])
            if document["phase"] == "ended":
                break
    writer.close()


async def _guess(port: int, code: str, number: int, hands: asyncio.Semaphore, figures: Figures) -> float:
    said = {"phone": _phone(number), "stop": "model", "guess": number % len(LAMS)}
    async with hands:
        began = time.monotonic()
        status = await _status(port, "POST", f"/api/join/{code}/guess", said)
    if status != 204:
        figures.complain(REFUSED, f"phone {number}: {status}")
    return time.monotonic() - began


async def _status(port: int, method: str, path: str, document: Any = None, headers: str = "") -> int:
    """The status of an answer; 0 without one."""
    body = b"" if document is None else json.dumps(document).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + body)
    line = await _line(reader)
    asyncio.get_running_loop().call_later(OPEN_SECONDS, writer.close)
    return int(line.split()[1]) if line else 0


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line; an empty one from a connection that was closed or reset."""
    try:
        return await reader.readline()
    except ConnectionResetError:
        return b""


async def _until(met: Any) -> None:
    """Returns when a condition is met, or after ``SECONDS``."""
    end = time.monotonic() + SECONDS
    while not met() and time.monotonic() < end:
        await asyncio.sleep(0.005)
