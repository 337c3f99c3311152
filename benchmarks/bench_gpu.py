"""What calibrating takes on this host's GPU, beside what plans say: published models' shapes with random weights.

    python -m benchmarks.bench_gpu [--only SECTION …] [--folder DIR] [--write FILE]

Rows are printed, and kept as JSON with the card, its driver and the libraries; docs/gpus.json is such a file. It takes
seven minutes on an H100 without the sections “streamed” and “beside”, 20 GB of disk, and no network. “beside” needs
llm-compressor in this environment.
"""

import argparse
import gc
import importlib.util
import json
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import triton

from benchmarks.known_models import known_checkpoint
from benchmarks.measured import seconds
from benchmarks.one_run import taken
from benchmarks.quality.jobs import Job, drawn, run_job
from benchmarks.random_models import blocks_of
from sarqc.engine import costs
from sarqc.engine.measure import versions
from sarqc.engine.plan import prepare
from sarqc.engine.throughput import keep, rates_of_device
from sarqc.extras.host.doctor import measure_rates
from sarqc.models.checkpoint import read_checkpoint
from sarqc.quantization import column_updates
from sarqc.quantization.column_solver import factorise, solve_columns
from sarqc.quantization.grid import Grid
from sarqc.quantization.methods import METHODS
from sarqc.quantization.recorded import Recorder
from sarqc.recipe import EFFORTS, Recipe
from sarqc.settings import Settings

Row = dict[str, Any]
DENSE, MIXTURE, LARGE = "llama2-7b", "qwen3-30b-a3b", "llama2-70b"
SAMPLES, LENGTH = 128, 2048
DEVICE = torch.device("cuda")
POINT = {"method": "sarqc-gbs", "lambda": 0.3, "gamma": 0.5}
OWN = {"lambda": None, "gamma": None}  # what a method takes by itself
# Learned methods take so many epochs or steps here; their time grows with them.
FEW = {name: {"epochs": 2} for name in ("omniquant", "sarqc-omniquant")}
FEW |= {name: {"steps": 32} for name in ("signround", "sarqc-signround")}
STAGES = ("loading", "quantizing", "measuring")  # of a run; the last of both models


class Bench:
    """Where models, texts and states are."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.text = folder, folder / "text.txt"
        self.home = Settings(state_dir=folder / "home", device="cuda")
        embedded = self.home.assets_dir / "models" / "tiny-llama"
        parts = [(embedded / f"{name}.txt").read_text(encoding="utf-8") for name in ("calibration", "held_out", "test")]
        self.text.write_text("\n".join(parts * 14), encoding="utf-8")

    def model(self, name: str, blocks: int, dtype: torch.dtype = torch.bfloat16) -> Path:
        return blocks_of(name, blocks, self.folder, dtype, "cuda")

    def document(self, model: Path, **changes: Any) -> dict[str, Any]:
        return {
            "model": str(model), "bits": 3, "group_size": 128, "calibration": str(self.text), "samples": SAMPLES,
            "length": LENGTH, "baseline": False, **POINT, **changes,
        }  # fmt: skip

    def run(self, document: dict[str, Any], **settings: Any) -> Row:
        """What the plan says of a run with the rates of this card, and what it takes. Imports are done."""
        with tempfile.TemporaryDirectory(dir=self.folder) as state:
            here = Settings(state_dir=Path(state), device="cuda", check_device=False, **settings)
            shutil.copytree(self.home.resolved_state_dir() / "rates", Path(state) / "rates")
            prepared, (rates, _) = prepare(Recipe.parse(document), here), rates_of_device(here)
            test_tokens = 0 if prepared.test is None else len(prepared.test.ids)
            work = costs.work_of(prepared.recipe, prepared.checkpoint, prepared.per_channel, test_tokens=test_tokens)
            counts = costs.stages(work).items()
            planned = {
                stage: sum(rates.seconds(count) for (name, _), count in counts if name.startswith(stage))
                for stage in STAGES
            }
            with _memory() as memory:
                found = taken(prepared.recipe, here)
            return found | {"planned_stages": planned, **memory}

    def row(self, name: str, model: Path, changes: dict[str, Any], blocks: int, **settings: Any) -> Row:
        """Seconds for each block, and GiB."""
        found = self.run(self.document(model, **changes), **settings)
        quantizing = found["stages"]["quantizing"] / blocks
        planned = found["planned_stages"]["quantizing"] / blocks
        return {
            "": name,
            "seconds a block": quantizing,
            "of it solving": sum(found["layer_seconds"]) / blocks,
            "planned": planned,
            "planned / taken": planned / quantizing,
            **_gib(found),
        }


def _gib(found: Row) -> Row:
    names = {"GiB in use": "in_use", "GiB with what PyTorch keeps": "kept", "GiB planned": "planned_bytes"}
    return {title: found[name] / 2**30 for title, name in names.items()}


@contextmanager
def _memory() -> Iterator[dict[str, int]]:
    """Bytes of the card at the peak, what CUDA holds for itself included: in tensors, and in PyTorch's pool."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    free, total = torch.cuda.mem_get_info()
    beside = total - free - torch.cuda.memory_reserved()
    memory: dict[str, int] = {}
    yield memory
    memory["in_use"] = torch.cuda.max_memory_allocated() + beside
    memory["kept"] = torch.cuda.max_memory_reserved() + beside


@contextmanager
def _without(*, kernels: bool = False, recordings: bool = False) -> Iterator[None]:
    """A context in which what is named is not used."""
    taken_by = (lambda _: None) if kernels else column_updates._kernels_for
    made_by = (lambda *_: None) if recordings else Recorder.on
    with patch.object(column_updates, "_kernels_for", taken_by), patch.object(Recorder, "on", made_by):
        yield


def columns(_: Bench) -> Iterator[Row]:
    """Columns of one linear at one point, as a loop and with the kernel, each started by itself and recorded as one."""
    settings: dict[str, Any] = {"grid": Grid(3, 128, "asymmetric"), "storage": torch.bfloat16, "block_size": 64}
    for rows, width in ((4096, 4096), (11008, 4096), (4096, 11008)):
        inputs = torch.randn(2 * width, width, device=DEVICE)
        factor = factorise(inputs.mT @ inputs / len(inputs)).unit_upper
        tensors = {"weight": torch.randn(1, rows, width, device=DEVICE), "factors": torch.stack([factor])}
        row, codes = {"": f"{rows} × {width}"}, []
        for name in ("loop", "kernel"):
            with _without(kernels=name == "loop"):
                recorder = Recorder.on(DEVICE, 1 << 34)
                assert recorder is not None
                row[name] = _seconds(partial(solve_columns, **tensors, **settings))
                for _ in range(3):
                    codes.append(recorder(solve_columns, tensors, **settings)[0])
                row[f"{name}, recorded"] = _seconds(partial(recorder, solve_columns, tensors, **settings))
                assert not recorder.failed
        row["the same bits"] = all(torch.equal(one, codes[0]) for one in codes)
        yield row


def _seconds(work: Callable[[], object]) -> float:
    def done() -> None:
        work()
        torch.cuda.synchronize()

    return seconds(done)


def methods(bench: Bench) -> Iterator[Row]:
    """Every method with its own values, then more than one point."""
    model = bench.model(DENSE, 2)
    for name in ("sarqc-gbs", "awq"):  # libraries are loaded and kernels compiled
        bench.run(bench.document(model, samples=8, method=name, **OWN))
    for name in METHODS:
        few = FEW.get(name, {})
        title = name + "".join(f", {number} {what}" for what, number in few.items())
        yield bench.row(title, model, {"method": name, **OWN, **few}, 2)
    for title, changes in (
        ("sarqc-gbs, 12 candidates", {"lambda": "auto", "gamma": "auto"}),
        ("sarqc-gbs, 11 λ", {"sweep": [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5]}),
        ("sarqc-gbs, range, order and 3 passes", {"range": "search", "order": "activation", "refine": 3}),
    ):
        yield bench.row(title, model, changes, 2)


def ways(bench: Bench) -> Iterator[Row]:
    """GPTQ with the saliency penalty at one point in several ways, and a mixture."""
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        model = bench.model(DENSE, 2, dtype)
        yield bench.row(f"{DENSE}, {str(dtype).removeprefix('torch.')}", model, {}, 2)
    model = bench.model(DENSE, 2)
    yield bench.row(f"{DENSE}, read block by block", model, {}, 2, weights="streamed")
    with _without(recordings=True):
        yield bench.row(f"{DENSE}, without recordings", model, {}, 2)
    with _without(recordings=True, kernels=True):
        yield bench.row(f"{DENSE}, without recordings and kernels", model, {}, 2)
    model = bench.model(MIXTURE, 1)
    bench.run(bench.document(model, samples=8))
    for name in ("sarqc-gbs", "awq"):
        yield bench.row(f"{MIXTURE}, {name}", model, {"method": name, **OWN}, 1)
    with _without(recordings=True):
        yield bench.row(f"{MIXTURE}, awq, without recordings", model, {"method": "awq", **OWN}, 1)


def whole(bench: Bench) -> Iterator[Row]:
    """A whole model with perplexity: no layer, weight or text was there before."""
    model = bench.model(DENSE, 32)
    found = bench.run(bench.document(model, test=str(bench.text), test_tokens=16 * LENGTH, window=LENGTH))
    for stage in STAGES:
        of_stage = [part for name, part in found["stages"].items() if name.startswith(stage)]
        yield _beside(stage, sum(of_stage), found["planned_stages"][stage])
    yield _beside("all, imports done", found["seconds"], found["planned_seconds"]) | _gib(found)
    shutil.rmtree(model)


def _beside(name: str, found: float, planned: float) -> Row:
    return {"": name, "seconds": found, "planned": planned, "planned / taken": planned / found}


def tuning(bench: Bench) -> Iterator[Row]:
    """Half a minute of tuning."""
    given = bench.document(
        bench.model(DENSE, 2), kind="tune", minutes=0.5, samples=SAMPLES // 4, test=str(bench.text),
        test_tokens=8 * LENGTH, window=LENGTH,
    )  # fmt: skip
    for name in ("baseline", *OWN):
        del given[name]
    found = bench.run(given)
    yield {"": "tuning, asked to end after 30 s", "seconds": found["seconds"], **_gib(found)}


def streamed(bench: Bench) -> Iterator[Row]:
    """A model that is larger than the card, block by block, and what all of its blocks take at that rate."""
    bench.run(bench.document(bench.model(DENSE, 1), samples=8))  # libraries are loaded and kernels compiled
    model, blocks = bench.model(LARGE, 2), known_checkpoint(LARGE).n_blocks
    for title, changes in (("sarqc-gbs", {}), ("sarqc-gbs, effort balanced", EFFORTS["balanced"])):
        row = bench.row(f"{LARGE}, {title}", model, dict(changes), 2, weights="streamed")
        yield row | {f"minutes for {blocks} blocks": row["seconds a block"] * blocks / 60}
    shutil.rmtree(model)


def beside(bench: Bench) -> Iterator[Row]:
    """GPTQ by llm-compressor, as it is by default, and by us on the same tokens, each run in a process of its own.

    Seconds a block are the difference between two blocks and one, so that nothing counts that is done once.
    """
    if importlib.util.find_spec("llmcompressor") is None:
        print("left out: this environment has no llm-compressor, which pip install llmcompressor==0.14.0 brings")
        return
    bench.run(bench.document(bench.model(DENSE, 1), samples=8))  # kernels are compiled
    models = [bench.model(DENSE, blocks) for blocks in (1, 2)]
    sequences = drawn(str(bench.text), read_checkpoint(models[0], DENSE), samples=SAMPLES, length=LENGTH, draw=0)
    for title, engine, settings in (
        ("llm-compressor, GPTQ, its default", "llmcompressor", {}),
        ("sarqc, gptq, activation order", "sarqc", {"method": "gptq", "order": "activation"}),
        ("sarqc, sarqc-gbs", "sarqc", POINT),
        ("sarqc, gptq", "sarqc", {"method": "gptq"}),
    ):
        jobs = [Job(engine, model, 3, 128, settings, "cuda") for model in models]
        one, two = (run_job(job, sequences, bench.folder, torch.get_num_threads(), here=True) for job in jobs)
        yield {
            "": title, "one block, s": one.wall, "two blocks, s": two.wall, "seconds a block": two.wall - one.wall,
            "GiB in tensors": two.peak_bytes / 2**30,
        }  # fmt: skip


SECTIONS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "columns": columns, "methods": methods, "ways": ways, "whole": whole, "tuning": tuning, "streamed": streamed,
    "beside": beside,
}  # fmt: skip


def host(bench: Bench) -> dict[str, Any]:
    """The card and what it does in a second, which plans go by from here on."""
    gpu = costs.gpu_of(bench.home)
    if gpu is None:
        raise SystemExit("nvidia-smi knows no GPU here")
    speed = measure_rates(DEVICE)
    keep(bench.home, gpu.uuid, speed)
    return {
        "gpu": gpu.name, "driver": gpu.driver, "versions": versions() | {"triton": triton.__version__},
        "cuda": torch.version.cuda, "rates": vars(speed), "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/bench-gpu"), help="for random models")
    parser.add_argument("--only", nargs="+", choices=SECTIONS)
    parser.add_argument("--write", type=Path, default=Path("build/gpus.json"))
    given = parser.parse_args()
    for folder in (given.folder, given.write.parent):
        folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(given.folder.resolve())
    document: dict[str, Any] = {"host": host(bench), "tables": {}}
    print(json.dumps(document["host"], indent=1), flush=True)
    failed: list[str] = []
    for name in given.only or SECTIONS:
        print(f"\n{name}", flush=True)
        rows = document["tables"].setdefault(name, [])
        try:
            for row in SECTIONS[name](bench):
                print("  ".join(f"{title} {_said(value)}" for title, value in row.items()), flush=True)
                rows.append(row)
                given.write.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        except Exception:  # the other sections are measured all the same
            traceback.print_exc()
            failed.append(name)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def _said(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
