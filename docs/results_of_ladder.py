"""The part of docs/results.md about every step of the ladder, and what λ is worth beside each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from make_reference import table

from sarqc.figures.every_step import every_step_words
from sarqc.figures.ladder import step_words
from sarqc.figures.numbers import draws_text, lam_text
from sarqc.study.document import Study
from sarqc.study.intervals import signed
from sarqc.study.paired import Difference
from sarqc.study.step_worth import Combination, EveryStep, every_step

STUDY = Path(__file__).resolve().parent.parent / "assets" / "studies" / "tiny-llama-ladder"


def parts() -> Iterator[str]:
    """Paragraphs with two tables: what each step is worth, and what λ is worth without and with it."""
    study = Study.open(STUDY)
    calibration, test = study.protocol["calibration"], study.protocol["test"]
    line = study.lines[0]
    found = every_step(study, line.bits)
    assert found is not None
    yield "## Every step, and where λ still pays"
    yield (
        "Each step added to the plain method, and taken away from all steps ([definitions](algorithms.md)). "
        f"{study.model.name} at {line.bits} bits, {line.grid}, groups of {line.group_size}, {study.prefix} prefix; "
        f"{calibration['samples']} × {calibration['length']} calibration tokens, {draws_text(found.draws)}; "
        f"perplexity on {test['predicted_tokens']:,} tokens of {test['corpus']} "
        f"(float: {study.model.perplexity:.2f}). Differences at λ = 0.1 are paired over the draws, with 95 % "
        "intervals; below 0 is better."
    )
    yield _steps(found)
    yield (
        "Bits are those of a weight in full, with scales and zero points or biases. Seconds are processor seconds of "
        "the calibration of one model on one core of a shared host."
    )
    yield (
        f"What {'the best of ' if len(found.lams) > 1 else ''}λ = {', '.join(map(lam_text, found.lams))} saves in "
        "perplexity over λ = 0:"
    )
    yield _worth_of_lambda(found)
    yield every_step_words(found)


def _steps(found: EveryStep) -> str:
    def cells(worth: Mapping[str, Difference]) -> list[str]:
        return [signed(worth[name], decimals) if name in worth else "–" for name, decimals in _DECIMALS.items()]

    rows = [["no step", *_facts(found.plain), "–", "–", "–", "–"]]
    rows += [
        [
            step_words(step.step, step.fitting, 0.0),
            *_facts(step.alone),
            *cells(step.alone_worth),
            *cells(step.last_worth),
        ]
        for step in found.steps
    ]
    rows.append(["all steps", *_facts(found.every), "–", "–", "–", "–"])
    heads = ["step", "bits", "seconds", "perplexity", "KL, nats"]
    return table([*heads, "alone: perplexity", "alone: KL", "after all others: perplexity", "KL"], rows)


_DECIMALS = {"perplexity": 2, "kl": 4}


def _facts(combination: Combination) -> list[str]:
    """Bits, seconds, and the means."""
    seconds = "–" if np.isnan(combination.seconds) else f"{combination.seconds:.1f}"
    means = [f"{combination.means[name]:.{decimals}f}" for name, decimals in _DECIMALS.items()]
    return [f"{combination.bits:.3g}", seconds, *means]


def _worth_of_lambda(found: EveryStep) -> str:
    def cells(combination: Combination | None) -> list[str]:
        if combination is None:
            return ["–", "–"]
        return [lam_text(combination.lam.lam), signed(combination.lam.saved["perplexity"], 2)]

    rows = [["no step", *cells(found.plain), "–", "–"]]
    rows += [
        [step_words(step.step, step.fitting, 0.0), *cells(step.alone), *cells(step.without)] for step in found.steps
    ]
    rows.append(["all steps", "–", "–", *cells(found.every)])
    return table(["step", "with it alone: λ", "saves", "with all but it: λ", "saves"], rows)
