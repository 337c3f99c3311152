"""A model's ladder over REST, with the real engine: submitted, followed, and asked for its figure and its sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.figures import ladder_view
from sarqc.recipe import Recipe
from sarqc.settings import SITE
from tests.http.conftest import assert_error
from tests.jobs.conftest import settings_in, until

RECIPE = {
    "kind": "ladder", "model": "tiny-llama", "bits": 2, "blocks": [0], "calibration": "tiny-llama-calibration",
    "samples": 2, "length": 64, "test": "tiny-llama-held-out", "window": 64, "test_tokens": 512, "draws": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def climbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, str]]:
    """An app with a finished ladder, and the id of that."""
    settings = settings_in(tmp_path_factory.mktemp("ladder"), assets_dir=SITE / "assets")
    with TestClient(create_app(settings, with_pages=False)) as client:
        answer = client.post("/api/runs", json=RECIPE)
        assert answer.status_code == 201, answer.text
        run_id = answer.json()["id"]
        before = client.get(f"/api/runs/{run_id}/ladder")  # whatever there is at this moment, nothing at first
        assert before.status_code == 200, before.text
        until(lambda: client.get(f"/api/runs/{run_id}").json()["state"] in ("finished", "failed"), seconds=150)
        yield client, run_id


def test_the_end_is_the_summary_s_drawn_and_told(climbed: tuple[TestClient, str]) -> None:
    client, run_id = climbed
    run = client.get(f"/api/runs/{run_id}").json()
    assert run["state"] == "finished", run["error"]
    view = client.get(f"/api/runs/{run_id}/ladder").json()
    assert view["ladder"] == run["summary"]["ladder"]
    assert view == ladder_view(run["summary"]["ladder"], run["recipe"])
    assert run["progress"] == {"done": 18, "total": 18}
    assert (run["study_id"], run["formats"], run["tuned"]) == (None, [], None)
    assert "It ended because all draws were made" in "".join(piece["text"] for piece in view["sentence"])
    assert [row["step"] for row in view["table"]["rows"]] == [
        "Float model", "Round to nearest", "GPTQ 1 %", "+ activation order", "+ searched range", "+ λ = 0.1",
        "+ refined × 3", "+ scales refitted × 3", "+ affine grid, 2.25 bits", "+ jointly searched range",
    ]  # fmt: skip


def test_each_word_on_the_way_can_be_drawn(climbed: tuple[TestClient, str]) -> None:
    client, run_id = climbed
    answer = client.get(f"/api/runs/{run_id}/events", headers={"Accept": "application/json"}).json()
    standings = [event["ladder"] for event in answer["events"] if event["type"] == "ladder_standing"]
    assert [one["measured"] for one in standings] == [*range(19), 18]
    for ladder in standings:
        view = ladder_view(ladder, RECIPE)
        assert bool(view["figure"]["data"]) == (ladder["measured"] > 0)
        assert len(view["figure"]["layout"]["yaxis"]["ticktext"]) == 9, "each step has its row from the beginning"
        assert view["sentence"]


def test_the_recipe_to_follow_can_be_planned(climbed: tuple[TestClient, str]) -> None:
    client, run_id = climbed
    ladder = client.get(f"/api/runs/{run_id}/ladder").json()["ladder"]
    following = Recipe.parse(ladder["recipe"])
    assert (following.kind, following.method) == ("run", ladder["rows"][ladder["best"]]["method"])
    assert client.post("/api/plan", json=following.to_json()).status_code == 200


def test_a_plan_says_what_each_budget_buys(climbed: tuple[TestClient, str]) -> None:
    client, _ = climbed
    plan = client.post("/api/plan", json=RECIPE | {"minutes": 5}).json()
    assert plan["tuning"] is None
    assert 5 in [one["minutes"] for one in plan["ladder"]["budgets"]]
    assert_error(client.post("/api/plan", json=RECIPE | {"test": None}), 422, "refused")


def test_lists_show_its_kind_and_no_number_of_a_single_model(climbed: tuple[TestClient, str], tmp_path: Path) -> None:
    client, run_id = climbed
    [run] = client.get("/api/runs", params={"filter": "ladder"}).json()["runs"]
    assert (run["id"], run["recipe"]["kind"]) == (run_id, "ladder")
    other = client.post("/api/runs", json=RECIPE | {"kind": "run", "method": "rtn", "test": None}).json()["id"]
    client.post(f"/api/runs/{other}/cancel")
    error = assert_error(client.get(f"/api/runs/{other}/ladder"), 404, "not_found")
    assert error["what"] == "the run is not a ladder"
