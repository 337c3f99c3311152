"""The scales of a run's model tuned by its predictions, as a stage between the solving of codes and the measurements.

Tuned layers are kept under keys of their own and take the place of the solver's in the model, in measurements and in
files. Errors of layers and pictures of their weights stay those of the solver.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from sarqc.calibration.job import CalibrationJob, SolvedLayer
from sarqc.calibration.kept_layers import SUFFIX, KeptLayers, read_layer, write_layer
from sarqc.calibration.whole_model import BesideFloat, FloatModel, float_model
from sarqc.documents import Distillation, DistilledEpoch
from sarqc.engine.costs import DISTILLING
from sarqc.engine.keys import distillation_key, distilled_layer_key
from sarqc.engine.measure import Workbench
from sarqc.engine.progress import TOLD_EVERY
from sarqc.errors import NotFound
from sarqc.events import Advanced, Event, ScalesDistilled, Stage
from sarqc.models.families import LayerInfo
from sarqc.plain import measured as or_none
from sarqc.quantization.methods import METHODS
from sarqc.quantization.quantized_layer import LayerReport, QuantizedLayer
from sarqc.quantization.scale_distillation import DistillationEpoch, TunedScales, distilled
from sarqc.recipe import Recipe

BEFORE_DISTILLATION = "before_distillation"  # flag of a report whose errors are those of other scales


@dataclass(frozen=True)
class ScaleTuning:
    """The stage of one run.

    Attributes:
        bench: The model, float before and quantized after its layers are solved.
        recipe: A recipe that distills.
        job: The calibration of the run's own model.
        solved: Keys of the solver's layers by name.
        float_key: Key of the float model.
    """

    bench: Workbench
    recipe: Recipe
    job: CalibrationJob
    solved: dict[str, str]
    float_key: str

    def key(self) -> str:
        """Return the key of the outcome."""
        return distillation_key(self.bench.loaded, self.float_key, self.solved, self.job, self.recipe.distill)

    def keys(self) -> dict[str, str]:
        """Return the keys of the tuned layers by name."""
        key = self.key()
        return {name: distilled_layer_key(key, name) for name in self.solved}

    def kept(self) -> Distillation | None:
        """Return the outcome of an earlier run of the same; None if it is not kept with all its layers."""
        payload = self.bench.store.read(self.key(), ".json")
        if payload is None or not all(self.bench.store.touch(key, SUFFIX) for key in self.keys().values()):
            return None
        found: Distillation = json.loads(payload)
        return found

    def keep_float(self) -> Generator[Event, None, FloatModel | None]:
        """Return what is needed of the model while it is float; None if the outcome is kept."""
        if self.kept() is not None:
            return None
        yield Stage("measuring the float model", "its predictions on the calibration text")
        return float_model(self.bench.loaded, self.job)

    def tune(
        self, original: FloatModel | None, reports: Mapping[str, LayerReport]
    ) -> Generator[Event, None, Distillation]:
        """Tune the scales of the quantized model, keep the layers and put them into the model.

        Args:
            original: Result of ``keep_float``.
            reports: Reports of the solver by layer.

        Returns:
            The outcome.
        """
        yield Stage(DISTILLING, f"at most {self.recipe.distill} epochs")
        if original is None:
            outcome = self.kept()
            if outcome is None:
                raise NotFound(
                    "the distilled scales are no longer stored",
                    DISTILLING,
                    "Run the recipe again; raise SARQC_CACHE_GIB.",
                )
            for epoch in outcome["epochs"]:
                yield ScalesDistilled(**epoch, epochs=self.recipe.distill)
        else:
            outcome = yield from self._tuned(original, reports)
        self.put()
        return outcome

    def put(self) -> None:
        """Give the model the tuned weights, which are kept."""
        loaded = self.bench.loaded
        for name, layer in KeptLayers(self.bench.store, self.keys(), loaded.checkpoint.layers).items():
            loaded.weight(name).data.copy_(layer.dequantized)

    def _tuned(self, original: FloatModel, reports: Mapping[str, LayerReport]) -> Generator[Event, None, Distillation]:
        loaded, layers = self.bench.loaded, self.bench.loaded.checkpoint.layers
        linears = {info.name: self._linear(info, original, reports[info.name]) for info in layers}
        steps = distilled(linears, BesideFloat(loaded, self.job, original), epochs=self.recipe.distill)
        epochs: list[DistillationEpoch] = []
        told = time.monotonic()
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                best: dict[str, QuantizedLayer] = end.value
                break
            if isinstance(step, DistillationEpoch):
                epochs.append(step)
                yield ScalesDistilled(**_facts(step), epochs=self.recipe.distill)
            elif (now := time.monotonic()) >= told + TOLD_EVERY:
                told = now
                yield Advanced(step.done, step.steps, f"steps of epoch {len(epochs)}")
        keys = self.keys()
        for info in layers:
            solved = self._solved(info)
            write_layer(self.bench.store, keys[info.name], replace(solved, quantized=best[info.name]))
        outcome = outcome_of(epochs, self.recipe.distill)
        self.bench.store.write(self.key(), ".json", json.dumps(outcome).encode())
        return outcome

    def _linear(self, info: LayerInfo, original: FloatModel, report: LayerReport) -> TunedScales:
        """A linear with the λ and γ at which it was solved; λ is 0 for a method whose λ is not a choice."""
        device, weight = self.bench.loaded.device, original.weights[info.name]
        lam, gamma = report.chosen.get("lam"), report.chosen.get("gamma")
        layer = _on(device, self._solved(info).quantized)
        s = original.inputs[info.name].drift_scale(weight.float(), gamma)
        is_choice = "lam" in METHODS[self.recipe.method].tunes
        return TunedScales(layer, weight, s, lam if is_choice and lam is not None else 0.0)

    def _solved(self, info: LayerInfo) -> SolvedLayer:
        solved = read_layer(self.bench.store, self.solved[info.name], info)
        if solved is None:
            raise NotFound(
                "the solved layer is no longer stored", info.name, "Run the recipe again; raise SARQC_CACHE_GIB."
            )
        return solved


def outcome_of(epochs: Sequence[DistillationEpoch], at_most: int) -> Distillation:
    """Return the outcome of some epochs, the start first."""
    first, made = epochs[0], len(epochs) - 1
    best = min(epochs, key=lambda epoch: math.inf if math.isnan(epoch.held_out_kl) else epoch.held_out_kl)
    if best is first:
        words = f"Scales stay those of the solver: no epoch of {made} lowered held-out KL from {first.held_out_kl:.3g}."
    else:
        words = (
            f"Scales distilled: held-out KL {first.held_out_kl:.3g} → {best.held_out_kl:.3g} in {best.epoch} of "
            f"{at_most} epochs, drift {first.drift:.3g} → {best.drift:.3g}. Errors of layers are those before."
        )
    return {"epochs": [_facts(epoch) for epoch in epochs], "kept": best.epoch, "words": words}


def before_it(reports: Mapping[str, LayerReport]) -> dict[str, LayerReport]:
    """Return the solver's reports with the flag that their errors are not those of the tuned scales."""
    return {name: replace(report, flags=(*report.flags, BEFORE_DISTILLATION)) for name, report in reports.items()}


def _facts(epoch: DistillationEpoch) -> DistilledEpoch:
    return {
        "epoch": epoch.epoch, "calibration_kl": or_none(epoch.calibration_kl),
        "held_out_kl": or_none(epoch.held_out_kl), "drift": or_none(epoch.drift),
    }  # fmt: skip


def _on(device: torch.device, layer: QuantizedLayer) -> QuantizedLayer:
    """A layer without channel scales on another device."""
    biases = None if layer.biases is None else layer.biases.to(device)
    codes, scales, zero_points = (part.to(device) for part in (layer.codes, layer.scales, layer.zero_points))
    return replace(layer, codes=codes, scales=scales, zero_points=zero_points, biases=biases)
