"""“auto” in a whole model: each layer by layer statistics, one λ by perplexity, and resuming to the same bits."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from sarqc import LayerStatistics, method
from sarqc.calibration.corpora import Sequences
from sarqc.calibration.job import CalibrationJob
from sarqc.engine.auto_by_model import ModelSelection, select_for_model
from sarqc.engine.keys import describe
from sarqc.engine.measure import Workbench
from sarqc.events import CandidateDone, EpochDone
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.loading import LoadedModel
from sarqc.quantization.methods import METHODS, Method
from sarqc.settings import Settings
from tests.calibration.test_pipeline import a_plan, fresh, inputs_of, solved_by, weights
from tests.quantizing import quantize_selected


def candidates(name: str) -> tuple[Method, ...]:
    auto = METHODS[name].auto
    return tuple(method(name).points(auto.lams, auto.gammas))


def auto_plan(loaded: LoadedModel, name: str) -> CalibrationJob:
    return replace(a_plan(loaded, name), candidates=candidates(name), validation_samples=2)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["sarqc-gbs", "sarqc-gptaq"])
def test_each_layer_takes_its_best_on_the_kept_sequences(random_llama, tmp_path, name):
    loaded = fresh(random_llama)
    plan = auto_plan(loaded, name)
    solved = solved_by(loaded, plan, tmp_path)
    reference, original = fresh(random_llama), fresh(random_llama)
    tokens = torch.from_numpy(plan.sequences.calibration.copy())
    for block in range(3):
        names = [layer.name for layer in reference.checkpoint.layers if layer.block == block]
        inputs, floats = inputs_of(reference, names, tokens), inputs_of(original, names, tokens)
        for path in names:
            twin = floats[path] if name == "sarqc-gptaq" else None
            train, validation = (
                LayerStatistics.from_inputs(inputs[path][part], None if twin is None else twin[part])
                for part in (slice(0, 4), slice(4, 6))
            )
            expected = quantize_selected(
                reference.model.get_submodule(path).weight, train, validation, plan.grids[path], plan.candidates
            )
            found = next(one.quantized for one in solved if one.info.name == path)
            assert found.report.chosen["lam"] == expected.report.chosen["lam"]
            assert found.report.chosen["gamma"] == expected.report.chosen["gamma"]
            assert (found.codes != expected.codes).float().mean() < 0.02  # sums in another order: a rounding tie moves
            table, other = (report.candidates for report in (found.report, expected.report))
            assert len(table) == 12
            for row, twin_row in zip(table, other, strict=True):
                assert row == pytest.approx(twin_row, rel=2e-2)
        for path in names:
            reference.model.get_submodule(path).weight.data.copy_(loaded.model.get_submodule(path).weight)
    assert len({(one.quantized.report.chosen["lam"], one.quantized.report.chosen["gamma"]) for one in solved}) > 1


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["sarqc-gs", "rqc-gs"])
def test_one_lambda_by_the_perplexity_of_the_kept_sequences(random_llama, tmp_path, name):
    loaded = fresh(random_llama)
    before = weights(loaded)
    plan, points = a_plan(loaded, name), candidates(name)[::3]
    store = ArtefactStore(tmp_path)

    def selecting() -> Iterator[CandidateDone | EpochDone]:
        selections.append(
            (yield from select_for_model(Workbench(loaded, describe(loaded), store, Settings()), plan, points, 2))
        )

    selections: list[ModelSelection] = []
    steps = list(selecting())
    (selection,) = selections
    assert all(torch.equal(one, other) for one, other in zip(before.values(), weights(loaded).values(), strict=True))
    assert [step.lam for step in steps if isinstance(step, CandidateDone)] == [point.lam for point in points]

    train, kept = plan.sequences.calibration[:4], torch.from_numpy(plan.sequences.calibration[4:].copy())
    expected = []
    for point in points:
        model = fresh(random_llama)
        trial = replace(plan, method=point, sequences=Sequences(train, plan.sequences.held_out, {"of": "the test"}))
        solved_by(model, trial, tmp_path / f"{point.lam}")
        with torch.no_grad():
            log_probabilities = model.model(kept).logits.double().log_softmax(-1)
        picked = log_probabilities[:, :-1].gather(-1, kept[:, 1:].unsqueeze(-1))
        expected.append(math.exp(-float(picked.mean())))
    assert selection.perplexities == pytest.approx(expected, rel=1e-4)
    assert selection.lam == points[int(np.argmin(expected))].lam

    assert list(selecting()) == [step for step in steps if isinstance(step, CandidateDone)]
    assert selections[-1] == selection
    loaded.model.get_submodule("model.norm").weight.data.mul_(3)  # no layer knows of it, every perplexity does
    list(selecting())
    assert selections[-1].perplexities != selection.perplexities
