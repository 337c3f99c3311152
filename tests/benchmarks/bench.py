"""``make bench``: what things cost, as ratios within one run wherever a ratio says more than seconds.

python -m tests.benchmarks.bench
"""

from __future__ import annotations

import statistics as middle
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from sarqc.events import Finished
from sarqc.execution import execute
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import method
from sarqc.quantization.solve import quantize_layer, sweep_layer
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


if __name__ == "__main__":
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    layers()
    blocks()
    whole_model()
