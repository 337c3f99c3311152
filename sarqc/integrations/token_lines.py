"""Lines of a program that make a recipe's calibration tokens: the same windows of the same text."""

from __future__ import annotations

import json
from typing import NamedTuple

from sarqc.calibration.corpora import on_hub
from sarqc.recipe import Recipe


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
    corpus = on_hub(name)
    if corpus is None:
        said = json.dumps(name, ensure_ascii=False)
        return ("from pathlib import Path",), f'text = Path({said}).read_text(encoding="utf-8")  # the text as a file\n'
    named = [corpus.dataset, corpus.config] if corpus.config else [corpus.dataset]
    arguments = ", ".join([*map(json.dumps, named), f"split={json.dumps(corpus.split)}"])
    joined = json.dumps(corpus.joined_by)
    if corpus.documents is None:
        rows = f"rows = load_dataset({arguments})\n"
        return ("from datasets import load_dataset",), f'{rows}text = {joined}.join(row["text"] for row in rows)\n'
    rows = f"rows = islice(load_dataset({arguments}, streaming=True), {corpus.documents})\n"
    imports = ("from itertools import islice", "from datasets import load_dataset")
    return imports, f'{rows}text = {joined}.join(row["text"] for row in rows)\n'
