"""Common parts of the programs for all engines: their beginning, and text that is the same everywhere."""

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
    """Return a program: its purpose and the differences, its imports, and the model's name before the rest.

    Names that people gave stand in it as strings of Python alone: a study may come from anybody.
    """
    if not wanted.is_identity:
        install += " && pip install --no-deps sarqc"
    head = "\n".join([f'"""{wanted.title}: what sarqc does, by {engine}.', "", f"    {install}", "", *notes, '"""'])
    lines = sorted({*imports}, key=_place)
    groups = ["\n".join(line for line in lines if _place(line)[0] == foreign) for foreign in (False, True)]
    names = [f"MODEL = {said(wanted.recipe.model)}  # a folder, or a name on the Hub"]
    if wanted.recipe.revision is not None:
        names.append(f"REVISION = {said(wanted.recipe.revision)}")
    return "\n\n".join([head, *filter(None, groups), "\n".join(names), body])


def _place(line: str) -> tuple[bool, bool, str]:
    """Key of an import line: modules of Python first, and whole modules before names of a module."""
    word, module, *_ = line.split()
    return (module not in ("itertools", "pathlib"), word == "from", module)


def said(text: str) -> str:
    """Return a text as Python writes it."""
    return json.dumps(text, ensure_ascii=False)


def from_pretrained(wanted: EngineRequest) -> str:
    """Return the arguments that load a model or a tokenizer."""
    return "MODEL" if wanted.recipe.revision is None else "MODEL, revision=REVISION"


def folder_of(wanted: EngineRequest) -> str:
    """Return the folder of the program's model, as Python writes it."""
    return said(f"{PurePath(wanted.recipe.model).name}-w{wanted.recipe.bits}")


def exactly(names: Sequence[str]) -> str:
    """Return a regular expression that matches some names and no other."""
    return f"^(?:{'|'.join(map(re.escape, names))})$"


def outside(blocks: Sequence[int]) -> str:
    """Return a regular expression for modules in other blocks than these.

    The number of a block is the first number in a path, whatever the model calls its list of blocks.
    """
    return rf"^(?:[A-Za-z_]\w*\.)*(?!(?:{'|'.join(map(str, blocks))})\.)\d+\."


def check_grid(engine: str, wanted: EngineRequest) -> None:
    """Check that compressed-tensors and GPTQ's format have the grid; theirs are full_range and asymmetric."""
    if wanted.recipe.grid not in ("full_range", "asymmetric"):
        raise refused(
            engine,
            f"{engine} has no {wanted.recipe.grid} grid: its grids are asymmetric, and full_range, which it calls "
            "symmetric",
            "Use grid full_range or asymmetric.",
        ).about("grid", Fix("Use the full range", {"grid": "full_range"}))


def refused(engine: str, what: str, remedy: str) -> Refused:
    """Return a refusal of a request that an engine lacks or does otherwise."""
    return Refused(what, f"recipe for {engine}", remedy)
