"""The whole way of a number, with the real execute and the embedded model: plan, run, cancel, continue, study, view.

And of the weights: exported, fetched as one archive, unpacked and loaded by transformers.
"""

import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.extras.host.backup import back_up, restore
from sarqc.settings import SITE, Settings
from tests.http.conftest import events_of, finished, run_of
from tests.jobs.conftest import until

RECIPE = {
    "model": "tiny-llama", "bits": 3, "grid": "symmetric", "method": "gptq", "calibration": "tiny-llama-calibration",
    "samples": 2, "length": 64, "test": "tiny-llama-test", "baseline": False, "test_tokens": 256,
}  # fmt: skip


@pytest.mark.soak
def test_a_real_run_is_cancelled_killed_continued_and_seen(settings, tmp_path):
    settings = settings.model_copy(update={"assets_dir": SITE / "assets"})
    app = create_app(settings, with_pages=False)
    with TestClient(app) as client:
        plan = client.post("/api/plan", json=RECIPE)
        assert plan.status_code == 200, plan.text
        assert [one["possible"] for one in plan.json()["formats"][:2]] == [True, True]
        layers = plan.json()["layers"]
        run_id = client.post("/api/runs", json=RECIPE).json()["id"]

        run = partial(run_of, client, run_id)
        until(lambda: run()["progress"]["done"] >= 2, seconds=150)
        client.post(f"/api/runs/{run_id}/cancel")
        until(lambda: run()["state"] == "cancelled")
        kept = run()["progress"]["done"]
        assert kept < layers

        client.post(f"/api/runs/{run_id}/continue")
        until(lambda: run()["state"] == "running" and run()["progress"]["done"] > kept, seconds=150)
        os.kill(app.state.supervisor.store.get(run_id).pid, signal.SIGKILL)
        until(lambda: run()["state"] == "interrupted")

        back_up(settings, tmp_path / "backup")
        client.post(f"/api/runs/{run_id}/continue")
        assert finished(client, run_id)["progress"] == {"done": layers, "total": layers}
        assert "layers" not in run()["summary"]  # rows stay small; the study has them
        events = events_of(client, run_id)
        last_attempt = events[[event["type"] for event in events].index("interrupted") + 1 :]
        cached = [event["from_cache"] for event in last_attempt if event["type"] == "layer_done"]
        assert len(cached) == layers
        assert all(cached[: kept + 1])
        assert not all(cached)

        _check_export(client, run(), settings, tmp_path)
        _check_backup(run_id, settings, tmp_path)

        view = client.get(f"/api/studies/{run_id}/view")
        assert view.status_code == 200, view.text
        assert client.delete(f"/api/runs/{run_id}").status_code == 204
        assert client.get(f"/api/studies/{run_id}").status_code == 404
        assert not list(settings.exports_dir().iterdir())


def _check_backup(run_id: str, settings: Settings, folder: Path):
    """What was copied in the midst of the run goes on elsewhere, to the same bits."""
    other = settings.model_copy(update={"state_dir": folder / "other"})
    restore(other, folder / "backup")
    app = create_app(other, with_pages=False)
    with TestClient(app) as client:
        assert client.post(f"/api/runs/{run_id}/continue").status_code == 200
        finished(client, run_id)
        assert any(event["type"] == "layer_done" and event["from_cache"] for event in events_of(client, run_id))
    here, there = (one.studies_dir() / run_id / "study.safetensors" for one in (settings, other))
    assert here.read_bytes() == there.read_bytes()


def _check_opening(client: TestClient, name: str):
    """An export is among the checkpoints that may be opened, and its grid is found in its files."""
    entries = {entry["name"]: entry["opened"] for entry in client.get("/api/models").json()["models"]}
    assert name in entries["tiny-llama"]
    asked = {key: RECIPE[key] for key in ("model", "calibration", "samples", "length", "test", "test_tokens")}
    asked |= {"method": "as-found", "baseline": False}
    plan = client.post("/api/plan", json=asked | {"quantized_checkpoint": name})
    assert plan.status_code == 200, plan.text
    assert "3 bits, full range, groups of 128" in plan.json()["opened"]
    for wrong in (f"{name}/..", f"{name[:27]}..", f"{'0' * 26}/tiny", f"../exports/{name}"):
        refused = client.post("/api/plan", json=asked | {"quantized_checkpoint": wrong})
        assert refused.status_code == 404, (wrong, refused.text)


def _check_export(client: TestClient, run: dict, settings: Settings, folder: Path):
    """What the archive holds loads with the run's weights, bit by bit, and the run stays as it is."""
    import torch
    from transformers import AutoModelForCausalLM

    from sarqc.engine.execute import execute
    from sarqc.recipe import Recipe

    made = client.post(f"/api/runs/{run['id']}/export?format=packed")
    assert made.status_code == 201, made.text
    export_id = made.json()["id"]
    export = finished(client, export_id)
    assert export["summary"]["perplexity"] == run["summary"]["perplexity"]
    assert all(event["from_cache"] for event in events_of(client, export_id) if event["type"] == "layer_done")
    _check_opening(client, f"{export_id}/tiny-llama-3bit-gptq-packed")
    archive = folder / "model.tar"
    archive.write_bytes(client.get(f"/api/runs/{run['id']}/checkpoint?format=packed").content)
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    packed_folder = folder / "tiny-llama-3bit-gptq-packed"
    assert export["bytes"] == sum(path.stat().st_size for path in packed_folder.iterdir())
    assert "this folder" in (packed_folder / "README.md").read_text()
    assert client.get(f"/api/runs/{run['id']}").json()["revision"] == run["revision"]
    # The run's own weights: written in the plain format by the same recipe, whose layers are all on disk.
    list(execute(Recipe.parse(RECIPE), settings, checkpoint_dir=folder / "plain"))
    ids = torch.arange(24)[None] * 41 % 4096
    with torch.no_grad():
        packed, plain = (
            AutoModelForCausalLM.from_pretrained(path).eval() for path in (packed_folder, folder / "plain")
        )
        packed(ids)  # weights are dequantized in the first pass
        assert torch.equal(packed(ids).logits, plain(ids).logits)
    loaded, weights = packed.state_dict(), plain.state_dict()
    assert (
        sum(torch.equal(loaded[name], weights[name]) for name in weights if "proj" in name) == run["progress"]["total"]
    )
