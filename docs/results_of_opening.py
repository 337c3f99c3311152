"""The part of docs/results.md about checkpoints that others made, from docs/repaired.json, which
``benchmarks/opened.py`` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from make_reference import table

from benchmarks.quality.table import signed
from sarqc.recipe import method_title
from sarqc.study.paired import Difference

NUMBERS = Path(__file__).parent / "repaired.json"
VERDICTS = {-1: "lower", 0: "not clear of 0", 1: "higher"}


def parts() -> Iterator[str]:
    """Paragraphs and a table; nothing where nothing was measured."""
    if not NUMBERS.exists():
        return
    document = json.loads(NUMBERS.read_text(encoding="utf-8"))
    texts, first = document["texts"], document["checkpoints"][0]
    yield "## Imported checkpoints, repaired"
    yield (
        "Written by `python -m benchmarks.opened`: checkpoints that other engines made of "
        f"{texts['model']}, opened with `python -m sarqc inspect` and repaired on the scales that they have. "
        f"{texts['samples']} × {texts['length']} tokens of {texts['calibration']}; KL from the float model in nats a "
        f"token on {first['predicted_tokens']:,} tokens of {texts['test']}, in {first['windows']} windows of "
        f"{texts['window']}. Differences are paired over windows, in brackets their 95 % interval (Student's t); "
        "“lower” stands where that excludes 0. Kept: layers whose codes "
        "stay as they were found. The last row of each is an ordinary run on the same "
        "grid, with scales of its own."
    )
    yield table(
        ["checkpoint", "", "KL", "less KL than as found", "", "perplexity", "kept"],
        [row for one in document["checkpoints"] for row in _rows(one)],
    )


def _rows(one: Mapping[str, Any]) -> Iterator[list[str]]:
    opened, found = one["opened"], one["found"]
    size = "whole rows" if one["group_size"] == "per_channel" else f"groups of {one['group_size']}"
    if one["group_size"] == 1:
        size = "activation order"
    grid = f"{one['bits']} bits, {one['grid'].replace('_', ' ')}, {size}"
    maker = f" ({opened['made_by']})" if opened["made_by"] else ""
    name = f"{opened['name']}{maker}: {grid}"
    layers = opened["layers"]
    yield [name, "as it was found", _kl(found), "", "", f"{found['perplexity']:.3f}", ""]
    for repaired in one["repairs"]:
        repair = repaired["repair"]
        parts = (-repair["kl_difference"], repair["kl_difference_standard_error"], one["windows"], one["windows"] - 1)
        gain = signed(Difference(*map(np.asarray, parts)), 5)
        yield [
            "",
            _called(repaired),
            _kl(repaired),
            gain,
            VERDICTS[repair["verdict"]],
            f"{repaired['perplexity']:.3f}",
            f"{repair['kept']} of {layers}",
        ]
    if one["own"] is not None:
        yield [
            "",
            f"a run of its own, {_called(one['own'])}",
            _kl(one["own"]),
            "",
            "",
            f"{one['own']['perplexity']:.3f}",
            "",
        ]


def _called(one: Mapping[str, Any]) -> str:
    lam = one["lambda"]
    words = "" if lam is None else ", λ auto by layer" if lam == "auto" else f", λ {lam:g}"
    return method_title(one["method"]) + words


def _kl(one: Mapping[str, Any]) -> str:
    return f"{one['kl']:.4f}"
