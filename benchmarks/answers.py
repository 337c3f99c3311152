"""How long a served app takes to answer: on the wall, and of its processor, which does not count what else the host
does."""

import statistics
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.measured import Figure

GOAL = 200.0  # milliseconds within which 95 of 100 answers are there
TIMES = 20
SMALLER = 10  # times smaller is the state that growth is told from


@dataclass(frozen=True, kw_only=True)
class Answered(Figure):
    """What the answers of one address took, in milliseconds: ``value`` is within what 95 of 100 were there."""

    address: str
    median: float
    first: float
    processor: float  # of the app, median
    processor_high: float  # 95 of 100 within
    growth: float | None  # median of the processor's, as a multiple of that of the smaller state

    def __str__(self) -> str:
        grown = "" if self.growth is None else f", × {self.growth:.1f}"
        return (
            f"{self.what:<90} {self.median:6.0f} {self.value:6.0f} ms, the first {self.first:5.0f};"
            f" processor {self.processor:6.0f} {self.processor_high:6.0f}{grown}"
            f"{'' if self.value <= GOAL else '   missed'}"
        )


def answers(url: str, process: int, address: str, times: int = TIMES) -> list[tuple[float, float]]:
    """Milliseconds on the wall and of the app's processor of some requests, one after the other."""
    taken = []
    for number in range(times):
        request = urllib.request.Request(url + address.format(n=number), headers={"Accept-Encoding": "gzip"})
        if "/events" in address:
            request.add_header("Accept", "application/json")
        before, started = processor_seconds(process), time.perf_counter()
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                while answer.read(1 << 20):
                    pass
        except urllib.error.HTTPError as error:
            error.add_note(f"{request.full_url}: {error.read().decode()}")
            raise
        wall = time.perf_counter() - started
        taken.append((1000 * wall, 1000 * (processor_seconds(process) - before)))
    return taken


def processor_seconds(process: int) -> float:
    """That a process has taken, all of its threads, to the nanosecond: Linux has a clock for each."""
    return time.clock_gettime(~process << 3 | 2)


def high(values: Sequence[float]) -> float:
    """Within which 95 of 100 lie."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1]
