"""Runs over REST, in process: what is on offer, plans, submitting, listing, deleting."""

import logging

import pytest

from sarqc.extras.engines.programs import programs
from sarqc.jobs.workers import log_path
from sarqc.recipe.texts import texts
from tests.http.conftest import HTML, events_of, finished, submit, write_study
from tests.jobs.fake_runs import recipe
from tests.test_recipe_texts import recipe_of_request


def test_health(client):
    health = client.get("/api/health").json()
    assert health["devices"][0]["id"] == "cpu"
    assert health["devices"][0]["run"] is None
    assert health["runs"] == dict.fromkeys(
        ("queued", "running", "cancelling", "cancelled", "interrupted", "failed", "finished"), 0
    )
    assert health["trouble"] is None
    assert health["version"]


def test_what_a_recipe_may_name(client):
    assert {"name", "where"} <= client.get("/api/models").json()["models"][0].keys()
    assert {"name", "role"} <= client.get("/api/corpora").json()["corpora"][0].keys()


@pytest.mark.thorough
def test_a_preview_is_listed_once_it_is_kept(client, settings):
    preview = recipe(layer="model.layers.0.mlp.down_proj").to_json()
    run_id = client.post("/api/runs?lane=preview", json=preview).json()["id"]
    assert finished(client, run_id)["lane"] == "preview"
    write_study(settings.studies_dir(), run_id)

    def listed():
        return [[one["id"] for one in client.get(f"/api/{what}").json()[what]] for what in ("runs", "studies")]

    assert listed() == [[], []]
    assert client.get(f"/api/studies/{run_id}").is_success  # anyone who knows it can see it
    client.patch(f"/api/runs/{run_id}", json={"name": "down_proj"})
    assert listed() == [[run_id], [run_id]]


def test_plan_is_only_a_plan(client):
    assert client.post("/api/plan", json=recipe().to_json()).json()["minutes"] == 0.5
    assert client.get("/api/runs").json()["runs"] == []


@pytest.mark.thorough
def test_a_plan_warms_a_worker_up(client):
    workers = client.app.state.supervisor.workers
    assert not workers._warm
    client.post("/api/plan", json=recipe().to_json())
    assert list(workers._warm) == ["cpu"]
    finished(client, submit(client)["id"])
    assert not workers._warm


@pytest.mark.thorough
def test_a_run(client, settings):
    run = submit(client, 2)
    assert (run["state"], run["recipe"], run["attempt"]) == ("queued", recipe(2).to_json(), 1)
    run = finished(client, run["id"])
    assert run["progress"] == {"done": 2, "total": 2}
    assert run["summary"]["perplexity"] == 12.5
    assert run["device"] == "cpu"
    assert "pid" not in run
    assert "this goes to the log\n" in client.get(f"/api/runs/{run['id']}/log").text
    events = events_of(client, run["id"])
    assert [event["seq"] for event in events] == list(range(1, 6))
    assert events[-1]["type"] == "finished"
    later = client.get(f"/api/runs/{run['id']}/events?after=4", headers={"Accept": "application/json"}).json()
    assert (later["events"], later["next"]) == (events[4:], None)
    portions, after = [], 0
    while after is not None:
        path = f"/api/runs/{run['id']}/events?after={after}&limit=2"
        portion = client.get(path, headers={"Accept": "application/json"}).json()
        after = portion["next"]
        portions.append(portion["events"])
    assert portions == [events[:2], events[2:4], events[4:]]

    assert client.delete(f"/api/runs/{run['id']}").status_code == 204
    assert client.get(f"/api/runs/{run['id']}").status_code == 404
    assert not (settings.studies_dir() / run["id"]).exists()
    assert not log_path(settings, run["id"]).exists()


def test_runs_come_in_pages_newest_first(client):
    ids = [submit(client)["id"] for _ in range(5)]
    first = client.get("/api/runs?limit=3").json()
    assert [run["id"] for run in first["runs"]] == ids[:1:-1]
    second = client.get("/api/runs?limit=3&offset=3").json()
    assert [run["id"] for run in second["runs"]] == ids[1::-1]


def test_a_name_is_never_what_a_request_claims(client):
    assert submit(client, headers={"X-Sarqc-Owner": "Ann Other"})["owner"] == "local"
    client.cookies["sarqc_visitor"] = "made-up"
    assert submit(client)["owner"] == "local"
    client.cookies.clear()
    client.get("/sign-in", headers=HTML)  # any page gives a browser its name
    guest = submit(client)["owner"]
    assert guest.startswith("guest-")
    assert submit(client)["owner"] == guest  # the cookie keeps it


def test_cancel_and_continue(client, monkeypatch):
    supervisor = client.app.state.supervisor
    start_due = supervisor._start_due
    monkeypatch.setattr(supervisor, "_start_due", lambda: None)
    run_id = submit(client)["id"]
    assert client.post(f"/api/runs/{run_id}/cancel").json()["state"] == "cancelled"
    monkeypatch.setattr(supervisor, "_start_due", start_due)
    assert client.post(f"/api/runs/{run_id}/continue").json()["attempt"] == 2
    assert finished(client, run_id)["error"] is None


def test_the_interface_describes_itself(client, caplog):
    with caplog.at_level(logging.WARNING):
        paths = client.get("/api/openapi.json").json()["paths"]
    assert {"/api/health", "/api/runs/{run_id}/events", "/api/studies/{study_id}/study.safetensors"} <= paths.keys()
    assert client.get("/docs").status_code == 404  # its page would load from a CDN


def test_the_request_is_taken(client):
    document = recipe(2).to_json() | {"lambda": [0, 0.1]}
    answer = client.post("/api/recipe-texts", json=document, headers={"origin": "http://testserver"})
    assert answer.status_code == 200
    said = {text["name"]: text["text"] for text in answer.json()["texts"]}
    address, body = recipe_of_request(said["rest"])
    sent = client.post(address, content=body, headers={"Content-Type": "application/json"})
    assert sent.status_code == 201
    assert [run["recipe"]["lambda"] for run in sent.json()["runs"]] == [0, 0.1]
    assert said == {text["name"]: text["text"] for text in texts(document, "http://testserver")}


def test_programs_for_other_engines(client):
    document = recipe(2).to_json() | {"method": "rqc-gbs", "grid": "full_range", "static_groups": True, "lambda": 0.1}

    def answer(document, query=""):
        said = client.post(f"/api/recipe-texts{query}", json=document)
        assert said.status_code == 200
        return {one["name"]: one for one in said.json()["programs"]}

    said = answer(document)
    assert {one["name"]: one for one in programs(document)} == said
    assert said["llmcompressor"]["text"]
    assert answer(document | {"grid": "symmetric"})["llmcompressor"]["trouble"]["what"]
    for several in ({"lambda": [0, 0.1]}, {"kind": "tune", "lambda": None, "test": "t"}):
        assert answer(document | several) == {}
    auto = document | {"lambda": "auto", "samples": 2}
    assert answer(auto, "?study=no-such-run") == answer(auto)  # a run that has left nothing yet


def test_what_is_no_recipe_has_no_texts(client):
    assert "calibration" in client.post("/api/recipe-texts", json={"model": "toy"}).json()["error"]["what"]
    many = recipe(2).to_json() | {name: list(range(2, 102)) for name in ("seed", "samples", "length")}
    assert client.post("/api/recipe-texts", json=many).status_code == 429


def test_a_checkpoint_is_opened_by_the_name_that_the_operator_gave_it(client, tmp_path):
    document = recipe(method="gptq", quantized_checkpoint="somewhere").to_json()
    for name in (str(tmp_path), "/etc", "nothing-of-that-name"):
        answer = client.post("/api/runs", json={**document, "quantized_checkpoint": name})
        assert answer.status_code == 404, answer.text
        assert answer.json()["error"]["where"] == "recipe, quantized_checkpoint"


def test_former_names_are_taken_with_a_word_on_the_new_ones(client):
    today = recipe().to_json()
    del today["block_fraction"]
    former = {**today, "share": 0.5}
    sentence = "“share” is now “block_fraction”; the former name is accepted until version 1.1"
    answer = client.post("/api/runs", json=former).json()
    assert (answer["warnings"], answer["recipe"]["block_fraction"]) == ([sentence], 0.5)
    several = client.post("/api/runs", json={**former, "bits": [2, 3]}).json()
    assert (several["warnings"], len(several["runs"])) == ([sentence], 2)
    assert "warnings" not in client.post("/api/runs", json={**today, "block_fraction": 0.5}).json()
