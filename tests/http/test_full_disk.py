"""A disk that is really full: a small one in memory, which only the app sees."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.http.conftest import App, assert_error
from tests.jobs.conftest import until
from tests.jobs.fake_runs import recipe

MOUNT = 'mkdir -p "$0" && mount -t tmpfs -o size=24m tmpfs "$0" && exec "$@"'


def small_disk(folder: Path) -> list[str]:
    """The command before another that gives it a small disk at a folder. Skips where that is not allowed."""
    command = [
        "unshare",
        "--mount",
        *([] if os.geteuid() == 0 else ["--map-root-user"]),
        "sh",
        "-c",
        MOUNT,
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
    until((disk / "reserve").exists)
    assert app.http.post("/api/runs", json=submit).status_code == 201
