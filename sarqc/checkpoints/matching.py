"""Regular expressions matched in a process of its own, within limits of CPU time and memory.

The expressions, the names and the way of matching come from standard input as JSON, the answer goes to standard output:
the number of the first expression that matches, for each name, or the number of an invalid one with the reason.

This file is run by itself and imports nothing of sarqc, so a process takes some 0.05 s.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from collections.abc import Sequence
from typing import Any


def answer(
    patterns: Sequence[str], names: Sequence[str], *, anywhere: bool, skips_invalid: bool
) -> list[int | None] | dict[str, Any]:
    """Return the number of the first expression that matches each name, or an ``invalid`` one with the ``reason``."""
    matches = []
    for number, pattern in enumerate(patterns):
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            if not skips_invalid:
                return {"invalid": number, "reason": str(error)}
        except (OverflowError, RecursionError):
            return {"invalid": number, "reason": "it is too large"}
        else:
            matches.append((number, compiled.search if anywhere else compiled.match))
    return [next((number for number, match in matches if match(name)), None) for name in names]


def main(cpu_seconds: str, memory: str) -> None:
    """Answer a request from standard input within limits of CPU time and of bytes of addresses."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds),) * 2)
    resource.setrlimit(resource.RLIMIT_AS, (int(memory),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    json.dump(answer(**json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
