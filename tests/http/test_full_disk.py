"""A disk that is really full: a small one in memory, which only the app sees."""

import hashlib
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sarqc.files.room import ROOM_SECONDS
from sarqc.jobs.reserve import RESERVE_BYTES
from tests.http.conftest import App, assert_error
from tests.jobs.conftest import until
from tests.jobs.fake_runs import recipe

WAITS = "waits for room on the disk"
MOUNT = 'mkdir -p "$0" && mount -t tmpfs -o size={size}m tmpfs "$0" && exec "$@"'


def small_disk(folder: Path, size: int = 24) -> list[str]:
    """The command before another that gives it a small disk (MiB) at a folder. Skips where that is not allowed."""
    command = [
        "unshare",
        "--mount",
        *([] if os.geteuid() == 0 else ["--map-root-user"]),
        "sh",
        "-c",
        MOUNT.format(size=size),
        str(folder),
    ]
    attempt = subprocess.run([*command, "true"], capture_output=True, text=True)
    if attempt.returncode:
        pytest.skip(f"no disk can be mounted here: {attempt.stderr.strip()}")
    return command


def fill(path: Path) -> None:
    """Writes to a file until the disk takes not a byte more."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def asked(app: App, run_id: str) -> dict[str, Any]:
    return app.http.get(f"/api/runs/{run_id}").json()


def said(app: App, run_id: str) -> list[dict[str, Any]]:
    return app.http.get(f"/api/runs/{run_id}/events", headers={"Accept": "application/json"}).json()["events"]


def finished(app: App, run_id: str) -> dict[str, Any]:
    until(lambda: asked(app, run_id)["state"] in ("finished", "failed"))
    run = asked(app, run_id)
    assert run["state"] == "finished", run["error"]
    return run


def test_what_makes_room_works_on_a_full_disk_and_the_rest_says_so(serve: Callable[..., App], tmp_path: Path) -> None:
    app = serve("long_layer", small_disk(tmp_path / "state"))
    disk = Path(f"/proc/{app.process.pid}/root{tmp_path}/state")  # as the app sees it
    submit = recipe(1).to_json()
    running, *waiting = [app.http.post("/api/runs", json=submit).json()["id"] for _ in range(4)]
    until(lambda: app.http.get(f"/api/runs/{running}").json()["progress"]["total"])
    assert app.http.get("/api/health").json()["trouble"] is None
    fill(disk / "filler")

    assert "full" in app.http.get("/api/health").json()["trouble"]
    answers = [
        app.http.post("/api/runs?lane=batch", json=submit) for _ in range(20)
    ]  # the first may still find a place
    error = assert_error(answers[-1], 507, "refused")
    assert error["what"] == "the disk is full"
    assert "Delete runs" in error["remedy"]
    archive = b"x" * 100_000
    assert_error(app.http.post("/api/studies", content=archive), 507, "refused")

    for run_id in waiting:
        assert app.http.post(f"/api/runs/{run_id}/cancel").json()["state"] == "cancelled"
        assert app.http.delete(f"/api/runs/{run_id}").status_code == 204
        assert app.http.get(f"/api/runs/{run_id}").status_code == 404

    (disk / "filler").unlink()
    app.http.post(f"/api/runs/{running}/cancel")
    until(lambda: app.http.get("/api/health").json()["trouble"] is None)
    until(lambda: (disk / "reserve").stat().st_size == RESERVE_BYTES)
    assert app.http.post("/api/runs", json=submit).status_code == 201


def test_a_run_waits_for_room_and_goes_on_by_itself(serve: Callable[..., App], tmp_path: Path) -> None:
    app = serve("keeps", small_disk(tmp_path / "state"))
    disk = Path(f"/proc/{app.process.pid}/root{tmp_path}/state")
    run_id, queued = (app.http.post("/api/runs", json=recipe(layers).to_json()).json()["id"] for layers in (13, 2))
    until(lambda: asked(app, run_id)["progress"]["done"] >= 3)
    fill(disk / "filler")
    until(lambda: asked(app, run_id)["waits_for_room"] and asked(app, run_id)["state"] == "queued")
    run = asked(app, run_id)
    assert (run["attempt"], run["error"]) == (1, None)
    assert 0 < run["progress"]["done"] < 13
    assert WAITS in said(app, run_id)[-1]["what"]
    assert "free some disk space" in said(app, run_id)[-1]["what"]
    assert asked(app, queued)["waits_for_room"]
    assert {row["id"]: row["waits_for_room"] for row in app.http.get("/api/runs").json()["runs"]}[run_id]
    time.sleep(3 * ROOM_SECONDS)  # in which the loop looks for room, and finds none
    log = (tmp_path / "app.log").read_text()
    assert "Traceback" not in log
    assert log.count(WAITS) == 1
    assert asked(app, run_id)["attempt"] == 1

    (disk / "filler").unlink()
    run = finished(app, run_id)
    assert (run["attempt"], run["waits_for_room"]) == (1, False)
    last = [event for event in said(app, run_id) if event["type"] == "layer_done"][-13:]
    assert [event["index"] for event in last] == list(range(13))
    assert any(event["from_cache"] for event in last)
    layers = b"".join(random.Random(index).randbytes(256 << 10) for index in range(13))
    assert run["summary"] == {"perplexity": int.from_bytes(hashlib.sha256(layers).digest()[:4])}
    finished(app, queued)


def test_what_a_run_says_waits_and_its_last_word_does_not(serve: Callable[..., App], tmp_path: Path) -> None:
    app = serve("chatty", small_disk(tmp_path / "state"))
    disk = Path(f"/proc/{app.process.pid}/root{tmp_path}/state")
    run_id = app.http.post("/api/runs", json=recipe(900).to_json()).json()["id"]
    until(lambda: len(said(app, run_id)) > 10)
    fill(disk / "filler")
    until(lambda: asked(app, run_id)["waits_for_room"])
    assert asked(app, run_id)["state"] == "running"
    assert WAITS in said(app, run_id)[-1]["what"]

    assert not finished(app, run_id)["waits_for_room"]
    assert (disk / "filler").exists()
    events = said(app, run_id)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["detail"].split()[0] for event in events if event["type"] == "stage"] == [*map(str, range(900))]
    log = (tmp_path / "app.log").read_text()
    assert "Traceback" not in log
    assert log.count(WAITS) == 1
