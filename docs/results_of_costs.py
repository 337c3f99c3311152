"""The part of docs/results.md about time and memory, from docs/costs.json.

The file is what ``make bench`` keeps as build/bench.json on a quiet host, copied here. A section that was measured
again has a host of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from make_reference import table

NUMBERS = Path(__file__).parent / "costs.json"
TITLES = {
    "prices": "What more than one λ costs, as parts of a run's seconds; W2, 8 × 256 tokens, perplexity included",
    "first-layer": "From a recipe to its first solved layer, imports done; tiny-llama, W2, 8 × 256 tokens",
    "estimates": "What the plan says, as a part of what was taken",
    "growth": "How the seconds of quantizing grow: exponents, beside those of theory",
    "engines": "Beside llm-compressor's GPTQ on the same tokens, both with activation order; seconds on the wall",
    "sweeps": "A layer at many points in batches; random weights, W2, 2,048 tokens",
    "experts": "Experts of a block together, as parts of one by one; 256 tokens each",
    "methods": "Runs of tiny-llama, W2, 8 × 256 tokens, with perplexity, of one point of sarqc-gbs",
}


def parts() -> Iterator[str]:
    """Paragraphs and tables; nothing where nothing was measured."""
    if not NUMBERS.exists():
        return
    document = json.loads(NUMBERS.read_text(encoding="utf-8"))
    yield "## What it costs on two cores"
    yield _host(document["host"])
    for name, title in TITLES.items():
        figures = document["sections"].get(name)
        if figures:
            yield f"### {title}"
            if host := document.get("hosts", {}).get(name):  # measured again, elsewhere
                yield _host(host)
            yield table(["", "measured", "at most"], [[one["what"], _measured(one), _goal(one)] for one in figures])


def _host(host: dict[str, Any]) -> str:
    return (
        f"{host_words(host)} A single run each, so that a tenth more or less says nothing. “At most” is a goal; where "
        "it was missed, it stands in bold."
    )


def host_words(host: dict[str, Any], command: str = "make bench") -> str:
    """What the figures of a command were made on."""
    versions = ", ".join(f"{name} {version}" for name, version in host["versions"].items())
    return (
        f"Written by `{command}` on {', '.join(host['devices'])}, {host['cores']} cores, {host['threads']} threads, "
        f"{host['memory_gib']:g} GiB; large products in float32: {host['products_per_second'] / 1e9:.0f} GFLOP/s; "
        f"{versions}."
    )


def _measured(figure: dict[str, Any]) -> str:
    value = f"{figure['value']:.2f}"
    return f"{value} {figure['unit']}" if figure["unit"] != "exponent" else value


def _goal(figure: dict[str, Any]) -> str:
    if figure["goal"] is None:
        return "–"
    text = f"{figure['goal']:.2g}"
    return text if figure["value"] <= figure["goal"] else f"**{text}**"
