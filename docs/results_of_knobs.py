"""The part of docs/results.md about λ beside α and β: what each of them saves, and what both together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from make_reference import table

from benchmarks.quality.table import signed
from sarqc.figures.numbers import draws_text, lam_text, perplexity_text
from sarqc.study.document import Study
from sarqc.study.facts import LineFacts, line_facts
from sarqc.study.paired import paired_ratio

STUDY = Path(__file__).resolve().parent.parent / "assets" / "studies" / "tiny-llama-knobs"


def parts() -> Iterator[str]:
    """Paragraphs, with two tables for each plane."""
    study = Study.open(STUDY)
    calibration, test = study.protocol["calibration"], study.protocol["test"]
    lines = [line for line in study.lines if line.second != "gamma"]
    yield "## Which knob is worth most"
    yield (
        "λ beside the value that another method adds to the same solver. "
        f"{study.model.name}, {lines[0].grid}, groups of {lines[0].group_size}, {study.prefix} prefix; "
        f"{calibration['samples']} × {calibration['length']} calibration tokens, "
        f"{draws_text(len(lines[0].draws))}; perplexity on {test['predicted_tokens']:,} tokens of {test['corpus']}, "
        "the geometric mean over draws "
        f"(float: {study.model.perplexity:.2f}). Under each plane the paired difference of its best points to both "
        "values at 0, with the 95 % interval that holds for all points that the best was chosen from (Bonferroni); "
        "below 0 is better."
    )
    for line in lines:
        facts = line_facts(study, method=line.name, bits=line.bits, layer=None)
        yield f"{line.title} at {line.bits} bits:"
        yield _plane(facts)
        yield _differences(facts)


def _plane(facts: LineFacts) -> str:
    line = facts.line
    assert facts.perplexity is not None
    rows = [
        [f"{line.sign} = {lam_text(value or 0.0)}", *map(perplexity_text, row)]
        for value, row in zip(line.gammas, facts.perplexity.mean.tolist(), strict=True)
    ]
    return table(["", *(f"λ = {lam_text(lam)}" for lam in line.lams)], rows)


def _differences(facts: LineFacts) -> str:
    """The best λ alone, the best value of the other knob alone, and the best of both, against both at 0."""
    line = facts.line
    assert facts.perplexity is not None
    assert (line.gammas[0], line.lams[0]) == (0, 0)
    values = facts.perplexity.values  # draw, other knob, λ
    others, lams = range(1, values.shape[1]), range(1, values.shape[2])
    of_lam, of_other = [(0, m) for m in lams], [(g, 0) for g in others]
    rows = []
    for name, places in (
        ("λ alone", of_lam),
        (f"{line.sign} alone", of_other),
        ("both", [*of_lam, *of_other, *((g, m) for g in others for m in lams)]),
    ):
        apart = paired_ratio(np.stack([values[:, g, m] for g, m in places], axis=-1), values[:, 0, [0]])
        best = int(np.argmin(apart.log.mean))
        g, m = places[best]
        point = f"λ = {lam_text(line.lams[m])}, {line.sign} = {lam_text(line.gammas[g] or 0.0)}"
        rows.append([name, point, f"{len(places)}", signed(apart.at((best,)).chosen_of(len(places)), 1)])
    return table(["", "best", "chosen of", "paired difference"], rows)
