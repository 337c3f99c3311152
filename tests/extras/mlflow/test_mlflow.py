"""Runs told to the real MLflow: to its default kind of store, to a silent server, from the command line."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from sarqc.errors import Refused
from sarqc.events import Event, Finished, LayerDone, Saved, Warned
from sarqc.extras.mlflow import reporting
from sarqc.extras.mlflow.reporting import report
from tests.test_command_line import sarqc

mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed here: make test-reports")


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A place for MLflow's default store, of which the first client makes the tables: that takes seconds."""
    return tmp_path_factory.mktemp("mlflow") / "mlflow.db"


@pytest.fixture
def store(database, monkeypatch):
    """A client of the store; each test has a project of its own."""
    uri = f"sqlite:///{database}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.chdir(database.parent)
    return mlflow.MlflowClient(uri)


def runs_of(client, project: str) -> list[Any]:
    """The runs of an experiment, the oldest first."""
    experiment = client.get_experiment_by_name(project)
    assert experiment is not None, project
    return list(client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"]))


def history(client, run, name: str) -> dict[int, float]:
    return {one.step: one.value for one in client.get_metric_history(run.info.run_id, name)}


def artefacts(client, run, folder: str) -> dict[str, bytes]:
    paths = [one.path for one in client.list_artifacts(run.info.run_id, folder)]
    return {Path(path).name: Path(client.download_artifacts(run.info.run_id, path)).read_bytes() for path in paths}


def tell(run, project: str = "sarqc") -> list[Event]:
    said = []
    with report(project, run[0], said.append) as pass_on:
        for event in run[1]:
            pass_on(event)
    return said


def test_a_run_is_there_as_it_was(run, store):
    recipe, events = run
    (saved,) = tell(run)
    (there,) = runs_of(store, "sarqc")
    assert isinstance(saved, Saved)
    assert there.info.run_id in saved.path
    assert there.info.status == "FINISHED"
    given = {name: value for name, value in recipe.to_json().items() if value not in (None, [])}
    assert there.data.params == {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()
    }
    assert there.data.params["lambda"] == "auto"
    tags = there.data.tags
    assert (tags["model"], tags["kind"]) == (recipe.model, "run")
    assert {"version.sarqc", "version.torch", "method", "device"} <= set(tags)
    layers = [event for event in events if isinstance(event, LayerDone)]
    for name in ("relative_recon", "relative_held_out", "relative_drift"):
        assert history(store, there, f"layer/{name}") == {one.index: one.report[name] for one in layers}
    assert history(store, there, "layer/lambda") == {one.index: one.report["chosen"]["lam"] for one in layers}
    (finished,) = (event for event in events if isinstance(event, Finished))
    for name in ("perplexity", "perplexity_float", "kl", "kl_standard_error", "bits_per_weight"):
        assert there.data.metrics[name] == finished.summary[name], name
    folders = {event.what: Path(event.path) for event in events if isinstance(event, Saved)}
    assert artefacts(store, there, "study") == {path.name: path.read_bytes() for path in folders["study"].iterdir()}
    card = (folders["checkpoint"] / "README.md").read_bytes()
    assert artefacts(store, there, "checkpoint") == {"README.md": card}


@pytest.mark.parametrize(("error", "status"), [(Refused("a", "b", "c"), "FAILED"), (KeyboardInterrupt(), "KILLED")])
def test_the_end_is_that_of_the_run(run, store, error, status):
    with pytest.raises(type(error)), report(status, run[0], print):
        raise error
    (there,) = runs_of(store, status)
    assert there.info.status == status
    assert there.data.tags.get("error") == (str(error) if status == "FAILED" else None)


def test_a_server_without_an_answer_is_a_warning(run, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://ann:secret@127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
        (failed,) = tell(run)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
        monkeypatch.setattr(reporting, "PATIENCE", 0.2)
        (silent,) = tell(run)
    assert isinstance(failed, Warned)
    assert isinstance(silent, Warned)
    assert "timed out" in failed.what
    assert "secret" not in failed.what
    assert "no answer for 0.2 seconds" in silent.what


def test_a_batch_on_the_command_line(random_llama, text_file, store, tmp_path):
    batch = tmp_path / "ladder.yaml"
    recipe = {
        "model": str(random_llama), "group_size": 16, "method": "rqc-gbs", "calibration": str(text_file), "samples": 2,
        "length": 32, "lambda": [0.1, 1], "blocks": [0],
    }  # fmt: skip
    batch.write_text(json.dumps(recipe))
    done = sarqc("run", str(batch), "--report", "mlflow", "--json", SARQC_STATE_DIR=str(tmp_path / "state"))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["runs"]
    there = runs_of(store, "ladder")
    assert [one.info.run_name for one in there] == list(told) == ["lambda=0.1", "lambda=1"]
    for one, summary in zip(there, told.values(), strict=True):
        assert one.data.metrics["layer/lambda"] == summary["recipe"]["lambda"]
        assert f"run {one.info.run_id}" in done.stderr
