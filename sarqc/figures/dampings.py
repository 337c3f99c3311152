"""Default dampings of other tools, with their sources: ``dampings.toml`` beside this file.

The damping of GPTQ adds default · mean(diag H) to the diagonal of H, the Gram matrix of a layer's inputs, which is λ
of the identity penalty.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from sarqc.errors import Damaged

TABLE = Path(__file__).with_name("dampings.toml")


@dataclass(frozen=True)
class Tool:
    """A tool with its default damping, and where that is written."""

    name: str
    default: float
    version: str  # of the source
    source: str  # address of the file or page with the number
    parameter: str = ""  # empty: the number stands in the code
    on_axis: bool = False  # its name stands on the λ axis

    @property
    def words(self) -> str:
        """“GPTQ (percdamp)”."""
        return f"{self.name} ({self.parameter})" if self.parameter else self.name


def read_dampings(path: Path = TABLE) -> tuple[Tool, ...]:
    """Return the tools, the smallest default first.

    Raises ``Damaged`` for an entry that lacks a field or has an unknown one.
    """
    table: dict[str, list[dict[str, Any]]] = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        return tuple(sorted((Tool(**entry) for entry in table["tool"]), key=lambda tool: tool.default))
    except (KeyError, TypeError) as error:
        raise Damaged(f"an entry is not as expected: {error}", path.name, "Correct the entry's fields.") from None


TOOLS = read_dampings()
BY_DEFAULT = {default: [*tools] for default, tools in groupby(TOOLS, key=lambda tool: tool.default)}
