"""What a line's method minimises, as the page sets it: which error, and what λ weighs."""

from __future__ import annotations

from typing import Literal, TypedDict

from sarqc.figures.numbers import lam_text
from sarqc.quantization.methods import METHODS, Aim, Weighing
from sarqc.study.document import Line
from sarqc.study.facts import has_lam


class Equation(TypedDict):
    """min error + λ · penalty, or the error alone where the method has no λ."""

    aim: Aim  # of the error
    weighing: Weighing | None  # S of the penalty; None: no penalty
    lam: str | None  # λ where it is not a choice of the line's: a number, or “auto”; None where the line has λ to move


def equation(line: Line) -> Equation | None:
    """What the line's method minimises; None for a method that is not known here."""
    entry = METHODS.get(line.method)
    if entry is None:
        return None
    fitting = {name: value for name, value in line.fitting.items() if hasattr(entry.make, name)}
    made = entry.make.with_(**fitting)
    fixed: Literal["auto"] | str | None = None
    if made.lam is not None and not has_lam(line):
        fixed = "auto" if line.selected and "lam" in entry.tunes else lam_text(made.lam)
    penalised = made.lam is not None and fixed != "0"
    return {"aim": made.aim, "weighing": made.weighing if penalised else None, "lam": fixed if penalised else None}
