"""Runs one after the other, after which the app has no more memory, descriptors, threads or processes than before."""

from pathlib import Path

import psutil

from conformance.torture.figures import Figures
from tests.http.conftest import App, finished, submit
from tests.jobs.conftest import until

RUNS, GREW = "runs one after the other", "what grew with them"
WARM = 5  # runs after which everything has been used once
MORE = {"memory": 24 << 20, "threads": 4}  # that allocator and pools may keep


def play(folder: Path, figures: Figures, runs: int) -> None:
    """``runs`` runs, each waited for and its study looked at, beside the first few."""
    figures.expect(RUNS, GREW)
    if not runs:
        return
    folder.mkdir(parents=True, exist_ok=True)
    app = App(folder, "quick")
    try:
        for _ in range(WARM):
            _one(app)
        before = _taken(app)
        for _ in range(runs):
            _one(app)
            figures.count(RUNS)
        until(lambda: _taken(app)["processes"] <= before["processes"])
        after = _taken(app)
        for name, count in after.items():
            if count > before[name] + MORE.get(name, 1):
                figures.complain(GREW, f"{name}: {before[name]} before, {count} after {runs} runs")
    finally:
        app.http.close()
        app.end(9)


def _one(app: App) -> None:
    run_id = finished(app.http, submit(app.http, 3)["id"])["id"]
    with app.http.stream("GET", f"/api/runs/{run_id}/events") as answer:
        assert answer.read().count(b"data: ") >= 5
    assert app.http.get("/api/runs").status_code == 200


def _taken(app: App) -> dict[str, int]:
    process = psutil.Process(app.process.pid)
    return {
        "memory": process.memory_info().rss,
        "descriptors": process.num_fds(),
        "threads": process.num_threads(),
        "processes": len(process.children(recursive=True)),
    }
