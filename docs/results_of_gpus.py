"""The part of docs/results.md about a GPU, from docs/gpus.json, which ``benchmarks/bench_gpu.py`` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from make_reference import table

NUMBERS = Path(__file__).parent / "gpus.json"
TITLES = {
    "columns": "Columns of one linear at one point, in seconds. Kernels are Triton's; recorded ones are started as one "
    "operation (a CUDA graph)",
    "methods": "Methods on two blocks of LLaMA-2-7B's shapes; seconds a block, without perplexity",
    "ways": "GPTQ + saliency penalty at one point in several ways, and a block of Qwen3-30B-A3B's shapes",
    "whole": "A whole LLaMA-2-7B by GPTQ + saliency penalty at one point, with perplexity on 32,768 tokens, in seconds",
    "tuning": "Tuning on two blocks of LLaMA-2-7B's shapes",
    "streamed": "Two blocks of LLaMA-2-70B's shapes at one point, read block by block; seconds a block, without "
    "perplexity",
    "beside": "Blocks of LLaMA-2-7B's shapes by llm-compressor 0.14 and by us on the same tokens, asymmetric grids; "
    "seconds on the wall, loading and saving excluded; a block is the difference between two and one",
}


def parts() -> Iterator[str]:
    """Paragraphs and tables; nothing where nothing was measured."""
    if not NUMBERS.exists():
        return
    document = json.loads(NUMBERS.read_text(encoding="utf-8"))
    yield "## On a GPU"
    yield _host(document["host"])
    yield (
        "Models have random weights in the shapes of published ones, here and below in bfloat16 where nothing else is "
        "said; 128 × 2048 calibration tokens, 3 bits in groups of 128. Each run once, its layers solved and kept. "
        "“Planned” is what plans said of these runs by the rates above. Memory is that of the whole card: a run ends "
        "where what is in use has no room; PyTorch gives back what it only keeps before that. The model's files were "
        "in the memory of the host when they were read."
    )
    for name, rows in document["tables"].items():
        if not rows:  # what it needs was not installed
            continue
        yield f"### {TITLES[name]}"
        heads = list(dict.fromkeys(head for row in rows for head in row))
        yield table(heads, [[_said(row.get(head)) for head in heads] for row in rows])


def _host(host: dict[str, Any]) -> str:
    rates = host["rates"]
    versions = ", ".join(f"{name} {version}" for name, version in host["versions"].items())
    return (
        f"Written by `python -m benchmarks.bench_gpu` on one {host['gpu']}, driver {host['driver']}, CUDA "
        f"{host['cuda']}, {versions}, on {host['when'][:10]}. Large products there: {rates['half'] / 1e12:.0f} TFLOP/s "
        f"in 16 bits, {rates['single'] / 1e12:.0f} in float32; memory {rates['memory'] / 1e12:.1f} TB/s; "
        f"{rates['started']:,.0f} operations on nothing a second."
    )


def _said(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
