"""Distillation of scales in a run: beside transformers and numpy, kept, exported, refused."""

import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary
from transformers import AutoModelForCausalLM

from sarqc.calibration.job import calibration_job
from sarqc.calibration.pipeline import calibrate
from sarqc.calibration.whole_model import ModelDistance, float_model
from sarqc.engine import costs, distill
from sarqc.engine.distill import BEFORE_DISTILLATION
from sarqc.engine.execute import execute
from sarqc.engine.keys import describe, layer_keys
from sarqc.engine.plan import Prepared, plan, prepare
from sarqc.events import Event, Finished, ScalesDistilled, Stage
from sarqc.extras.verify.checks import Check, VerificationRequest, verify
from sarqc.models.loading import LoadedModel, load
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.quantization.scale_distillation import TunedScales, tuned_linear
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.document import Study
from tests.engine.running import of_type, run, summary_of
from tests.models.cases import make_checkpoint

EPOCHS = 3


@pytest.fixture
def document(small):
    return small | {
        "bits": 2, "grid": "affine", "method": "rtn", "samples": 8, "held_out_samples": 4, "test_tokens": 512,
        "baseline": False, "distill": EPOCHS,
    }  # fmt: skip


def epochs_of(events: list[Event]) -> list[ScalesDistilled]:
    return of_type(events, ScalesDistilled)


def log_probabilities(folder: Path, ids: np.ndarray) -> np.ndarray:
    """Of transformers' own model, (N, T, V)."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.from_numpy(ids.copy())).logits.double().numpy()
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def kl_by_numpy(original: Path, quantized: Path, ids: np.ndarray) -> float:
    p, q = (log_probabilities(folder, ids) for folder in (original, quantized))
    return float((np.exp(p) * (p - q)).sum(axis=-1).mean())


def checks_of(folder: Path, document: dict[str, Any], settings: Settings) -> dict[str, Check]:
    request = VerificationRequest(model=document["model"], calibration=document["calibration"])
    return {check.what: check for check in verify(folder, settings, request)}


@pytest.mark.thorough
def test_the_exported_model_has_the_divergence_that_was_measured(document, random_llama, fresh_settings, tmp_path):
    run(document | {"distill": 0}, fresh_settings, checkpoint_dir=tmp_path / "before")
    events = run(document, fresh_settings, checkpoint_dir=tmp_path / "after", study_dir=tmp_path, study_id="one")
    summary, epochs = summary_of(events), epochs_of(events)
    prepared = prepare(Recipe.parse(document), fresh_settings)
    held_out, calibration = prepared.sequences.held_out, prepared.sequences.calibration
    before, after = tmp_path / "before", tmp_path / "after"
    assert epochs[0].held_out_kl == pytest.approx(kl_by_numpy(random_llama, before, held_out), rel=1e-4)
    assert epochs[0].calibration_kl == pytest.approx(kl_by_numpy(random_llama, before, calibration), rel=1e-4)
    kept = epochs[summary["distillation"]["kept"]]
    assert kept.held_out_kl == pytest.approx(kl_by_numpy(random_llama, after, held_out), rel=1e-4)
    assert kept.held_out_kl == min(epoch.held_out_kl for epoch in epochs if epoch.held_out_kl is not None)
    assert kept.epoch > 0
    study = Study.open(tmp_path / "one")
    assert study.lines[0].fitting == {"distill": EPOCHS}
    assert study.lines[0].title == "Round to nearest, scales distilled"
    assert all(BEFORE_DISTILLATION in report["flags"] for report in study.layer_reports.values())


def norms_in(folder: Path) -> dict[str, Tensor]:
    """Vectors of a checkpoint by name."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return {name: value.detach() for name, value in model.named_parameters() if value.ndim == 1}


@pytest.mark.thorough
def test_tuned_norms_are_exported_and_the_float_model_keeps_its_own(document, random_llama, fresh_settings, tmp_path):
    document |= {"distill_norms": True, "baseline": True}  # after which the model has to get its norms again
    events = run(document, fresh_settings, checkpoint_dir=tmp_path / "model")
    summary, epochs = summary_of(events), epochs_of(events)
    assert summary["written"]["other_tensors"] == []
    assert summary["distillation"]["words"].startswith("Scales and 7 norms distilled")
    prepared = prepare(Recipe.parse(document), fresh_settings)
    kept = epochs[summary["distillation"]["kept"]]
    assert kept.epoch > 0
    assert kept.held_out_kl == pytest.approx(
        kl_by_numpy(random_llama, tmp_path / "model", prepared.sequences.held_out), rel=1e-4
    )
    before, after = norms_in(random_llama), norms_in(tmp_path / "model")
    assert len(before) == 7
    assert all(not torch.equal(value, after[name]) for name, value in before.items())
    plain = summary_of(run(document | {"distill_norms": False}, fresh_settings))
    assert plain["perplexity_float"] == summary["perplexity_float"]
    assert plain["stamp"] != summary["stamp"]
    checks = checks_of(tmp_path / "model", document, fresh_settings)
    assert checks["other tensors"].outcome == "equal"
    assert "tuned as the stamp says" in checks["other tensors"].words


@pytest.mark.parametrize(
    ("checkpoint_format", "changes"),
    [
        ("gptq", {"grid": "asymmetric"}),
        pytest.param("gptq", {"grid": "asymmetric", "bits": 2, "distill_codes": True}, marks=pytest.mark.thorough),
        pytest.param("packed", {"grid": "symmetric"}, marks=pytest.mark.thorough),
        ("mlx", {"bits": 2, "distill_codes": True, "distill_norms": True}),
    ],
)
def test_files_with_codes_have_the_tuned_numbers(
    document, tiny_llama, fresh_settings, tmp_path, checkpoint_format,
    changes,
):  # fmt: skip
    sizes = {"intermediate_size": 64, "num_key_value_heads": 4, "head_dim": 8}
    document["model"] = str(make_checkpoint("llama", tmp_path / "float", tiny_llama, **sizes))
    document |= {"bits": 4, "group_size": 32} | changes
    output = {"checkpoint_dir": tmp_path / "model", "checkpoint_format": checkpoint_format}
    summary = summary_of(run(document, fresh_settings, **output))
    assert summary["distillation"]["kept"] > 0
    share = re.search(r"([\d.]+)% of codes changed", summary["distillation"]["words"])
    assert (share is not None) == bool(changes.get("distill_codes"))
    assert share is None or float(share[1]) > 0
    assert summary["written"]["other_tensors"] == []
    assert summary["written"]["parts_at"] is None
    checks = checks_of(tmp_path / "model", document, fresh_settings)
    assert checks["quantized linears"].outcome == "equal"


@pytest.mark.thorough
def test_a_run_without_it_and_one_with_more_epochs_share_the_layers(document, fresh_settings):
    plain = summary_of(run(document | {"distill": 0}, fresh_settings))
    assert plain["distillation"] is None
    tuned = run(document, fresh_settings)
    started = next(event for event in tuned if event.type == "started")
    assert started.finished_layers == 21
    assert summary_of(tuned)["perplexity"] != plain["perplexity"]
    assert summary_of(tuned)["stamp"] != plain["stamp"]
    stages = [(event.name, event.detail) for event in tuned if isinstance(event, Stage)]
    assert stages.index(("distilling scales", "at most 3 epochs")) < stages.index(
        ("measuring the quantized model", "perplexity")
    )


def quantized(recipe: Recipe, settings: Settings) -> tuple[LoadedModel, Prepared, dict[str, QuantizedLayer], Any, Any]:
    """A model quantized in place, with its layers, its calibration and what is kept of the float one."""
    prepared = prepare(recipe, settings)
    loaded = load(prepared.checkpoint, torch.device("cpu"))
    job = calibration_job(recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel)
    original = float_model(loaded, job)
    steps = calibrate(loaded, job, None, layer_keys(describe(loaded), job))
    layers = {step.info.name: step.quantized for step in steps}
    return loaded, prepared, layers, job, original


def assert_chain_rule(linear: TunedScales, layer: QuantizedLayer, slope: Tensor, room: float = 0.0):
    """Gradients of scales and biases of groups of 16 are those by the chain rule from the slope of the weight."""
    by_group, codes = (part.double().unflatten(1, (-1, 16)) for part in (slope, layer.codes))
    scales = layer.scales.double()
    wanted = ((by_group * codes).sum(-1) * scales, by_group.sum(-1) * scales)
    for unknown, part in zip(linear.parameters(), wanted, strict=True):
        atol = 2e-3 * float(part.abs().max()) + room
        torch.testing.assert_close(unknown.grad.double(), part, rtol=2e-3, atol=atol)


def test_gradients_of_a_step_are_those_of_transformers_model(document, random_llama, fresh_settings):
    """Slopes of the weights by autograd in float64."""
    loaded, prepared, layers, job, original = quantized(Recipe.parse(document), fresh_settings)
    tuned = {
        name: TunedScales(layer, original.weights[name], torch.ones(layer.codes.shape[1]), 0.0)
        for name, layer in layers.items()
    }
    beside = ModelDistance(loaded, job, original)
    assert beside.steps == 8
    divergence = beside.step_distance({name: linear.weight() for name, linear in tuned.items()}, 1)
    divergence.backward()

    models = [AutoModelForCausalLM.from_pretrained(random_llama, dtype=torch.float64) for _ in range(2)]
    weights = {}
    for name, layer in layers.items():
        weights[name] = models[1].get_submodule(name).weight
        spread = [part.double().repeat_interleave(16, dim=1) for part in (layer.scales, layer.biases)]
        weights[name].data.copy_(layer.codes * spread[0] + spread[1])
    tokens = torch.from_numpy(prepared.sequences.calibration[1:2].copy())
    p, q = (model(tokens).logits.log_softmax(-1) for model in models)
    expected = (p.exp() * (p - q)).sum() / tokens.numel()
    expected.backward()
    assert float(divergence.detach()) == pytest.approx(float(expected.detach()), rel=1e-4)
    for name, linear in tuned.items():
        assert_chain_rule(linear, layers[name], weights[name].grad)


def test_means_of_inputs_are_those_of_the_float_model(document, random_llama, fresh_settings):
    _, prepared, _, _, original = quantized(Recipe.parse(document), fresh_settings)
    model = AutoModelForCausalLM.from_pretrained(random_llama, dtype=torch.float64)
    seen = {}
    for name in original.inputs:
        model.get_submodule(name).register_forward_pre_hook(lambda _, given, name=name: seen.update({name: given[0]}))
    model(torch.from_numpy(prepared.sequences.calibration.copy()))
    for name, means in original.inputs.items():
        x, weight = seen[name].flatten(0, 1), original.weights[name].double()
        torch.testing.assert_close(means.absolute.double(), x.abs().mean(0), rtol=1e-4, atol=1e-6)
        s = x.abs().mean(0) ** 0.5 / weight.abs().mean(0) ** 0.5
        wanted = (x.square().mean() * s.square() / s.square().mean()).sqrt()
        torch.testing.assert_close(means.drift_scale(weight.float(), 0.5).double(), wanted, rtol=1e-3, atol=1e-6)
        even = means.drift_scale(weight.float(), None)
        assert torch.equal(even, even[:1].expand_as(even))


def test_the_plan_counts_it(document, fresh_settings):
    shown = [plan(Recipe.parse(document | {"distill": count}), fresh_settings) for count in (0, 1, 20)]
    assert shown[0].minutes < shown[1].minutes < shown[2].minutes
    assert shown[0].memory_bytes < shown[1].memory_bytes == shown[2].memory_bytes
    assert shown[0].disk_bytes < shown[1].disk_bytes
    prepared = prepare(Recipe.parse(document), fresh_settings)
    assert [phase["stage"] for phase in prepared.phases].count(costs.DISTILLING) == 1


class Storages(TorchDispatchMode):
    """Bytes of tensors that are made within this context and alive at once, at most."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self._known = WeakIdKeyDictionary()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor) and (storage := tensor.untyped_storage()) not in self._known:
                self._known[storage] = None
                self.now += storage.nbytes()
                weakref.finalize(storage, self._free, storage.nbytes())
        self.peak = max(self.peak, self.now)
        return made

    def _free(self, size):
        self.now -= size


@pytest.mark.parametrize("length", [16, 96])
@pytest.mark.parametrize("by", ["model", "block"])
def test_its_memory_is_that_of_the_plan(document, tiny_llama, fresh_settings, tmp_path, by, length):
    sizes = {"hidden_size": 128, "intermediate_size": 384}
    document["model"] = str(make_checkpoint("llama", tmp_path / "model", tiny_llama, **sizes))
    changes = {"distill": 1, "distill_by": by, "length": length, "samples": 2, "held_out_samples": 1, "test": None}
    recipe = Recipe.parse(document | changes)
    prepared = prepare(recipe, fresh_settings)
    work = costs.work_of(recipe, prepared.checkpoint, prepared.per_channel)
    planned = costs._distilling_bytes(work, 4)
    steps, storages = execute(recipe, fresh_settings), Storages()
    next(event for event in steps if isinstance(event, Stage) and event.name == costs.DISTILLING)
    with storages:
        next(event for event in steps if isinstance(event, Stage | Finished))
    filled = 4 * max(work.blocks) if by == "block" else 0  # the float weights take the place of others
    assert 0.6 < (storages.peak - filled) / planned < 1.05


@pytest.mark.thorough
def test_lambda_of_auto_is_that_of_each_layer(document, fresh_settings):
    """A method without a choice of λ has none."""
    lams = {}
    for method in ("rqc-gbs", "gptq", "rtn"):
        used = set()

        def noted(layer, weight, s, lam, *more, used=used):
            used.add(lam)
            return tuned_linear(layer, weight, s, lam, *more)

        with pytest.MonkeyPatch.context() as changed:
            changed.setattr(distill, "tuned_linear", noted)
            chosen = {"lambda": "auto"} if method == "rqc-gbs" else {"lambda": None}
            run(document | {"method": method, "gamma": None, "test": None} | chosen, fresh_settings)
        lams[method] = used
    assert lams["gptq"] == lams["rtn"] == {0.0}
    assert len(lams["rqc-gbs"]) > 1
    assert lams["rqc-gbs"] <= {0.25, 0.5, 0.75}
