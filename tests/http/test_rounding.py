"""Learned rounding with early stopping over REST, with the real engine: its events, its figure and its study."""

import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.figures import rounding_view
from sarqc.settings import SITE
from tests.http.conftest import assert_error, events_of, finished
from tests.jobs.conftest import settings_in

pytestmark = pytest.mark.thorough

RECIPE = {
    "method": "signround", "model": "tiny-llama", "bits": 2, "blocks": [1, 4], "steps": 3, "stopping": "early",
    "warm_start": "column_solver", "calibration": "tiny-llama-calibration", "samples": 2, "length": 32,
    "held_out_samples": 1,
}  # fmt: skip


def test_the_steps_of_a_run_are_told_drawn_and_kept(tmp_path):
    settings = settings_in(tmp_path, assets_dir=SITE / "assets")
    with TestClient(create_app(settings, with_pages=False)) as client:
        run, again = (finished(client, client.post("/api/runs", json=RECIPE).json()["id"]) for _ in range(2))
        events = events_of(client, run["id"])
        told = [event for event in events if event["type"] == "rounding_checked"]
        assert [(one["block"], one["step"], one["steps"]) for one in told] == [
            (block, step, 3) for block in (1, 4) for step in range(4)
        ]
        rounded = [event for event in events if event["type"] == "block_rounded"]
        assert [len(one["checks"]) for one in rounded] == [4, 4]
        view = client.get(f"/api/runs/{run['id']}/rounding").json()
        assert view == rounding_view(rounded)
        shown = client.get(f"/api/studies/{run['study_id']}/view").json()
        assert shown["figures"]["rounding"] == view["figure"]
        assert client.get(f"/api/runs/{again['id']}/rounding").json() == view  # its layers are kept, and say the same
        other = client.post("/api/runs", json=RECIPE | {"stopping": "none"}).json()["id"]
        client.post(f"/api/runs/{other}/cancel")
        error = assert_error(client.get(f"/api/runs/{other}/rounding"), 404, "not_found")
        assert error["what"] == "the run does not stop early"
