"""Engines for which programs are written, by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from sarqc.errors import Refused
from sarqc.extras.engines import to_gptqmodel, to_llmcompressor
from sarqc.extras.engines.engine_request import ELSEWHERE, EngineRequest, request_for
from sarqc.recipe import Recipe, axes
from sarqc.recipe.texts import ProgramText
from sarqc.study.document import Line, Study

if TYPE_CHECKING:
    from fastapi import FastAPI

    from sarqc.extras import Host


class Engine(NamedTuple):
    """An engine: its title, and the writer of its program, which refuses requests that the engine can't do."""

    title: str
    write: Callable[[EngineRequest], str]


ENGINES = {
    "llmcompressor": Engine("llm-compressor", to_llmcompressor.program),
    "gptqmodel": Engine("GPTQModel", to_gptqmodel.program),
}


def program_for(engine: str, document: dict[str, Any], study: Study | None = None, line: Line | None = None) -> str:
    """Return the program with which an engine does the run of a recipe; ``study`` and ``line`` are of its run, see
    ``request_for``. Raises ``Refused`` for an unknown engine, for a batch, and for what the engine can't do or does
    otherwise.
    """
    if engine not in ENGINES:
        what = f"no programs are written for “{engine}”"
        raise Refused(what, "for", f"They are for {', '.join(ENGINES)}.")
    if axes(document):
        raise Refused("a batch is several runs", ELSEWHERE, "Give one of them.")
    return ENGINES[engine].write(request_for(Recipe.parse(document), study, line))


def programs(document: dict[str, Any], study: Study | None = None, line: Line | None = None) -> list[ProgramText]:
    """Return the programs for all engines; a program that can't be written is replaced by the reason."""
    texts = []
    for name, engine in ENGINES.items():
        text, trouble = "", None
        try:
            text = program_for(name, document, study, line)
        except Refused as refusal:
            trouble = refusal.to_json()
        texts.append(ProgramText(name=name, title=engine.title, file=f"quantize_{name}.py", text=text, trouble=trouble))
    return texts


def install(app: FastAPI, host: Host) -> None:
    """Add these programs to those of a recipe."""
    host.programs.append(programs)
