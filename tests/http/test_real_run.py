"""The whole way of a number, with the real execute and the embedded model: plan, run, cancel, continue, study, view."""

from __future__ import annotations

import os
import signal

from fastapi.testclient import TestClient

from app import create_app
from sarqc.settings import REPOSITORY, Settings
from tests.jobs.helpers import until

RECIPE = {
    "model": "tiny-llama",
    "bits": 3,
    "method": "gptq",
    "calibration": "tiny-llama-calibration",
    "samples": 2,
    "length": 64,
}


def test_a_real_run_is_cancelled_killed_continued_and_seen(settings: Settings) -> None:
    app = create_app(settings.model_copy(update={"assets_dir": REPOSITORY / "assets"}), with_pages=False)
    with TestClient(app) as client:
        plan = client.post("/api/plan", json=RECIPE)
        assert plan.status_code == 200, plan.text
        layers = plan.json()["layers"]
        run_id = client.post("/api/runs", json=RECIPE).json()["id"]

        def run() -> dict:
            return client.get(f"/api/runs/{run_id}").json()

        until(lambda: run()["progress"]["done"] >= 2, seconds=60)
        client.post(f"/api/runs/{run_id}/cancel")
        until(lambda: run()["state"] == "cancelled")
        kept = run()["progress"]["done"]
        assert kept < layers

        client.post(f"/api/runs/{run_id}/continue")
        until(lambda: run()["state"] == "running" and run()["progress"]["done"] > kept, seconds=60)
        os.kill(app.state.supervisor.store.get(run_id).pid, signal.SIGKILL)
        until(lambda: run()["state"] == "interrupted")

        client.post(f"/api/runs/{run_id}/continue")
        until(lambda: run()["state"] in ("finished", "failed"), seconds=90)
        assert run()["state"] == "finished", run()["error"]
        assert run()["progress"] == {"done": layers, "total": layers}
        assert "layers" not in run()["summary"]  # rows stay small; the study has them
        events = client.get(f"/api/runs/{run_id}/events", headers={"Accept": "application/json"}).json()["events"]
        last_attempt = events[[event["type"] for event in events].index("interrupted") + 1 :]
        cached = [event["from_cache"] for event in last_attempt if event["type"] == "layer_done"]
        assert len(cached) == layers
        assert all(cached[: kept + 1])
        assert not all(cached)

        view = client.get(f"/api/studies/{run_id}/view")
        assert view.status_code == 200, view.text
        assert client.delete(f"/api/runs/{run_id}").status_code == 204
        assert client.get(f"/api/studies/{run_id}").status_code == 404
