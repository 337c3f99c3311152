"""Regular expressions of a checkpoint for names of its linears, matched with limits on time and memory; no torch.

Checkpoints come from anybody, so ``re`` never runs their expressions in this process: it backtracks, which a malicious
expression makes endless, and no other thread goes on meanwhile. Expressions that just list names need no other process.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from sarqc.errors import Refused
from sarqc.files.limited import Exhausted, answer_of
from sarqc.files.names import shortened
from sarqc.files.once import once

CPU_SECONDS, MEMORY = 2, 1 << 30
_REMEDY = "Edit its config.json: name the linears, or write a simpler pattern."
# As re.escape writes them: one name, or several as choices. GPTQModel has such a rule for every single linear.
_NAMES = re.compile(r"\^?(?:((?:\w|\\[.-])+)|\(\?:((?:[\w|]|\\[.-])+)\))\$")

Value = TypeVar("Value")


def by_pattern(
    values: Iterable[tuple[str, Value]],
    names: Iterable[str],
    refused: Callable[[str, str], Refused],
    *,
    anywhere: bool = False,
    skips_invalid: bool = False,
) -> dict[str, Value]:
    """Return the value of the first matching expression, for every name with a match.

    Args:
        values: Pairs of expression and value.
        names: Names of linears.
        refused: Function that makes a refusal from a problem and a remedy.
        anywhere: Match anywhere in a name, as ``re.search``; otherwise at its beginning, as ``re.match``.
        skips_invalid: Ignore invalid expressions instead of refusing them.

    Raises:
        Refused: For invalid expressions and for those that take too long.
    """
    given, asked = list(values), tuple(names)
    listed: dict[str, int] = {}
    others: list[int] = []
    for number, (pattern, _) in enumerate(given):
        if anywhere or (match := _NAMES.fullmatch(pattern)) is None:
            others.append(number)
            continue
        for name in (match[1] or match[2]).replace("\\", "").split("|"):
            listed.setdefault(name, number)
    if others:
        try:
            answer = _matched(tuple(given[number][0] for number in others), asked, anywhere, skips_invalid)
        except Exhausted:
            what = f"its patterns for names of linears take more than {CPU_SECONDS} s or {MEMORY >> 30} GiB"
            raise refused(what, _REMEDY) from None
        if isinstance(answer, dict):
            pattern = shortened(given[others[answer["invalid"]]][0])
            what = f"its pattern “{pattern}” for names of linears is invalid: {answer['reason']}"
            raise refused(what, _REMEDY)
        for name, place in zip(asked, answer, strict=True):
            if place is not None:
                listed[name] = min(others[place], listed.get(name, len(given)))
    return {name: given[listed[name]][1] for name in asked if name in listed}


@once(16)
def _matched(
    patterns: tuple[str, ...], names: tuple[str, ...], anywhere: bool, skips_invalid: bool
) -> list[int | None] | dict[str, Any]:
    """Return the answer of a separate process, cached because every plan repeats it; raise ``Exhausted`` at a limit."""
    request = {"patterns": patterns, "names": names, "anywhere": anywhere, "skips_invalid": skips_invalid}
    function = "sarqc.checkpoints.patterns:matches"
    answer: list[int | None] | dict[str, Any] = json.loads(
        answer_of(function, json.dumps(request).encode(), cpu_seconds=CPU_SECONDS, memory=MEMORY)
    )
    return answer


def matches(request: bytes) -> bytes:
    """Return the answer to the arguments of ``first_matches``; all of it is JSON."""
    return json.dumps(first_matches(**json.loads(request))).encode()


def first_matches(
    patterns: Sequence[str], names: Sequence[str], *, anywhere: bool, skips_invalid: bool
) -> list[int | None] | dict[str, Any]:
    """Return the number of the first expression that matches each name, or an ``invalid`` one with the ``reason``."""
    compiled = []
    for number, pattern in enumerate(patterns):
        try:
            expression = re.compile(pattern)
        except re.error as error:
            if not skips_invalid:
                return {"invalid": number, "reason": str(error)}
        except (OverflowError, RecursionError):
            return {"invalid": number, "reason": "it is too large"}
        else:
            compiled.append((number, expression.search if anywhere else expression.match))
    return [next((number for number, match in compiled if match(name)), None) for name in names]
