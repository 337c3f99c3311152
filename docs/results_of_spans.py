"""The part of docs/results.md about several GPUs for one run: counted from configurations and published rates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from make_reference import table

from benchmarks.known_models import known_checkpoint
from sarqc.engine import costs
from sarqc.engine.throughput import published_rates
from sarqc.recipe import Recipe

MODELS = {"mixtral-8x7b": "Mixtral-8x7B", "qwen3-30b-a3b": "Qwen3-30B-A3B"}
SPANS = (1, 4, 8)
GPU = "H100"


def parts() -> Iterator[str]:
    """Paragraphs and a table."""
    yield "## Several GPUs for one run"
    yield (
        f"`SARQC_SPAN` counted, not run: minutes by the published rates of an {GPU}, for 128 × 2048 tokens, 3 bits in "
        "groups of 128, the SARQC column solver, without perplexity. The model is read and walked on one GPU; its "
        "linears are solved on all, to which statistics and weights go at "
        f"{_moved():.0f} GB/s, an assumption. So several GPUs are worth most where much is solved: with one λ and γ a "
        "dense model or a mixture of few experts gains little or loses, as its Grams travel for one solve each."
    )
    yield table(["model", "λ and γ", *(f"{span} GPU{'s' * (span > 1)}" for span in SPANS)], list(_rows()))


def _moved() -> float:
    rates = published_rates(GPU)
    assert rates is not None
    return rates.moved / 1e9


def _rows() -> Iterator[list[str]]:
    rates = published_rates(GPU)
    assert rates is not None
    for name, title in MODELS.items():
        checkpoint = known_checkpoint(name)
        for words, choice in (
            ("given", {"lambda": 0.3, "gamma": 0.5}),
            ("auto", {"lambda": "auto", "gamma": "auto"}),
        ):
            asked = {"model": name, "bits": 3, "method": "sarqc-gbs", "calibration": "text", "length": 2048, **choice}
            work = costs.work_of(Recipe.parse(asked | {"samples": 128}), checkpoint)
            minutes = (costs.minutes(replace(work, span=span), rates) for span in SPANS)
            yield [title, words, *(f"{value:.1f} min" for value in minutes)]
