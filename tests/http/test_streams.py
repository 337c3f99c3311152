"""Server-sent events through a real server: replay, live, several listeners, heartbeat, and the end."""

import asyncio
import json
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest

from sarqc.events import Finished, Stage
from sarqc.jobs.run import Run, State
from sarqc.web import streams as sse
from sarqc.web.access import Access
from sarqc.web.visitor import Visitor
from tests.event_loops import run_apart
from tests.http.conftest import finished, run_of, submit
from tests.jobs.conftest import children_of, in_state, is_alive, settings_in, until
from tests.jobs.fake_runs import recipe


def everything() -> sse.Sight:
    """The sight of somebody from whom nothing is hidden."""
    return lambda run: True


def as_it_is(run: Run) -> Run:
    """To those who may read all of it."""
    return run


def messages(answer: httpx.Response) -> Iterator[tuple[int, dict]]:
    """(id, data) of each message of a stream, until it ends."""
    data = number = None
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "data":
            data = json.loads(value)
        elif name == "id":
            number = int(value)
        elif not line and data is not None:
            yield number, data
            data = None


@pytest.mark.thorough
def test_a_run_is_followed_live_to_its_end(serve):
    app = serve("slow")
    run_id = submit(app.http, 4)["id"]
    with app.http.stream("GET", f"/api/runs/{run_id}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        got = list(messages(answer))
    assert [number for number, _ in got] == list(range(1, 7))
    assert [data["type"] for _, data in got] == ["started", *["layer_done"] * 4, "finished"]
    assert all(data["seq"] == number and data["at"].endswith("Z") for number, data in got)

    for headers, query in (({"Last-Event-ID": "3"}, ""), ({}, "?after=3"), ({"Last-Event-ID": "3"}, "?after=1")):
        with app.http.stream("GET", f"/api/runs/{run_id}/events{query}", headers=headers) as answer:
            assert [number for number, _ in messages(answer)] == [4, 5, 6]
    # a browser that comes back after the end is told to stay away
    assert app.http.get(f"/api/runs/{run_id}/events", headers={"Last-Event-ID": "6"}).status_code == 204


@pytest.mark.thorough
def test_two_listeners_hear_the_same(serve):
    app = serve("slow")
    run_id = submit(app.http, 4)["id"]

    def follow(_):
        with httpx.stream("GET", f"http://127.0.0.1:{app.port}/api/runs/{run_id}/events", timeout=30) as answer:
            return list(messages(answer))

    with ThreadPoolExecutor(2) as listeners:
        heard = list(listeners.map(follow, range(2)))
    assert len(heard[0]) == 6
    assert heard[0] == heard[1]


@pytest.mark.thorough
def test_changes_of_all_runs(serve):
    app = serve("quick")
    revision = app.http.get("/api/runs").json()["revision"]
    run_id = submit(app.http, 1)["id"]
    with app.http.stream("GET", f"/api/events?after={revision}") as answer:
        stream = messages(answer)
        states = []
        while "finished" not in states:
            number, data = next(stream)
            assert data["type"] == "run"
            assert data["run"]["id"] == run_id
            assert data["run"]["revision"] == number > revision
            states.append(data["run"]["state"])
        app.http.delete(f"/api/runs/{run_id}")
        while data["type"] == "run":
            number, data = next(stream)
        assert data == {"type": "removed", "id": run_id}
    with app.http.stream("GET", f"/api/events?after={revision}", headers={"Last-Event-ID": str(number - 1)}) as answer:
        assert next(messages(answer)) == (number, data)


@pytest.mark.thorough
def test_a_storm_does_not_hold_up_the_server(serve):
    app = serve("storm")
    run_id = submit(app.http, 10_000)["id"]
    slowest, done = 0.0, False
    while not done:
        began = time.monotonic()
        done = run_of(app.http, run_id)["state"] == "finished"
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < 2.0
    with app.http.stream("GET", f"/api/runs/{run_id}/events") as answer:
        assert [number for number, _ in messages(answer)] == list(range(1, 10_003))


def test_kill_of_the_app_and_its_return(serve):
    """The whole story over REST: kill -9, no orphan, and the listener who comes back sees it go on."""
    first = serve("slow")
    run_id = submit(first.http, 8)["id"]
    with first.http.stream("GET", f"/api/runs/{run_id}/events") as answer:
        stream = messages(answer)
        before = [next(stream) for _ in range(3)]
        (worker,) = children_of(first.process.pid)
        first.end(signal.SIGKILL)
        assert len(list(_until_broken(stream))) <= 6
    until(lambda: not is_alive(worker))
    second = serve("slow")
    last = before[-1][0]
    with second.http.stream("GET", f"/api/runs/{run_id}/events", headers={"Last-Event-ID": str(last)}) as answer:
        after = list(messages(answer))
    types = [data["type"] for _, data in before + after]
    assert types.count("interrupted") == 1
    assert types.count("started") == 2
    assert types[-1] == "finished"
    (told,) = (data["what"] for _, data in after if data["type"] == "interrupted")
    assert told.startswith("The app was stopped.")
    assert "of 8 layers are kept" in told
    assert [number for number, _ in before + after] == list(range(1, len(types) + 1))
    assert run_of(second.http, run_id)["attempt"] == 2


@pytest.mark.thorough
def test_sigterm_ends_streams_workers_and_app(serve, tmp_path):
    app = serve("long_layer")
    run_id = submit(app.http, 1)["id"]
    with (
        app.http.stream("GET", f"/api/runs/{run_id}/events") as one,
        httpx.stream("GET", f"http://127.0.0.1:{app.port}/api/events", timeout=30) as all_runs,
    ):
        assert next(messages(one))[1]["type"] == "started"
        (worker,) = children_of(app.process.pid)
        assert app.end(signal.SIGTERM) in (0, -signal.SIGTERM)
        assert "timeout graceful shutdown exceeded" not in (tmp_path / "app.log").read_text()
        list(messages(all_runs))
    assert not is_alive(worker)
    again = serve("quick")
    finished(again.http, run_id)


def _until_broken(stream: Iterator) -> Iterator:
    try:
        yield from stream
    except httpx.TransportError:
        return


def collect(stream, count: int) -> list[bytes]:
    async def take() -> list[bytes]:
        got = []
        async for chunk in stream:
            got.append(chunk)
            if len(got) == count:
                break
        await stream.aclose()
        return got

    return run_apart(take())


def test_heartbeat(store, monkeypatch):
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.02)
    run_id = store.create(recipe(), "ann").id
    for stream in (
        sse.run_events(store, sse.Bell(), run_id, 0, everything),
        sse.run_changes(store, sse.Bell(), store.revision(), everything, as_it_is),
    ):
        assert collect(stream, 3) == [b"retry: 2000\n\n", b": ping\n\n", b": ping\n\n"]


def test_stream_ends_when_the_run_is_deleted_or_the_app_ends(store):
    run_id = store.create(recipe(), "ann").id
    store.cancel(run_id)

    async def follow():
        bell, got = sse.Bell(), []
        stream = sse.run_changes(store, bell, store.revision(), everything, as_it_is)
        async for chunk in stream:
            got.append(chunk)
            asyncio.get_running_loop().call_later(0.02, bell.close)
        async for chunk in sse.run_events(store, sse.Bell(), "deleted meanwhile", 0, everything):
            got.append(chunk)
        return got

    assert run_apart(follow()) == [b"retry: 2000\n\n"] * 2


def test_bell_rings_from_any_thread_and_forgets_who_left(store):
    bell = sse.Bell()
    run_id = in_state(store, State.RUNNING)

    def work():
        for number in range(20):
            store.append(run_id, [Stage("x", str(number))])
            bell.ring(run_id)
        store.move(run_id, State.FINISHED, Finished({}, 1.0))
        bell.ring(run_id)

    async def follow():
        threading.Thread(target=work).start()
        return sum([chunk.count(b"data:") async for chunk in sse.run_events(store, bell, run_id, 0, everything)])

    assert run_apart(follow()) == 21
    assert not bell._listeners
    bell.ring(run_id)


def test_a_listener_that_does_not_read_costs_little(store, monkeypatch):
    """What is read at once is bounded in bytes, and nothing is left out."""
    run_id = in_state(store, State.RUNNING)
    store.append(run_id, [Stage("x" * 30_000, str(number)) for number in range(40)])
    store.move(run_id, State.FINISHED, Finished({}, 1.0))
    read = []
    tail = store.tail

    def counted(*values):
        events, complete = tail(*values)
        read.append(sum(len(json.dumps(event.payload)) for event in events))
        return events, complete

    monkeypatch.setattr(store, "tail", counted)
    got = collect(sse.run_events(store, sse.Bell(), run_id, 0, everything), 100)
    assert sum(chunk.count(b"data:") for chunk in got) == 41
    assert max(read) < 2 * sse.BATCH_BYTES


def test_changes_come_in_portions_without_a_gap(store, monkeypatch):
    monkeypatch.setattr(sse, "BATCH", 3)
    ids = [store.create(recipe(), "ann").id for _ in range(8)]
    for run_id in ids[:4]:
        store.cancel(run_id)
        store.delete(run_id)
    chunks = collect(sse.run_changes(store, sse.Bell(), 0, everything, as_it_is), 9)[1:]
    numbers = [int(chunk.decode().split("id: ")[1].split()[0]) for chunk in chunks]
    assert numbers == sorted(change.revision for change in store.changed_since(0))


def test_who_could_not_see_a_run_is_not_told_that_it_is_gone(store, tmp_path, monkeypatch):
    access = Access(settings_in(tmp_path / "other", access="open", strangers="runner", hosts="x"), store)
    gone = [store.create(recipe(), owner).id for owner in ("ann", "bob")]
    for run_id in gone:
        store.cancel(run_id)
        store.delete(run_id)

    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.01)
    for visitor, ids in ((Visitor("ann", "runner"), gone[:1]), (Visitor("carol", "viewer"), []),
                         (Visitor("root", "operator"), gone)):  # fmt: skip
        seen = partial(access.sees, visitor)
        _, *chunks, last = collect(sse.run_changes(store, sse.Bell(), 0, seen, access.as_seen(visitor)), len(ids) + 2)
        assert [json.loads(chunk.split(b"data: ")[1].split(b"\n")[0])["id"] for chunk in chunks] == ids
        assert last == sse.KEEPALIVE_COMMENT
