"""Everything on a device that refuses what a GPU refuses, against the same on the CPU; and that mistakes are seen."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sarqc.engine import execute as engine
from sarqc.evaluation import perplexity
from sarqc.events import Event, Finished, LayerDone, Measured, ScalesDistilled, TextsCompared
from sarqc.extras.survey import shared
from sarqc.extras.survey.conduct import conduct
from sarqc.extras.survey.schema import Survey
from sarqc.models import walk
from sarqc.quantization import block_learning, column_solver, quantized_layer, scale_search
from sarqc.quantization.methods import METHODS
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.document import Study
from tests.models.cases import make_checkpoint
from tests.pretend_device import OnDevice, pretend, pretended

# Two blocks: what the first hands on, and what the second makes of it.


@pytest.fixture(scope="module")
def llama(tmp_path_factory, tiny_llama):
    return make_checkpoint("llama", tmp_path_factory.mktemp("models") / "llama", tiny_llama, num_hidden_layers=2)


@pytest.fixture
def document(llama, small):
    return small | {
        "model": str(llama), "bits": 3, "method": "gptq", "samples": 3, "length": 16, "held_out_samples": 1,
        "window": 16, "test_tokens": 64, "baseline": False, "epochs": 1, "steps": 2,
    }  # fmt: skip


@pytest.fixture(scope="module")
def mixture(tmp_path_factory, tiny_llama):
    return make_checkpoint("mixtral", tmp_path_factory.mktemp("models") / "mixtral", tiny_llama, num_hidden_layers=2)


@pytest.fixture
def there(monkeypatch, tmp_path):
    """Runs a recipe on a pretended device, in a state folder of its own."""

    def run(document, index=0, **more):
        settings = Settings(state_dir=tmp_path / f"there-{index}", device="cpu", **more.pop("settings", {}))
        with monkeypatch.context() as patch, pretended():
            patch.setattr(engine, "choose_device", lambda wanted: pretend(index))
            return list(engine.execute(Recipe.parse(document), settings, **more))

    return run


@pytest.fixture
def here(tmp_path):
    """Runs a recipe on the CPU."""

    def run(document, **more):
        settings = Settings(state_dir=tmp_path / "here", device="cpu", **more.pop("settings", {}))
        return list(engine.execute(Recipe.parse(document), settings, **more))

    return run


def assert_alike(one: list[Event], other: list[Event], within: float = 2e-3):
    """Losses of all layers and perplexities; attention is summed in another order."""

    def numbers(events: list[Event]) -> np.ndarray:
        reports = [event.report for event in events if isinstance(event, LayerDone)]
        losses = [[report["recon_loss"], report["drift"], report["held_out_loss"]] for report in reports]
        return np.array([*np.ravel(losses), *(event.value for event in events if isinstance(event, Measured))])

    np.testing.assert_allclose(numbers(one), numbers(other), rtol=within)


def device_of(events: list[Event]) -> str:
    summary = next(event.summary for event in events if isinstance(event, Finished))
    return summary["device"]


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS)
def test_every_method(method, document, here, there):
    document |= {"method": method}
    found = there(document)
    assert device_of(found) == "gpu:0"
    # The full shift magnifies what differs, and so from block to block.
    assert_alike(found, here(document), within=0.1 if method == "gptaq-full" else 2e-3)


@pytest.mark.thorough
@pytest.mark.parametrize("more", [
    {"method": "sarqc-gbs", "lambda": "auto", "gamma": "auto"},
    {"method": "sarqc-gptaq", "expert_damping": "damped"},
    {"method": "awq", "mode": "foldable"},
    {"method": "sarqc-omniquant"},
    {"method": "rqc-gbs", "distill": 2, "distill_codes": True, "distill_by": "block"},
], ids=lambda more: more["method"])  # fmt: skip
def test_a_mixture(more, document, mixture, here, there):
    document |= {"model": str(mixture), "test": None} | more
    assert_alike(there(document), here(document))


@pytest.mark.thorough
@pytest.mark.parametrize("more", [
    {"method": "sarqc-gbs", "lambda": "auto", "gamma": "auto"},
    {"method": "gptq", "range": "search", "order": "activation", "refine": 2, "refit": 1},
    {"method": "sarqc-omniquant", "lambda": "auto"},
    {"method": "rqc-gbs", "lambda": 0.3, "sweep": [0.0, 1.0], "layer": "model.layers.1.mlp.down_proj"},
    {"method": "gptaq", "inputs_from": "quantized", "grid": "affine"},
    {"method": "rtn", "inputs_from": "float", "bits": 4},
], ids=["auto by layer", "fitted grid", "auto by model", "one layer", "affine", "float prefix"])  # fmt: skip
def test_choices(more, document, here, there):
    document |= more
    assert_alike(there(document), here(document))


@pytest.mark.parametrize("more", [
    {"distill": 2}, {"distill": 2, "distill_codes": True, "distill_norms": True},
    pytest.param(
        {"distill": 2, "distill_codes": True, "distill_by": "block", "grid": "affine"}, marks=pytest.mark.thorough
    ),
], ids=["scales", "codes and norms", "block by block"])  # fmt: skip
def test_distillation(more, document, here, there):
    document |= {"method": "sarqc-gbs", "lambda": 0.1, "bits": 2} | more
    found, expected = there(document), here(document)
    within = 5e-2 if "distill_codes" in more else 2e-3  # codes follow signs of gradients, which a last bit may decide
    assert_alike(found, expected, within)
    one, other = (
        [event.held_out_kl for event in events if isinstance(event, ScalesDistilled)] for events in (found, expected)
    )
    assert len(one) > 1 or "distill_by" in more
    np.testing.assert_allclose(one[:1], other[:1], rtol=2e-3)  # before the first step
    np.testing.assert_allclose(one, other, rtol=within)
    for name in ("kl", "same_top"):
        assert found[-1].summary[name] == pytest.approx(expected[-1].summary[name], rel=max(within, 2e-2), abs=1e-3)


@pytest.mark.thorough
def test_the_baseline(document, here, there):
    document |= {"method": "rtn", "baseline": True}
    found, expected = (run(document)[-1].summary for run in (there, here))
    assert found["baseline"]["perplexity"] == pytest.approx(expected["baseline"]["perplexity"], rel=2e-3)
    for name in ("log_ratio", "kl", "same_top"):
        assert found[name] == pytest.approx(expected[name], rel=2e-2, abs=1e-3)


@pytest.mark.thorough
def test_streamed_resumed_and_a_second_device(document, here, there):
    expected = here(document)
    assert_alike(there(document, settings={"weights": "streamed"}), expected)
    again = there(document)  # finds all layers, which lie on the CPU
    assert all(event.from_cache for event in again if isinstance(event, LayerDone))
    second = there(document, index=1)
    assert device_of(second) == "gpu:1"
    assert_alike(second, expected)


@pytest.mark.thorough
def test_lm_eval(here, there):
    """On the embedded model, whose task comes without an index of others."""
    document = {
        "model": "tiny-llama", "bits": 3, "method": "rtn", "calibration": "tiny-llama-calibration", "samples": 1,
        "length": 16, "tasks": ["tiny-llama-continuations"], "task_limit": 4,
    }  # fmt: skip
    one, other = (
        {(event.which, event.quantity): event.value for event in run(document) if isinstance(event, Measured)}
        for run in (here, there)
    )
    assert len(one) == 2
    assert one == other


@pytest.mark.thorough
def test_a_survey(document, tmp_path, monkeypatch):
    """Points from statistics, from runs and from fewer sequences, and distilled ones."""
    values = {name: document[name] for name in ("model", "calibration", "samples", "length", "test", "window")}
    lines = [
        {"method": "rqc-gbs", "bits": 3, "lambda": [0.01, 0.3], "sizes": [1, 3]},
        {"method": "rqc-gs", "bits": 3, "lambda": [0.1], "pictures": "none"},
        {"method": "rqc-gbs", "bits": 2, "lambda": [0.1], "distill": 2, "distill_codes": True, "pictures": "none"},
    ]
    asked = Survey.model_validate(
        {
            **values, "title": "both", "grid": "asymmetric", "group_size": 16, "draws": [0], "held_out_samples": 1,
            "held_out": document["calibration"], "lines": lines,
        }
    )  # fmt: skip

    def made(name, device):
        settings = Settings(state_dir=tmp_path / f"state-{name}", device="cpu")
        with monkeypatch.context() as patch, pretended() if device.type != "cpu" else nullcontext():
            patch.setattr(shared, "choose_device", lambda wanted: device)
            list(conduct(asked, settings, tmp_path / name))
        return Study.open(tmp_path / name)

    one, other = made("here", torch.device("cpu")), made("there", pretend(0))
    for line, same in zip(one.lines, other.lines, strict=True):
        for quantity in ("recon", "held_out", "drift", "perplexity", "kl"):
            after = quantity in ("perplexity", "kl")  # the others are those before distillation
            within = 5e-2 if after and "distill_codes" in line.fitting else 5e-3
            np.testing.assert_allclose(other.read(same, quantity), one.read(line, quantity), rtol=within)
    by_size = [study.read(study.lines[0], "held_out_by_size") for study in (one, other)]
    np.testing.assert_allclose(*by_size, rtol=5e-3)


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["plain", "packed"])
def test_texts_and_exports(form, document, there, here, tmp_path):
    document |= {"grid": "full_range", "bits": 4, "prompts": ["Once upon"], "new_tokens": 4}
    found = there(document, checkpoint_dir=tmp_path / "made-there", checkpoint_format=form)
    here(document, checkpoint_dir=tmp_path / "made-here", checkpoint_format=form)
    assert any(isinstance(event, TextsCompared) for event in found)
    made, expected = ({path.name for path in (tmp_path / name).iterdir()} for name in ("made-there", "made-here"))
    assert made == expected


def _on_the_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with one tensor of its result left behind on the CPU."""

    def wrong(*given, **named):
        result = function(*given, **named)
        return result.inner if isinstance(result, OnDevice) else result

    return wrong


def _as_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after a look at what it was given that only the CPU allows."""

    def wrong(*given, **named):
        next(part for part in given if isinstance(part, Tensor)).numpy()
        return function(*given, **named)

    return wrong


def _with_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after random numbers for a tensor of the device from the CPU's generator."""

    def wrong(*given, **named):
        tensor = next(part for part in given if isinstance(part, Tensor))
        tensor.clone().normal_(generator=torch.Generator())
        return function(*given, **named)

    return wrong


@pytest.mark.thorough
@pytest.mark.parametrize(("where", "name", "method", "mistake"), [
    (walk.BlockWalk, "run", "rtn", _on_the_cpu),
    (quantized_layer, "recon_loss", "rtn", _as_numpy),
    (column_solver, "_working_copy", "gptq", _on_the_cpu),
    (column_solver, "shifted_weight", "gptaq-full", _on_the_cpu),
    (scale_search, "round_to_grid", "awq", _as_numpy),
    (block_learning, "sar_loss", "sarqc-omniquant", _with_numbers),
    (perplexity, "cross_entropy", "rtn", _as_numpy),
], ids=lambda part: getattr(part, "__name__", part))  # fmt: skip
def test_a_planted_mistake_is_seen(
    where, name, method, mistake, document, there,
    monkeypatch,
):  # fmt: skip
    monkeypatch.setattr(where, name, mistake(getattr(where, name)))
    with pytest.raises((RuntimeError, TypeError), match=r"on the CPU|to numpy|a generator of"):
        there(document | {"method": method})


def test_two_devices_don_t_mix():
    with pretended():
        one, other = torch.ones(3, device=pretend(0)), torch.ones(3, device=pretend(1))
        assert (one + 1).device == pretend(0)
        assert torch.equal((one + other.to(one.device)).cpu(), torch.full((3,), 2.0))
        assert one[torch.tensor([0])].device == pretend(0)  # indices may be of the CPU
        for mixed in (lambda: one + other, lambda: one @ torch.ones(3), lambda: torch.ones(3).add_(one)):
            with pytest.raises(RuntimeError, match="expected all tensors on"):
                mixed()
