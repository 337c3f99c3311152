"""Whole runs: what a method takes, what the plan says of it, the way to the first layer, and how cost grows."""

import math
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measured import Figure
from benchmarks.one_run import measured, taken
from benchmarks.random_models import TINYLLAMA, made
from sarqc.recipe import Recipe
from sarqc.settings import Settings

POINT = {"method": "sarqc-gbs", "lambda": 0.1, "gamma": 0.1}
CURVE = {"sweep": [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5]}
EVERYTHING = {"method": "rqc-gbs", "lambda": 0.1, "range": "search", "order": "activation", "refine": 3}


def embedded(model: str, **changes: Any) -> dict[str, Any]:
    """A recipe at 2 bits with perplexity, 8 × 256 calibration tokens."""
    return {
        "model": model, "bits": 2, "group_size": 128, "calibration": f"{model}-calibration", "samples": 8,
        "length": 256, "test": f"{model}-test", "window": 256, "baseline": False,
        **changes,
    }  # fmt: skip


def methods() -> Iterator[Figure]:
    """tiny-llama by each method, float and quantized perplexity included, relative to one point of sarqc-gbs."""
    first = None
    for name, changes in (
        ("sarqc-gbs", POINT),
        ("gptq", {"method": "gptq"}),
        ("awq", {"method": "awq"}),
        ("rtn", {"method": "rtn"}),
        ("rqc-gbs, everything on", EVERYTHING),
        ("sarqc-gbs, auto", {"method": "sarqc-gbs", "lambda": "auto", "gamma": "auto"}),
        ("gptaq", {"method": "gptaq"}),
        ("omniquant", {"method": "omniquant"}),
    ):
        with tempfile.TemporaryDirectory() as state:
            settings, recipe = Settings(state_dir=Path(state)), Recipe.parse(embedded("tiny-llama", **changes))
            once, again = taken(recipe, settings)["seconds"], taken(recipe, settings)["seconds"]
        first = first or once
        yield Figure(name, once / first, "×")
        yield Figure(f"{name}, asked again, of itself", again / once, "×")


def prices() -> Iterator[Figure]:
    """What several λ cost, of a run at one, calibration and perplexity included."""
    one = _seconds(embedded("tiny-llama", **POINT))
    yield Figure(
        "the page's curve of 11 λ, layer errors", _seconds(embedded("tiny-llama", **POINT, **CURVE)) / one, "×", 3
    )
    auto = embedded("tiny-llama", method="sarqc-gbs", **{"lambda": "auto", "gamma": "auto"})
    yield Figure("λ and γ chosen for each layer among 12", _seconds(auto) / one, "×", 3)
    plain = _seconds(embedded("tiny-llama", method="gptq"))
    yield Figure("everything on, of plain GPTQ", _seconds(embedded("tiny-llama", **EVERYTHING)) / plain, "×", 2)
    resident = _seconds(embedded("tiny-moe", **POINT))
    streamed = _seconds(embedded("tiny-moe", **POINT), weights="streamed")
    yield Figure("tiny-moe, weights streamed block by block, of all in memory", streamed / resident, "×")


def _seconds(document: dict[str, Any], **settings: Any) -> float:
    with tempfile.TemporaryDirectory() as state:
        return float(taken(Recipe.parse(document), Settings(state_dir=Path(state), **settings))["seconds"])


def estimates(folder: Path) -> Iterator[Figure]:
    """What the plan shows, and what a process of its own took: both ways a factor of 1.5 in time, 15 % in memory."""
    wide, large, narrow = (
        made(folder / "tinyllama", **TINYLLAMA),
        made(folder / "vocabulary", vocab_size=152_000, **_shape(256)),
        made(folder / "narrow", **_shape(64)),
    )
    text = {"calibration": "tiny-llama-calibration", "test": "tiny-llama-test", "bits": 3, "baseline": False, **POINT}
    many = {"samples": 32, **POINT}
    for name, document, environment in (
        ("dense", embedded("tiny-llama", **many), {}),
        ("11 λ", embedded("tiny-llama", **many, **CURVE), {}),
        ("everything on", embedded("tiny-llama", samples=32, **EVERYTHING), {}),
        (
            "tasks, prompts and speed, GPTQ beside it",
            embedded(
                "tiny-llama", **many, bits=4, tasks=["tiny-llama-continuations"], prompts=["Once upon a time"],
                speed=True, baseline=True,
            ), {},
        ),
        ("auto", embedded("tiny-llama", samples=32, method="sarqc-gbs", **{"lambda": "auto", "gamma": "auto"}), {}),
        (
            "narrow, windows of 512",
            {"model": str(narrow), "samples": 8, "length": 256, "window": 512, "group_size": 32, **text}, {},
        ),
        ("OmniQuant", embedded("tiny-llama", method="omniquant"), {}),
        ("mixture", embedded("tiny-moe", **many), {}),
        ("mixture, streamed", embedded("tiny-moe", **many), {"SARQC_WEIGHTS": "streamed"}),
        (
            "two blocks of TinyLlama",
            {"model": str(wide), "samples": 8, "length": 512, "test_tokens": 4096, "window": 512, **text}, {},
        ),
        (
            "a vocabulary of 152,000",
            {"model": str(large), "samples": 32, "length": 256, "test_tokens": 8192, "window": 2048, **text}, {},
        ),
    ):  # fmt: skip
        found = measured(document, SARQC_MODELS_DIR=str(folder), **environment)
        yield Figure(f"{name}: planned seconds of those taken", found["planned_seconds"] / found["seconds"], "×")
        yield Figure(f"{name}: planned memory of that taken", found["planned_bytes"] / found["peak_bytes"], "×")


def first_layer() -> Iterator[Figure]:
    """Seconds from a recipe to its first solved layer in a worker that has imported what it needs."""
    with tempfile.TemporaryDirectory() as state:
        settings = Settings(state_dir=Path(state))
        for name, changes in (("the first run", {"lambda": 0.1}), ("the next, at another λ", {"lambda": 0.2})):
            recipe = Recipe.parse(embedded("tiny-llama", **POINT | changes))
            yield Figure(f"{name}, with perplexity", taken(recipe, settings)["first_layer_seconds"], "s", 1.5)
        recipe = Recipe.parse(embedded("tiny-llama", **POINT | {"lambda": 0.3, "test": None}))
        yield Figure("without perplexity", taken(recipe, settings)["first_layer_seconds"], "s", 1.5)


def growth(folder: Path) -> Iterator[Figure]:
    """How the seconds of quantizing grow, as exponents fitted to three sizes; goals are those of theory, and a tenth
    more for what a fit to three times is worth.
    """
    for what, theory, sizes, document_of in (
        ("blocks", 1, (2, 4, 8), partial(_random, folder, blocks=None)),
        ("width", 3, (256, 512, 1024), partial(_random, folder, width=None)),
        ("calibration tokens", 1, (16, 32, 64), partial(_random, folder, samples=None)),
        ("λ of a curve", 1, (4, 8, 16), partial(_random, folder, points=None)),
        ("experts", 1, (4, 8, 16), partial(_random, folder, experts=None)),
    ):
        yield Figure(what, _exponent(sizes, document_of, folder), "exponent", theory + 0.1)


def _exponent(sizes: tuple[int, ...], document_of: Callable[[int], dict[str, Any]], folder: Path) -> float:
    times = []
    for size in sizes:
        document = document_of(size)
        with tempfile.TemporaryDirectory() as state:
            settings = Settings(state_dir=Path(state), models_dir=folder)
            times.append(taken(Recipe.parse(document), settings)["stages"]["quantizing"])
    slope, _ = np.polyfit([math.log(size) for size in sizes], [math.log(time) for time in times], 1)
    return float(slope)


def _random(folder: Path, size: int, **which: None) -> dict[str, Any]:
    """A recipe for a random model; the one setting that is named has this size."""
    (name,) = which
    values = {"blocks": 2, "width": 256, "samples": 16, "points": 1, "experts": 0} | {name: size}
    shape = _shape(values["width"]) | {"num_hidden_layers": values["blocks"]}
    if values["experts"]:
        shape |= {
            "num_experts": values["experts"], "num_experts_per_tok": 2, "moe_intermediate_size": 2 * values["width"],
        }  # fmt: skip
    model = made(folder / f"random-{values['blocks']}-{values['width']}-{values['experts']}", **shape)
    mixture = "tiny-moe" if values["experts"] else "tiny-llama"
    curve = {"sweep": [step / 10 for step in range(values["points"])]} if values["points"] > 1 else {}
    return {
        "model": str(model), "bits": 3, "group_size": 128, "calibration": f"{mixture}-calibration",
        "samples": values["samples"], "length": 256, **POINT, **curve,
    }  # fmt: skip


def _shape(width: int) -> dict[str, int]:
    return {
        "hidden_size": width, "intermediate_size": 3 * width, "num_attention_heads": 4, "num_key_value_heads": 4,
        "num_hidden_layers": 2,
    }  # fmt: skip
