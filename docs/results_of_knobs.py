"""The part of docs/results.md about λ beside α and β: which of them is worth most."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from make_reference import table

from sarqc.figures.knob_worth import knobs_text
from sarqc.figures.numbers import draws_text, lam_text, perplexity_text
from sarqc.study.document import Study
from sarqc.study.facts import LineFacts, line_facts

STUDY = Path(__file__).resolve().parent.parent / "assets" / "studies" / "tiny-llama-knobs"


def parts() -> Iterator[str]:
    """Paragraphs, with a table for each plane."""
    study = Study.open(STUDY)
    calibration, test = study.protocol["calibration"], study.protocol["test"]
    lines = [line for line in study.lines if line.second != "gamma"]
    yield "## Which knob is worth most"
    yield (
        "λ beside the value that another method adds to the same solver ([definitions](algorithms.md)). "
        f"{study.model.name}, {lines[0].grid}, groups of {lines[0].group_size}, {study.prefix} prefix; "
        f"{calibration['samples']} × {calibration['length']} calibration tokens, "
        f"{draws_text(len(lines[0].draws))}; perplexity on {test['predicted_tokens']:,} tokens of {test['corpus']}, "
        "the geometric mean over draws "
        f"(float: {study.model.perplexity:.2f})."
    )
    for line in lines:
        facts = line_facts(study, method=line.name, bits=line.bits, layer=None)
        yield f"{line.title} at {line.bits} bits:"
        yield _plane(facts)
        yield knobs_text(facts)


def _plane(facts: LineFacts) -> str:
    line = facts.line
    assert facts.perplexity is not None
    rows = [
        [f"{line.sign} = {lam_text(value or 0.0)}", *map(perplexity_text, row)]
        for value, row in zip(line.gammas, facts.perplexity.mean.tolist(), strict=True)
    ]
    return table(["", *(f"λ = {lam_text(lam)}" for lam in line.lams)], rows)
