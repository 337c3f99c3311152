"""Common parts of the programs for all engines: their beginning, the calibration tokens, and shared text."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from sarqc.calibration.corpora import hub_corpus
from sarqc.errors import Fix, Refused
from sarqc.extras.engines.engine_request import EngineRequest
from sarqc.recipe import Recipe


def assemble(
    request: EngineRequest, engine: str, install: str, notes: Sequence[str], imports: Iterable[str], body: str
) -> str:
    """Return a program: its purpose and the differences, its imports, and the model's name before the rest.

    Names that people gave stand in it as strings of Python alone: a study may come from anybody.
    """
    if not request.is_identity:
        install += " && pip install --no-deps sarqc"
    head = "\n".join([f'"""{request.title}: what sarqc does, by {engine}.', "", f"    {install}", "", *notes, '"""'])
    lines = sorted({*imports}, key=_sort_key)
    groups = ["\n".join(line for line in lines if _sort_key(line)[0] == foreign) for foreign in (False, True)]
    names = [f"MODEL = {quoted(request.recipe.model)}  # a folder, or a name on the Hub"]
    if request.recipe.revision is not None:
        names.append(f"REVISION = {quoted(request.recipe.revision)}")
    return "\n\n".join([head, *filter(None, groups), "\n".join(names), body])


def _sort_key(line: str) -> tuple[bool, bool, str]:
    """Return an import line's sort key: the standard library first, and modules before names."""
    word, module, *_ = line.split()
    return (module not in ("itertools", "pathlib"), word == "from", module)


def quoted(text: str) -> str:
    """Return a text as Python writes it."""
    return json.dumps(text, ensure_ascii=False)


def from_pretrained(request: EngineRequest) -> str:
    """Return the arguments that load the model or the tokenizer."""
    return "MODEL" if request.recipe.revision is None else "MODEL, revision=REVISION"


def folder_of(request: EngineRequest) -> str:
    """Return the folder of the program's model, as Python writes it."""
    return quoted(f"{PurePath(request.recipe.model).name}-w{request.recipe.bits}")


def match_exactly(names: Sequence[str]) -> str:
    """Return a regular expression that matches some names and no other."""
    return f"^(?:{'|'.join(map(re.escape, names))})$"


def match_other_blocks(blocks: Sequence[int]) -> str:
    """Return a regular expression for modules in other blocks than these.

    The number of a block is the first number in a path, whatever the model calls its list of blocks.
    """
    return rf"^(?:[A-Za-z_]\w*\.)*(?!(?:{'|'.join(map(str, blocks))})\.)\d+\."


def check_grid(engine: str, request: EngineRequest) -> None:
    """Check that compressed-tensors and GPTQ's format have the grid; theirs are full_range and asymmetric."""
    if request.recipe.grid not in ("full_range", "asymmetric"):
        raise refusal(
            engine,
            f"{engine} has no {request.recipe.grid} grid: its grids are asymmetric, and full_range, which it calls "
            "symmetric",
            "Use grid full_range or asymmetric.",
        ).about("grid", Fix("Use the full range", {"grid": "full_range"}))


def refusal(engine: str, what: str, remedy: str) -> Refused:
    """Return the refusal of a request that an engine can't do, or does otherwise."""
    return Refused(what, f"recipe for {engine}", remedy)


class Lines(NamedTuple):
    """Lines of Python: ``imports`` for the head of the program, and a ``body``.

    The body needs ``tokenizer`` and defines ``tokens``, int64 (samples, length).
    """

    imports: tuple[str, ...]
    body: str


def token_lines(recipe: Recipe) -> Lines:
    """Return the lines that read the text and take a recipe's sequences from it."""
    imports, text = _text(recipe.calibration)
    drawn = f"windows[:{recipe.samples}]"
    how = "from the beginning of the text"
    if recipe.sampling == "random":
        drawn = f"windows[np.random.default_rng({recipe.seed}).permutation(len(windows))[:{recipe.samples}]]"
        how = f"drawn by the seed {recipe.seed}"
    length, begun = str(recipe.length), ""
    ids = 'ids = np.array(tokenizer(text)["input_ids"])\n'
    if recipe.begin != "none":
        length = f"({recipe.length} - len(begin))"
        ids = (
            "# What the tokenizer puts before a text is what every sequence begins with.\n"
            'begin = np.array(commonprefix([tokenizer("")["input_ids"], tokenizer("a")["input_ids"]]), dtype=int)\n'
            'ids = np.array(tokenizer(text)["input_ids"])[len(begin) :]\n'
        )
        if recipe.begin == "bos":
            ids = ids.replace("what every sequence begins with", "left out: each sequence begins with bos_token")
            ids += "begin = np.array([tokenizer.bos_token_id])\n"
        begun = "tokens = np.hstack([np.tile(begin, (len(tokens), 1)), tokens])\n"
    if recipe.test == recipe.calibration:
        ids += "ids = ids[: len(ids) // 2]  # the other half is the test text\n"
    body = (
        f"# The tokens of the run: {recipe.samples} sequences of {recipe.length}, {how}.\n{text}{ids}"
        f"windows = ids[: len(ids) // {length} * {length}].reshape(-1, {length})\n"
        f"tokens = {drawn}\n{begun}"
    )
    paths = ("from os.path import commonprefix",) if recipe.begin != "none" else ()
    return Lines((*paths, *imports, "import numpy as np"), body)


def _text(name: str) -> tuple[tuple[str, ...], str]:
    corpus = hub_corpus(name)
    if corpus is None:
        read = f'Path({quoted(name)}).read_text(encoding="utf-8")'
        return ("from pathlib import Path",), f"text = {read}  # the text as a file\n"
    named = [corpus.dataset, corpus.config] if corpus.config else [corpus.dataset]
    arguments = ", ".join([*map(json.dumps, named), f"split={json.dumps(corpus.split)}"])
    joined = json.dumps(corpus.joined_by)
    if corpus.documents is None:
        rows = f"rows = load_dataset({arguments})\n"
        return ("from datasets import load_dataset",), f'{rows}text = {joined}.join(row["text"] for row in rows)\n'
    rows = f"rows = islice(load_dataset({arguments}, streaming=True), {corpus.documents})\n"
    imports = ("from itertools import islice", "from datasets import load_dataset")
    return imports, f'{rows}text = {joined}.join(row["text"] for row in rows)\n'
