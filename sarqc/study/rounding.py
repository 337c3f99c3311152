"""Checked steps of learned rounding: errors and drift of blocks, and in words.

Axes in comments: B blocks, S checked steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sarqc.documents import RoundingCheck


@dataclass(frozen=True)
class BlockRounding:
    """One block: its checks, the start first, and the step whose state was kept."""

    block: int
    kept_step: int
    checks: tuple[RoundingCheck, ...]


@dataclass(frozen=True, eq=False)
class RoundingCurves:
    """All blocks of a run, each relative to its own start; NaN after the last check of a block.

    Attributes:
        most: Largest number of steps.
        blocks: The blocks in their order.
        steps: (S,), numbers of the checked steps, 0 first.
        error: (B, S), error of the outputs on calibration sequences over that of the start.
        held_out: (B, S), the same on held-out sequences.
        drift: (B, S), drift over that of the start.
    """

    most: int
    blocks: tuple[BlockRounding, ...]
    steps: np.ndarray
    error: np.ndarray
    held_out: np.ndarray
    drift: np.ndarray

    @classmethod
    def of(cls, blocks: Sequence[BlockRounding]) -> Self | None:
        """Return the curves of some blocks, each checked at least once; None without any."""
        blocks = tuple(sorted(blocks, key=lambda block: block.block))
        if not blocks:
            return None
        longest = max((block.checks for block in blocks), key=len)
        tables = (_relative(blocks, name, len(longest)) for name in ("error", "held_out_error", "drift"))
        return cls(longest[0]["steps"], blocks, np.array([check["step"] for check in longest]), *tables)

    @property
    def shared(self) -> int:
        """Number of checks that every block has."""
        return min(len(block.checks) for block in self.blocks)

    def mean(self, name: str) -> np.ndarray:
        """Return the mean over blocks of ``error``, ``held_out`` or ``drift`` at the checks that every block has."""
        values: np.ndarray = getattr(self, name)[:, : self.shared].mean(axis=0)
        return values

    def words(self) -> str:
        """Describe the curves.

        “Held-out error is lowest after 120 of 200 steps; calibration error keeps falling.”
        """
        held_out, error = self.mean("held_out"), self.mean("error")
        best, last = int(held_out.argmin()), self.shared - 1
        if best == 0:
            lead = "On average no step lowers held-out error" if last else "Nothing was learned"
        else:
            lead = f"Held-out error is lowest after {self.steps[best]:,} of {self.most:,} steps"
        if best == last:
            return f"{lead}."
        return f"{lead}; calibration error {'keeps falling' if error[last] < error[best] else 'does not fall further'}."

    def kept_steps_text(self) -> str:
        """Describe the kept steps: “Kept: step 40 of block 0, …” for few blocks, or their range."""
        steps = [block.kept_step for block in self.blocks]
        if min(steps) == max(steps):
            state = f"the state after {steps[0]:,} steps" if steps[0] else "its start"
            return f"Every block keeps {state}."
        starts = steps.count(0)
        unchanged = f"; {starts:,} of {len(steps):,} keep their start" if starts else ""
        return f"Blocks keep the states after {min(steps):,} to {max(steps):,} steps{unchanged}."


def blocks_of(reports: Iterable[tuple[int, Mapping[str, Any]]]) -> list[BlockRounding]:
    """Return the blocks with checked steps.

    Args:
        reports: Block and report of each layer.
    """
    return [
        BlockRounding(block, int(report["chosen"]["best_step"]), tuple(report["checks"]))
        for block, report in reports
        if report.get("checks")
    ]


def _relative(blocks: Sequence[BlockRounding], name: str, length: int) -> np.ndarray:
    """Divide (B, S) by the first of each row; a block that begins at 0 starts at 1."""
    table = np.full((len(blocks), length), np.nan)
    for row, block in zip(table, blocks, strict=True):
        values = np.array([check[name] for check in block.checks], dtype=np.float64)  # type: ignore[literal-required]
        row[: len(values)] = values / values[0] if values[0] > 0 else 1.0 + values
    return table
