"""What pages and requests take on a host with many runs, many studies, and studies of many layers or bytes.

    python -m benchmarks.bench_scale [--fill FOLDER]

Each state is made ten times smaller too, and what an answer takes is compared. With ``--fill`` the largest state is
only made, to be looked at in a browser.
"""

import argparse
import json
import statistics
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.answers import GOAL, SMALLER, Answered, answers, high
from benchmarks.bench_page import serving
from benchmarks.large_states import add_large, add_mixture, add_runs, add_studies
from benchmarks.measured import Figure
from sarqc.settings import Settings
from sarqc.study.library import Library

RUNS, STUDIES, EXPERTS, LARGE = 100_000, 2_000, 128, 500 << 20

# Addresses by what they grow with. “{n}” counts the requests, so that none has the answer of the one before it; “{run}”
# is a finished run.
PAGES = ("", "runs", "calibrate", "learn")
OF_RUNS = (
    *PAGES, "calibrate?run={run}", "?study={run}",
    "api/runs?limit=50", "api/runs?limit=500&offset={n}", "api/runs?limit=50&offset=5000",
    "api/runs?limit=50&sort=perplexity&offset={n}", "api/runs?limit=50&sort=-perplexity&offset={n}",
    "api/runs?limit=50&filter=3%20bits&offset={n}", "api/runs?limit=50&filter=person-7%20failed&offset={n}",
    "api/runs?limit=50&filter=3%20bits&sort=-perplexity&offset={n}",
    "api/runs/groups?by=seeds&limit=50&offset={n}", "api/runs/groups?by=batch&limit=50&offset={n}",
    "api/runs/groups?by=seeds&limit=50&sort=perplexity&offset={n}",
    "api/runs/groups?by=seeds&limit=50&filter=3%20bits&offset={n}",
    "api/runs/pareto", "api/runs/pareto?filter=person-{n}",
    "api/runs/{run}", "api/runs/{run}/events", "api/runs/{run}/log",
    "api/health", "api/visitor", "api/models", "api/corpora", "api/texts",
    "api/openapi.json", "healthz", "readyz", "metrics",
)  # fmt: skip
OF_STUDIES = (
    "api/studies", *PAGES, "api/studies/copy-{n:05}", "api/studies/copy-{n:05}/view",
    "api/compare?ids=copy-{n:05},copy-00030",
)  # fmt: skip
_LINE = "method=sarqc-gbs&bits=2"
OF_MIXTURE = (
    "?study=mixture", "?study=mixture&layer={n}",
    *(f"api/studies/mixture/view?{wanted}" for wanted in (
        _LINE, f"{_LINE}&layer={{n}}", "method=rtn&bits=2", f"{_LINE}&quantity=drift&layer={{n}}"
    )),
    *(f"api/studies/mixture/tables/{name}?{_LINE}" for name in (
        "hero", "plane", "deciles", "map", "gap", "theorem", "methods", "selection", "inspector", "gamma_grid", "ladder"
    )),
    f"api/studies/mixture/tables/map?{_LINE}&limit=200&offset={{n}}000",
    "api/compare?ids=mixture,tiny-moe", "api/studies/mixture",
)  # fmt: skip
OF_LARGE = (
    "?study=large", "?study=large&layer={n}", "api/studies", "api/studies/large", "api/studies/large/view",
    "api/studies/large/view?layer={n}", "api/studies/large/tables/map?method=sarqc-gbs&bits=2",
)  # fmt: skip


def of_state(fill: Callable[[Settings], None], addresses: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """What each address took in a state of its own."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Settings(state_dir=Path(folder)))
        with serving(Path(folder), SARQC_METRICS="local") as (url, process):
            run = finished_run(url)
            return {address: answers(url, process, address.replace("{run}", run)) for address in addresses}


def finished_run(url: str) -> str:
    """The id of one, or a name that nothing has."""
    with urllib.request.urlopen(f"{url}api/runs?limit=2&filter=finished", timeout=600) as answer:
        return next((run["id"] for run in json.load(answer)["runs"]), "none")


def compared(
    words: str, addresses: Sequence[str], smaller: Callable[[Settings], None], larger: Callable[[Settings], None]
) -> Iterator[Answered]:
    """The figures of a state beside those of one that is ten times smaller."""
    before = of_state(smaller, addresses)
    for address, taken in of_state(larger, addresses).items():
        wall, processor = ([one[part] for one in taken] for part in (0, 1))
        then = statistics.median(one[1] for one in before[address])
        yield Answered(
            f"{words}, /{address}", high(wall), "ms", GOAL, address=address, median=statistics.median(wall),
            first=wall[0], processor=statistics.median(processor), processor_high=high(processor),
            growth=statistics.median(processor) / then,
        )  # fmt: skip


def runs() -> Iterator[Figure]:
    """Lists and pages of a host with many runs."""
    smaller, larger = (lambda settings, n=n: add_runs(settings, n) for n in (RUNS // SMALLER, RUNS))
    yield from compared(f"{RUNS:,} runs", OF_RUNS, smaller, larger)


def studies() -> Iterator[Figure]:
    """The list of studies and the pages that show it."""

    def fill(settings: Settings, number: int) -> None:
        add_runs(settings, 1)
        add_studies(settings, number)
        Library(settings, lambda names: ()).listing()  # as the app did when it was there before

    smaller, larger = (lambda settings, n=n: fill(settings, n) for n in (STUDIES // SMALLER, STUDIES))
    yield from compared(f"{STUDIES:,} studies", OF_STUDIES, smaller, larger)


def mixture() -> Iterator[Figure]:
    """A study of 48 × 128 experts in every figure and table."""
    smaller, larger = (
        lambda settings, n=n: add_mixture(settings, experts=n) for n in (EXPERTS // SMALLER, EXPERTS)
    )  # fmt: skip
    yield from compared("18,624 linears", OF_MIXTURE, smaller, larger)


def large() -> Iterator[Figure]:
    """A study of 500 MiB."""
    smaller, larger = (lambda settings, n=n: add_large(settings, "large", n) for n in (LARGE // SMALLER, LARGE))
    yield from compared("500 MiB", OF_LARGE, smaller, larger)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fill", type=Path, help="a state folder that is made and left")
    given = parser.parse_args()
    if given.fill:
        settings = Settings(state_dir=given.fill)
        add_runs(settings, RUNS)
        add_studies(settings, STUDIES)
        add_mixture(settings)
        add_large(settings, "large", LARGE)


if __name__ == "__main__":
    main()
