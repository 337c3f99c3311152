"""λ from shrinkage in a study: that of the shipped text and model, its median over layers, and what it costs."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sarqc.figures.flags import flags_of
from sarqc.figures.sentence import small_print
from sarqc.study.facts import LineFacts, line_facts
from sarqc.study.shrinkage import ESTIMATORS, regret, shrinkage_lam
from tests.synthetic_study import shipped


def facts_of(name: str, method: str = "rqc-gbs", layer: int | None = None) -> LineFacts:
    return line_facts(shipped(name), method=method, bits=2, layer=layer)


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-moe"])
def test_one_layer_has_its_own_and_all_layers_have_the_median(name):
    facts = facts_of(name)
    for estimator in ESTIMATORS:
        rho = facts.study.read(facts.line, estimator)
        assert rho is not None
        lams = []
        for layer in range(rho.shape[1]):
            seen = sorted(value for value in rho[:, layer] if not math.isnan(value))
            if seen:
                middle = (seen[(len(seen) - 1) // 2] + seen[len(seen) // 2]) / 2
                lams.append(middle / (1 - middle))
        lams.sort()
        found = shrinkage_lam(facts, estimator)
        assert found is not None
        assert lams[(len(lams) - 1) // 2] * (1 - 1e-9) <= found.lam <= lams[len(lams) // 2] * (1 + 1e-9)
        assert (found.low, found.high) == (pytest.approx(lams[0]), pytest.approx(lams[-1]))
    one = shrinkage_lam(facts_of(name, layer=3))
    assert one is not None
    assert not one.is_median
    assert one.low == one.lam == one.high


def test_it_stands_on_lines_alone_whose_lambda_is_a_damping():
    assert shrinkage_lam(facts_of("tiny-llama", "sarqc-gbs")) is None
    assert shrinkage_lam(facts_of("tiny-llama", "rqc-gs")) is None
    assert shrinkage_lam(facts_of("tiny-moe", "rqc-gbs-damped")) is None  # λ times a factor of each expert
    assert shrinkage_lam(facts_of("tiny-llama", "rqc-gbs-search-activation-refine3")) is not None


def test_a_study_without_it_shows_nothing():
    facts = facts_of("tiny-llama")
    arrays = {name: ref for name, ref in facts.line.arrays.items() if name not in ESTIMATORS}
    line = facts.line.model_copy(update={"arrays": arrays})
    lines = tuple(line if one is facts.line else one for one in facts.study.lines)
    study = facts.study.model_copy(update={"lines": lines})
    old = line_facts(study, method="rqc-gbs", bits=2, layer=None)
    assert shrinkage_lam(old) is None
    assert "shrinkage" not in " ".join([flag.name for flag in flags_of(old)] + small_print(old, 0, 0))


def test_the_regret_is_paired_by_draw_and_interpolated():
    facts = facts_of("tiny-llama")
    lams, quality = facts.line.lams, facts.perplexity
    assert quality is not None
    best = quality.best[0]
    assert best is not None
    low, high = lams.index(0.02), lams.index(0.05)
    logs = np.log(quality.values[:, 0])
    logs_between = [row[low] + (row[high] - row[low]) * (0.03 - 0.02) / (0.05 - 0.02) - row[best] for row in logs]
    expected = np.exp(logs[:, best].mean()) * math.expm1(sum(logs_between) / len(logs))
    cost = regret(facts, 0.03)
    assert cost is not None
    assert float(cost.mean) == pytest.approx(expected, rel=1e-9)
    assert cost.among == len(lams)
    assert float(cost.low) < expected < float(cost.high)
    at_best = regret(facts, lams[best])
    assert at_best is not None
    assert float(at_best.mean) == 0
    assert regret(facts, 2 * lams[-1]) is None
    assert regret(replace(facts, perplexity=None), 0.03) is None
