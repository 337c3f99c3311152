"""λ from shrinkage in a study: that of the shipped text and model, its median over layers, and what it costs."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from sarqc.calibration.capture import collect
from sarqc.calibration.corpora import draw_sequences, text_of
from sarqc.figures.flags import flags_of
from sarqc.figures.sentence import small_print
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.loading import load
from sarqc.models.walk import BlockWalk
from sarqc.settings import Settings
from sarqc.study.facts import LineFacts, line_facts
from sarqc.study.shrinkage import ESTIMATORS, regret, shrinkage_lam
from tests.synthetic_study import shipped


def facts_of(name: str, method: str = "rqc-gbs", layer: int | None = None) -> LineFacts:
    return line_facts(shipped(name), method=method, bits=2, layer=layer)


def test_shipped_numbers_are_those_of_the_tokens() -> None:
    facts, settings = facts_of("tiny-llama"), Settings()
    calibration = facts.study.protocol["calibration"]
    checkpoint = checkpoint_of("tiny-llama", None, settings)
    assert checkpoint is not None
    loaded = load(checkpoint, torch.device("cpu"))
    drawn = draw_sequences(
        text_of(calibration["corpus"], checkpoint, settings), samples=calibration["samples"],
        length=calibration["length"], held_out_samples=0, sampling="random", seed=facts.line.draws[1],
    )  # fmt: skip
    hidden = BlockWalk(loaded, torch.from_numpy(drawn.calibration.copy()))
    inputs: dict[str, list[torch.Tensor]] = {}
    block = loaded.blocks()[0]
    hooks = [
        block.get_submodule(path).register_forward_pre_hook(
            lambda _, given, path=path: inputs.setdefault(path, []).append(given[0].double().flatten(0, -2))
        )
        for path in ("self_attn.q_proj", "mlp.down_proj")
    ]
    collect(hidden, block)
    for hook in hooks:
        hook.remove()
    names = [layer.name for layer in facts.study.layers]
    for path, batches in inputs.items():
        at = names.index(f"model.layers.0.{path}")
        x = torch.cat(batches)  # N I
        second, count = x.T @ x / len(x), len(x)
        spread = (second - second.trace() / len(second) * torch.eye(len(second), dtype=torch.float64)).square().sum()
        oas = (second.square().sum() + second.trace() ** 2) / ((count + 1) * spread)
        noise = (x.square().sum(dim=1).square().mean() - second.square().sum()) / count
        for name, expected in (("shrinkage_oas", oas), ("shrinkage_lw", noise / spread)):
            shipped = facts.study.read(facts.line, name)
            assert shipped is not None
            assert shipped[1, at] == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-moe"])
def test_one_layer_has_its_own_and_all_layers_have_the_median(name: str) -> None:
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


def test_it_stands_on_lines_alone_whose_lambda_is_a_damping() -> None:
    assert shrinkage_lam(facts_of("tiny-llama", "sarqc-gbs")) is None
    assert shrinkage_lam(facts_of("tiny-llama", "rqc-gs")) is None
    assert shrinkage_lam(facts_of("tiny-moe", "rqc-gbs-damped")) is None  # λ times a factor of each expert
    assert shrinkage_lam(facts_of("tiny-llama", "rqc-gbs-search-activation-refine3")) is not None


def test_a_study_without_it_shows_nothing() -> None:
    facts = facts_of("tiny-llama")
    arrays = {name: ref for name, ref in facts.line.arrays.items() if name not in ESTIMATORS}
    line = facts.line.model_copy(update={"arrays": arrays})
    lines = tuple(line if one is facts.line else one for one in facts.study.lines)
    study = facts.study.model_copy(update={"lines": lines})
    old = line_facts(study, method="rqc-gbs", bits=2, layer=None)
    assert shrinkage_lam(old) is None
    assert "shrinkage" not in " ".join([flag.name for flag in flags_of(old)] + small_print(old, 0, 0))


def test_the_regret_is_paired_by_draw_and_interpolated() -> None:
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


def test_the_page_says_what_it_costs() -> None:
    facts = facts_of("tiny-llama")
    (said,) = (line for line in small_print(facts, 0, 0) if "shrinkage" in line)
    assert "is 0.022: perplexity" in said
    assert "above the best λ, 0.2, from " in said
    assert not [line for line in small_print(facts_of("tiny-llama", layer=0), 0, 0) if "shrinkage" in line]
    assert not [line for line in small_print(facts, 0, 0, "accuracy") if "shrinkage" in line]
