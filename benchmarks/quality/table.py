"""The table of a comparison: from kept results to numbers by draw, from these to rows."""

import itertools
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.quality.contenders import BASELINE, CONTENDERS, RIVAL
from benchmarks.quality.results import Cell, Result
from sarqc.study.intervals import span_text
from sarqc.study.paired import Difference, geometric_mean, paired_difference, paired_ratio

_QUANTITIES = ("perplexity", "kl", "same_top", "seconds", "wall", "peak_bytes")
Numbers = Mapping[str, Any]  # of one contender: lists by draw, None where it was not measured; or "failed"


def signed(difference: Difference, decimals: int) -> str:
    """Return “+3.2 (−0.1 to 6.4)” of a difference without axes, for a table of both signs; 0 has none."""
    mean, low, high = (float(part) for part in (difference.mean, difference.low, difference.high))
    sign = "+" if round(mean, decimals) > 0 else ""
    return sign + span_text(mean, low, high, decimals)


def summarised(results: Mapping[Cell, Result]) -> dict[str, Any]:
    """All results as one document: by model its protocol, and by width and contender what was measured in each draw.

    Raises ``ValueError`` where results of one model were made under different protocols.
    """
    document: dict[str, Any] = {"host": host(), "versions": {}, "models": {}}
    for model in sorted({cell.model for cell in results}):
        of_model = {cell: result for cell, result in results.items() if cell.model == model}
        protocols = [result.protocol for result in of_model.values()]
        if any(_comparable(protocol) != _comparable(protocols[0]) for protocol in protocols):
            raise ValueError(f"results of {model} were made under different protocols: keep them in folders apart")
        widths: dict[str, dict[str, Numbers]] = {}
        for bits, name in itertools.product(sorted({cell.bits for cell in of_model}), CONTENDERS):
            by_draw = {c.draw: r for c, r in of_model.items() if (c.bits, c.contender) == (bits, name)}
            if by_draw:
                widths.setdefault(str(bits), {})[name] = _numbers(by_draw)
        document["models"][model] = {"protocol": protocols[0], "widths": widths}
    for cell, result in results.items():
        if result.failed is None:
            engine = document["versions"].setdefault(CONTENDERS[cell.contender].engine, result.versions)
            if engine != result.versions:
                raise ValueError(f"{cell} was made with {result.versions}, others with {engine}")
    return document


def _comparable(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """A protocol without the digits of the float model's perplexity that a processor changes."""
    return {**protocol, "perplexity_float": _rounded(protocol.get("perplexity_float"))}


def _numbers(by_draw: Mapping[int, Result]) -> Numbers:
    failed = next((result.failed for result in by_draw.values() if result.failed), None)
    if failed is not None:
        return {"failed": failed}
    draws = range(max(by_draw) + 1)
    by_quantity = {
        name: [_rounded(getattr(by_draw[draw], name)) if draw in by_draw else None for draw in draws]
        for name in _QUANTITIES
    }
    return {name: measured for name, measured in by_quantity.items() if any(value is not None for value in measured)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def host() -> str:
    """The processor and its cores, as a reader may know them."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores, {platform.system()}" if names else platform.platform()


def page(summary: Mapping[str, Any]) -> str:
    """Every table of a document as ``summarised`` makes it, in markdown."""
    parts = []
    for model, found in summary["models"].items():
        for bits, contenders in found["widths"].items():
            parts += [f"### {model}, {bits} bits", table_of(contenders)]
    return "\n\n".join(parts) + "\n"


HEAD = (
    "", "perplexity (over draws)", "to our GPTQ", "to AutoRound", "KL, nats", "time, our GPTQ", "time, AutoRound",
)  # fmt: skip


def table_of(contenders: Mapping[str, Numbers]) -> str:
    """A row for each contender of one model at one width, with memory where it was measured."""
    with_memory = any("peak_bytes" in numbers for numbers in contenders.values())
    head = (*HEAD, "memory") if with_memory else HEAD
    lines = [head, ("---",) * len(head)]
    most = max((len(numbers["perplexity"]) for numbers in contenders.values() if "failed" not in numbers), default=0)
    for name, numbers in contenders.items():
        title = CONTENDERS[name].title
        if "failed" in numbers:
            lines.append((title, "gave no weights: " + numbers["failed"], *[""] * (len(head) - 2)))
            continue
        lines.append((title, *_row(numbers, contenders, most), *([_memory(numbers)] if with_memory else [])))
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _row(numbers: Numbers, contenders: Mapping[str, Numbers], most: int) -> list[str]:
    perplexity, kl = values(numbers, "perplexity"), values(numbers, "kl")
    measured = np.isfinite(perplexity).sum()
    spread = f" ({np.nanstd(perplexity, ddof=1):.2f})" if measured > 1 else ""
    draws = "" if measured == most else f", {measured} of {most} draws"
    return [
        f"{geometric_mean(perplexity):.2f}{spread}{draws}",
        *(difference(numbers, contenders.get(other)) for other in (BASELINE, RIVAL)),
        f"{np.nanmean(kl):.4f}",
        *(ratio(numbers, contenders.get(other)) for other in (BASELINE, RIVAL)),
    ]


def _memory(numbers: Numbers) -> str:
    """The most that a process of the contender had, in any draw."""
    return f"{np.nanmax(values(numbers, 'peak_bytes')) / 2**30:.1f} GiB" if "peak_bytes" in numbers else "–"


def values(numbers: Numbers, quantity: str) -> np.ndarray:
    """A quantity by draw, NaN where it was not measured."""
    return np.array([np.nan if value is None else value for value in numbers[quantity]], dtype=np.float64)


def paired(numbers: Numbers, other: Numbers, quantity: str) -> tuple[np.ndarray, np.ndarray]:
    """A quantity of two contenders in the draws that either has, NaN where one lacks it."""
    both = [values(numbers, quantity), values(other, quantity)]
    length = max(map(len, both))
    first, second = (np.pad(part, (0, length - len(part)), constant_values=np.nan) for part in both)
    return first, second


def difference(numbers: Numbers, other: Numbers | None, quantity: str = "perplexity", digits: int = 2) -> str:
    """The paired difference of a quantity, less being better, with its 95 % interval, and a word where it is clear."""
    if other is None or "failed" in other or numbers is other:
        return "–"
    compare = paired_ratio if quantity == "perplexity" else paired_difference
    found = compare(*paired(numbers, other, quantity))
    if not found.draws:
        return "–"
    word = {-1: ", better", 0: "", 1: ", worse"}[found.verdict(())]
    return signed(found, digits) + word


def ratio(numbers: Numbers, other: Numbers | None) -> str:
    """Geometric mean over the shared draws of the ratio of processor seconds."""
    if other is None or "failed" in other or "seconds" not in numbers or "seconds" not in other:
        return "–"
    mine, theirs = paired(numbers, other, "seconds")
    ratios = np.log(mine / theirs)
    return "–" if np.isnan(ratios).all() else f"{np.exp(np.nanmean(ratios)):.2f} ×"
