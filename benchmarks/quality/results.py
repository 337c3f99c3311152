"""What was measured, as one JSON file for each model, width, draw and contender: an interrupted run continues."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.quality.contenders import CONTENDERS


@dataclass(frozen=True)
class Cell:
    """Where a result belongs."""

    model: str
    bits: int
    draw: int
    contender: str

    def path(self, folder: Path) -> Path:
        return folder / "results" / self.model / f"w{self.bits}-draw{self.draw}-{self.contender}.json"


@dataclass(frozen=True)
class Result:
    """One calibration, measured. ``seconds`` of the calibration alone: processor seconds on a CPU, seconds on the wall
    on a GPU; ``wall``: by the clock; ``peak_bytes``: the most memory of its process, or of the GPU.

    ``failed``: what the engine said where it gave no weights; then there are no numbers. ``protocol``: the same for all
    cells of a model. ``versions``: of the engine and of what it runs on.
    """

    protocol: dict[str, Any]
    versions: dict[str, str]
    perplexity: float | None = None
    kl: float | None = None
    same_top: float | None = None
    seconds: float | None = None
    wall: float | None = None
    peak_bytes: int | None = None
    failed: str | None = None

    def write(self, path: Path) -> None:
        """Whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False), encoding="utf-8")
        os.replace(partial, path)

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def take_over(document: dict[str, Any], folder: Path) -> None:
    """Write the results of a document that ``table.summarised`` made under a folder which lacks them, in its digits.

    Models that were measured on another host, of which the document says so, are left out.
    """
    for model, found in document["models"].items():
        if "host" in found:
            continue
        for bits, contenders in found["widths"].items():
            for contender, numbers in contenders.items():
                versions = document["versions"].get(CONTENDERS[contender].engine, {})
                for draw, values in _by_draw(numbers):
                    path = Cell(model, int(bits), draw, contender).path(folder)
                    if not path.exists():
                        Result(found["protocol"], versions, **values).write(path)


def _by_draw(numbers: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    if "failed" in numbers:
        yield 0, numbers
        return
    for draw, perplexity in enumerate(numbers["perplexity"]):
        if perplexity is not None:
            yield draw, {name: values[draw] for name, values in numbers.items() if draw < len(values)}


def read_all(folder: Path) -> dict[Cell, Result]:
    """Everything kept under a folder."""
    results = {}
    for path in sorted(folder.glob("results/*/w*-draw*-*.json")):
        bits, draw, contender = path.stem.split("-", 2)
        cell = Cell(path.parent.name, int(bits.removeprefix("w")), int(draw.removeprefix("draw")), contender)
        results[cell] = Result.read(path)
    return results
