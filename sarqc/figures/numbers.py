"""Formats of numbers in text and in tables: λ, perplexities, errors, differences, changes, names of points.

Axes in comments: D calibration draws, G γ values, M λ values.
"""

import math
from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypedDict

from sarqc.quantization.methods import METHODS
from sarqc.study.document import Line
from sarqc.study.facts import BaselinePoint, has_lam
from sarqc.study.intervals import count_text, decimals_of, error_decimals
from sarqc.study.intervals import join_names as join_names
from sarqc.study.intervals import lam_text as lam_text
from sarqc.study.intervals import number as number

NBSP = "\u00a0"
At = tuple[int, int]  # positions of γ and λ on the axes of a line


def lam_names(line: Line) -> list[str]:
    """Return the λ of a line as its axis and its table write them: “auto” where that chose, “–” where a method has
    none."""
    if has_lam(line):
        return [lam_text(lam) for lam in line.lams]
    return ["auto" if line.selected else "–"] * len(line.lams)


def point_names(line: Line) -> list[str]:
    """Return the λ of a line as labels: “λ = 0.1”, or the name of its one point without a λ."""
    if has_lam(line):
        later = "" if line.later is None else f", {line.later.words}"
        return [f"λ = {lam_text(lam)}{later}" for lam in line.lams]
    return ["auto" if line.selected else line.spoken_title] * len(line.lams)


def decimals_for(value: float) -> int:
    """Return decimals that leave a perplexity about three digits."""
    size = abs(value)
    return 2 if size < 10 else 1 if size < 1000 else 0


def draws_text(count: int) -> str:
    """Return “no draws”, “one draw” or “five draws”."""
    return f"{count_text(count)} draw{'' if count == 1 else 's'}"


def percent(value: float, decimals: int = 0) -> str:
    """Return a share (0 to 1) in per cent."""
    return f"{number(100 * value, decimals)}{NBSP}%"


@lru_cache(maxsize=1024)  # a view has the same values in several figures
def significant(value: float) -> str:
    """Return a value of any size with three significant digits: 0.870, 1.05, 0.000123, 1.00·10^−9."""
    if 0 < abs(value) < 1e-6:
        digits, _, power = f"{value:.2e}".replace("-", "\u2212").partition("e")
        return f"{digits}·10^\u2212{power[1:].lstrip('0')}"
    return number(value, decimals_of(value, 3))


def small_percent(value: float) -> str:
    """Return per cents with at least two significant digits: 62 %, 4.2 %, 0.18 %."""
    return percent(value, decimals_of(100 * value, 2) if value else 0)


def difference_decimals(doubt: float, value: float) -> int:
    """Return decimals that show half a 95 % interval, or a standard error, with one digit (two where it begins with
    1), at least as many as a perplexity of this size has, and at most three; four beside numbers as small as a KL."""
    base = decimals_for(value)
    if not math.isfinite(doubt) or doubt <= 0:
        return base
    return int(min(4 if abs(value) <= 1 else 3, max(base, error_decimals(doubt), 0)))


Format = Callable[[float], str]


def perplexity_text(value: float) -> str:
    """Return a perplexity with the decimals of its size."""
    return number(value, decimals_for(value))


def accuracy_text(value: float) -> str:
    """Return an accuracy (0 to 1) in per cent, with one decimal."""
    return percent(value, 1)


def baseline_name(baseline: BaselinePoint) -> str:
    """Return the common name of a line's baseline."""
    name = baseline_title(baseline)
    return f"{name} on this grid" if baseline.on_its_grid else name


def baseline_title(baseline: BaselinePoint) -> str:
    """Return its method's title, even for another method's λ."""
    return METHODS[baseline.method].title if baseline.method in METHODS else baseline.held_by


def counted(count: int, noun: str) -> str:
    """Return “1 model”, “1,200 models”."""
    return f"{number(count, 0)} {noun}{'' if count == 1 else 's'}"


SAME = 0.005  # a change below this share is none once it is rounded to whole per cents


def change_text(change: float) -> str:
    """Return the size of a change in whole per cents; with decimals where it is less than one, or would round to
    all."""
    size, remainder = abs(change), 1 + change
    if size < 0.01:
        return small_percent(size)
    return percent(size, decimals_of(100 * remainder, 1) if 0 < remainder < SAME else 0)


def times_text(ratio: float) -> str:
    """“2.4 ×”."""
    return f"{number(ratio, decimals_of(ratio, 2))}{NBSP}×"


def less_or_more(change: float, same: str = "", less: str = "less", more: str = "more") -> str:
    """“31 % less”; ``same`` for a change below half a percent."""
    return same if abs(change) < SAME else f"{percent(abs(change))} {less if change < 0 else more}"


Headings = Sequence[tuple[str, str, str]]  # key, heading, kind of number: how the browser writes it


def interval_headings(key: str, title: str, kind: str, low: str = "95 % from", high: str = "to") -> Headings:
    """Return the headings of a quantity and of the ends of its interval."""
    return (key, title, kind), (f"{key}_low", low, kind), (f"{key}_high", high, kind)


class Column(TypedDict):
    """A column of a table: its key in the rows, its heading, and how its numbers are written."""

    key: str
    title: str
    kind: str


class DataTable(TypedDict):
    """Numbers behind a figure: a row has a value for the key of each column; null was not measured."""

    columns: list[Column]
    rows: list[dict[str, Any]]


def data_table(headings: Headings, rows: Sequence[Mapping[str, Any]], sign: str = "γ") -> DataTable:
    """Return rows as a table, without the columns that hold nothing; ``sign``: of the column gamma."""
    columns = present_columns(headings, {key for row in rows for key, value in row.items() if value is not None}, sign)
    return {"columns": columns, "rows": [{column["key"]: row.get(column["key"]) for column in columns} for row in rows]}


def present_columns(headings: Headings, present: Container[str], sign: str = "γ") -> list[Column]:
    """Return the columns of a table that are present, in the order of the headings."""
    return [
        {"key": key, "title": sign if key == "gamma" else title, "kind": kind}
        for key, title, kind in headings
        if key in present
    ]
