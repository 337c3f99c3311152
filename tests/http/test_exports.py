"""Exports and batches over REST, with made-up runs; a real export is in ``test_real_run``."""

import io
import tarfile
from pathlib import Path

import pytest

from sarqc.recipe import expanded
from tests.http.conftest import assert_error, finished, opened, submit
from tests.jobs.fake_runs import recipe


@pytest.fixture
def client(settings):
    with opened(settings, "exporting") as client:
        yield client


def unpacked(content: bytes, folder: Path) -> Path:
    """The one folder that an archive makes."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert {member.name.split("/")[0] for member in archive} == {archive.getnames()[0].split("/")[0]}
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # from 3.11.4 on
    (found,) = folder.iterdir()
    return found


@pytest.mark.thorough
def test_an_export_from_the_button_to_the_archive(client, tmp_path):
    run_id = submit(client, grid="symmetric")["id"]
    assert_error(client.get(f"/api/runs/{run_id}/checkpoint?format=packed"), 404, "not_found")
    before = finished(client, run_id)
    assert before["exports"] == []
    assert before["kept"] == {"until": None, "shared": False, "while_room": False}
    carried = {one["format"]: one["possible"] for one in before["formats"]}
    assert carried == {"plain": True, "packed": True, "gptq": True, "mlx": True}
    revision = client.get("/api/runs").json()["revision"]
    made = client.post(f"/api/runs/{run_id}/export?format=packed")
    assert made.status_code == 201
    export_id = made.json()["id"]
    assert made.headers["location"] == f"/api/runs/{export_id}"
    assert (made.json()["parent"], made.json()["bytes"]) == (run_id, 1000)  # as the plan expects
    finished(client, export_id)
    again = client.post(f"/api/runs/{run_id}/export?format=packed")
    assert (again.status_code, again.json()["id"], again.json()["bytes"]) == (200, export_id, 6000)
    answer = client.get(f"/api/runs/{run_id}/checkpoint?format=packed")
    assert answer.headers["content-type"] == "application/x-tar"
    assert 'filename="fake-3bit-sarqc-gbs-packed.tar"' in answer.headers["content-disposition"]
    assert int(answer.headers["content-length"]) == len(answer.content)
    folder = unpacked(answer.content, tmp_path / "unpacked")
    assert (folder / "model.safetensors").read_bytes() == b"packed" * 1000
    after = finished(client, run_id)
    assert [one["id"] for one in after.pop("exports")] == [export_id]
    before.pop("exports")
    assert after == before
    assert [run["id"] for run in client.get("/api/runs").json()["runs"]] == [run_id]
    store = client.app.state.supervisor.store
    assert {change.id for change in store.changed_since(revision)} == {export_id}


@pytest.mark.thorough
@pytest.mark.parametrize("damage", ["cut", "flipped", "missing", "more"])
def test_an_export_that_changed_on_disk_is_named_and_made_again(client, settings, tmp_path, damage):
    run_id = finished(client, submit(client, grid="symmetric")["id"])["id"]
    address = f"/api/runs/{run_id}/checkpoint?format=packed"
    finished(client, client.post(f"/api/runs/{run_id}/export?format=packed").json()["id"])
    assert client.get(address).status_code == 200
    (path,) = settings.exports_dir().glob("*/*/model.safetensors")
    match damage:
        case "cut":
            path.write_bytes(path.read_bytes()[:1000])
        case "flipped":
            path.write_bytes(b"P" + path.read_bytes()[1:])
        case "missing":
            path.unlink()
        case "more":
            (path.parent / "model.py").write_text("import os")
    error = assert_error(client.get(address), 409, "conflict")
    assert "the export is damaged" in error["what"]
    again = client.post(f"/api/runs/{run_id}/export?format=packed")
    assert again.status_code == 201
    finished(client, again.json()["id"])
    folder = unpacked(client.get(address).content, tmp_path / "unpacked")
    assert [path.name for path in folder.iterdir()] == ["model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == b"packed" * 1000


def test_a_batch_is_all_or_nothing(client, settings, monkeypatch):
    supervisor = client.app.state.supervisor
    monkeypatch.setattr(supervisor, "_start_due", lambda: None)
    monkeypatch.setattr(supervisor, "settings", settings.model_copy(update={"max_queued": 5}))
    document = recipe(1).to_json() | {"bits": [2, 3], "lambda": [0.1, "auto"], "samples": 4}
    answer = client.post("/api/runs", json=document)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    wanted = expanded(document)
    assert {run["name"]: run["recipe"] for run in body["runs"]} == {name: one.to_json() for name, one in wanted.items()}
    assert {run["batch"] for run in body["runs"]} == {body["batch"]}
    assert len({run["id"] for run in body["runs"]}) == 4
    error = assert_error(client.post("/api/runs", json=document), 429, "refused")
    assert "4 runs and the 4 that wait are more than the 5" in error["what"]
    huge = document | {"seed": list(range(1000)), "length": list(range(1, 1000))}
    assert "3996000 runs" in assert_error(client.post("/api/runs", json=huge), 429, "refused")["what"]
    refused = assert_error(client.post("/api/runs", json=recipe(1).to_json() | {"seed": [1, 99]}), 422, "refused")
    assert refused["where"] == "seed=99: recipe, seed"
    assert_error(client.post("/api/runs", json=document | {"bits": []}), 422, "refused")
    assert len(client.get("/api/runs").json()["runs"]) == 4
