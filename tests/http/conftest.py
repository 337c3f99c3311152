"""The app in process for plain requests, and in a process of its own, on a free port, for streams and signals."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.recipe import method_title
from sarqc.settings import Settings
from sarqc.study.document import LayerInfo, Line, ModelFacts, Study, StudyWriter
from tests.http.fake_app import resolve
from tests.jobs.conftest import settings, store, until
from tests.jobs.fake_runs import recipe

__all__ = ["settings", "store"]
TOKEN = "a-token-of-24-characters"
HTML = {"Accept": "text/html"}


@contextmanager
def opened(settings: Settings, function: str = "quick", **given) -> Iterator[TestClient]:
    """The app without pages, whose runs are the named function of ``fake_runs``."""
    app = create_app(settings, execute=f"tests.jobs.fake_runs:{function}", resolve=resolve, with_pages=False)
    with TestClient(app, raise_server_exceptions=False, **given) as client:
        yield client


@pytest.fixture
def client(settings):
    with opened(settings) as client:
        yield client


def submit(client: httpx.Client, layers: int = 2, headers: dict[str, str] | None = None, **changes) -> dict:
    answer = client.post("/api/runs", json=recipe(layers).to_json() | changes, headers=headers)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/api/runs/{answer.json()['id']}"
    return answer.json()


def run_of(client: httpx.Client, run_id: str) -> dict[str, Any]:
    return client.get(f"/api/runs/{run_id}").json()


def finished(client: httpx.Client, run_id: str) -> dict[str, Any]:
    """The run once it has come to a good end."""
    until(lambda: run_of(client, run_id)["state"] not in ("queued", "running"))
    run = run_of(client, run_id)
    assert run["state"] == "finished", run["error"]
    return run


def events_of(client: httpx.Client, run_id: str) -> list[dict[str, Any]]:
    return client.get(f"/api/runs/{run_id}/events", headers={"Accept": "application/json"}).json()["events"]


class App:
    """A running app in its own process; ``within`` is a command that becomes it, such as one that mounts a disk."""

    def __init__(self, folder, function, within=()):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [*within, sys.executable, "-m", "tests.http.fake_app", str(folder), str(self.port), function],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path)},
            stdout=subprocess.DEVNULL,
            stderr=(folder / "app.log").open("ab"),
        )
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30)
        until(self.answers)

    def answers(self):
        assert self.process.poll() is None, "the app ended"
        try:
            return self.http.get("/healthz").is_success
        except httpx.TransportError:
            return False

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(20)


@pytest.fixture
def serve(tmp_path):
    """Starts the app with the named function of ``fake_runs``; a second start finds the state of the first."""
    apps = []

    def start(function, within=()):
        apps.append(App(tmp_path, function, within))
        return apps[-1]

    yield start
    for app in apps:
        app.http.close()
        if app.process.poll() is None:
            app.process.kill()
            app.process.wait()


def write_study(root: Path, study_id: str, created: str = "2026-01-01T00:00:00Z") -> Study:
    """A small but whole study: one line, two layers, three values of λ."""
    writer = StudyWriter(root / study_id)
    points = np.linspace(0.5, 0.1, 6, dtype=np.float32)
    surface = np.arange(2 * 3 * 32 * 32, dtype=np.uint32).astype(np.uint8).reshape(2, 1, 3, 32, 32)
    arrays = {
        "perplexity": writer.add(np.array([[[9.0, 8.0, 8.5]]], np.float32), ("draw", "gamma", "lambda")),
        "surface": writer.add(surface, ("layer", "gamma", "lambda", "row", "column")),
        "surface_scale": writer.add(np.ones(2, np.float32), ("layer",)),
        "deciles": writer.add(np.full((2, 1, 3, 10), 0.1, np.float32), ("layer", "gamma", "lambda", "decile")),
    }
    for name in ("recon", "held_out", "sar", "drift"):
        arrays[name] = writer.add(points.reshape(1, 2, 1, 3), ("draw", "layer", "gamma", "lambda"))
    line = Line(
        method="sarqc-gbs", title=method_title("sarqc-gbs"), baseline="gptq", bits=2, grid="asymmetric",
        group_size=None, lams=(0.0, 0.1, 0.3), gammas=(0.1,), draws=(0,), chosen=(0, 1), arrays=arrays,
    )  # fmt: skip
    layers = tuple(
        LayerInfo(name=f"model.layers.{i}.mlp.down_proj", block=i, module="down_proj", shape=(32, 32)) for i in (0, 1)
    )
    study = Study(
        id=study_id, title="A study", created=created, prefix="quantized", protocol={}, layers=layers, lines=(line,),
        model=ModelFacts(name="tiny", parameters=10, share_quantized=0.9, perplexity=7.0),
    )  # fmt: skip
    return writer.finish(study)


def assert_error(answer: httpx.Response, status: int, kind: str) -> dict[str, str]:
    """The one shape of errors; returns its parts."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    error = answer.json()["error"]
    assert list(error)[:4] == ["kind", "what", "where", "remedy"]
    assert list(error)[4:] in ([], ["field", "fixes"])
    assert error["kind"] == kind
    assert error["what"]
    assert error["where"]
    return error
