"""Regular expressions of a checkpoint for names of its linears, matched with limits on time and memory; no torch.

Checkpoints come from anybody, so ``re`` never runs their expressions in this process: it backtracks, which a malicious
expression makes endless, and no other thread goes on meanwhile. Expressions that just list names need no other process.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from sarqc.errors import Refused
from sarqc.files.names import shortened

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
    """Return the value of the first expression that matches, for every name that one matches.

    Args:
        values: Pairs of expression and value.
        names: Names of linears.
        refused: Function that makes a refusal of what and remedy.
        anywhere: Match anywhere in a name, as ``re.search``; otherwise at its beginning, as ``re.match``.
        skips_invalid: Ignore invalid expressions instead of refusing them.

    Raises:
        Refused: For invalid expressions and for those that take too long.
    """
    given, asked = list(values), tuple(names)
    listed: dict[str, int] = {}
    others: list[int] = []
    for number, (pattern, _) in enumerate(given):
        if anywhere or (found := _NAMES.fullmatch(pattern)) is None:
            others.append(number)
            continue
        for name in (found[1] or found[2]).replace("\\", "").split("|"):
            listed.setdefault(name, number)
    if others:
        try:
            answer = _matched(tuple(given[number][0] for number in others), asked, anywhere, skips_invalid)
        except subprocess.TimeoutExpired:  # on a host that is too busy now
            answer = None
        if answer is None:
            what = f"its patterns for names of linears take more than {CPU_SECONDS} s or {MEMORY >> 30} GiB"
            raise refused(what, _REMEDY)
        if isinstance(answer, dict):
            pattern = shortened(given[others[answer["invalid"]]][0])
            what = f"its pattern “{pattern}” for names of linears is invalid: {answer['reason']}"
            raise refused(what, _REMEDY)
        for name, place in zip(asked, answer, strict=True):
            if place is not None:
                listed[name] = min(others[place], listed.get(name, len(given)))
    return {name: given[listed[name]][1] for name in asked if name in listed}


@lru_cache(maxsize=16)
def _matched(
    patterns: tuple[str, ...], names: tuple[str, ...], anywhere: bool, skips_invalid: bool
) -> list[int | None] | dict[str, Any] | None:
    """The answer of a process for itself; None where its time or its memory was not enough. Every plan asks again."""
    request = {"patterns": patterns, "names": names, "anywhere": anywhere, "skips_invalid": skips_invalid}
    program = Path(__file__).with_name("matching.py")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(program), str(CPU_SECONDS), str(MEMORY)],
        input=json.dumps(request), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        timeout=10 * CPU_SECONDS,
    )  # fmt: skip
    answer: list[int | None] | dict[str, Any] | None = None if done.returncode else json.loads(done.stdout)
    return answer
