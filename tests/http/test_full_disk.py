"""A disk that is really full: a small one in memory, which only the app sees."""

import hashlib
import os
import random
import resource
import subprocess
import time
from pathlib import Path

import pytest

from sarqc.files.room import ROOM_SECONDS
from sarqc.jobs.reserve import RESERVE_BYTES
from tests.http.conftest import assert_error, events_of, finished, run_of, submit, write_study
from tests.jobs.conftest import until
from tests.jobs.fake_runs import recipe

pytestmark = pytest.mark.thorough

WAITS = "waits for room on the disk"
MOUNT = 'mkdir -p "$0" && mount -t tmpfs -o size={size}m tmpfs "$0" && exec "$@"'


def small_disk(folder: Path, size: int = 24) -> list[str]:
    """The command before another that gives it a small disk (MiB) at a folder. Skips where that is not allowed."""
    command = [
        "unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c", MOUNT.format(size=size),
        str(folder),
    ]  # fmt: skip
    attempt = subprocess.run([*command, "true"], capture_output=True, text=True)
    if attempt.returncode:
        pytest.skip(f"no disk can be mounted here: {attempt.stderr.strip()}")
    return command


def fill(path: Path):
    """Writes to a file until the disk takes not a byte more."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def test_what_makes_room_works_on_a_full_disk_and_the_rest_says_so(serve, tmp_path):
    app = serve("long_layer", small_disk(tmp_path / "state"))
    disk = Path(f"/proc/{app.process.pid}/root{tmp_path}/state")  # as the app sees it
    running, *waiting = [submit(app.http, 1)["id"] for _ in range(4)]
    until(lambda: run_of(app.http, running)["progress"]["total"])
    assert app.http.get("/api/health").json()["trouble"] is None
    fill(disk / "filler")

    assert "full" in app.http.get("/api/health").json()["trouble"]
    answers = [
        app.http.post("/api/runs?lane=batch", json=recipe(1).to_json()) for _ in range(20)
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
    submit(app.http)


def test_a_run_waits_for_room_and_goes_on_by_itself(serve, tmp_path):
    app = serve("keeps", small_disk(tmp_path / "state"))
    disk = Path(f"/proc/{app.process.pid}/root{tmp_path}/state")
    run_id, queued = (submit(app.http, layers)["id"] for layers in (13, 2))
    until(lambda: run_of(app.http, run_id)["progress"]["done"] >= 3)
    fill(disk / "filler")
    until(lambda: run_of(app.http, run_id)["waits_for_room"] and run_of(app.http, run_id)["state"] == "queued")
    run = run_of(app.http, run_id)
    assert (run["attempt"], run["error"]) == (1, None)
    assert 0 < run["progress"]["done"] < 13
    assert WAITS in events_of(app.http, run_id)[-1]["what"]
    assert "free some disk space" in events_of(app.http, run_id)[-1]["what"]
    assert run_of(app.http, queued)["waits_for_room"]
    assert {row["id"]: row["waits_for_room"] for row in app.http.get("/api/runs").json()["runs"]}[run_id]
    time.sleep(3 * ROOM_SECONDS)  # in which the loop looks for room, and finds none
    log = (tmp_path / "app.log").read_text()
    assert "Traceback" not in log
    assert log.count(WAITS) == 1
    assert run_of(app.http, run_id)["attempt"] == 1

    (disk / "filler").unlink()
    run = finished(app.http, run_id)
    assert (run["attempt"], run["waits_for_room"]) == (1, False)
    last = [event for event in events_of(app.http, run_id) if event["type"] == "layer_done"][-13:]
    assert [event["index"] for event in last] == list(range(13))
    assert any(event["from_cache"] for event in last)
    layers = b"".join(random.Random(index).randbytes(256 << 10) for index in range(13))
    assert run["summary"] == {"perplexity": int.from_bytes(hashlib.sha256(layers).digest()[:4])}
    finished(app.http, queued)


def test_what_a_run_says_waits_and_its_last_word_does_not(serve, tmp_path):
    app = serve("chatty", small_disk(tmp_path / "state"))
    disk = Path(f"/proc/{app.process.pid}/root{tmp_path}/state")
    run_id = submit(app.http, 900)["id"]
    until(lambda: len(events_of(app.http, run_id)) > 10)
    fill(disk / "filler")
    until(lambda: run_of(app.http, run_id)["waits_for_room"])
    assert run_of(app.http, run_id)["state"] == "running"
    assert WAITS in events_of(app.http, run_id)[-1]["what"]

    assert not finished(app.http, run_id)["waits_for_room"]
    assert (disk / "filler").exists()
    events = events_of(app.http, run_id)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["detail"].split()[0] for event in events if event["type"] == "stage"] == [*map(str, range(900))]
    log = (tmp_path / "app.log").read_text()
    assert "Traceback" not in log
    assert log.count(WAITS) == 1


def test_a_disk_that_fails_has_words_everywhere_and_runs_go_on_after_it(serve, tmp_path):
    """No file may get a byte more: to SQLite and to all others this is a disk that fails."""
    app = serve("long_layer")
    run_id, queued = submit(app.http, 1)["id"], submit(app.http, 1)["id"]
    until(lambda: run_of(app.http, run_id)["progress"]["total"])
    study = write_study(tmp_path / "state" / "studies", "mine")
    content = app.http.get("/api/studies/mine/download").content
    assert app.http.get("/readyz").status_code == 200
    limits = resource.prlimit(app.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    requests = [
        ("POST", "/api/runs?lane=batch", {"json": recipe(1).to_json()}),
        ("PATCH", f"/api/runs/{queued}", {"json": {"name": "a name"}}),
        ("POST", f"/api/runs/{queued}/link", {}),
        ("POST", f"/api/runs/{queued}/cancel", {}),
        ("POST", "/api/studies/mine/link", {}),
        ("DELETE", "/api/studies/mine", {}),
        ("POST", "/api/texts", {"content": b"a text of some words"}),
        ("POST", "/api/studies", {"content": content}),
    ]
    for method, path, body in requests:
        error = assert_error(app.http.request(method, path, **body), 503, "unwritable")
        assert "can't be written" in error["what"], path
    until(lambda: app.http.get("/readyz").status_code == 503)
    assert app.http.get("/readyz").json()["checks"]["store"] == "the database of runs can't be written"
    assert app.http.get("/api/studies/mine/download").content == content
    resource.prlimit(app.process.pid, resource.RLIMIT_FSIZE, limits)
    until(lambda: app.http.get("/readyz").status_code == 200)
    assert app.http.post(f"/api/runs/{run_id}/cancel").is_success
    assert study.folder.is_dir()
    submit(app.http)
