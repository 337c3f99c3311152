"""Stands in for ``execute``: named as “tests.jobs.fake_runs:slow” and imported by the worker process.

``seed`` says how many layers there are. A finished layer leaves a file under the state folder, as in the real one, so
that a run that goes on can be seen to skip it.
"""

import errno
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from sarqc.errors import Fix, NumericalError, Refused
from sarqc.events import COMPARING, Event, Finished, LayerDone, Saved, Stage, Started
from sarqc.files.artefacts import ArtefactStore, chain_key
from sarqc.recipe import Recipe
from sarqc.settings import Settings


def recipe(layers: int = 3, **changes: object) -> Recipe:
    return Recipe.parse({"model": "fake", "calibration": "none.txt", "seed": layers, **changes})


warm = False


def warm_up() -> None:
    """Called by a worker before it has a job."""
    global warm
    warm = True


def _begin(recipe: Recipe, settings: Settings) -> Started:
    layers = [{"name": f"layer.{i}", "block": i, "module": "q_proj", "shape": [4, 4]} for i in range(recipe.seed)]
    return Started("fake", settings.device, layers, 0.5)


def _layer(index: int, total: int, cached: bool = False) -> LayerDone:
    report = {"recon_loss": 0.5, "held_out_loss": float("nan")}
    return LayerDone(f"layer.{index}", index, total, report, 0.01, cached)


def quick(recipe: Recipe, settings: Settings, *, study_dir: Path, study_id: str, **_: object) -> Iterator[Event]:
    """A few layers, a study, the end."""
    print("this goes to the log")
    yield _begin(recipe, settings)
    for index in range(recipe.seed):
        yield _layer(index, recipe.seed)
    folder = study_dir / study_id
    folder.mkdir(parents=True)
    (folder / "study.json").write_text(json.dumps({"schema_version": 1, "id": study_id}))
    yield Saved("study", str(folder))
    yield Finished({"perplexity": 12.5, "seed": recipe.seed, "warm": warm}, 0.1)


def slow(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    """One layer in 0.1 s; layers that were finished by an earlier attempt are found on disk."""
    done = settings.artefacts_dir() / recipe.fingerprint()
    done.mkdir(parents=True, exist_ok=True)
    yield _begin(recipe, settings)
    for index in range(recipe.seed):
        cached = (done / str(index)).exists()
        if not cached:
            time.sleep(0.1)
            (done / str(index)).touch()
        yield _layer(index, recipe.seed, cached)
    yield Finished({"found": 0}, 1.0)


def keeps(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    """Layers of 256 KiB that are kept as real ones are, and found by later attempts; a number that all decide."""
    kept, keys = ArtefactStore(settings.artefacts_root()), [chain_key(recipe.seed, at) for at in range(recipe.seed)]
    (settings.storage_dir() / "inside").touch()
    yield _begin(recipe, settings)
    for index, key in enumerate(keys):
        cached = kept.has(key, ".layer")
        if not cached:
            kept.write(key, ".layer", random.Random(index).randbytes(256 << 10))
            time.sleep(0.1)
        yield _layer(index, recipe.seed, cached)
    digest = hashlib.sha256()
    for key in keys:
        digest.update(kept.read(key, ".layer") or b"gone")
    yield Finished({"perplexity": int.from_bytes(digest.digest()[:4])}, 1.0)


def chatty(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    """Says much and keeps nothing on disk."""
    yield _begin(recipe, settings)
    for index in range(recipe.seed):
        yield Stage("saying", f"{index} " + 2_000 * "a")
        time.sleep(0.01)
    yield Finished({"perplexity": 12.5}, 1.0)


def fills(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    """Meets a full disk, each time one layer later up to ``seed``, unless there is a file “room”. Says in a file how
    often it has begun."""
    begun = settings.storage_dir() / "begun"
    times = int(begun.read_text()) + 1 if begun.exists() else 1
    begun.write_text(str(times))
    yield _begin(recipe, settings)
    for index in range(recipe.seed):
        if index + 1 >= times and not (settings.storage_dir() / "room").exists():
            break
        yield _layer(index, recipe.seed)
    if not (settings.storage_dir() / "room").exists():
        raise OSError(errno.ENOSPC, "No space left on device")
    yield Finished({}, 1.0)


def long_layer(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    """A pure-Python loop of an hour, with the clean-up that a real one has."""
    inside, cleaned = (settings.storage_dir() / name for name in ("inside", "cleaned"))
    yield _begin(recipe, settings)
    try:
        inside.touch()
        end, total = time.monotonic() + 3600, 0
        while time.monotonic() < end:
            try:
                total += sum(range(1000))
            except Exception:  # what a solver might do; a cancel must get past it
                continue
        yield _layer(0, recipe.seed)
    finally:
        cleaned.touch()


def deaf(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    """Hears no SIGTERM: as if it were inside one long call into C. Has a child of its own."""
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (settings.storage_dir() / "grandchild").write_text(str(child.pid))
    yield _begin(recipe, settings)
    time.sleep(60)


def dies(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    yield _begin(recipe, settings)
    yield _layer(0, recipe.seed)
    os._exit(7)


def refuses(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    yield _begin(recipe, settings)
    raise NumericalError("channel 3 of gram is not finite", "layer.0", "Take more calibration text.")


def refuses_a_field(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    yield _begin(recipe, settings)
    refused = Refused("groups of 3 do not divide", "layer.0", "Take 8.")
    raise refused.about("group_size", Fix("Take 8", {"group_size": 8}))


def breaks(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    yield _begin(recipe, settings)
    raise ValueError("a bug")


def ends_early(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    yield _begin(recipe, settings)


def storm(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    """``seed`` events as fast as they can be written."""
    yield _begin(recipe, settings)
    for index in range(recipe.seed):
        yield Stage("storm", str(index))
    yield Finished({}, 0.1)


def device(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    """Tells on which device it thinks it is, and for how long."""
    with (settings.storage_dir() / "used.log").open("a") as file:
        file.write(f"begin {settings.device} {recipe.seed}\n")
        file.flush()
        yield _begin(recipe, settings)
        time.sleep(0.05)
        file.write(f"end {settings.device} {recipe.seed}\n")
    yield Finished({"device": settings.device}, 0.1)


def shared(recipe: Recipe, settings: Settings, *, crew: int = 1, **output: object) -> Iterator[Event]:
    """A tuning run that others may help with. Each writes its name, and waits for the file “go on”; helpers do so for
    ever, or fail where there is a file “fail”."""
    role = "run" if output else "help"
    folder = settings.storage_dir()
    (folder / f"{role}-{os.getpid()}").write_text(str(crew))
    yield _begin(recipe, settings)
    yield Stage(COMPARING)
    while role == "help" or not (folder / "go on").exists():
        if role == "help" and (folder / "fail").exists():
            raise NumericalError("help does not work", "layer.0", "Do it alone.")
        time.sleep(0.05)
    yield Finished({"found": 0}, 1.0)


def exporting(
    recipe: Recipe,
    settings: Settings,
    *,
    checkpoint_dir: Path | None = None,
    checkpoint_format: str = "",
    **study: Path,
) -> Iterator[Event]:
    """A run like ``quick``; an export that writes, and in between does what the file “does” in the state folder says.

    The folder that it writes into must not be there yet: a further attempt has to find a clean one.
    """
    if checkpoint_dir is None:
        yield from quick(recipe, settings, **study)
        return
    yield _begin(recipe, settings)
    partial = checkpoint_dir.parent / ".partial"
    partial.mkdir(parents=True)
    (partial / "model.safetensors").write_bytes(checkpoint_format.encode() * 1000)
    does = settings.storage_dir() / "does"
    match does.read_text() if does.exists() else "":
        case "fail":
            raise NumericalError("channel 3 of gram is not finite", "layer.0", "Take more calibration text.")
        case "wait":
            time.sleep(60)
        case "end after writing":
            partial.rename(checkpoint_dir)
            os._exit(7)
    partial.rename(checkpoint_dir)
    yield Saved("checkpoint", str(checkpoint_dir))
    yield Finished({"perplexity": 12.5}, 0.1)
