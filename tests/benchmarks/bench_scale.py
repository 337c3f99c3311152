"""What pages and requests take on a host with many runs, many studies, and studies of many layers or bytes.

    python -m tests.benchmarks.bench_scale [--fill FOLDER]

With ``--fill`` the largest state is only made, to be looked at in a browser.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from sarqc.settings import Settings
from tests.benchmarks.bench_page import served
from tests.benchmarks.large_states import add_large, add_mixture, add_runs, add_studies
from tests.benchmarks.measured import Figure

GOAL = 200.0  # milliseconds within which 95 of 100 pages answer
TIMES = 20
RUNS, STUDIES, LARGE = (1_000, 10_000, 100_000), (20, 200, 2_000), 500 << 20

PAGES = ("", "runs", "calibrate", "learn")
LISTS = (
    "api/runs?limit=50",
    "api/runs?limit=50&offset=5000",
    "api/runs?limit=50&sort=perplexity",
    "api/runs?limit=50&filter=3%20bits",
    "api/runs?limit=50&filter=person-7%20failed",
    "api/runs/groups?by=seeds&limit=50",
    "api/runs/groups?by=batch&limit=50",
    "api/runs/pareto",
    "api/health",
)


def answers(url: str, path: str, times: int = TIMES) -> list[float]:
    """Milliseconds of some requests, one after the other, the first of which counts too."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        with urllib.request.urlopen(url + path, timeout=600) as answer:
            while answer.read(1 << 20):
                pass
        taken.append(1000 * (time.perf_counter() - started))
    return taken


def high(values: list[float]) -> float:
    """Within which 95 of 100 lie."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def of_state(fill: Callable[[Settings], None], paths: tuple[str, ...], words: str) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        fill(Settings(state_dir=Path(folder)))
        with served(Path(folder)) as url:
            answers(url, "api/health", 1)
            for path in paths:
                yield Figure(f"{words}, /{path}, 95 % within", high(answers(url, path)), "ms", GOAL)


def runs() -> Iterator[Figure]:
    """Lists and pages, by the number of runs in the store."""
    for number in RUNS:
        yield from of_state(lambda settings, n=number: add_runs(settings, n), (*PAGES, *LISTS), f"{number:,} runs")


def studies() -> Iterator[Figure]:
    """The list of studies and the pages that show it."""
    for number in STUDIES:

        def fill(settings: Settings, number: int = number) -> None:
            add_runs(settings, 1)
            add_studies(settings, number)

        paths = ("api/studies", *PAGES, "api/studies/copy-00003/view")
        yield from of_state(fill, paths, f"{number:,} studies")


def mixture() -> Iterator[Figure]:
    """A study of 48 × 128 experts in every figure and table."""
    view = "api/studies/mixture/view?method=sarqc-gbs&bits=2"
    tables = ("hero", "plane", "deciles", "map", "gap", "theorem", "methods", "ranking")
    paths = (
        "?study=mixture", view, f"{view}&layer=5", "api/studies/mixture/view?method=rtn&bits=2",
        *(f"api/studies/mixture/tables/{name}?method=sarqc-gbs&bits=2" for name in tables),
        "api/compare?ids=mixture,tiny-moe", "api/studies/mixture",
    )  # fmt: skip
    yield from of_state(add_mixture, paths, "18,624 linears")


def large() -> Iterator[Figure]:
    """A study of 500 MiB."""
    paths = ("api/studies/large/view", "api/studies", "api/studies/large", "?study=large")
    yield from of_state(lambda settings: add_large(settings, "large", LARGE), paths, "500 MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fill", type=Path, help="a state folder that is made and left")
    given = parser.parse_args()
    if given.fill:
        settings = Settings(state_dir=given.fill)
        add_runs(settings, RUNS[-1])
        add_studies(settings, STUDIES[-1])
        add_mixture(settings)
        add_large(settings, "large", LARGE)


if __name__ == "__main__":
    main()
