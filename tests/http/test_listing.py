"""Lists of runs over REST: parts of them, groups, files, what people write on runs, and many runs at once."""

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sarqc.events import Finished
from sarqc.jobs.listing import Question
from sarqc.jobs.run import State
from sarqc.web.listing_api import pareto_run
from tests.http.conftest import TOKEN, assert_error, finished, run_of, submit
from tests.http.test_access import door
from tests.jobs.fake_runs import recipe
from tests.jobs.test_listing import tuning

pytestmark = pytest.mark.thorough

__all__ = ["door"]


def batch(client: TestClient, **lists: list[Any]) -> list[dict]:
    answer = client.post("/api/runs", json=recipe(2).to_json() | lists)
    assert answer.status_code == 201, answer.text
    return [finished(client, run["id"]) for run in answer.json()["runs"]]


def test_a_run_gets_a_name_and_is_found_by_it(client):
    run = finished(client, submit(client)["id"])
    submit(client, 1)
    revision = client.get("/api/runs").json()["revision"]
    body = {"name": "the best", "note": "=1+1\nsecond line", "tags": ["paper"]}
    answer = client.patch(f"/api/runs/{run['id']}", json=body)
    assert answer.status_code == 200
    assert {name: answer.json()[name] for name in body} == body
    assert answer.json()["revision"] > revision
    found = client.get("/api/runs", params={"filter": "#paper best second"}).json()
    assert ([one["id"] for one in found["runs"]], found["total"]) == ([run["id"]], 1)


def test_what_is_written_is_checked(client):
    run_id = submit(client)["id"]
    error = assert_error(client.patch(f"/api/runs/{run_id}", json={"name": "x" * 121}), 422, "refused")
    assert "121" in error["what"]
    for body in ({}, {"state": "finished"}, {"tags": "a"}, {"note": None}):
        assert_error(client.patch(f"/api/runs/{run_id}", json=body), 422, "refused")
    for path, half in ((f"PATCH {run_id}", '{"name": "\\ud800"}'), ("POST delete", '{"ids": ["\\ud800"]}')):
        method, place = path.split()
        assert_error(client.request(method, f"/api/runs/{place}", content=half), 422, "refused")
    assert_error(client.patch(f"/api/runs/{run_id}", json=["name"]), 422, "refused")
    assert_error(client.patch("/api/runs/nothing", json={"name": "x"}), 404, "not_found")
    assert run_of(client, run_id)["name"] == ""


def test_only_the_owner_and_the_operator_write_on_a_run(door):
    ann = door(access="token", access_token=TOKEN, hosts="testserver")
    ann.post("/sign-in", data={"password": TOKEN, "to": "/"})
    run = submit(ann)
    link = ann.post(f"/api/runs/{run['id']}/link").json()["address"]
    other = door()
    other.get(link)
    assert other.get(f"/api/runs/{run['id']}").status_code == 200
    assert [one["id"] for one in other.get("/api/runs").json()["runs"]] == [run["id"]]
    for request in (
        other.patch(f"/api/runs/{run['id']}", json={"name": "mine"}),
        other.post("/api/runs/tags", json={"ids": [run["id"]], "add": ["mine"]}),
        other.post("/api/runs/delete", json={"ids": [run["id"]]}),
    ):
        assert request.status_code == 403
    stranger = door()
    for path in ("/api/runs", "/api/runs/groups", "/api/runs/csv"):
        assert run["id"] not in stranger.get(path).text
    finished(ann, run["id"])
    assert run_of(ann, run["id"])["name"] == ""


def test_parts_of_a_sorted_list(client):
    runs = batch(client, bits=[2, 4, 3])
    first = client.get("/api/runs?sort=bits&limit=2").json()
    assert [run["recipe"]["bits"] for run in first["runs"]] == [2, 3]
    assert first["total"] == 3
    second = client.get("/api/runs?sort=bits&limit=2&offset=2").json()
    assert [run["recipe"]["bits"] for run in second["runs"]] == [4]
    named = client.get("/api/runs", params={"ids": f"{runs[0]['id']},nothing"}).json()
    assert [run["id"] for run in named["runs"]] == [runs[0]["id"]]
    for wrong in ("sort=owner", "ids=", f"ids={','.join('x' * 201)}", "offset=-1", "filter=" + "a%20" * 17):
        assert_error(client.get(f"/api/runs?{wrong}"), 422, "refused")


def test_seeds_are_one_group(client):
    runs = batch(client, seed=[1, 2, 3])
    submit(client, 4000)  # not finished meanwhile: the number of layers of these runs is their seed
    answer = client.get("/api/runs/groups?filter=finished").json()
    (group,) = answer["groups"]
    assert (group["count"], group["states"], group["varies"]) == (3, {"finished": 3}, [])
    assert group["measures"]["perplexity"] == {"count": 3, "mean": 12.5, "error": 0.0, "least": 12.5, "most": 12.5}
    assert group["run"]["id"] == max(run["id"] for run in runs)
    unfolded = client.get("/api/runs", params={"series": group["key"], "filter": "finished"}).json()
    assert {run["id"] for run in unfolded["runs"]} == {run["id"] for run in runs}
    by_batch = client.get("/api/runs/groups?by=batch").json()
    assert (by_batch["total"], by_batch["runs"]) == (2, 4)
    assert {group["key"] for group in by_batch["groups"]} >= {runs[0]["batch"]}
    assert_error(client.get("/api/runs/groups?by=owner"), 422, "refused")


def test_a_list_as_a_file_for_spreadsheets(client):
    run = finished(client, submit(client)["id"])
    formula = {"name": '=HYPERLINK("http://evil","x")', "note": 'a "quoted"\nnote, with a comma', "tags": ["-x", "@y"]}
    client.patch(f"/api/runs/{run['id']}", json=formula)
    answer = client.get("/api/runs/csv?filter=finished")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    (row,) = csv.DictReader(io.StringIO(answer.text, newline=""))
    assert row["id"] == run["id"]
    assert row["name"] == f"'{formula['name']}"
    assert row["note"] == formula["note"]
    assert row["tags"] == "'-x, @y"
    assert float(row["perplexity"]) == 12.5
    assert (row["recipe_model"], row["recipe_seed"], row["recipe_bits"]) == ("fake", "2", "3")
    assert float(row["seconds"]) > 0
    assert client.get("/api/runs/csv?filter=nothing").text.count("\n") == 1


def test_what_tuning_came_to_is_in_the_list_its_order_and_its_file_alike(client):
    store = client.app.state.supervisor.store
    tunes = recipe(2, method="sarqc-gbs", kind="tune", test="none.txt")
    for lam, verdict in ((0.5, "better"), (0.25, "equal")):
        run_id = store.create(tunes, "local").id
        with store.transaction():
            store.move(run_id, State.RUNNING)
            store.move(run_id, State.FINISHED, Finished({"tuning": tuning(lam, lam / 4, verdict)}, 1.0))
    runs = client.get("/api/runs?sort=against_gptq").json()["runs"]
    assert [run["tuned"]["words"] for run in runs] == ["0.5 found", "keep GPTQ 1 %"]
    rows = list(csv.DictReader(io.StringIO(client.get("/api/runs/csv?sort=against_gptq").text)))
    for run, row in zip(runs, rows, strict=True):
        assert (row["tuned"], row["tuned_band"]) == (run["tuned"]["words"], run["tuned"]["band"])
        for name in ("perplexity", "log_ratio"):
            assert float(row[name]) == run["tuned"][name]
        for name, field in (("", "change"), ("_low", "low"), ("_high", "high"), ("_count", "count")):
            assert float(row[f"against_gptq{name}"]) == run["evidence"][field]
        assert (row["against_gptq_over"], row["against_gptq_verdict"]) == ("draws", run["evidence"]["verdict"])
    assert [row["tuned_lambda"] for row in rows] == ["0.5", ""]
    assert [row["recipe_lambda"] for row in rows] == ["", ""]


def test_a_file_has_the_runs_of_all_parts_once(client, monkeypatch):
    runs = batch(client, bits=[2, 3, 4])
    monkeypatch.setattr("sarqc.web.listing_api.PORTION", 2)
    rows = list(csv.DictReader(io.StringIO(client.get("/api/runs/csv?sort=bits").text)))
    assert [row["recipe_bits"] for row in rows] == ["2", "3", "4"]
    assert {row["id"] for row in rows} == {run["id"] for run in runs}


def test_many_runs_are_deleted_and_those_at_work_are_left(client):
    done = batch(client, bits=[2, 3])
    store = client.app.state.supervisor.store
    running = store.create(recipe(), "local").id
    with store.transaction() as connection:  # as if it went on
        connection.execute("UPDATE runs SET state = 'running' WHERE id = ?", (running,))
    ids = [done[0]["id"], running, "nothing", done[0]["id"]]
    answer = client.post("/api/runs/delete", json={"ids": ids}).json()
    assert answer["done"] == [done[0]["id"]]
    left = {one["id"]: one["error"]["kind"] for one in answer["left"]}
    assert left == {running: "conflict", "nothing": "not_found"}
    assert [run.id for run in store.listed(Question(), 9)] == [running, done[1]["id"]]
    for body in ({}, {"ids": []}, {"ids": "x"}, {"ids": [1]}, {"ids": ["x"] * 201}):
        assert_error(client.post("/api/runs/delete", json=body), 422, "refused")


def test_many_runs_are_tagged(client):
    runs = batch(client, bits=[2, 3])
    ids = [run["id"] for run in runs]
    assert client.post("/api/runs/tags", json={"ids": ids, "add": ["a", "b"]}).json() == {"done": ids, "left": []}
    client.post("/api/runs/tags", json={"ids": ids[:1], "remove": ["A"]})
    assert [run_of(client, run_id)["tags"] for run_id in ids] == [["b"], ["a", "b"]]
    assert_error(client.post("/api/runs/tags", json={"ids": ids, "add": [""]}), 422, "refused")


def test_size_against_quality_of_a_list(client):
    runs = batch(client, bits=[2, 3])
    error = assert_error(client.get("/api/runs/pareto"), 422, "refused")
    assert "none of the 2 runs" in error["what"]  # of these runs no size is known
    store = client.app.state.supervisor.store
    for size, run in enumerate(runs, start=1):
        summary = {
            "perplexity": 9.0 - size, "perplexity_float": 6.0, "bits_per_weight": float(size), "bytes_after": size,
        }  # fmt: skip
        with store.transaction() as connection:
            connection.execute("UPDATE runs SET summary_json = ? WHERE id = ?", (json.dumps(summary), run["id"]))
    view = client.get("/api/runs/pareto?sort=bits").json()
    points = next(trace for trace in view["figure"]["data"] if "customdata" in trace)
    assert points["customdata"] == [run["id"] for run in runs]
    assert points["y"] == [8.0, 7.0]
    first = store.get(runs[0]["id"])
    affine = pareto_run(replace(first, recipe=first.recipe | {"grid": "affine", "group_size": None}))
    assert affine.name.endswith(" 2 bits affine")
    assert affine.grid == "affine, one scale per channel"
    assert pareto_run(first).name.endswith(" 2 bits")
    assert all("<br>asymmetric, groups of " in text for text in points["text"])
    one = client.get("/api/runs/pareto", params={"ids": runs[0]["id"], "size": "mib"}).json()
    assert next(trace for trace in one["figure"]["data"] if "customdata" in trace)["y"] == [8.0]
    assert_error(client.get("/api/runs/pareto?size=gib"), 422, "refused")
