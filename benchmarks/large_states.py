"""State folders as they are after years: many runs, many studies, a study of a large mixture, a study of many bytes."""

import json
import os
import random
import shutil
import sqlite3
import struct
from typing import Any

import numpy as np

from sarqc.engine.execute import execute
from sarqc.events import Finished
from sarqc.files.hashes import sha256_of
from sarqc.jobs import listing
from sarqc.jobs.run import Run, State
from sarqc.jobs.store import Store, _base32
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.document import Study, StudyWriter

RECIPE = {
    "model": "tiny-llama", "bits": 3, "method": "rtn", "calibration": "tiny-llama-calibration", "samples": 2,
    "length": 64, "held_out_samples": 1, "test": "tiny-llama-test", "test_tokens": 512, "baseline": False,
}  # fmt: skip


def add_runs(settings: Settings, number: int, owners: int = 20) -> None:
    """Copies of one finished run, each with an id, an owner, a seed, times and numbers of its own.

    Every second run is of one recipe with another seed; of the rest five each. One of twenty has events: they are read
    by the key of their run alone, and those of all would be some GiB.
    """
    store = Store(settings.database())
    run = _one_run(store, settings)
    store.close()
    chance, connection = random.Random(number), sqlite3.connect(settings.database())
    connection.row_factory = sqlite3.Row
    row = dict(connection.execute("SELECT * FROM runs WHERE id = ?", (run.id,)).fetchone())
    narrow = dict(connection.execute("SELECT * FROM listed WHERE id = ?", (run.id,)).fetchone())
    said = [
        tuple(one)
        for one in connection.execute("SELECT seq, at, type, payload FROM events WHERE run_id = ?", (run.id,))
    ]
    start = row["created"] - 60.0 * number
    connection.execute("BEGIN")
    for index in range(number):
        created = start + 60.0 * index
        run_id = _base32(int(created * 1000), 10) + _base32(chance.getrandbits(80), 16)
        seed, bits, owner = index, 2 + index % 3, f"person-{index % owners}"
        series = index // 10 if index % 2 else number
        summary = json.loads(row["summary_json"])
        summary["perplexity"] = summary["perplexity_float"] * (1 + chance.random())
        recipe = json.loads(row["recipe_json"]) | {"seed": seed, "bits": bits}
        state = State.FINISHED if index % 10 else State.FAILED
        one = row | {
            "id": run_id, "recipe_json": json.dumps(recipe), "owner": owner, "state": state.value, "created": created,
            "queued": created, "started": created + 1, "ended": created + 40 * chance.random(), "study_id": None,
            "summary_json": json.dumps(summary), "revision": row["revision"] + 1 + index,
            "batch": f"batch-{index // 10}",
        }  # fmt: skip
        of_list = narrow | {
            "id": run_id, "owner": owner, "batch": one["batch"], "series": f"{series:016x}",
            "stage": list(State).index(state), "bits": float(bits),
            "perplexity": summary["perplexity"], "duration": one["ended"] - one["started"],
            "words": narrow["words"].replace(run.id.casefold(), run_id.casefold())
            + listing.marked(owner),
        }  # fmt: skip
        _insert(connection, "runs", one)
        _insert(connection, "listed", of_list)
        if index % 20 == 1:
            connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", ((run_id, *event) for event in said))
    connection.execute("UPDATE counter SET revision = ?", (row["revision"] + 1 + number,))
    connection.commit()
    connection.close()


def _insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", (*row.values(),))


def _one_run(store: Store, settings: Settings) -> Run:
    """A run as the app keeps it, with its study."""
    recipe = Recipe.parse(RECIPE)
    run = store.create(recipe, "person-0")
    store.move(run.id, State.RUNNING, device="cpu")
    events = list(execute(recipe, settings, study_dir=settings.studies_dir(), study_id=run.id))
    store.append(run.id, [event for event in events if not isinstance(event, Finished)])
    return store.move(run.id, State.FINISHED, events[-1])


def add_studies(settings: Settings, number: int) -> None:
    """Copies of the study of a small run, each under a name of its own; their arrays are one file."""
    source = next(path for path in settings.studies_dir().iterdir() if (path / "study.json").is_file())
    for index in range(number):
        folder = settings.studies_dir() / f"copy-{index:05d}"
        folder.mkdir()
        shutil.copy(source / "study.json", folder)
        os.link(source / "study.safetensors", folder / "study.safetensors")


def add_mixture(settings: Settings, name: str = "mixture", blocks: int = 48, experts: int = 128) -> None:
    """Two lines of the shipped study of tiny-moe with its layers repeated: blocks × experts, three linears each.

    The line with ten λ has no pictures of weights, as surveys may ask for.
    """
    source = Study.open(settings.assets_dir / "studies" / "tiny-moe")
    of_block = [layer for layer in source.layers if layer.block == 0]
    dense = [index for index, layer in enumerate(of_block) if layer.expert is None]
    of_expert = [index for index, layer in enumerate(of_block) if layer.expert is not None]
    modules = [index for index in of_expert if of_block[index].expert == 0]
    layers, taken = [], []
    for block in range(blocks):
        for index in dense:
            layer = of_block[index]
            layers.append(layer.model_copy(update={"name": _moved(layer.name, block), "block": block}))
            taken.append(index)
        for expert in range(experts):
            known = expert % (1 + max(of_block[index].expert or 0 for index in of_expert))
            for index in modules:
                layer = of_block[index]
                place = _moved(layer.name, block).replace(".experts.0.", f".experts.{expert}.")
                layers.append(layer.model_copy(update={"name": place, "block": block, "expert": expert}))
                taken.append(
                    next(i for i in of_expert if of_block[i].module == layer.module and of_block[i].expert == known)
                )
    writer = StudyWriter(settings.studies_dir() / name)
    lines = []
    for line in (source.line("rtn", 2), source.line("sarqc-gbs", 2)):
        arrays = {}
        for quantity, ref in line.arrays.items():
            if "layer" in ref.axes and len(line.lams) > 1 and quantity.startswith(("surface", "group", "deciles")):
                continue
            array = source.array(line, quantity)
            if "layer" in ref.axes:
                array = np.take(array, taken, axis=ref.axes.index("layer"))
            arrays[quantity] = writer.add(array, ref.axes)
        lines.append(line.model_copy(update={"arrays": arrays}))
    title = f"{blocks} × {experts} experts"
    writer.finish(
        source.model_copy(update={"id": name, "title": title, "layers": tuple(layers), "lines": tuple(lines)})
    )


def _moved(name: str, block: int) -> str:
    return name.replace("layers.0.", f"layers.{block}.", 1)


def add_large(settings: Settings, name: str, size: int) -> None:
    """The shipped study of tiny-llama with an array that nothing reads, so that its file has ``size`` bytes."""
    source, folder = settings.assets_dir / "studies" / "tiny-llama", settings.studies_dir() / name
    folder.mkdir(parents=True)
    document, arrays = source / "study.json", source / "study.safetensors"
    content = arrays.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    end = len(content) - 8 - length
    more = size - len(content)
    header["padding"] = {"dtype": "U8", "shape": [more], "data_offsets": [end, end + more]}
    packed = json.dumps(header).encode()
    packed += b" " * (-len(packed) % 8)
    with (folder / "study.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(packed)) + packed + content[8 + length :])
        file.write(random.Random(0).randbytes(1 << 20) * (more >> 20))
        file.write(bytes(more % (1 << 20)))
    study = json.loads(document.read_text()) | {"id": name, "checksum": sha256_of(folder / "study.safetensors")}
    (folder / "study.json").write_text(json.dumps(study))
