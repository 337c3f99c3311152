"""What programs for all engines have in common: how they begin, and what is the same text everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from sarqc.errors import Fix, Refused
from sarqc.integrations.engine_request import EngineRequest

PENALTY_REMEDY = "llm-compressor and GPTQModel have it with our plugins; or take rqc-gbs, the identity penalty."


def assembled(
    wanted: EngineRequest, engine: str, install: str, notes: Sequence[str], imports: Iterable[str], body: str
) -> str:
    """A program: what it does and what differs, what it imports, and the model's name before the rest.

    What people have named stands in it as a string of Python alone: a study may come from anybody.
    """
    head = "\n".join([f'"""{wanted.title}: what sarqc does, by {engine}.', "", f"    {install}", "", *notes, '"""'])
    lines = sorted({*imports}, key=_place)
    groups = ["\n".join(line for line in lines if _place(line)[0] == foreign) for foreign in (False, True)]
    names = [f"MODEL = {said(wanted.recipe.model)}  # a folder, or a name on the Hub"]
    if wanted.recipe.revision is not None:
        names.append(f"REVISION = {said(wanted.recipe.revision)}")
    return "\n\n".join([head, *filter(None, groups), "\n".join(names), body])


def _place(line: str) -> tuple[bool, bool, str]:
    """Modules of Python first, and what is imported whole before what is taken from a module."""
    word, module, *_ = line.split()
    return (module not in ("itertools", "pathlib"), word == "from", module)


def said(text: str) -> str:
    """A text as Python writes it."""
    return json.dumps(text, ensure_ascii=False)


def from_pretrained(wanted: EngineRequest) -> str:
    """The arguments with which a model or a tokenizer is loaded."""
    return "MODEL" if wanted.recipe.revision is None else "MODEL, revision=REVISION"


def folder_of(wanted: EngineRequest) -> str:
    """Where a program puts the model, as Python writes it."""
    return said(f"{PurePath(wanted.recipe.model).name}-w{wanted.recipe.bits}")


def exactly(names: Sequence[str]) -> str:
    """A regular expression for some names and no other."""
    return f"^(?:{'|'.join(map(re.escape, names))})$"


def outside(blocks: Sequence[int]) -> str:
    """A regular expression for what is in another block than these."""
    return rf"^model\.layers\.(?!(?:{'|'.join(map(str, blocks))})\.)"


def check_grid(engine: str, wanted: EngineRequest) -> None:
    """Refuses grids that compressed-tensors and GPTQ's format have none of: theirs are these two."""
    if wanted.recipe.grid not in ("full_range", "asymmetric"):
        raise refused(
            engine,
            f"has no {wanted.recipe.grid} grid: its grids are asymmetric, and full_range, which it calls symmetric",
            "Take grid full_range or asymmetric.",
        ).about("grid", Fix("Take the full range", {"grid": "full_range"}))


def refused(engine: str, does: str, remedy: str) -> Refused:
    """What an engine does otherwise, or has not: “takes …”, “has no …”."""
    return Refused(f"{engine} {does}", f"recipe for {engine}", remedy)
