"""``make bench``: what things cost, as ratios within one run wherever a ratio says more than seconds.

python -m tests.benchmarks.bench
"""

from __future__ import annotations

import statistics as middle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from sarqc.engine.execute import execute
from sarqc.events import Finished
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import method
from sarqc.quantization.quantized_layer import CheckedLayer
from sarqc.quantization.solve import quantize, quantize_layer, sweep_layer
from sarqc.quantization.solving import Context, LayerJob
from sarqc.recipe import Recipe
from sarqc.settings import Settings

LAMS = [step / 10 for step in range(11)]
GAMMAS = [0.1, 0.15, 0.35, 0.5]


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Median wall time of some repetitions after one that does not count."""
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return middle.median(times)


def layers() -> None:
    print("layer                  one solve   11 λ × 4 γ   as so many single solves   the loop would be")
    grid, solver = Grid(2, 128, "asymmetric"), method("sarqc-gbs", lam=0.1, gamma=0.1)
    for name, rows, columns in (("q_proj", 256, 256), ("gate_proj", 768, 256), ("down_proj", 256, 768)):
        random = torch.Generator().manual_seed(0)
        weight = torch.randn(rows, columns, generator=random)
        found = LayerStatistics.from_inputs(torch.randn(2048, columns, generator=random))
        one = seconds(lambda w=weight, f=found: quantize_layer(w, f, grid, solver))
        sweep = seconds(lambda w=weight, f=found: sweep_layer(w, f, grid, solver, lams=LAMS, gammas=GAMMAS), 3)
        size = f"{name} {rows} × {columns}"
        print(
            f"{size:<22} {one * 1e3:6.1f} ms   {sweep:7.3f} s   {sweep / one:15.1f} {44 * one / sweep:25.1f} × as long"
        )


def experts() -> None:
    print("\nexperts of a block: together, relative to one by one (256 tokens each)")
    grid, solver = Grid(2, 64, "asymmetric"), method("sarqc-gbs", lam=0.1, gamma=0.1)
    for count, rows, columns in ((8, 256, 256), (64, 128, 256), (128, 96, 128)):
        random = torch.Generator().manual_seed(0)
        given = [
            (
                torch.randn(rows, columns, generator=random),
                LayerStatistics.from_inputs(torch.randn(256, columns, generator=random)),
            )
            for _ in range(count)
        ]

        def jobs(given: list[tuple[torch.Tensor, LayerStatistics]] = given) -> list[LayerJob]:
            return [LayerJob(CheckedLayer(*layer, grid, None), [solver]) for layer in given]

        together = seconds(lambda jobs=jobs: list(quantize(jobs(), Context())), 3)
        alone = seconds(lambda jobs=jobs: [list(quantize([job], Context())) for job in jobs()], 3)
        print(f"{count} of {rows} × {columns}: {together / alone:.2f}")


def streaming() -> None:
    print("\ntiny-moe, 2 bits: weights streamed block by block, relative to all of them in memory")
    recipe = Recipe.parse(
        {
            "model": "tiny-moe", "bits": 2, "method": "sarqc-gbs", "calibration": "tiny-moe-calibration", "samples": 8,
            "length": 256, "test": "tiny-moe-test", "window": 256,
        }
    )  # fmt: skip
    times = {}
    for weights in ("resident", "resident", "streamed"):  # the first does not count
        with tempfile.TemporaryDirectory() as state:
            *_, finished = execute(recipe, Settings(state_dir=Path(state), weights=weights))
            times[weights] = finished.seconds
    print(f"{times['streamed'] / times['resident']:.2f}")


def blocks() -> None:
    print("\ncolumns between trailing updates, time relative to 64 (256 × 768, 44 candidates)")
    grid = Grid(2, 128, "asymmetric")
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(256, 768, generator=random)
    found = LayerStatistics.from_inputs(torch.randn(2048, 768, generator=random))
    times = {}
    for size in (16, 32, 64, 128):
        solver = replace(method("sarqc-gbs"), block_size=size)
        times[size] = seconds(
            lambda s=solver: sweep_layer(weight, found, grid, s, lams=LAMS, gammas=GAMMAS), 3
        )  # fmt: skip
    print("  ".join(f"{size}: {time / times[64]:.2f}" for size, time in times.items()))


def memory() -> None:
    """Resident memory of a process at its peak, over what it held before the sweep."""
    print("\nsweep of 16 λ × 2 γ within a budget: peak of resident memory as a part of the budget")
    code = (
        "import sys, threading, time, torch\n"
        "from sarqc import Grid, LayerStatistics, method, sweep_layer\n"
        "rows, columns, budget = map(int, sys.argv[1:])\n"
        "def held(): return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "def sweep(rows, columns, lams):\n"
        "    found = LayerStatistics.from_inputs(torch.randn(2 * columns, columns))\n"
        "    before, peak, done = held(), [0], []\n"
        "    def watch():\n"
        "        while not done: peak[0] = max(peak[0], held()); time.sleep(0.002)\n"
        "    watching = threading.Thread(target=watch); watching.start()\n"
        "    sweep_layer(torch.randn(rows, columns), found, Grid(3, 128, 'asymmetric'), method('sarqc-gbs'),\n"
        "                lams=lams, gammas=[0.1, 0.5], budget_bytes=budget << 20)\n"
        "    done.append(True); watching.join()\n"
        "    return (peak[0] - before) / (budget << 20)\n"
        "sweep(128, 128, [0.1])\n"
        "print(sweep(rows, columns, [step / 100 for step in range(1, 17)]))\n"
    )
    for rows, columns, budget in ((512, 1024, 64), (512, 1024, 256), (2048, 512, 128), (256, 2048, 512)):
        command = [sys.executable, "-c", code, *map(str, (rows, columns, budget))]
        part = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(f"{rows} × {columns}, {budget} MiB: {part:.2f}")


def whole_model() -> None:
    print("\ntiny-llama, 2 bits, 8 × 256 calibration tokens, perplexity on its test text, float and quantized")
    document = {
        "model": "tiny-llama", "bits": 2, "group_size": 128, "calibration": "tiny-llama-calibration", "samples": 8,
        "length": 256, "test": "tiny-llama-test", "window": 256,
    }  # fmt: skip
    base = None
    for name, changes in (
        ("sarqc-gbs", {"method": "sarqc-gbs", "lambda": 0.1, "gamma": 0.1}),
        ("sarqc-gbs, curve of 10 λ", {"method": "sarqc-gbs", "lambda": 0.1, "gamma": 0.1, "sweep": LAMS}),
        ("gptq", {"method": "gptq"}),
        ("awq", {"method": "awq"}),
        ("rtn", {"method": "rtn"}),
        ("sarqc-gbs, auto", {"method": "sarqc-gbs", "lambda": "auto", "gamma": "auto"}),
        ("sarqc-gs, auto", {"method": "sarqc-gs", "lambda": "auto"}),
        ("awq, foldable", {"method": "awq", "mode": "foldable"}),
        ("gptaq", {"method": "gptaq"}),
        ("omniquant", {"method": "omniquant"}),
    ):
        with tempfile.TemporaryDirectory() as state:
            events = execute(Recipe.parse(document | changes), Settings(state_dir=Path(state)))
            finished = next(event for event in events if isinstance(event, Finished))
            again = execute(Recipe.parse(document | changes), Settings(state_dir=Path(state)))
            cached = next(event for event in again if isinstance(event, Finished))
        base = base or finished.seconds
        print(
            f"{name:<26} {finished.seconds:6.2f} s   {finished.seconds / base:5.2f} of the first   "
            f"asked again {cached.seconds / finished.seconds:5.2f} of itself   "
            f"perplexity {finished.summary['perplexity']:.2f}, float {finished.summary['perplexity_float']:.2f}"
        )


def page() -> None:
    """The Lab in a real Chromium: first pictures, and what a step of λ takes. In a process of its own."""
    print("\nthe Lab, 1280 × 800, software WebGL")
    subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_page"], check=True)


if __name__ == "__main__":
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    layers()
    experts()
    blocks()
    memory()
    streaming()
    whole_model()
    page()
