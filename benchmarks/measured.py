"""What a benchmark found, for people and for programs: lines on the terminal and one JSON document."""

import json
import os
import platform
import statistics as middle
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import torch

from sarqc.engine.measure import versions
from sarqc.jobs.workers import find_devices
from sarqc.settings import Settings


@dataclass(frozen=True)
class Figure:
    """One number. ``unit``: ×, s, ms, MiB, or “exponent”; ``goal``: at most so much is wanted; None: only told."""

    what: str
    value: float
    unit: str
    goal: float | None = None

    def __str__(self) -> str:
        wanted = (
            "" if self.goal is None else f"   at most {self.goal:.2g}{'' if self.value <= self.goal else ', missed'}"
        )
        return f"{self.what:<78} {self.value:9.2f} {self.unit}{wanted}"


Section = Callable[[], Iterable[Figure]]


def host() -> dict[str, Any]:
    """What the numbers were made on."""
    return {
        "devices": [device.name for device in find_devices(Settings())],
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "load": os.getloadavg()[0],
        "products_per_second": products_per_second(),
        "versions": versions(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def products_per_second(size: int = 2048) -> float:
    """Floating-point operations a second of a large product in float32: what all other speeds here are bound by."""
    matrix = torch.randn(size, size)
    return 2 * size**3 / seconds(lambda: matrix @ matrix)


def own_bytes(pid: int) -> int:
    """Memory that a process has of its own, without files that are mapped into it; 0 of one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    own = status.partition("RssAnon:")[2].split(maxsplit=1)
    return int(own[0]) * 1024 if own else 0


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Median wall time of some repetitions after one that does not count."""
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return middle.median(times)


def told(sections: dict[str, Section], file: Path) -> None:
    """Runs the sections one after the other; what is found is printed and kept after each."""
    document: dict[str, Any] = {"host": host(), "sections": {}}
    print(json.dumps(document["host"], indent=1))
    for name, section in sections.items():
        print(f"\n{name}", flush=True)
        found: list[dict[str, Any]] = []
        document["sections"][name] = found
        for figure in section():
            print(f"  {figure}", flush=True)
            found.append(asdict(figure))
            file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"\nkept in {file}")
