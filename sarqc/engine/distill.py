"""The scales of a run's model, and on request its codes, tuned by its predictions, as a stage after the solving.

Tuned layers are stored under keys of their own and take the place of the solver's in the model, in measurements and in
files; so do tuned norms. Errors of layers and pictures of their weights stay those of the solver.
"""

import json
import math
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import safetensors.torch
import torch
from torch import Tensor

from sarqc.calibration.input_means import InputMeans
from sarqc.calibration.job import CalibrationJob, SolvedLayer
from sarqc.calibration.kept_layers import SUFFIX, KeptLayers, read_layer, write_layer
from sarqc.calibration.pipeline import layers_by_block
from sarqc.calibration.whole_model import FloatModel, ModelDistance, float_model
from sarqc.documents import Distillation, DistilledEpoch
from sarqc.engine.costs import DISTILLING
from sarqc.engine.keys import distillation_key, distilled_layer_key
from sarqc.engine.measure import Workbench
from sarqc.engine.progress import EVENT_INTERVAL, Returning
from sarqc.errors import NotFound
from sarqc.events import Advanced, Event, ScalesDistilled, Stage, Warned
from sarqc.models.families import LayerInfo
from sarqc.plain import measured as or_none
from sarqc.quantization.methods import METHODS
from sarqc.quantization.quantized_layer import LayerReport, QuantizedLayer
from sarqc.quantization.scale_distillation import (
    Distance,
    DistillationEpoch,
    Distilled,
    TunedNorm,
    TunedScales,
    distilled,
    tuned_linear,
)
from sarqc.recipe import Recipe

BEFORE_DISTILLATION = "before_distillation"  # flag of a report whose errors are those of other scales
_NORMS = ".safetensors"
_REMEDY = "Run the recipe again; raise SARQC_CACHE_GIB."


@dataclass(frozen=True)
class ScaleTuning:
    """The stage of one run whose recipe distills."""

    bench: Workbench  # with a model that is float before and quantized after its layers are solved
    recipe: Recipe
    job: CalibrationJob
    solved: dict[str, str]  # keys of the solver's layers by name

    def key(self) -> str:
        """Return the key of the outcome."""
        return distillation_key(self.bench.model, self.solved, self.job, self.recipe.distilling())

    def keys(self) -> dict[str, str]:
        """Return the keys of the tuned layers by name."""
        key = self.key()
        return {name: distilled_layer_key(key, name) for name in self.solved}

    def load_outcome(self) -> Distillation | None:
        """Return the outcome of an earlier run of the same; None if it is not stored with all its layers and norms."""
        payload = self.bench.store.read(self.key(), ".json")
        if payload is None or not self.has_parts(self.solved, self.norms()):
            return None
        outcome: Distillation = json.loads(payload)
        return outcome

    def norms(self) -> list[str]:
        """Return the paths of the norms that are tuned with the scales; block by block those of quantized blocks."""
        if not self.recipe.distill_norms:
            return []
        loaded, every = self.bench.loaded, self.bench.loaded.norms()
        if self.recipe.distill_by == "model":
            return every
        prefixes = [f"{loaded.family.blocks}.{index}." for index in layers_by_block(loaded.checkpoint.layers)]
        return [path for path in every if path.startswith(tuple(prefixes))]

    def norms_of_block(self, index: int) -> list[str]:
        """Return the paths of those within a block."""
        return [path for path in self.norms() if path.startswith(f"{self.bench.loaded.family.blocks}.{index}.")]

    def keep_float(self) -> Generator[Event, None, FloatModel | None]:
        """Return the needed parts of the model while it is float; None if the outcome is stored, and block by block."""
        if self.recipe.distill_norms and not self.norms():
            yield Warned("no norm of this model has weights of its own: scales alone are distilled", "distill_norms")
        if self.recipe.distill_by == "block" or self.load_outcome() is not None:
            return None
        yield Stage("measuring the float model", "its predictions on the calibration text")
        return float_model(self.bench.loaded, self.job)

    def tune(
        self, original: FloatModel | None, reports: Mapping[str, LayerReport]
    ) -> Generator[Event, None, Distillation]:
        """Tune the scales of the quantized model, keep the layers and put them into the model; return the outcome.

        ``original``: result of ``keep_float``; ``reports``: those of the solver by layer.
        """
        yield Stage(DISTILLING, f"at most {self.recipe.distill} epochs")
        if original is None:
            outcome = self.load_outcome()
            if outcome is None:
                raise NotFound("the distilled scales are no longer stored", DISTILLING, _REMEDY)
            for epoch in outcome["epochs"]:
                yield ScalesDistilled(**epoch, epochs=self.recipe.distill)
        else:
            outcome = yield from self._tune_model(original, reports)
        self.put()
        return outcome

    def put(self) -> None:
        """Give the model the stored tuned weights."""
        loaded = self.bench.loaded
        by_block = layers_by_block(loaded.checkpoint.layers)
        for index, block in enumerate(loaded.blocks()):
            norms = self.norms_of_block(index)
            if norms or index in by_block:
                with loaded.at(block, changes=True):
                    self.put_into_block([info.name for info in by_block.get(index, [])], norms)
        outside = [path for path in self.norms() if not path.startswith(f"{loaded.family.blocks}.")]
        loaded.replace({f"{path}.weight": self._load_norm(path) for path in outside})

    def put_into_block(self, names: Iterable[str], norms: Iterable[str]) -> None:
        """Give a block, whose weights are in memory, the tuned weights of these linears and norms."""
        loaded = self.bench.loaded
        layers = KeptLayers(self.bench.store, self.keys(), loaded.checkpoint.layers)
        for name in names:
            loaded.weight(name).data.copy_(layers[name].dequantized)
        for path in norms:
            loaded.weight(path).data.copy_(self._load_norm(path))

    def has_parts(self, names: Iterable[str], norms: Iterable[str]) -> bool:
        """Return True if the tuned linears and norms of these names are stored."""
        store, key = self.bench.store, self.key()
        parts = [(name, SUFFIX) for name in names] + [(path, _NORMS) for path in norms]
        return all(store.touch(distilled_layer_key(key, name), suffix) for name, suffix in parts)

    def keep_parts(self, parts: Distilled) -> None:
        """Store tuned linears, with curves and reports of the solver, and norms."""
        store, key = self.bench.store, self.key()
        layers = {info.name: info for info in self.bench.loaded.checkpoint.layers}
        for name, layer in parts.layers.items():
            solved = self._solved_layer(layers[name])
            write_layer(store, distilled_layer_key(key, name), replace(solved, quantized=layer))
        for path, weight in parts.norms.items():
            store.write(distilled_layer_key(key, path), _NORMS, safetensors.torch.save({"weight": weight.cpu()}))

    def linear(self, info: LayerInfo, weight: Tensor, means: InputMeans, report: LayerReport) -> TunedScales:
        """Return a linear with the λ of its distillation and the γ at which it was solved.

        λ is the recipe's for distillation; without it that at which the linear was solved, and 0 for a method whose λ
        is not a choice. ``weight`` (O, I) and ``means`` of its inputs are the float model's, ``report`` is the
        solver's.
        """
        lam, gamma = report.chosen.get("lam"), report.chosen.get("gamma")
        if self.recipe.distill_lambda is not None:
            lam = self.recipe.distill_lambda
        elif "lam" not in METHODS[self.recipe.method].tunes:
            lam = None
        layer = _to_device(self.bench.loaded.device, self._solved_layer(info).quantized)
        s = means.drift_scale(weight.float(), gamma)
        grid = self.job.grids[info.name] if self.recipe.distill_codes else None
        return tuned_linear(layer, weight, s, lam or 0.0, grid)

    def tuned_norms(self, paths: Iterable[str]) -> dict[str, TunedNorm]:
        """Return the norms at these paths, whose weights are the float ones and in memory."""
        loaded = self.bench.loaded
        return {
            path: TunedNorm(loaded.model.get_parameter(f"{path}.weight").to(loaded.stored_as(f"{path}.weight")))
            for path in paths
        }

    def _tune_model(
        self, original: FloatModel, reports: Mapping[str, LayerReport]
    ) -> Generator[Event, None, Distillation]:
        loaded, layers = self.bench.loaded, self.bench.loaded.checkpoint.layers
        linears = {
            info.name: self.linear(info, original.weights[info.name], original.inputs[info.name], reports[info.name])
            for info in layers
        }
        distance, norms = ModelDistance(loaded, self.job, original), self.tuned_norms(self.norms())
        parts, epochs = yield from tune_with_events(linears, distance, self.recipe.distill, norms, None)
        self.keep_parts(parts)
        outcome = outcome_of(epochs, self.recipe.distill, norms=len(norms), codes=self.recipe.distill_codes)
        self.bench.store.write(self.key(), ".json", json.dumps(outcome).encode())
        return outcome

    def _load_norm(self, path: str) -> Tensor:
        payload = self.bench.store.read(distilled_layer_key(self.key(), path), _NORMS)
        if payload is None:
            raise NotFound("the distilled norm is no longer stored", path, _REMEDY)
        return safetensors.torch.load(payload)["weight"]

    def _solved_layer(self, info: LayerInfo) -> SolvedLayer:
        solved = read_layer(self.bench.store, self.solved[info.name], info)
        if solved is None:
            raise NotFound("the solved layer is no longer stored", info.name, _REMEDY)
        return solved


def tune_with_events(
    linears: Mapping[str, TunedScales],
    distance: Distance,
    epochs: int,
    norms: Mapping[str, TunedNorm],
    block: int | None,
) -> Generator[Event, None, tuple[Distilled, list[DistillationEpoch]]]:
    """Tune scales and norms as ``distilled`` does, and return the result with all epochs.

    Yields an event for the steps now and then, and for each epoch of the whole model; ``block``: the one tuned alone.
    """
    made: list[DistillationEpoch] = []
    where, last_event = "" if block is None else f" of block {block}", time.monotonic()
    for step in (steps := Returning(distilled(linears, distance, epochs=epochs, norms=norms))):
        if isinstance(step, DistillationEpoch):
            made.append(step)
            if block is None:
                yield ScalesDistilled(**_epoch_document(step), epochs=epochs)
        elif (now := time.monotonic()) >= last_event + EVENT_INTERVAL:
            last_event = now
            yield Advanced(step.done, step.steps, f"steps of epoch {len(made)}{where}")
    return steps.value, made


def describe_tuning(norms: int, *, codes: bool) -> str:
    """Return the beginning of a sentence about a distillation, with a number of norms, and perhaps codes."""
    further = [*(["codes"] if codes else []), *([f"{norms} norms"] if norms else [])]
    return " and ".join([", ".join(["Scales", *further[:-1]]), *further[-1:]])


def outcome_of(epochs: Sequence[DistillationEpoch], limit: int, *, norms: int = 0, codes: bool = False) -> Distillation:
    """Return the outcome of some epochs, the start first, in which norms, and perhaps codes, were tuned too."""
    what = describe_tuning(norms, codes=codes)
    first, best, made = epochs[0], best_of(epochs), len(epochs) - 1
    if best is first:
        words = f"{what} stay as they were: no epoch of {made} lowered held-out KL from {first.held_out:.3g}."
    else:
        changed = f", {best.changed:.2%} of codes changed" if codes else ""
        words = (
            f"{what} distilled: held-out KL {first.held_out:.3g} → {best.held_out:.3g} in {best.epoch} of "
            f"{limit} epochs, drift {first.drift:.3g} → {best.drift:.3g}{changed}. Errors of layers are those before."
        )
    return {"epochs": [_epoch_document(epoch) for epoch in epochs], "kept": best.epoch, "words": words}


def best_of(epochs: Sequence[DistillationEpoch]) -> DistillationEpoch:
    """Return the first epoch with the smallest distance on unseen sequences."""
    return min(epochs, key=lambda epoch: math.inf if math.isnan(epoch.held_out) else epoch.held_out)


def with_flag(reports: Mapping[str, LayerReport]) -> dict[str, LayerReport]:
    """Return the solver's reports with the flag that their errors are not those of the tuned scales."""
    return {name: replace(report, flags=(*report.flags, BEFORE_DISTILLATION)) for name, report in reports.items()}


def _epoch_document(epoch: DistillationEpoch) -> DistilledEpoch:
    return {
        "epoch": epoch.epoch,
        "calibration_kl": or_none(epoch.calibration),
        "held_out_kl": or_none(epoch.held_out),
        "drift": or_none(epoch.drift),
    }


def _to_device(device: torch.device, layer: QuantizedLayer) -> QuantizedLayer:
    """Return a layer without channel scales on another device; its weight is not needed while its scales change."""
    biases = None if layer.biases is None else layer.biases.to(device)
    codes, scales, zero_points = (part.to(device) for part in (layer.codes, layer.scales, layer.zero_points))
    return replace(
        layer, codes=codes, scales=scales, zero_points=zero_points, biases=biases, dequantized=torch.empty(0)
    )
