"""The contract of ``Workers``, for those of this host and for those of a real Ray cluster of several nodes."""

import hashlib
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from app import create_app
from sarqc import extras
from sarqc.calibration.text_files import text_name, text_path
from sarqc.engine.execute import execute
from sarqc.errors import Refused
from sarqc.events import Cancelled, Failed, Finished, LayerDone, Started, Yielded
from sarqc.extras.cluster.ray_workers import RayWorkers
from sarqc.files.places import place_at
from sarqc.jobs.checkpoint_files import damage
from sarqc.jobs.exports import checkpoint_folder
from sarqc.jobs.process import Process
from sarqc.jobs.run import Run, State
from sarqc.jobs.store import Store
from sarqc.jobs.supervisor import Supervisor
from sarqc.jobs.workers import LocalWorkers, Workers, log_path
from sarqc.recipe import Recipe
from sarqc.settings import SITE, Settings
from tests.jobs.conftest import Inbox, is_alive, settings_in, until, until_state
from tests.jobs.fake_runs import recipe
from tests.object_storage import is_installed
from tests.ray_cluster import Cluster, cluster_of
from tests.test_command_line import sarqc

NODES = 2
Start = Callable[..., tuple[Workers, Inbox, Run, int, int]]


@pytest.fixture(scope="module", params=["local", pytest.param("ray", marks=pytest.mark.soak)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster | None]:
    """A Ray cluster, or None for this host."""
    if request.param == "local":
        yield None
        return
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'sarqc[cluster]'")
    if is_installed():
        request.getfixturevalue("bucket")  # before the nodes, so that they know its server
    with cluster_of(NODES) as cluster:
        yield cluster


@pytest.fixture
def settings(tmp_path: Path, cluster: Cluster | None) -> Settings:
    return settings_in(tmp_path, ray_address="" if cluster is None else cluster.address)


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    store = Store(settings.database())
    yield store
    store.close()


@pytest.fixture
def start(store: Store, settings: Settings) -> Iterator[Start]:
    made: list[Workers] = []

    def begin(function: str, layers: int = 3) -> tuple:
        inbox = Inbox()
        kind = RayWorkers if settings.ray_address else LocalWorkers
        execute = function if ":" in function else f"tests.jobs.fake_runs:{function}"
        workers = kind(settings, inbox.put, execute=execute)
        made.append(workers)
        until(lambda: workers.devices)
        run = store.create(recipe(layers), "ann")
        token, pid = workers.start(run, workers.devices[0].id)
        return workers, inbox, run, token, pid

    yield begin
    for workers in made:
        workers.close()


def test_events_come_in_order_and_the_end_last(start, settings):
    _, inbox, run, token, pid = start("quick")
    events, gone = inbox.until_gone()
    assert [event.type for event in events] == ["started", *["layer_done"] * 3, "saved", "finished"]
    assert events[0].device == "cpu"
    assert "/" not in events[4].path  # of where on the host it is nobody hears
    assert events[1].report["held_out_loss"] is None  # NaN is not JSON
    assert (gone.token, gone.returncode) == (token, 0)
    assert not is_alive(pid)
    log = log_path(settings, run.id).read_text()
    assert "this goes to the log\n" in log
    lines = [line for line in log.splitlines() if "sarqc.worker" in line]
    assert [line.partition(f"sarqc.worker [run {run.id}]: ")[2] for line in lines] == [
        "it begins",
        "it works on cpu, 3 layers",
        "finished after 0.1 s",
    ]
    assert (settings.studies_dir() / run.id / "study.json").is_file()


def test_cancel_reaches_into_a_layer(start, settings):
    workers, inbox, _, token, _ = start("long_layer")
    assert isinstance(inbox.next().event, Started)
    until((settings.storage_dir() / "inside").exists)
    workers.ask_to_stop(token)
    workers.ask_to_stop(token)
    events, gone = inbox.until_gone()
    assert events == [Cancelled()]  # the layer takes longer than anybody waits here
    assert gone.returncode == 0
    assert (settings.storage_dir() / "cleaned").exists()


def test_cancel_before_the_run_has_begun(start):
    workers, inbox, _, token, pid = start("long_layer")
    workers.ask_to_stop(token)
    events, gone = inbox.until_gone()
    assert events in ([], [Cancelled()])  # depends on whether Python was up
    assert gone.returncode in (0, -signal.SIGTERM)
    assert not is_alive(pid)


@pytest.mark.thorough
def test_a_run_steps_aside_between_layers(start, settings):
    workers, inbox, run, token, pid = start("slow", layers=1000)
    assert isinstance(inbox.next().event, Started)
    workers.step_aside(token, False)
    workers.step_aside(token, True)
    events, gone = inbox.until_gone()
    workers.step_aside(token, True)
    assert isinstance(events.pop(), Yielded)
    assert gone.returncode == 0
    assert not is_alive(pid)
    kept = {path.name for path in (settings.artefacts_dir() / run.fingerprint).iterdir()}
    assert {str(event.index) for event in events} <= kept
    assert "it steps aside" in log_path(settings, run.id).read_text()


def test_kill_takes_what_the_run_has_started(start, settings):
    workers, inbox, _, token, pid = start("deaf")
    inbox.next()
    grandchild = int((settings.storage_dir() / "grandchild").read_text())
    workers.ask_to_stop(token)
    workers.kill(token)
    _, gone = inbox.until_gone()
    assert gone.words() == "signal 9 (SIGKILL)"
    until(lambda: not is_alive(pid) and not is_alive(grandchild))
    workers.kill(token)
    workers.ask_to_stop(token)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("function", "kind", "what"),
    [
        ("refuses", "numerical", "channel 3 of gram is not finite"),
        ("breaks", "error", "ValueError: a bug"),
    ],
)
def test_errors_are_said_in_three_parts(start, settings, function, kind, what):
    _, inbox, run, _, _ = start(function)
    events, gone = inbox.until_gone()
    assert isinstance(events[-1], Failed)
    assert (events[-1].kind, events[-1].what) == (kind, what)
    assert events[-1].remedy
    assert gone.returncode == 0
    assert "Traceback" in log_path(settings, run.id).read_text()


def test_missing_execute_is_an_error_of_the_run(start):
    _, inbox, _, _, _ = start("sarqc.no_such_module:execute")
    events, _ = inbox.until_gone()
    assert "no_such_module" in events[-1].what


@pytest.mark.thorough
def test_silent_death_is_told_with_its_cause(start):
    _, inbox, _, _, _ = start("dies")
    events, gone = inbox.until_gone()
    assert isinstance(events[-1], LayerDone)
    assert gone.words() == "exit code 7"


def test_a_storm_arrives_whole(start):
    _, inbox, _, _, _ = start("storm", layers=5000)
    events, _ = inbox.until_gone()
    assert len(events) == 5002
    assert isinstance(events[-1], Finished)


def worker_process(workers: Workers, pid: int) -> psutil.Process:
    """The process that does the work: on a cluster another one than that which stands for it."""
    function = psutil.Process(pid).cmdline()[6]
    (found,) = [
        process
        for process in psutil.process_iter(["cmdline"])
        if "sarqc.jobs.child" in (process.info["cmdline"] or []) and function in process.info["cmdline"]
    ]
    return found


@pytest.mark.thorough
def test_a_worker_that_stands_still_is_silent_and_can_be_ended(start):
    workers, inbox, _, token, pid = start("long_layer")
    assert isinstance(inbox.next().event, Started)
    until(lambda: workers.silent_seconds(token) < 1.0)
    worker = worker_process(workers, pid)
    worker.suspend()
    until(lambda: workers.silent_seconds(token) > 3.0)
    workers.kill(token)
    _, gone = inbox.until_gone()
    assert gone.words() == "signal 9 (SIGKILL)"
    until(lambda: not is_alive(worker.pid))


RECIPE = {
    "model": "tiny-llama", "bits": 3, "grid": "symmetric", "method": "sarqc-gbs", "lambda": 0.1,
    "calibration": "tiny-llama-calibration", "samples": 8, "length": 128, "test": "tiny-llama-test",
    "baseline": False, "test_tokens": 256,
}  # fmt: skip
on_ray = pytest.mark.parametrize("cluster", [pytest.param("ray", marks=pytest.mark.soak)], indirect=True)


@on_ray
def test_a_run_whose_node_is_lost_goes_on_elsewhere_to_the_same_bits(
    store, settings, cluster, object_storage, tmp_path
):
    """Its layers are in object storage; a text that somebody brought, and the study, go through it."""
    settings = settings.model_copy(update={"assets_dir": SITE / "assets", "storage": object_storage})
    alone = settings_in(tmp_path / "alone", assets_dir=SITE / "assets")
    text = (SITE / "assets" / "models" / "tiny-llama" / "calibration.txt").read_bytes()
    recipe = Recipe.parse(RECIPE | {"calibration": text_name(hashlib.sha256(text).hexdigest())})
    for one in (settings, alone):
        path = text_path(recipe.calibration, one)
        path.parent.mkdir(parents=True)
        path.write_bytes(text)
    supervisor = Supervisor(store, settings, workers=RayWorkers)
    supervisor.start()
    try:
        assert [device["id"] for device in supervisor.devices()] == [f"ray:cpu:{index}" for index in range(NODES)]
        run_id = supervisor.submit(recipe, "ann").id
        until(lambda: store.get(run_id).done >= 2)
        log = log_path(settings, run_id)
        (node,) = re.findall(r"\(node (\w+)\)", log.read_text())
        cluster.ask(f"kill {node}")
        until(lambda: store.get(run_id).attempt == 2)
        until(lambda: len(supervisor.devices()) == NODES - 1)
        cluster.ask("add")
        run = until_state(store, run_id, State.FINISHED, State.FAILED, State.INTERRUPTED)
    finally:
        supervisor.stop()
    assert run.state is State.FINISHED, run.error
    payloads = [event.payload for event in store.events(run_id)]
    (lost,) = [payload["what"] for payload in payloads if payload["type"] == "interrupted"]
    assert f"(node {node}), a host of the Ray cluster, was lost." in lost
    assert lost.endswith("The run goes on by itself.")
    second = payloads[[payload["type"] for payload in payloads].index("interrupted") :]
    kept = [payload["from_cache"] for payload in second if payload["type"] == "layer_done"]
    assert kept[:2] == [True, True]
    assert not all(kept)
    assert len(set(re.findall(r"\(node (\w+)\)", log.read_text()))) == 2

    assert not list(settings.artefacts_dir().glob("*"))
    assert not [entry.name for entry in place_at(object_storage).entries() if entry.name.startswith("transit/")]
    list(execute(recipe, alone, study_dir=alone.studies_dir(), study_id=run_id))
    arrays = [one.studies_dir() / run_id / "study.safetensors" for one in (settings, alone)]
    assert arrays[0].read_bytes() == arrays[1].read_bytes()


@on_ray
def test_an_export_goes_the_same_way(store, settings, cluster, object_storage):
    settings = settings.model_copy(update={"storage": object_storage})
    supervisor = Supervisor(store, settings, workers=partial(RayWorkers, execute="tests.jobs.fake_runs:exporting"))
    supervisor.start()
    try:
        run_id = supervisor.submit(recipe(), "ann").id
        until_state(store, run_id, State.FINISHED)
        export, _ = supervisor.export(run_id, "plain", 1000, "ann")
        until_state(store, export.id, State.FINISHED)
        assert store.get(export.id).bytes == 5000
        assert damage(checkpoint_folder(settings, export)) is None
    finally:
        supervisor.stop()


@on_ray
def test_what_asks_the_cluster_ends_with_the_app_however_that_ended(cluster):
    process = Process("sarqc.extras.cluster.ray_cluster", [cluster.address])
    try:
        assert "nodes" in json.loads(process.channel.readline())
        assert process._popen.stdin is not None
        process._popen.stdin.close()  # nothing else: the pipe that it writes to is open
        until(lambda: not process.alive())
    finally:
        process.dismiss()


@pytest.mark.thorough
def test_what_asks_a_cluster_that_does_not_answer_gives_up():
    program = (
        "import time; from sarqc.jobs import ray_cluster\n"
        "ray_cluster.SILENT_SECONDS = 0.1; ray_cluster._Patience(); time.sleep(600)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 1


@on_ray
def test_the_command_line_sends_a_batch(settings, cluster, tmp_path):
    """To the same numbers as without a cluster, which finds the studies where it leaves its own."""
    batch, state = tmp_path / "batch.yaml", tmp_path / "state"
    batch.write_text(json.dumps(RECIPE | {"blocks": [0], "lambda": [0, 0.1]}))
    environment = {"SARQC_STATE_DIR": str(state), "SARQC_RAY_ADDRESS": cluster.address}
    there = sarqc("run", str(batch), "--on", "ray", "--json", **environment)
    assert there.returncode == 0, there.stderr
    studies = sorted(path.name for path in (state / "studies").iterdir())
    assert len(studies) == 2
    assert not list((state / "logs").iterdir())
    here = sarqc("run", str(batch), "--json", **environment)
    assert here.returncode == 0, here.stderr
    assert sorted(path.name for path in (state / "studies").iterdir()) == studies
    told = [json.loads(one.stdout)["runs"] for one in (there, here)]
    for run in (*told[0].values(), *told[1].values()):
        assert run.pop("seconds") > 0
    assert told[0] == told[1]
    # Without notes, among which are those of a cluster that does not answer for a while.
    lines = [re.sub(r", \d+ of them from disk|note: .*\n", "", one.stderr).splitlines() for one in (there, here)]
    assert lines[0] == lines[1]
    assert lines[0][0] == "run 1 of 2: lambda=0"


@on_ray
def test_a_cluster_that_cant_be_reached_is_refused_with_its_remedy(settings, cluster):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(Refused) as caught:
        RayWorkers(settings.model_copy(update={"ray_address": address}), print, patience=5.0)
    assert caught.value.where == "SARQC_RAY_ADDRESS"
    assert address in caught.value.what
    assert "ray start" in caught.value.remedy


@on_ray
@pytest.mark.parametrize("changed", [{"RAY_AUTH_TOKEN": "0" * 32}, {"RAY_AUTH_MODE": "disabled"}])
def test_a_cluster_lets_nobody_in_without_its_token(settings, cluster, monkeypatch, changed):
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Refused) as caught:
        RayWorkers(settings, print, patience=12.0)  # Ray by itself gives up after twenty
    assert caught.value.where == "SARQC_RAY_ADDRESS"


def test_without_ray_the_setting_is_refused(settings, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(Refused) as caught:
        create_app(settings.model_copy(update={"ray_address": "auto"}), with_pages=False)
    assert caught.value.where == "SARQC_RAY_ADDRESS"
    assert "sarqc[cluster]" in caught.value.remedy


TUNE = {
    "kind": "tune", "model": "tiny-llama", "bits": 3, "grid": "symmetric", "method": "sarqc-gbs",
    "calibration": "tiny-llama-calibration", "samples": 4, "length": 64, "test": "tiny-llama-test",
    "test_tokens": 512, "sweep": [0.01, 0.1, 1], "draws": 3, "blocks": [0],
}  # fmt: skip


@on_ray
def test_a_tuning_run_on_four_workers_ends_at_the_same_study(store, settings, cluster, tmp_path):
    settings = settings.model_copy(update={"assets_dir": SITE / "assets"})
    alone = settings_in(tmp_path / "alone", assets_dir=SITE / "assets")
    supervisor = Supervisor(store, settings, workers=RayWorkers)
    supervisor.start()
    most, stopped = 0, set[int]()

    def makers() -> set[int]:
        log = log_path(settings, run_id)
        return {int(pid) for pid in re.findall(r"process (\d+) makes", log.read_text())} if log.exists() else set()

    def has_ended() -> bool:
        nonlocal most
        most = max(most, sum(device["run"] == run_id for device in supervisor.devices()))
        # The first is held until somebody helps it, so that it isn't done before the others have begun.
        match [*makers()]:
            case [first] if first not in stopped:
                stopped.add(first)
                os.kill(first, signal.SIGSTOP)
            case [_, _, *_]:
                go_on()
        return store.get(run_id).at_rest

    def go_on() -> None:
        while stopped:
            os.kill(stopped.pop(), signal.SIGCONT)

    try:
        for _ in range(4 - NODES):
            cluster.ask("add")
        until(lambda: len(supervisor.devices()) == 4)
        run_id = supervisor.submit(Recipe.parse(TUNE), "ann").id
        until(has_ended)
        until(lambda: not supervisor._jobs)
    finally:
        go_on()
        supervisor.stop()
    run = store.get(run_id)
    assert run.state is State.FINISHED, run.error
    assert most == 4
    assert len(makers()) > 1
    assert not list(settings.artefacts_dir().glob("*/*.claim"))
    events = list(execute(Recipe.parse(TUNE), alone, study_dir=alone.studies_dir(), study_id=run_id))
    arrays = [one.studies_dir() / run_id / "study.safetensors" for one in (settings, alone)]
    assert arrays[0].read_bytes() == arrays[1].read_bytes()
    documents = [json.loads((one.studies_dir() / run_id / "study.json").read_text()) for one in (settings, alone)]
    for document in documents:
        del document["created"]
    assert documents[0] == documents[1]
    assert run.summary is not None
    outcomes = [json.loads(json.dumps(one["tuning"])) for one in (run.summary, events[-1].summary)]
    assert [outcome.pop("seconds") > 0 for outcome in outcomes] == [True, True]
    for outcome in outcomes:
        for turn in outcome["turns"]:
            del turn["seconds"]
    assert outcomes[0] == outcomes[1]
