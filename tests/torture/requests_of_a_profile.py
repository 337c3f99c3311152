"""Requests by the schema, right and wrong, against one app in one profile."""

from pathlib import Path
from typing import Any

from tests.jobs.conftest import until
from tests.torture import by_schema
from tests.torture.answers import ERROR_500, Judge
from tests.torture.figures import Figures
from tests.torture.served import PUBLIC, Served

RECIPE = {"model": "tiny-llama", "method": "rtn", "calibration": "tiny-llama-calibration", "samples": 2, "length": 64}
PROFILES: dict[str, dict[str, Any]] = {"private": {}, "public": PUBLIC}


def play(folder: Path, profile: str, figures: Figures, number: int, seed: int, *, with_pages: bool) -> None:
    """``number`` requests, and after them the app still works."""
    app = Served(folder / profile, "tests.torture.no_work:execute", with_pages=with_pages, **PROFILES[profile]).wait()
    try:
        judge = Judge(app, figures)
        run_id = app.post("/api/runs", RECIPE).json()["id"]
        until(lambda: app.get(f"/api/runs/{run_id}")["state"] == "finished", seconds=60)
        by_schema.ask(judge, run_id, number, seed)
        app.get("/api/health")
        said = app.log.read_text()
        # A client that breaks its connection off in a request: the server's own protocol says so where it answers.
        if said.count("Traceback") > said.count("h11._util.LocalProtocolError"):
            figures.complain(ERROR_500, f"a traceback in the log: …{said[said.index('Traceback') :][:3000]}")
    finally:
        app.end()
