"""Workers and the app are killed at random times while real runs of the embedded model go on.

Afterwards every run is finished, no event is missing, and its numbers are those of an undisturbed run, bit for bit.
"""

import os
import random
import shutil
import signal
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from conformance.torture.figures import Figures
from conformance.torture.served import Served
from sarqc.jobs.workers import EXECUTE
from sarqc.study.tensors import FILE
from tests.jobs.conftest import children_of, is_alive, until

KILLS, ROUNDS, LOST, GAPS, BITS, ORPHANS = "kills", "runs under kills", "runs lost", "events lost or doubled", \
    "runs with other bits", "orphans"  # fmt: skip
SMALL = {
    "model": "tiny-llama", "calibration": "tiny-llama-calibration", "samples": 2, "length": 32,
    "test": "tiny-llama-test", "test_tokens": 64, "baseline": False,
}  # fmt: skip
RECIPES = [
    SMALL | {"method": "rtn", "bits": 4},
    SMALL | {"method": "gptq", "bits": 3},
    SMALL | {"method": "sarqc-gbs", "bits": 3, "layer": "model.layers.1.mlp.down_proj", "sweep": [0.0, 0.1]},
]
# SIGSTOP costs a lease of ten seconds, the shortest there is.
KINDS = ["worker -9", "app -9", "both", "worker TERM", "worker -9", "app -9", "both", "worker TERM", "worker STOP"]
FINISH_SECONDS = 240.0
HOST = {"lease_seconds": 10, "cancel_seconds": 1}

Result = tuple[bytes, Any]  # the arrays of a study, and the perplexities that a run says


def play(folder: Path, figures: Figures, kills: int, seed: int, recipes: list[dict[str, Any]] | None = None) -> None:
    """Round after round, each with an empty state folder, until as many kills were made."""
    figures.expect(KILLS, ROUNDS, LOST, GAPS, BITS, ORPHANS)
    if not kills:
        return
    recipes, dice = recipes or RECIPES, random.Random(seed)
    app = Served(folder / "undisturbed", EXECUTE, **HOST).wait()
    began = time.monotonic()
    ids = [_submit(app, recipe) for recipe in recipes]
    right = [_result(app, run_id, _finished(app, run_id)) for run_id in ids]
    pace = (time.monotonic() - began) / len(recipes)
    app.end()
    left = kills
    for number in count():
        if left <= 0:
            break
        left -= _Round(folder / f"round-{number}", figures, dice, pace).play(recipes, right, left)
        shutil.rmtree(folder / f"round-{number}")


class _Round:
    """Some runs in one state folder, and who disturbs them. ``pace``: seconds that a run takes undisturbed."""

    def __init__(self, folder: Path, figures: Figures, dice: random.Random, pace: float) -> None:
        self.folder, self.figures, self.dice, self.pace = folder, figures, dice, pace
        self.app = Served(folder, EXECUTE, **HOST).wait()

    def play(self, recipes: list[dict[str, Any]], right: list[Result], at_most: int) -> int:
        """How many kills were made before all runs had finished."""
        kills = 0
        ids = [_submit(self.app, recipe) for recipe in recipes]
        try:
            while kills < at_most:
                time.sleep(self.dice.uniform(0.0, 1.5 * self.pace))
                if not [run for run in map(self._run, ids) if run["state"] != "finished"]:
                    break
                kills += self._kill(self.dice.choice(KINDS))
            for run_id, expected in zip(ids, right, strict=True):
                self._check(run_id, expected)
        finally:
            self.app.end()
        return kills

    def _run(self, run_id: str) -> dict[str, Any]:
        run = self.app.get(f"/api/runs/{run_id}")
        if run["state"] == "interrupted":
            self.app.post(f"/api/runs/{run_id}/continue")
        return run

    def _kill(self, kind: str) -> bool:
        """Whether there was somebody to kill: between two attempts there may be no worker."""
        app = self.app.process.pid
        workers = [pid for pid in children_of(app) if is_alive(pid) and _is_itself(pid, app)]
        if kind.startswith("worker") and not workers:
            return False
        self.figures.count(KILLS)
        self.figures.count(f"  {kind}")
        if kind != "app -9":
            number = {"TERM": signal.SIGTERM, "STOP": signal.SIGSTOP}.get(kind.split()[-1], signal.SIGKILL)
            for pid in workers:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        if kind in ("app -9", "both"):
            self.app.end()
            for pid in workers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)  # who is stopped can't see that the app is gone
            try:
                until(lambda: not any(map(is_alive, workers)), seconds=10)
            except AssertionError:
                self.figures.complain(ORPHANS, f"{kind}: {[pid for pid in workers if is_alive(pid)]}")
            self.app = Served(self.folder, EXECUTE, **HOST).wait()
        return True

    def _check(self, run_id: str, expected: Result) -> None:
        self.figures.count(ROUNDS)
        try:
            until(lambda: self._run(run_id)["state"] in ("finished", "failed"), seconds=FINISH_SECONDS)
            run = self._run(run_id)
        except AssertionError:
            run = self._run(run_id)
        if run["state"] != "finished":
            self.figures.complain(LOST, f"{run_id} is {run['state']}: {run['error']}")
            return
        events = self.app.get(f"/api/runs/{run_id}/events", Accept="application/json")["events"]
        for fault in faults(events):
            self.figures.complain(GAPS, f"{run_id}: {fault}")
        if _result(self.app, run_id, run) != expected:
            self.figures.complain(BITS, f"{run_id}: {run['recipe']}")


def _is_itself(pid: int, parent: int) -> bool:
    """Whether a child runs a program of its own yet: until then its parent waits for it, in the kernel and whole."""
    try:
        own, parents = (Path(f"/proc/{one}/cmdline").read_bytes() for one in (pid, parent))
    except (FileNotFoundError, ProcessLookupError):
        return False
    return own != parents


def faults(events: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the events of a finished run: numbers left out, a layer twice in an attempt, no end."""
    wrong = []
    if [event["seq"] for event in events] != list(range(1, len(events) + 1)):
        wrong.append(f"numbers {[event['seq'] for event in events]}")
    attempts: list[list[dict[str, Any]]] = [[]]
    for event in events:
        attempts[-1].append(event)
        if event["type"] == "interrupted":
            attempts.append([])
    for attempt in attempts:
        layers = [event["index"] for event in attempt if event["type"] == "layer_done"]
        if len(layers) != len(set(layers)):
            wrong.append(f"layers of an attempt {layers}")
    started = [event for event in attempts[-1] if event["type"] == "started"]
    layers = [event["index"] for event in attempts[-1] if event["type"] == "layer_done"]
    if len(started) != 1 or sorted(layers) != list(range(len(started[0]["layers"]))):
        wrong.append(f"layers of the last attempt {layers}")
    if not events or events[-1]["type"] != "finished":
        wrong.append("no end")
    return wrong


def _submit(app: Served, recipe: dict[str, Any]) -> str:
    answer = app.post("/api/runs", recipe)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def _finished(app: Served, run_id: str) -> dict[str, Any]:
    until(lambda: app.get(f"/api/runs/{run_id}")["state"] in ("finished", "failed"), seconds=FINISH_SECONDS)
    run = app.get(f"/api/runs/{run_id}")
    assert run["state"] == "finished", run["error"]
    return run


def _result(app: Served, run_id: str, run: dict[str, Any]) -> Result:
    arrays = (app.folder / "state" / "studies" / run["study_id"] / FILE).read_bytes()
    return arrays, {name: value for name, value in run["summary"].items() if "perplexity" in name}
