"""A tuning run over REST, with the real engine: submitted, followed, and asked for its figure and its sentence."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.checkpoints.formats import check_export
from sarqc.engine.bundle import Bundle, screen_bundle
from sarqc.engine.screening import mean_of_logarithms
from sarqc.errors import Refused
from sarqc.figures import tuning_view
from sarqc.recipe import Recipe
from sarqc.settings import SITE
from tests.http.conftest import assert_error
from tests.jobs.conftest import settings_in, until

RECIPE = {
    "kind": "tune", "model": "tiny-llama", "bits": 2, "blocks": [0], "calibration": "tiny-llama-calibration",
    "samples": 2, "length": 64, "test": "tiny-llama-held-out", "window": 64, "test_tokens": 512, "draws": 2,
    "sweep": [0.01, 0.1, 1],
}  # fmt: skip


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, str]]:
    """An app with a finished tuning run, and the id of that."""
    settings = settings_in(tmp_path_factory.mktemp("tuned"), assets_dir=SITE / "assets")
    with TestClient(create_app(settings, with_pages=False)) as client:
        answer = client.post("/api/runs", json=RECIPE)
        assert answer.status_code == 201, answer.text
        run_id = answer.json()["id"]
        before = client.get(f"/api/runs/{run_id}/tuning")  # whatever there is at this moment, nothing at first
        assert before.status_code == 200, before.text
        until(lambda: client.get(f"/api/runs/{run_id}").json()["state"] in ("finished", "failed"), seconds=150)
        yield client, run_id


def test_the_end_is_the_summary_s_drawn_and_told(tuned: tuple[TestClient, str]) -> None:
    client, run_id = tuned
    run = client.get(f"/api/runs/{run_id}").json()
    assert run["state"] == "finished", run["error"]
    view = client.get(f"/api/runs/{run_id}/tuning").json()
    assert view["tuning"] == run["summary"]["tuning"]
    assert view == tuning_view(run["summary"]["tuning"], run["recipe"])
    assert run["progress"] == {"done": view["tuning"]["measured"], "total": view["tuning"]["planned"]}
    assert "Tuning ended because" in "".join(piece["text"] for piece in view["sentence"])
    assert len(view["table"]["rows"]) >= 5  # three λ and two baselines


def test_each_word_on_the_way_can_be_drawn(tuned: tuple[TestClient, str]) -> None:
    client, run_id = tuned
    answer = client.get(f"/api/runs/{run_id}/events", headers={"Accept": "application/json"}).json()
    stages = [event["tuning"] for event in answer["events"] if event["type"] == "tuning_standing"]
    assert [stages[0]["measured"], stages[0]["best"], stages[-1]["draws"]] == [0, None, 2]
    for tuning in stages:
        view = tuning_view(tuning, RECIPE)
        assert view["figure"]["data"]
        assert view["sentence"]


def test_the_recipe_to_follow_is_one_and_its_study_opens(tuned: tuple[TestClient, str]) -> None:
    client, run_id = tuned
    tuning = client.get(f"/api/runs/{run_id}/tuning").json()["tuning"]
    following = Recipe.parse(tuning["recipe"])
    if tuning["next"] == "run":
        assert (following.kind, following.lam) == ("run", tuning["rows"][tuning["best"]]["lambda"])
    else:
        assert (tuning["next"], following.kind, following.method) == ("keep", "run", "gptq")
    assert client.post("/api/plan", json=following.to_json()).status_code == 200
    assert client.get(f"/api/studies/{run_id}/view").status_code == 200


def test_a_run_that_does_not_tune_has_no_such_answer(tuned: tuple[TestClient, str]) -> None:
    client, _ = tuned
    plain = RECIPE | {"kind": "run", "sweep": [], "method": "rtn", "test": None, "draws": 8}
    run_id = client.post("/api/runs", json=plain).json()["id"]
    client.post(f"/api/runs/{run_id}/cancel")
    error = assert_error(client.get(f"/api/runs/{run_id}/tuning"), 404, "not_found")
    assert error["what"] == "the run does not tune"


@pytest.mark.soak
def test_killed_twice_it_ends_the_same(tuned: tuple[TestClient, str], tmp_path: Path) -> None:
    """The worker is lost, then the whole app; another app goes on from what is kept, to the same end."""
    client, run_id = tuned
    expected = client.get(f"/api/runs/{run_id}").json()["summary"]["tuning"]
    settings = settings_in(tmp_path, assets_dir=SITE / "assets")
    app = create_app(settings, with_pages=False)
    with TestClient(app) as first:
        own = first.post("/api/runs", json=RECIPE).json()["id"]
        until(lambda: first.get(f"/api/runs/{own}").json()["progress"]["done"] >= 2, seconds=150)
        os.kill(app.state.supervisor.store.get(own).pid, signal.SIGKILL)
        until(lambda: first.get(f"/api/runs/{own}").json()["state"] == "interrupted")
        first.post(f"/api/runs/{own}/continue")
        until(lambda: first.get(f"/api/runs/{own}").json()["progress"]["done"] >= 4, seconds=150)
    with TestClient(create_app(settings, with_pages=False)) as second:  # the first took its worker along
        state = second.get(f"/api/runs/{own}").json()["state"]
        if state == "interrupted":
            second.post(f"/api/runs/{own}/continue")
        until(lambda: second.get(f"/api/runs/{own}").json()["state"] in ("finished", "failed"), seconds=150)
        run = second.get(f"/api/runs/{own}").json()
        assert run["state"] == "finished", run["error"]
        there = without_clock(run["summary"]["tuning"])
        arrays = second.get(f"/api/studies/{own}").json()["checksum"]
    assert there == without_clock(expected)
    assert arrays == client.get(f"/api/studies/{run_id}").json()["checksum"], "all numbers of the study, bit for bit"


def without_clock(tuning: dict) -> dict:
    turns = [{**turn, "seconds": None} for turn in tuning["turns"]]
    return {name: value for name, value in tuning.items() if name != "seconds"} | {"turns": turns}


def test_its_statistics_can_be_taken_along_and_no_model(tuned: tuple[TestClient, str], tmp_path: Path) -> None:
    """One file over HTTP, opened without the model: its errors are those that the run began with."""
    client, run_id = tuned
    run = client.get(f"/api/runs/{run_id}").json()
    assert [one["format"] for one in run["formats"]] == ["statistics"]
    assert_error(client.post(f"/api/runs/{run_id}/export"), 422, "refused")
    export = client.post(f"/api/runs/{run_id}/export?format=statistics").json()["id"]
    until(lambda: client.get(f"/api/runs/{export}").json()["state"] in ("finished", "failed"), seconds=150)
    made = client.get(f"/api/runs/{export}").json()
    assert made["state"] == "finished", made["error"]
    answer = client.get(f"/api/runs/{run_id}/checkpoint?format=statistics")
    assert "tiny-llama-2bit-sarqc-gbs-statistics.statistics" in answer.headers["Content-Disposition"]
    assert len(answer.content) == made["bytes"]
    file = tmp_path / "taken.statistics"
    file.write_bytes(answer.content)
    errors = mean_of_logarithms(screen_bundle(Bundle.open(file), Recipe.parse(RECIPE), settings_in(tmp_path)))
    tuning = run["summary"]["tuning"]
    by_lam = {row["lambda"]: row["layer_error"] for row in tuning["rows"] if row["standing"] != "baseline"}
    expected = [by_lam[lam] for lam in RECIPE["sweep"]]  # the run may have added further ones
    assert errors[tuning["gammas"].index(tuning["gamma"])].tolist() == pytest.approx(expected, rel=1e-6)


def test_a_run_that_does_not_tune_keeps_no_statistics() -> None:
    with pytest.raises(Refused, match="only tuning keeps statistics"):
        check_export(Recipe.parse(RECIPE | {"kind": "run", "sweep": [], "draws": 8}), "statistics")
