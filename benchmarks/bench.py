"""``make bench``: what things cost, as ratios within one run wherever a ratio says more than seconds.

    python -m benchmarks.bench [--only SECTION …] [--folder DIR] [--write FILE]

What was found is printed, and kept as JSON with the host's description. Numbers mean something on a quiet host only.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import bench_engines, bench_model, bench_page, bench_runs, bench_scale, bench_solver, bench_spread
from benchmarks.measured import Figure, Section, told


def page() -> Iterator[Figure]:
    """The Lab in a real Chromium: first pictures, and what a step of λ takes. In a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bench_page"]
    for line in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        what, value, unit = line.split("\t")
        yield Figure(what, float(value), unit)


def sections(folder: Path) -> dict[str, Section]:
    """By name, in the order in which they are run."""
    return {
        "sweeps": bench_solver.sweeps,
        "experts": bench_solver.experts,
        "blocks": bench_solver.blocks,
        "sweep-memory": bench_solver.sweep_memory,
        "spread": bench_spread.spread,
        "methods": bench_runs.methods,
        "prices": bench_runs.prices,
        "first-layer": bench_runs.first_layer,
        "estimates": partial(bench_runs.estimates, folder),
        "growth": partial(bench_runs.growth, folder),
        "many-runs": bench_scale.runs,
        "many-studies": bench_scale.studies,
        "mixture": bench_scale.mixture,
        "large-study": bench_scale.large,
        "idle": bench_page.idle,
        "page": page,
        "model-in-the-page": bench_model.model_in_the_page,
        "engines": partial(bench_engines.engines, folder),  # the last: without a network it fails
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/bench"), help="for random models and environments")
    parser.add_argument("--only", nargs="+", help="names of sections")
    parser.add_argument("--write", type=Path, default=Path("build/bench.json"))
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    given.write.parent.mkdir(parents=True, exist_ok=True)
    every = sections(folder)
    if unknown := set(given.only or ()) - every.keys():
        parser.error(f"there is no section {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    told({name: section for name, section in every.items() if not given.only or name in given.only}, given.write)


if __name__ == "__main__":
    main()
