"""Over the shipped studies, at every λ and γ: a printed interval excludes 0 exactly where a difference is claimed."""

import math
import re
from collections.abc import Iterator

import pytest

from benchmarks.quality.table import difference
from sarqc.figures.ladder import ladder_words
from sarqc.figures.sentence import plain, sentence, small_print
from sarqc.study.document import Line, Study
from sarqc.study.facts import LineFacts, line_facts
from sarqc.study.ladder import ladder
from tests.synthetic_study import shipped

CLAIMS = re.compile(r"\b(better|worse|above|below|lower|higher)\b")
NONE = re.compile(r"[Nn]ot known yet|adds nothing|[Ee]qual within 1 %|not a significant change")
_NUMBER = r"(−?\d+(?:\.\d+)?)"
ENDS = re.compile(rf"(?:from |\(|95 %: ){_NUMBER} to {_NUMBER}")
STUDIES = ("tiny-llama", "tiny-llama-methods", "tiny-llama-knobs", "tiny-moe")


def ends_of(text: str) -> list[tuple[float, float]]:
    pairs = (found.groups() for found in ENDS.finditer(text))
    return [(float(low.replace("−", "-")), float(high.replace("−", "-"))) for low, high in pairs]


def judged(text: str) -> int:
    """Check each sentence that judges a difference, and return how many had an interval."""
    assert "±" not in text
    checked = 0
    for said in re.split(r"(?<=[\w%)])[.;] (?=[A-Zλ−\d])", text.replace("\u00a0", " ")):
        claims, none = CLAIMS.search(said), NONE.search(said)
        intervals = ends_of(said)
        if not intervals or not (claims or none):
            continue
        (low, high) = intervals[-1]
        assert low <= high, said
        # One draw shows nothing of others, whatever its items or windows say.
        assert (low > 0 or high < 0) == (none is None) or (none and "of one draw" in said), said
        checked += 1
    return checked


def lines_of(study: Study) -> Iterator[tuple[Line, LineFacts]]:
    for line in study.lines:
        yield line, line_facts(study, method=line.name, bits=line.bits, layer=None)


def has_baseline(study: Study) -> bool:
    return any(line.method == "gptq" for line in study.lines)


@pytest.fixture(scope="module", params=STUDIES)
def study(request: pytest.FixtureRequest) -> Study:
    return shipped(request.param)


@pytest.mark.thorough
def test_the_sentence_and_what_stands_under_it(study):
    checked = points = 0
    for line, facts in lines_of(study):
        for quality in ("perplexity", "accuracy"):
            if getattr(facts, quality) is None:
                continue
            for g in range(len(line.gammas)):
                for m in range(len(line.lams)):
                    checked += judged(plain(sentence(facts, g, m, quality)))
                    checked += sum(map(judged, small_print(facts, g, m, quality)))
                    points += 1
    # Most points are judged in the sentence or below it, or the pattern has lost the words.
    assert checked > (points / 2 if has_baseline(study) else 0)


def test_the_ladder(study):
    for bits in {line.bits for line in study.lines}:
        climbed = ladder(study, bits)
        if climbed is not None:
            words = ladder_words(climbed)
            assert "±" not in words["words"]
            for worth in (*words["alone"], *words["last"]):
                assert (worth["verdict"] in ("better", "worse")) == (worth["low"] > 0 or worth["high"] < 0)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_words_of_an_engine_at_the_edge_of_a_verdict(scale):
    """Differences of five draws or windows whose interval begins just above or just below 0."""
    for shift in (-1.001, -0.999, 0.999, 1.001):
        noise = [-2.0, -1.0, 0.0, 1.0, 2.0]  # standard error √0.5, t(0.975) = 2.7764
        values = [scale * (one + shift * 2.7764451 * 0.5**0.5) for one in noise]
        perplexities = [50 * math.exp(one / 50) for one in values]  # compared by their logarithms
        from_paired = difference({"perplexity": perplexities}, {"perplexity": [50.0] * 5})
        (low, high) = ends_of(from_paired)[0]
        assert (low > 0 or high < 0) == (abs(shift) > 1) == ("better" in from_paired or "worse" in from_paired)
