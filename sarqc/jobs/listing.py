"""Lists of runs, and their order: questions to the table ``listed``, one narrow row for each run.

A row of ``listed`` holds what runs are filtered and sorted by, read from the run in ``row_of``. So a list of fifty
among ten thousand touches fifty recipes and summaries, and an order with an index as many rows. Its ``form`` says which
``row_of`` wrote it: rows of another form are made again when the store is opened.
"""

import hashlib
import json
import math
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeVar

from sarqc.documents import test_text
from sarqc.errors import Refused, SarqcError
from sarqc.jobs.run import STATE_WORDS, Run, State
from sarqc.jobs.schema import BATCH
from sarqc.jobs.tuned import evidence_of, tuned
from sarqc.recipe import Recipe, idle_fields, method_title

FORM = 7  # of the rows that ``row_of`` writes: counts up with each change of it

# What a list can be sorted by: the public name and the column. A minus before the name begins at the other end.
SORTS = {
    "created": "id",  # ids sort by time
    "name": "name",
    "model": "model",
    "method": "method",
    "state": "stage",
    "bits": "bits",
    "lambda": "lam",
    "gamma": "gamma",
    "perplexity": "perplexity",
    "against_gptq": "against_gptq",
    "accuracy": "accuracy",
    "size": "size",
    "bits_per_weight": "bits_per_weight",
    "duration": "duration",
}
# What a group of runs is summed up by.
MEASURES = ("perplexity", "log_ratio", "against_gptq", "accuracy", "size", "bits_per_weight", "duration")
GROUPINGS = {"seeds": "series", "batch": BATCH}
# In what the runs of a group may differ, the column and the public name. Those of one series have one recipe, and what
# tuning came to differs from seed to seed.
VARYING: dict[str, dict[str, str]] = {
    "seeds": {"lam": "lambda", "gamma": "gamma"},
    "batch": {"model": "model", "bits": "bits", "method": "method", "lam": "lambda", "gamma": "gamma"},
}
MOST_WORDS = 16  # in a filter
_BEGINNING = "\x1f"  # stands before each word of a row's words

Answer = TypeVar("Answer")
Where = tuple[str, list[Any]]  # a condition in SQL and its values


class Statistics(TypedDict):
    """A quantity over the runs of a group that have it."""

    count: int
    mean: float
    error: float | None  # standard error of the mean; null for one run, and where squares exceed all numbers
    least: float
    most: float


@dataclass(frozen=True)
class RunGroup:
    """Runs that belong together: the newest of them, and what all have and are."""

    key: str
    newest: str
    count: int
    states: dict[str, int]
    varies: tuple[str, ...]  # of model, bits, method, lambda and gamma
    measures: dict[str, Statistics]


@dataclass(frozen=True)
class Question:
    """Runs to list, and their order. Empty: all, the newest first. Exports and passing previews
    are in no list."""

    text: str = ""  # every word of it begins a word of the run
    sort: str = "-created"
    ids: tuple[str, ...] | None = None
    batch: str | None = None
    series: str | None = None  # runs of one recipe but for the seed
    of: str | None = None  # of one owner only, and the runs ``also``
    also: frozenset[str] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        if self.sort.removeprefix("-") not in SORTS:
            raise Refused(
                f"runs can't be sorted by “{self.sort[:40]}”",
                "runs, sort",
                f"Use one of {', '.join(SORTS)}.",
            )
        if len(self.text.split()) > MOST_WORDS:
            raise Refused("the filter has too many words", "runs, filter", f"Use {MOST_WORDS} at most.")

    def where(self) -> Where:
        """Return the condition in SQL and its values."""
        parts, values = ["1"], []
        for word in self.text.split():
            stages = [str(stage) for stage, state in enumerate(State) if _says(state, word.casefold())]
            parts.append(f"(instr(words, ?) OR stage IN ({', '.join(stages)}))" if stages else "instr(words, ?)")
            values.append(marked(word))
        if self.ids is not None:
            parts.append(f"id IN ({_marks(self.ids)})")
            values += self.ids
        for part, value in (("batch = ?", self.batch), ("series = ?", self.series)):
            if value is not None:
                parts.append(part)
                values.append(value)
        if self.of is not None:
            parts.append(f"(owner = ? OR id IN ({_marks(self.also)}))")
            values += [self.of, *self.also]
        return " AND ".join(parts), values

    def sorting(self) -> tuple[str, str]:
        """Return the column and the direction of the order."""
        return SORTS[self.sort.removeprefix("-")], "DESC" if self.sort.startswith("-") else "ASC"

    def order(self) -> str:
        """Return what stands behind ORDER BY: runs without the value last either way, and equal ones by their age.

        A filter reads every row, so it sorts what it finds: the way along an index of the order would take ten times
        as long, row by row from everywhere. The plus keeps SQLite from that.
        """
        column, direction = self.sorting()
        if column == "id":
            return f"id {direction}"
        plus = "+" if self.text else ""
        if column == "perplexity":  # within one text; a run without a perplexity has none
            return f"{plus}test {direction} NULLS LAST, perplexity {direction}, id {direction}"
        return f"{plus}{column} {direction} NULLS LAST, id {direction}"


# Questions.


def ids_of(connection: sqlite3.Connection, question: Question, limit: int, offset: int = 0) -> list[str]:
    """Return the ids of a part of the list, in its order."""
    where, values = question.where()
    query = f"SELECT id FROM listed WHERE {where} ORDER BY {question.order()} LIMIT ? OFFSET ?"
    return [row["id"] for row in connection.execute(query, (*values, limit, offset))]


def count_of(connection: sqlite3.Connection, question: Question) -> int:
    """Return the number of runs in the list."""
    where, values = question.where()
    return int(connection.execute(f"SELECT COUNT(*) AS n FROM listed WHERE {where}", values).fetchone()["n"])


def groups_of(connection: sqlite3.Connection, question: Question, by: str) -> list[tuple[str, str, int]]:
    """Return key, newest run and number of runs of each group of the list, in the order of their newest runs, their
    means or their first words."""
    where, values = question.where()
    column, direction = question.sorting()
    of_group = "MAX" if column == "id" else "MIN" if column in ("name", "model", "method", "stage") else "AVG"
    by_text = f"MIN(test) {direction} NULLS LAST, " if column == "perplexity" else ""
    query = (
        f"SELECT {_key(by)} AS key, MAX(id) AS newest, COUNT(*) AS n FROM listed WHERE {where} GROUP BY key"
        f" ORDER BY {by_text}{of_group}({column}) {direction} NULLS LAST, newest {direction}"
    )
    return [(row["key"], row["newest"], row["n"]) for row in connection.execute(query, values)]


def summed_up(connection: sqlite3.Connection, question: Question, by: str, key: str, newest: str) -> RunGroup:
    """Return a group of the list, of which the key and the newest run are known.

    SQLite adds up, so that it may have any number of members; squares are taken around the means, in a second pass,
    since the difference of two large sums would say nothing.
    """
    where, values = question.where()
    columns = [
        "COUNT(*) AS n",
        "MIN(test) IS NOT MAX(test) AS texts",
        *(f"SUM(stage = {stage}) AS stage_{stage}" for stage in range(len(State))),
    ]
    columns += [
        f"MIN({name}) IS NOT MAX({name}) OR COUNT({name}) NOT IN (0, COUNT(*)) AS varies_{name}" for name in VARYING[by]
    ]
    for name in MEASURES:
        columns += [f"{function}({name}) AS {function}_{name}" for function in ("COUNT", "AVG", "MIN", "MAX")]
    of_group = f"FROM listed WHERE {_key(by)} = ? AND {where}"
    totals = dict(connection.execute(f"SELECT {', '.join(columns)} {of_group}", (key, *values)).fetchone())
    if any(totals[f"COUNT_{name}"] > 1 for name in MEASURES):
        squares = ", ".join(f"SUM(({name} - ?) * ({name} - ?)) AS squares_{name}" for name in MEASURES)
        means = [totals[f"AVG_{name}"] for name in MEASURES for _ in range(2)]
        totals |= dict(connection.execute(f"SELECT {squares} {of_group}", (*means, key, *values)).fetchone())
    counts = {state.value: totals[f"stage_{stage}"] for stage, state in enumerate(State)}
    states = {state: count for state, count in counts.items() if count}
    varies = tuple(public for name, public in VARYING[by].items() if totals[f"varies_{name}"])
    of_text = ("perplexity", "log_ratio") if totals["texts"] else ()  # on several texts they have no mean
    measures = {name: _spread(totals, name) for name in MEASURES if totals[f"COUNT_{name}"] and name not in of_text}
    return RunGroup(key, newest, totals["n"], states, varies, measures)


def _spread(summed: Mapping[str, Any], name: str) -> Statistics:
    """Return the mean of at least one value and its standard error."""
    count, mean, least, most = (summed[f"{function}_{name}"] for function in ("COUNT", "AVG", "MIN", "MAX"))
    squares = summed[f"squares_{name}"] if count > 1 else math.inf
    if least == most:  # sums of equal numbers are off by their last digit
        mean, squares = least, 0.0 if count > 1 else math.inf
    error = math.sqrt(squares / (count - 1) / count) if math.isfinite(squares) else None
    return {"count": count, "mean": mean, "error": error, "least": least, "most": most}


def _says(state: State, word: str) -> bool:
    return state.startswith(word) or STATE_WORDS[state].startswith(word)


def _key(by: str) -> str:
    if by not in GROUPINGS:
        raise Refused(f"runs can't be grouped by “{by[:40]}”", "runs, group", f"Use {' or '.join(GROUPINGS)}.")
    return GROUPINGS[by]


def _marks(values: Collection[Any]) -> str:
    return ", ".join("?" * len(values))


class AnswerCache:
    """Answers about lists, kept as long as no list changes: a host asks the same again and again."""

    def __init__(self, at_most: int) -> None:
        self._at_most, self._lists = at_most, -1
        self._kept: dict[Hashable, Any] = {}

    def of(self, connection: sqlite3.Connection, key: Hashable, make: Callable[[], Answer]) -> Answer:
        """Return what ``make`` answers, or what it last answered under the key. ``connection`` reads what is
        committed."""
        lists = connection.execute("SELECT lists FROM counter").fetchone()[0]
        if lists != self._lists:
            self._lists = lists
            self._kept.clear()
        if key not in self._kept:
            if len(self._kept) == self._at_most:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = make()
        answer: Answer = self._kept[key]
        return answer


# Rows.


def row_of(run: Run) -> dict[str, Any]:
    """Return the row of a run in ``listed``."""
    recipe, summary = run.recipe, run.summary or {}
    lam = gamma = None  # of a ladder, of which the λ is that of a step alone
    if recipe.get("kind") == "tune":  # what it came to, not what its method would have taken
        if (came_to := tuned(summary)) is not None:
            lam, gamma = came_to["lam"], came_to["gamma"]
    elif recipe.get("kind") != "ladder":
        lam, gamma = _taken(recipe, "lambda", "lam"), _taken(recipe, "gamma", "gamma")
    evidence, value = evidence_of(summary), perplexity(summary)
    return {
        "id": run.id,
        "form": FORM,
        "owner": run.owner,
        "batch": run.batch,
        "series": series_of(recipe),
        "stage": list(State).index(run.state),
        "words": words_of(run),
        "name": run.name.casefold() or None,
        "model": str(recipe.get("model", "")),
        "method": str(recipe.get("method", "")),
        "bits": _real(recipe.get("bits")),
        "lam": lam,
        "gamma": gamma,
        "perplexity": value,
        "test": None if value is None else test_text(summary.get("protocol")),
        "log_ratio": log_ratio(summary),
        "against_gptq": None if evidence is None else evidence.change,
        "accuracy": _real(summary.get("accuracy")),
        "size": _real(summary.get("bytes_after")),
        "bits_per_weight": _real(summary.get("bits_per_weight")),
        "duration": None if run.started is None or run.ended is None else run.ended - run.started,
    }


def perplexity(summary: Mapping[str, Any]) -> float | None:
    """Return the perplexity of the quantized model; of a tuning run that of its best λ."""
    came_to = tuned(summary)
    return _real(summary.get("perplexity") if came_to is None else came_to["perplexity"])


def log_ratio(summary: Mapping[str, Any]) -> float | None:
    """Return ln(perplexity of the quantized / of the float model), also of summaries that only have the two; of a
    tuning run that of its best λ."""
    if (came_to := tuned(summary)) is not None:
        return _real(came_to["log_ratio"])
    quantized, original = (_real(summary.get(name)) for name in ("perplexity", "perplexity_float"))
    if (recorded := _real(summary.get("log_ratio"))) is not None or not quantized or not original:
        return recorded
    return math.log(quantized / original) if quantized > 0 and original > 0 else None


def put(connection: sqlite3.Connection, run: Run) -> None:
    """Write the row of a run as it is now, or take it away where lists don't show the run."""
    if not run.is_listed:
        connection.execute("DELETE FROM listed WHERE id = ?", (run.id,))
        return
    row = row_of(run)
    names = ", ".join(row)
    connection.execute(f"INSERT OR REPLACE INTO listed ({names}) VALUES ({_marks(row)})", (*row.values(),))


def series_of(recipe: Mapping[str, Any]) -> str:
    """Return 16 hex digits that are equal for recipes that differ in the seed alone."""
    rest = {name: value for name, value in recipe.items() if name != "seed"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:16]


def words_of(run: Run) -> str:
    """Return all that a filter looks at, but for the state, which changes."""
    recipe = run.recipe
    bits, lam, kind = recipe.get("bits"), recipe.get("lambda"), recipe.get("kind")
    if (came_to := tuned(run.summary)) is not None:
        lam = came_to["lam"]
    terms = [run.id, run.batch, run.name, *(f"#{tag}" for tag in run.tags), run.note, run.owner, run.device]
    terms += [recipe.get(name) for name in ("model", "quantized_checkpoint", "method", "grid", "calibration", "test")]
    terms += [
        method_title(str(recipe.get("method", ""))),
        f"{bits} bits" if bits else None,
        f"λ={lam:g}" if _real(lam) is not None else None,
        None if kind == "run" else kind,
    ]
    return marked(" ".join(str(word) for word in terms if word))


def marked(text: str) -> str:
    """Return text in small letters with a mark before each word, so that a filter finds beginnings of words alone:
    “4” is no part of an id."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"[^\W_]+", lambda word: _BEGINNING + word[0], folded)


def _taken(recipe: Mapping[str, Any], public: str, name: str) -> float | None:
    """Return λ or γ as a number: the method's own where the recipe leaves it open; None for “auto” and where there is
    none."""
    value = recipe.get(public)
    if value is not None:
        return _real(value)
    with suppress(SarqcError):  # a recipe of another version of sarqc
        parsed = Recipe.parse(dict(recipe))
        is_idle = name in idle_fields(parsed.method, auto=False)
        return None if is_idle else _real(getattr(parsed.to_method(), name, None))
    return None


def _real(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None
