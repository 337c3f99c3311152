"""Theorem 1 on the page: its terms from a study against the bound computed from the layer itself."""

import math

import numpy as np
import pytest
import torch

from sarqc import Grid, LayerStatistics, method, quantize_layer
from sarqc.calibration.pictures import curve_of
from sarqc.figures import figure_table
from sarqc.figures.theorem import bound_on_gap, log_all_codes, terms, theorem
from sarqc.study.document import Study
from sarqc.study.facts import line_facts
from tests import oracles
from tests.synthetic_study import shipped

LAMS = (0.0, 0.1, 1.0)


def test_what_a_curve_keeps_gives_the_theorem_of_the_layer():
    """The study's way, from relative quantities and four norms, against the way from ΔW and the Grams."""
    weight = torch.from_numpy(np.random.default_rng(0).normal(size=(6, 16)).astype(np.float32))
    inputs, unseen = (
        torch.from_numpy(oracles.correlated_inputs(seed, n, 16)).float() for seed, n in ((1, 90), (2, 70))
    )
    statistics, held_out = LayerStatistics.from_inputs(inputs), LayerStatistics.from_inputs(unseen)
    grid = Grid(2, 8, "asymmetric")
    layers = [quantize_layer(weight, statistics, grid, method("rqc-gbs", lam=lam), held_out=held_out) for lam in LAMS]
    curve = curve_of(LAMS, layers, weight, statistics, held_out, grid)
    largest = max(float(x.norm()) for x in (*inputs, *unseen))
    assert largest == pytest.approx(float(curve.token_norm), rel=1e-6)
    for text, energy in ((inputs, curve.output_energy), (unseen, curve.held_out_energy)):
        assert float(energy) == pytest.approx(float((text @ weight.T).square().sum(dim=1).mean()), rel=1e-4)
    span = (curve.drift * curve.weight_norm * curve.token_norm) ** 2
    bound = bound_on_gap(span, log_all_codes(weight.numel(), 2), 90)
    gap = curve.held_out * curve.held_out_energy - curve.recon * curve.output_energy
    for m, layer in enumerate(layers):
        delta = (layer.dequantized - weight).double()
        limit = float(delta.square().sum()) * largest**2
        factor = math.sqrt((math.log(2 / 0.05) + weight.numel() * 2 * math.log(2)) / (2 * len(inputs)))
        risks = [float((x.double() @ delta.T).square().sum(dim=1).mean()) for x in (unseen, inputs)]
        assert span[m] == pytest.approx(limit, rel=1e-4)
        assert bound[m] == pytest.approx(limit * factor, rel=1e-4)
        assert gap[m] == pytest.approx(risks[0] - risks[1], rel=1e-3, abs=1e-4 * float(span.max()))


@pytest.fixture(scope="module", params=["tiny-llama", "tiny-moe"])
def study(request: pytest.FixtureRequest) -> Study:
    return shipped(request.param)


def test_terms_of_a_layer_by_loops(study):
    facts = line_facts(study, method="rqc-gbs", bits=2, layer=3)
    ours = terms(facts)
    assert ours is not None
    line = facts.line
    arrays = {name: study.read(line, name) for name in line.arrays if not name.startswith(("surface", "group"))}
    n_weights = math.prod(study.layers[3].shape)
    for m in range(len(line.lams)):
        gaps, bounds, limits = [], [], []
        for d in range(len(line.draws)):
            energy = arrays["output_energy"][d, 3]
            seen = arrays["recon"][d, 3, 0, m] * energy
            gaps.append((arrays["held_out"][d, 3, 0, m] * arrays["held_out_energy"][d, 3] - seen) / energy)
            radius = arrays["drift"][d, 3, 0, m] * arrays["weight_norm"][d, 3]
            limits.append(radius**2 * arrays["token_norm"][d, 3] ** 2 / energy)
            n = arrays["tokens"][d, 3]
            bounds.append(limits[-1] * math.sqrt((math.log(2 / 0.05) + n_weights * 2 * math.log(2)) / (2 * n)))
        measured = [index for index, value in enumerate(gaps) if math.isfinite(value)]
        assert ours.gap.mean[0, m] == pytest.approx(sum(gaps[i] for i in measured) / len(measured), rel=1e-9)
        assert ours.bound[0, m] == pytest.approx(sum(bounds[i] for i in measured) / len(measured), rel=1e-9)
        assert ours.limit[0, m] == pytest.approx(sum(limits[i] for i in measured) / len(measured), rel=1e-9)
        assert ours.bound[0, m] > abs(ours.gap.mean[0, m])  # a bound that a measurement broke would be no bound


def test_the_table_behind_it(study):
    table = figure_table(study, "theorem", method="rqc-gbs", bits=2, layer=3)
    known = terms(line_facts(study, method="rqc-gbs", bits=2, layer=3))
    assert known is not None
    assert [row["bound"] for row in table["rows"]] == known.bound[0].tolist()


def test_a_study_without_norms_has_no_card():
    facts = line_facts(shipped("tiny-llama-methods"), method="gptq", bits=2, layer=None)
    assert terms(facts) is theorem(facts) is None
