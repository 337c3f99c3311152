"""Connections and requests that ask for too much, or for nothing: through a real server wherever sockets matter."""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvicorn
from fastapi import FastAPI, Request
from starlette.testclient import TestClient

from app import create_app
from sarqc.extras.host import limits
from sarqc.extras.host.limits import RequestLimits
from sarqc.extras.host.process import OnceAMinute, raise_file_limit
from sarqc.extras.host.settings import HostSettings
from sarqc.web.responses import OneShape
from tests.event_loops import run_apart
from tests.http.conftest import assert_error, finished, submit, write_study
from tests.jobs.conftest import until
from tests.jobs.fake_runs import recipe

FEW_FILES = ["sh", "-c", 'ulimit -n 1024 && exec "$@"', "sh"]
IDLE = 1100


@pytest.fixture
def many_files():
    """This process may have the sockets that the test opens."""
    if raise_file_limit() < IDLE + 200:
        pytest.skip(f"this host allows fewer than {IDLE + 200} open files")


@pytest.mark.thorough
@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize("said", [b"", b"POST /api/plan HTTP/1.1\r\nHost: x\r\n"])
def test_the_app_answers_beside_more_idle_connections_than_it_has_files(serve, tmp_path, said):
    app = serve("quick", FEW_FILES)
    with contextlib.ExitStack() as stack:
        for _ in range(IDLE):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", app.port), timeout=20))
            with contextlib.suppress(OSError):  # some are closed by now, to make room
                connection.sendall(said)
        until(app.answers)  # once the others have waited for some seconds; in words meanwhile
        answer = app.http.get("/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert app.http.head("/healthz").status_code == 200
        assert app.http.get("/api/runs").status_code == 200
    assert "Too many open files" not in (tmp_path / "app.log").read_text()


@pytest.mark.thorough
@pytest.mark.usefixtures("many_files")
def test_streams_of_an_address_have_a_limit_that_leaves_room_for_requests(serve, monkeypatch):
    monkeypatch.setenv("SARQC_MAX_STREAMS_PER_ADDRESS", "5")
    app = serve("long_layer")
    run_id = submit(app.http)["id"]
    with contextlib.ExitStack() as stack:
        for path in (f"/api/runs/{run_id}/events", *["/api/events"] * 4):
            assert stack.enter_context(app.http.stream("GET", path)).status_code == 200
        refused = app.http.get("/api/events")
        assert "5 streams" in assert_error(refused, 503, "busy")["what"]
        assert int(refused.headers["retry-after"]) > 0
        assert app.http.get("/api/runs").status_code == 200


@contextlib.contextmanager
def served(**given: int) -> Iterator[int]:
    """The port of a server without routes."""
    protocol = limits.connection_class(HostSettings(**given), 1024)
    server = uvicorn.Server(uvicorn.Config(FastAPI(), port=0, http=protocol, log_config=None, lifespan="off"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()


@pytest.fixture
def short_server(monkeypatch):
    """The port of a server that waits for a request for a moment only."""
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.2)
    with served() as port:
        yield port


def answer_to(connection: socket.socket) -> bytes:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return connection.recv(4096)


def test_a_newcomer_resets_nobody_who_is_about_to_ask(monkeypatch):
    """The ninth of eight is refused in words, until one of them has waited for some seconds."""
    with served(max_connections_per_address=8) as port, contextlib.ExitStack() as stack:

        def connected():
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))

        first, *others = [connected() for _ in range(8)]
        refused = answer_to(connected())
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 5" in refused
        assert b"connection: close" in refused.lower()
        for neighbour in others:
            assert answer_to(neighbour).startswith(b"HTTP/1.1 404")
        monkeypatch.setattr(limits, "WAITED_SECONDS", 0.0)
        assert answer_to(connected()).startswith(b"HTTP/1.1 404")
        with contextlib.suppress(ConnectionResetError):
            assert answer_to(first) == b""


@pytest.mark.thorough
@pytest.mark.parametrize("said", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT"])
def test_half_a_request_is_not_waited_for(short_server, said):
    with socket.create_connection(("127.0.0.1", short_server), timeout=20) as connection:
        connection.sendall(said)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(4096):
                received += chunk
    assert received.count(b"HTTP/1.1 404") == said.count(b"\r\n\r\n")


def test_a_body_that_stops_arriving_is_an_error_of_the_request(settings, monkeypatch):
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.05)
    app = create_app(settings, execute="tests.jobs.fake_runs:quick", with_pages=False)
    scope = {
        "type": "http", "method": "POST", "path": "/api/runs", "raw_path": b"/api/runs", "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"host", b"localhost")],
        "client": ("127.0.0.1", 1), "scheme": "http",
        "server": ("127.0.0.1", 80), "root_path": "", "http_version": "1.1",
    }  # fmt: skip
    sent = []

    async def half_a_body():
        if not hasattr(half_a_body, "began"):
            half_a_body.began = True
            return {"type": "http.request", "body": b"{", "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message):
        sent.append(message)

    run_apart(app(scope, half_a_body, send))
    app.state.supervisor.store.close()
    assert sent[0]["status"] == 408
    assert b"did not arrive in time" in sent[1]["body"]


def test_a_request_that_the_end_of_the_app_cuts_off_is_answered_in_words():
    """As uvicorn does it: it cancels what is still under way after some seconds, and writes plain text for the rest."""
    sent = []

    async def send(message):
        sent.append(message)

    async def endless(*_):
        await asyncio.Event().wait()

    async def end():
        scope = {"type": "http", "method": "POST", "path": "/api/plan", "headers": []}
        task = asyncio.create_task(OneShape(endless)(scope, endless, send))
        await asyncio.sleep(0)
        task.cancel()
        await task

    run_apart(end())
    assert sent[0]["status"] == 503
    assert b"the app is being ended" in sent[1]["body"]


@pytest.mark.thorough
def test_a_plan_that_the_end_of_the_app_cuts_off_is_answered_in_words(serve, tmp_path):
    app = serve("quick")
    with ThreadPoolExecutor(1) as somebody:
        asked = somebody.submit(app.http.post, "/api/plan", json=recipe(97).to_json())
        until((tmp_path / "state" / "planning").exists)
        assert app.end(signal.SIGTERM) in (0, -signal.SIGTERM)
        assert "being ended" in assert_error(asked.result(), 503, "busy")["what"]


def test_requests_at_once_have_a_limit():
    app = FastAPI()
    entered, leave = threading.Semaphore(0), threading.Event()

    @app.get("/slow")
    def slow(request: Request) -> str:
        entered.release()
        leave.wait(20)
        return "done"

    app.add_middleware(RequestLimits, settings=HostSettings().model_copy(update={"max_connections_per_address": 3}))
    with TestClient(app) as client, ThreadPoolExecutor(3) as others:
        asked = [others.submit(client.get, "/slow") for _ in range(3)]
        for _ in asked:
            assert entered.acquire(timeout=20)
        assert_error(client.get("/slow"), 503, "busy")
        leave.set()
        assert [answer.result().status_code for answer in asked] == [200, 200, 200]
        assert client.get("/slow").status_code == 200


def test_a_flood_of_one_message_is_a_line_a_minute():
    now = 0.0
    flood = OnceAMinute(lambda: now)

    def passes(message, level=logging.ERROR, error=None):
        info = (type(error), error, None) if error else None
        record = logging.LogRecord("asyncio", level, "file", 1, message, (), info)
        return record.getMessage() if flood.filter(record) else None

    full = OSError(24, "Too many open files")
    assert passes("accept\nsocket: 1", error=full)
    assert [passes(f"accept\nsocket: {number}", error=full) for number in range(1000)] == [None] * 1000
    assert passes("accept", error=OSError(12, "no memory"))
    assert passes("hello", logging.INFO)
    assert passes("hello", logging.INFO)
    now = 61.0
    assert "1000 more like it" in str(passes("accept\nsocket: 7", error=full))


@pytest.mark.thorough
def test_nobody_else_on_the_host_can_read_the_state(serve, tmp_path):
    app = serve("quick")
    run_id = finished(app.http, submit(app.http)["id"])["id"]
    state = tmp_path / "state"
    files = [state, *state.rglob("*")]
    assert {"runs.sqlite3", "study.json", f"{run_id}.log", "reserve"} <= {path.name for path in files}
    assert [path for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_studies_are_as_private_as_the_process_that_writes_them(tmp_path):
    for umask, mode in ((0o077, 0o700), (0o022, 0o755)):
        before = os.umask(umask)
        try:
            write_study(tmp_path, f"study-{mode}")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / f"study-{mode}").stat().st_mode) == mode


def test_the_soft_limit_of_files_becomes_the_hard_one():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        assert raise_file_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
