"""Single layers: sweeps against single solves, experts together against one by one, what blocks of columns cost."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import torch

from benchmarks.measured import Figure, seconds
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import method
from sarqc.quantization.quantized_layer import CheckedLayer
from sarqc.quantization.solve import quantize, quantize_layer, sweep_layer
from sarqc.quantization.solving import Context, LayerJob

LAMS = [step / 10 for step in range(11)]
GAMMAS = [0.1, 0.15, 0.35, 0.5]


def _layer(rows: int, columns: int, tokens: int = 2048) -> tuple[torch.Tensor, LayerStatistics]:
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(rows, columns, generator=random)
    return weight, LayerStatistics.from_inputs(torch.randn(tokens, columns, generator=random))


def sweeps() -> Iterator[Figure]:
    """A layer at many points in batches, relative to one point."""
    grid, solver = Grid(2, 128, "asymmetric"), method("sarqc-gbs", lam=0.1, gamma=0.1)
    for name, rows, columns in (("q_proj", 256, 256), ("gate_proj", 768, 256), ("down_proj", 256, 768)):
        weight, found = _layer(rows, columns)
        one = seconds(lambda w=weight, f=found: quantize_layer(w, f, grid, solver))
        many = seconds(lambda w=weight, f=found: sweep_layer(w, f, grid, solver, lams=LAMS, gammas=GAMMAS), 3)
        twelve = seconds(lambda w=weight, f=found: sweep_layer(w, f, grid, solver, lams=LAMS[:6], gammas=GAMMAS[:2]), 3)
        yield Figure(f"{name} {rows} × {columns}, one solve", one * 1e3, "ms")
        yield Figure(f"{name} {rows} × {columns}, 12 candidates, of one solve", twelve / one, "×", 3)
        yield Figure(f"{name} {rows} × {columns}, 44 points, of one solve", many / one, "×")


def experts() -> Iterator[Figure]:
    """The experts of a block together, relative to one by one (256 tokens each)."""
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
        yield Figure(f"{count} experts of {rows} × {columns}", together / alone, "×")


def blocks() -> Iterator[Figure]:
    """Columns between trailing updates, time relative to 64 (256 × 768, 44 candidates)."""
    grid = Grid(2, 128, "asymmetric")
    weight, found = _layer(256, 768)
    times = {}
    for size in (16, 32, 64, 128):
        solver = replace(method("sarqc-gbs"), block_size=size)
        times[size] = seconds(
            lambda s=solver: sweep_layer(weight, found, grid, s, lams=LAMS, gammas=GAMMAS), 3
        )  # fmt: skip
    for size, time in times.items():
        yield Figure(f"blocks of {size} columns", time / times[64], "×")


def sweep_memory() -> Iterator[Figure]:
    """Resident memory of a process at its peak, over what it held before a sweep of 16 λ × 2 γ, as a part of the
    budget.
    """
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
        yield Figure(f"{rows} × {columns} within {budget} MiB", part, "×")
