"""The part of docs/results.md about λ from shrinkage: what a closed form costs beside a sweep of λ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from make_reference import table

from benchmarks.quality.table import signed
from sarqc.figures.numbers import computed_lam_text, lam_text
from sarqc.study.document import Study
from sarqc.study.facts import LineFacts, line_facts
from sarqc.study.paired import Difference
from sarqc.study.shrinkage import regret, shrinkage_lam

STUDIES = Path(__file__).resolve().parent.parent / "assets" / "studies"
FEWEST = 4  # λ of a line that is called a sweep
GPTQ = 0.01


def parts() -> Iterator[str]:
    """Paragraphs and a table."""
    yield "## λ without a sweep"
    yield (
        "λ = ρ / (1 − ρ) from the shrinkage ρ of each layer's second moments, by OAS and by Ledoit and Wolf "
        "([definition](algorithms.md)): the median over layers, with the ends over layers in brackets. Both assume "
        "independent tokens, which tokens of a text are not, so that ρ is rather too small. Regret is the perplexity "
        "at that λ, interpolated on the measured curve of each draw, minus that at the best λ of the curve, with the "
        "interval that holds for all λ of the curve at once, since the best was chosen on the same draws; beside it "
        f"the regret of GPTQ's {lam_text(GPTQ)}. No layer has its own λ here."
    )
    rows = list(_rows())
    yield table(
        ["model", "bits", "grid", "λ by OAS", "λ by Ledoit–Wolf", "best λ", "regret of OAS", "regret of GPTQ's λ"], rows
    )
    clear = sum(int(cost.verdict(()) > 0) for facts in _lines() if (cost := _cost(facts)) is not None)
    below = sum(int(_is_below(facts)) for facts in _lines())
    yield (
        f"The λ of OAS lies below the best λ on {below} of {len(rows)} curves; its regret is clear of 0 on {clear}. It "
        "is a start without a sweep, not a substitute for one."
    )


def _lines() -> Iterator[LineFacts]:
    """The identity lines with a sweep, of the shipped studies with shrinkages."""
    for name in ("tiny-llama", "tiny-moe"):
        study = Study.open(STUDIES / name)
        for line in study.lines:
            if len(line.lams) >= FEWEST:
                facts = line_facts(study, method=line.name, bits=line.bits, layer=None)
                if shrinkage_lam(facts) is not None and facts.perplexity is not None:
                    yield facts


def _rows() -> Iterator[list[str]]:
    for facts in _lines():
        found, other = (shrinkage_lam(facts, name) for name in ("shrinkage_oas", "shrinkage_lw"))
        assert found is not None
        assert other is not None
        spans = (
            f"{computed_lam_text(one.lam)} ({computed_lam_text(one.low)} to {computed_lam_text(one.high)})"
            for one in (found, other)
        )
        costs = (regret(facts, lam) for lam in (found.lam, GPTQ))
        line = facts.line
        fitting = line.title.partition(", ")[2] or "min–max range"
        yield [
            facts.study.model.name,
            f"{line.bits}",
            fitting,
            *spans,
            lam_text(_best(facts)),
            *("beyond the curve" if cost is None else signed(cost, 2) for cost in costs),
        ]


def _cost(facts: LineFacts) -> Difference | None:
    found = shrinkage_lam(facts)
    assert found is not None
    return regret(facts, found.lam)


def _best(facts: LineFacts) -> float:
    assert facts.perplexity is not None
    best = facts.perplexity.best[0]
    assert best is not None
    return facts.line.lams[best]


def _is_below(facts: LineFacts) -> bool:
    found = shrinkage_lam(facts)
    return found is not None and found.lam < _best(facts)
