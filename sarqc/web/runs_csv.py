"""Runs as lines of a CSV file (RFC 4180): what was asked for, what was measured and how, at full precision."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sarqc.jobs.listing import log_ratio, perplexity
from sarqc.jobs.run import Run, iso_time
from sarqc.jobs.tuned import against_gptq, tuned
from sarqc.recipe import Recipe, public_name

MEASURED = (
    "perplexity_float", "log_ratio_standard_error", "kl", "kl_standard_error", "kl_99",
    "same_top", "same_top_standard_error",
    "accuracy", "accuracy_standard_error", "accuracy_float", "accuracy_standard_error_float",
    "bytes_before", "bytes_after", "bits_per_weight", "share_quantized", "quantized_layers",
)  # fmt: skip
TEST = ("corpus", "part", "window", "windows", "predicted_tokens", "dtype", "device")
CALIBRATION = ("corpus", "sha256", "samples", "length", "tokens", "held_out_samples", "sampling", "seed")
TUNED = {
    "tuned": "words",
    "tuned_lambda": "lam",
    "tuned_band": "band",
    "against_gptq_low": "against_gptq_low",
    "against_gptq_high": "against_gptq_high",
}
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")  # with these spreadsheets begin a formula


Column = Callable[[Run], Any]


def _summed(name: str) -> Column:
    return lambda run: (run.summary or {}).get(name)


def _asked(name: str) -> Column:
    return lambda run: run.recipe.get(name)


def _tuned(name: str) -> Column:
    def value(run: Run) -> Any:
        came_to: Mapping[str, Any] = tuned(run.summary) or {}
        return came_to.get(name)

    return value


def _protocol(part: str, name: str) -> Column:
    def value(run: Run) -> Any:
        found = ((run.summary or {}).get("protocol") or {}).get(part)
        return found.get(name) if isinstance(found, Mapping) else None

    return value


COLUMNS: dict[str, Column] = {
    "id": lambda run: run.id,
    "name": lambda run: run.name,
    "tags": lambda run: ", ".join(run.tags),
    "note": lambda run: run.note,
    "state": lambda run: run.state.value,
    "owner": lambda run: run.owner,
    "batch": lambda run: run.batch,
    "created": lambda run: iso_time(run.created),
    "started": lambda run: run.started and iso_time(run.started),
    "ended": lambda run: run.ended and iso_time(run.ended),
    "seconds": lambda run: None if run.started is None or run.ended is None else run.ended - run.started,
    "device": lambda run: run.device,
    "fingerprint": lambda run: run.fingerprint,
    "error": lambda run: run.error and run.error["what"],
    "perplexity": lambda run: perplexity(run.summary or {}),
    "log_ratio": lambda run: log_ratio(run.summary or {}),
    "against_gptq": lambda run: against_gptq(run.summary),
    **{name: _tuned(field) for name, field in TUNED.items()},
    **{name: _summed(name) for name in MEASURED},
    **{f"test_{name}": _protocol("test", name) for name in TEST},
    **{f"calibration_{name}": _protocol("calibration", name) for name in CALIBRATION},
    **{f"recipe_{name}": _asked(name) for name in map(public_name, Recipe.model_fields)},
}


def cell(value: Any) -> str | float | int:
    """A value as a cell: numbers as they are, lists joined, and no text that a spreadsheet would run as a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return value
    text = "; ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"'{text}" if text.startswith(_FORMULAS) else text


def lines_of(runs: Iterable[Run]) -> str:
    """The lines of runs, each with its end."""
    return _lines([cell(value(run)) for value in COLUMNS.values()] for run in runs)


def _lines(rows: Iterable[Sequence[Any]]) -> str:
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue()


HEAD = _lines([list(COLUMNS)])
