"""One run in a process of its own: what the plan promised of it, and what it took.

    python -m benchmarks.one_run RECIPE.json STATE

Prints a JSON object: bytes and seconds that the plan shows, and what it took by stage.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measured import own_bytes
from sarqc.engine.execute import execute, warm_up
from sarqc.engine.plan import prepare
from sarqc.events import LayerDone, Stage
from sarqc.recipe import Recipe
from sarqc.settings import Settings


def taken(recipe: Recipe, settings: Settings) -> dict[str, Any]:
    """Imports excluded, as for a worker that was warm."""
    warm_up()
    started = time.perf_counter()
    prepared = prepare(recipe, settings)
    stages: dict[str, float] = {}
    layers: list[float] = []
    stage, since, first = "preparing", started, None
    for event in execute(recipe, settings, prepared=prepared):
        now = time.perf_counter()
        if isinstance(event, Stage):
            stages[stage] = stages.get(stage, 0.0) + now - since
            stage, since = event.name, now
        elif isinstance(event, LayerDone):
            first = first or now - started
            layers.append(event.seconds)
    end = time.perf_counter()
    stages[stage] = stages.get(stage, 0.0) + end - since
    return {
        "planned_bytes": prepared.shown.memory_bytes,
        "planned_seconds": (prepared.shown.minutes or 0.0) * 60,
        "seconds": end - started,
        "first_layer_seconds": first,
        "stages": stages,
        "layer_seconds": layers,
    }


def measured(document: dict[str, Any], **environment: str) -> dict[str, Any]:
    """The same from a process of its own, with the most memory that it had of its own (files that are mapped into it
    do not count), which is looked at from here: inside, a computation would hold the looking up.
    """
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "recipe.json"
        file.write_text(json.dumps(document), encoding="utf-8")
        command = [sys.executable, "-m", "benchmarks.one_run", str(file), str(Path(name) / "state")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment)
        peak = 0
        while process.poll() is None:
            peak = max(peak, own_bytes(process.pid))
            time.sleep(0.001)
        assert process.stdout is not None
        if process.returncode:
            raise RuntimeError(f"the run ended with {process.returncode}")
        return {**json.loads(process.stdout.read().splitlines()[-1]), "peak_bytes": peak}


if __name__ == "__main__":
    document = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(json.dumps(taken(Recipe.parse(document), Settings(state_dir=Path(sys.argv[2])))))
