"""docs/loaders.md: the table that ``make loaders`` has found, to read."""

from collections import defaultdict
from pathlib import Path
from typing import Any

from sarqc.checkpoints.formats import FORMATS

_PLAIN = str.maketrans({"|": " ", "`": "'", "*": " ", "_": "\\_", "<": "‹", ">": "›", "[": "(", "]": ")"})
MARKS = {"yes": "✓", "parts": "≈", "no": "✗"}
_HEAD = """# Who can load it

Written by `make loaders` (`python -m conformance.loaders`) on {date}, on {host}: small models with random
float32 weights, a LLaMA and a Qwen3-MoE, quantized with groups of {group_size} and exported in each format. Readers of
GPTQ's format know 16 bits alone: its models are in float16, and what a reader decodes is multiplied in float32.
Every reader continued 32 tokens by {tokens} greedy ones. ✓ the tokens of the model that was exported; ≈ it loads,
and tokens part; ✗ it does not load; – not run here. Of other families and groups this says something only as far as a
reader treats them alike.
"""


def write_page(path: Path, document: dict[str, Any]) -> None:
    """The table as Markdown."""
    readers = document["readers"]
    parts = [_HEAD.format(**document), "## Readers\n", "| reader | version | with |", "| --- | --- | --- |"]
    for reader in readers:
        beside = ", ".join(f"{name} {version}" for name, version in reader["beside"].items())
        parts.append(f"| {reader['name']} | {reader['version'] or '–'} | {reader['not_run'] or beside} |")
    run = [reader["name"] for reader in readers if not reader["not_run"]]
    parts += ["", "## Answers\n", f"| format | bits | grid | model | {' | '.join(run)} |"]
    parts.append("| --- " * (4 + len(run)) + "|")
    said: dict[tuple[str, str], list[str]] = defaultdict(list)
    kinds = sorted(document["answers"], key=lambda kind: FORMATS.index(kind.split("/")[0]))
    for kind in kinds:
        answers = document["answers"][kind]
        cells = [MARKS[answers[name]["loads"]] if name in answers else "–" for name in run]
        checkpoint_format, *codes, model = kind.split("/")
        parts.append(f"| {' | '.join([checkpoint_format, *(codes or ('any', 'any')), model, *cells])} |")
        for name, answer in answers.items():
            if answer["words"]:
                said[name, answer["words"]].append(kind)
    parts += ["", "## What they said\n", "| reader | said | of |", "| --- | --- | --- |"]
    for (name, words), of in said.items():
        parts.append(f"| {name} | {words.translate(_PLAIN)} | {', '.join(of)} |")
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
