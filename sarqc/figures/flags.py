"""Known settings on the λ axis: the dampings that other tools take by default, and the λ among which the paper chooses.

Under the identity penalty λ *is* the damping of GPTQ, which adds default · mean(diag H) to the diagonal of H, the Gram
matrix of a layer's inputs, so that defaults of other tools are places on its axis; with their sources they are in
``dampings.toml`` beside this file. Under saliency the same λ weighs channels unequally, and only 0 means the same.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from sarqc.errors import Damaged
from sarqc.figures.drawing import position
from sarqc.figures.numbers import baseline_title, lam_text
from sarqc.quantization.methods import METHODS
from sarqc.study.facts import LineFacts, has_lam, once

AXIS_WIDTH = 270  # pixels, at least; the first and the last λ are half a step from its ends
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
TOOLS_BY_DEFAULT = {default: [*tools] for default, tools in groupby(TOOLS, key=lambda tool: tool.default)}


@dataclass(frozen=True)
class Flag:
    """A setting: its λ, or the two ends of a range, its name, and for tables its tools."""

    lam: float
    name: str
    tools: str
    short: str = ""  # the name on the axis, where that is shorter
    end: float | None = None

    @property
    def label(self) -> str:
        """The label on the axis: the name, of a range with its ends."""
        return self.short or (self.name if self.end is None else f"{self.name} {self.value}")

    @property
    def value(self) -> str:
        """“0.05”, or “0.25–0.75”."""
        return lam_text(self.lam) if self.end is None else f"{lam_text(self.lam)}–{lam_text(self.end)}"

    @property
    def words(self) -> str:
        """The flag's full text, shown on hover."""
        return f"λ = {self.value}: {self.tools}"


def _flag(default: float, tools: Sequence[Tool]) -> Flag:
    """Return the flag of tools with the same default."""
    names = [tool.name for tool in tools if tool.on_axis]
    short = names[0] if len(names) > 1 else ""
    return Flag(default, ", ".join(names), ", ".join(tool.words for tool in tools), short)


DAMPINGS = tuple(_flag(default, tools) for default, tools in TOOLS_BY_DEFAULT.items())
GPTQ = next(flag for flag in DAMPINGS if flag.name.split(", ")[0] == "GPTQ")
NO_DAMPING = Flag(0.0, "no damping", "nothing is added to the Gram’s diagonal", "undamped")


@once
def flags_of(facts: LineFacts) -> list[Flag]:
    """Return the flags that apply to a line's λ axis; the lowest λ first."""
    line, entry = facts.line, METHODS.get(facts.line.method)
    if entry is None or not has_lam(line) or len(line.lams) < 2:
        return []
    flags: list[Flag] = []
    if entry.make.lam_is_damping:
        flags += [NO_DAMPING, *DAMPINGS]
    elif entry.make.damps:
        flags.append(NO_DAMPING)
    elif facts.baseline is not None and facts.baseline.lam == 0:
        flags.append(Flag(0.0, baseline_title(facts.baseline), "λ = 0"))
    if entry.auto is not None and len(entry.auto.lams) > 1:
        lams = entry.auto.lams
        flags.append(Flag(lams[0], "this paper", "the λ among which the paper chooses", end=lams[-1]))
    flags.sort(key=lambda flag: flag.lam)
    return [flag for flag in flags if _place(flag, line.lams) is not None]


def _place(flag: Flag, lams: Sequence[float]) -> float | None:
    """Return the place of a flag on the axis, of a range its start; None beyond the axis."""
    first, last = max(flag.lam, lams[0]), min(flag.lam if flag.end is None else flag.end, lams[-1])
    return None if first > last else position(first, lams)


class PlacedFlag(NamedTuple):
    """A flag with its place on the axis, and the lane below the axis in which its name stands."""

    flag: Flag
    place: float
    lane: int


def place_flags(flags: Sequence[Flag], lams: Sequence[float]) -> list[PlacedFlag]:
    """Return the flags in as few lanes as keep their names apart on the axis of a narrow screen.

    A name stands at the right of its pole. Lanes are filled from the right: what is lower stands further left.
    """
    step = AXIS_WIDTH / len(lams)
    free: list[float] = []  # of each lane, the pixel up to which it is free
    placed: list[PlacedFlag] = []
    for flag in reversed(flags):
        place = _place(flag, lams)
        assert place is not None
        start = place * step
        end = start + name_width(flag)
        lane = next((index for index, left in enumerate(free) if end <= left), len(free))
        free[lane : lane + 1] = [start]
        placed.append(PlacedFlag(flag, place, lane))
    return placed[::-1]


def name_width(flag: Flag) -> float:
    """Return the most pixels that a name takes in type of 11, with its margin."""
    return 6.1 * len(flag.label) + 6


def flags_text(facts: LineFacts) -> str:
    """Return the flags in words, for screen readers; empty without any."""
    return "; ".join(f"{flag.name} at λ = {flag.value}" for flag in flags_of(facts))
