"""Runs that compare models over REST, with the real engine: submitted, followed, and asked for figure and sentence."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.figures import ladder_view, tuning_view
from sarqc.settings import SITE
from tests.http.conftest import assert_error, events_of, finished, run_of
from tests.jobs.conftest import settings_in, until

pytestmark = pytest.mark.thorough

SMALL = {
    "model": "tiny-llama", "bits": 2, "blocks": [0], "calibration": "tiny-llama-calibration", "samples": 2,
    "length": 64, "test": "tiny-llama-held-out", "window": 64, "test_tokens": 512, "draws": 2,
}  # fmt: skip
RECIPE = SMALL | {"kind": "tune", "sweep": [0.01, 0.1, 1]}
LADDER = SMALL | {"kind": "ladder"}
STEPS = [
    "Float model", "Round to nearest", "GPTQ 1 %", "+ activation order", "+ searched range", "+ λ = 0.1",
    "+ refined × 3", "+ scales refitted × 3", "+ affine grid, 2.25 bits", "+ jointly searched range",
]  # fmt: skip
Compared = tuple[TestClient, str]  # an app, and the id of its run


def ended_of(client: TestClient, recipe: dict[str, Any], answer: str) -> str:
    """The id of a run that has ended, whose answer could be asked for at once."""
    created = client.post("/api/runs", json=recipe)
    assert created.status_code == 201, created.text
    run_id = created.json()["id"]
    before = client.get(f"/api/runs/{run_id}/{answer}")  # whatever there is at this moment, nothing at first
    assert before.status_code == 200, before.text
    return finished(client, run_id)["id"]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    settings = settings_in(tmp_path_factory.mktemp("compared"), assets_dir=SITE / "assets")
    with TestClient(create_app(settings, with_pages=False)) as client:
        yield client


@pytest.fixture(scope="module")
def tuned(client):
    return client, ended_of(client, RECIPE, "tuning")


@pytest.fixture(scope="module")
def climbed(client):
    return client, ended_of(client, LADDER, "ladder")


def ended(compared: Compared, name: str, view_of: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A run and its view, which is that of its summary."""
    client, run_id = compared
    run = run_of(client, run_id)
    view = client.get(f"/api/runs/{run_id}/{name}").json()
    assert view[name] == run["summary"][name]
    assert view == view_of(run["summary"][name], run["recipe"])
    assert run["progress"] == {"done": view[name]["measured"], "total": view[name]["planned"]}
    words = "".join([*(piece["text"] for piece in view["sentence"]), *view["small_print"]])
    assert {"tuning": "Stopped", "ladder": "ended because"}[name] in words
    return run, view


def standings(compared: Compared, name: str) -> list[dict[str, Any]]:
    client, run_id = compared
    return [event[name] for event in events_of(client, run_id) if event["type"] == f"{name}_standing"]


def test_the_end_of_tuning_is_the_summary_s_and_the_recipe_to_follow_is_one(tuned):
    client, run_id = tuned
    _, view = ended(tuned, "tuning", tuning_view)
    assert len(view["table"]["rows"]) >= 5  # three λ and two baselines
    assert client.post("/api/plan", json=view["tuning"]["recipe"]).status_code == 200
    assert client.get(f"/api/studies/{run_id}/view").status_code == 200


def test_the_end_of_a_ladder_is_the_summary_s_and_the_recipe_to_follow_is_one(climbed):
    client, _ = climbed
    run, view = ended(climbed, "ladder", ladder_view)
    assert run["progress"] == {"done": 18, "total": 18}
    assert (run["study_id"], run["formats"], run["tuned"]) == (None, [], None)
    assert [row["step"] for row in view["table"]["rows"]] == STEPS
    assert client.post("/api/plan", json=view["ladder"]["recipe"]).status_code == 200


def test_each_word_of_tuning_can_be_drawn(tuned):
    stages = standings(tuned, "tuning")
    assert [stages[0]["measured"], stages[0]["best"], stages[-1]["draws"]] == [0, None, 2]
    for tuning in stages:
        view = tuning_view(tuning, RECIPE)
        assert view["figure"]["data"]
        assert view["sentence"]


def test_each_word_of_a_ladder_can_be_drawn(climbed):
    stages = standings(climbed, "ladder")
    assert [one["measured"] for one in stages] == [*range(19), 18]
    for ladder in stages:
        view = ladder_view(ladder, LADDER)
        assert bool(view["figure"]["data"]) == (ladder["measured"] > 0)
        assert len(view["figure"]["layout"]["yaxis"]["ticktext"]) == 9, "each step has its row from the beginning"
        assert view["sentence"]


def test_a_run_of_another_kind_has_neither_answer(climbed):
    client, run_id = climbed
    [run] = client.get("/api/runs", params={"filter": "ladder"}).json()["runs"]
    assert (run["id"], run["recipe"]["kind"]) == (run_id, "ladder")
    other = client.post("/api/runs", json=SMALL | {"kind": "run", "method": "rtn", "test": None}).json()["id"]
    client.post(f"/api/runs/{other}/cancel")
    for name, what in (("ladder", "the run is not a ladder"), ("tuning", "the run does not tune")):
        assert assert_error(client.get(f"/api/runs/{other}/{name}"), 404, "not_found")["what"] == what


@pytest.mark.soak
def test_killed_twice_it_ends_the_same(tuned, tmp_path):
    """The worker is lost, then the whole app; another app goes on from what is kept, to the same end."""
    client, run_id = tuned
    expected = run_of(client, run_id)["summary"]["tuning"]
    settings = settings_in(tmp_path, assets_dir=SITE / "assets")
    app = create_app(settings, with_pages=False)
    with TestClient(app) as first:
        own = first.post("/api/runs", json=RECIPE).json()["id"]
        until(lambda: run_of(first, own)["progress"]["done"] >= 2, seconds=150)
        os.kill(app.state.supervisor.store.get(own).pid, signal.SIGKILL)
        until(lambda: run_of(first, own)["state"] == "interrupted")
        first.post(f"/api/runs/{own}/continue")
        until(lambda: run_of(first, own)["progress"]["done"] >= 4, seconds=150)
    with TestClient(create_app(settings, with_pages=False)) as second:  # the first took its worker along
        state = run_of(second, own)["state"]
        if state == "interrupted":
            second.post(f"/api/runs/{own}/continue")
        there = without_clock(finished(second, own)["summary"]["tuning"])
        arrays = second.get(f"/api/studies/{own}").json()["checksum"]
    assert there == without_clock(expected)
    assert arrays == client.get(f"/api/studies/{run_id}").json()["checksum"], "all numbers of the study, bit for bit"


def without_clock(tuning: dict) -> dict:
    turns = [{**turn, "seconds": None} for turn in tuning["turns"]]
    own = ("seconds", "reused")
    return {name: value for name, value in tuning.items() if name not in own} | {"turns": turns}
