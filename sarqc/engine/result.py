"""What a run found out, and its summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sarqc.calibration.job import CalibrationJob
from sarqc.calibration.pictures import LayerCurve
from sarqc.documents import (
    AccuracyProtocol,
    Baseline,
    CalibrationProtocol,
    Distillation,
    OpenedCheckpoint,
    PerplexityProtocol,
    Repair,
    ResidualRotation,
    RunProtocol,
    Selection,
    Summary,
    TaskAccuracy,
    TaskResult,
)
from sarqc.engine.auto_by_model import ModelSelection
from sarqc.engine.measure import Measurements, divergences, of_feeding, of_weights, versions
from sarqc.engine.plan import Prepared
from sarqc.engine.rotating import RotatedLayer
from sarqc.evaluation.tasks import MEASURED_BESIDE
from sarqc.events import Measured, SpeedMeasured, TextsCompared
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.study.experts import counts_of_run
from sarqc.study.stamp import Stamp


@dataclass(frozen=True, eq=False)
class RunResult:
    """Everything that a finished run leaves in memory; weights and codes are in the store."""

    prepared: Prepared
    device: str
    job: CalibrationJob  # with the λ that “auto” settled on
    selection: ModelSelection | None
    reports: dict[str, LayerReport]  # by layer, in order
    curves: list[LayerCurve]  # by layer, in the same order
    original: Measurements
    quantized: Measurements
    baseline: Baseline | None
    texts: tuple[TextsCompared, ...]
    speed: SpeedMeasured | None
    stamp: Stamp
    opened: OpenedCheckpoint | None = None
    repair: Repair | None = None
    distillation: Distillation | None = None
    rotated: dict[str, RotatedLayer] | None = None  # by layer, of a rotated model
    rotation: ResidualRotation | None = None

    def chosen(self) -> Selection | None:
        """How “auto” chose; the candidates of layers are in their reports."""
        lams: Sequence[float | None]
        if self.selection is not None:
            chosen, lams = self.selection.to_json(), (self.selection.lam,)
        elif self.prepared.recipe.candidates():
            chosen, lams = Selection(by="layer"), tuple(one.chosen.get("lam") for one in self.reports.values())
        else:
            return None
        edge = edge_words([point.lam for point in self.prepared.recipe.candidates()], lams)
        return {**chosen, "edge": edge} if edge else chosen

    def protocol(self) -> RunProtocol:
        """What the numbers rest on."""
        return protocol_of(self.prepared, self.job.sequences.protocol, self.quantized)

    def summary(self) -> Summary:
        """The numbers of the whole model; what happened to each layer is in the study."""
        layers = self.prepared.checkpoint.layers
        counts = counts_of_run(layers, {name: report.n_tokens for name, report in self.reports.items()})
        accuracy, accuracy_error = self.quantized.mean_accuracy() or (None, None)
        return {
            **summary_of(self.prepared, self.original, self.device),
            "selection": self.chosen(),
            "perplexity": value(self.quantized.perplexity),
            **divergences(self.quantized.divergence),
            "baseline": self.baseline,
            "protocol": self.protocol(),
            "tasks": self._tasks(),
            "accuracy": accuracy,
            "accuracy_standard_error": accuracy_error,
            "texts": [event.comparison() for event in self.texts],
            "speed": None if self.speed is None else self.speed.speed(),
            "experts": None if counts is None else counts.to_json(),
            "stamp": self.stamp.digest,
            "opened": self.opened,
            "repair": self.repair,
            "distillation": self.distillation,
            "rotation": self.rotation,
        }

    def _tasks(self) -> dict[str, TaskResult]:
        tasks: dict[str, TaskResult] = {}
        for original, quantized in zip(self.original.accuracies, self.quantized.accuracies, strict=True):
            task = cast(AccuracyProtocol, quantized.protocol)["task"]
            tasks[task] = {
                "float": _accuracy(original),
                "protocol": {name: fact for name, fact in quantized.protocol.items() if name not in MEASURED_BESIDE},
                "quantized": _accuracy(quantized),
            }
        return tasks


def summary_of(prepared: Prepared, original: Measurements, device: str) -> Summary:
    """The summary of every run, as far as it is known without a quantized model; ``original``: of the float model."""
    checkpoint, planned = prepared.checkpoint, prepared.shown
    accuracy, accuracy_error = original.mean_accuracy() or (None, None)
    return {
        "recipe": prepared.recipe.to_json(),
        "device": device,
        "share_quantized": checkpoint.share_quantized,
        "quantized_layers": len(checkpoint.layers),
        "bits_per_weight": planned.bits_per_weight,
        "bytes_before": planned.bytes_before,
        "bytes_after": planned.bytes_after,
        "selection": None,
        "perplexity": None,
        "perplexity_float": value(original.perplexity),
        "vocabulary": checkpoint.architecture.vocab_size,
        **divergences(None),
        "baseline": None,
        "protocol": protocol_of(prepared, prepared.sequences.protocol, original),
        "tasks": {},
        "accuracy": None,
        "accuracy_standard_error": None,
        "accuracy_float": accuracy,
        "accuracy_standard_error_float": accuracy_error,
        "texts": [],
        "speed": None,
        "experts": None,
        "tuning": None,
        "ladder": None,
        "written": None,
        "stamp": None,
        "opened": None,
        "repair": None,
        "distillation": None,
        "rotation": None,
        "derived": None if checkpoint.decoder is None else checkpoint.decoder.title,
    }


def protocol_of(prepared: Prepared, calibration: CalibrationProtocol, measured: Measurements) -> RunProtocol:
    """What the numbers of a run rest on."""
    test = measured.perplexity
    return {
        "calibration": calibration,
        "test": None if test is None else cast(PerplexityProtocol, test.protocol),
        "versions": versions(),
        **of_weights(prepared.checkpoint),
        **of_feeding(prepared),
    }


def edge_words(tried: Sequence[float | None], chosen: Sequence[float | None]) -> str:
    """What it says that an end of the candidates was chosen, for the whole model or for some of its layers.

    Below 0 there is nothing that a candidate could have missed. Empty where no end was chosen.
    """
    lams = sorted({lam for lam in tried if lam is not None})
    if len(lams) < 2:
        return ""
    ends = [(lams[0], "smallest", "smaller")] if lams[0] > 0 else []
    ends.append((lams[-1], "largest", "larger"))
    found = [(lam, end, beyond, chosen.count(lam)) for lam, end, beyond in ends if lam in chosen]
    if not found:
        return ""
    if len(chosen) == 1:
        [(lam, end, beyond, _)] = found
        return f"λ = {lam:g} is the {end} of the candidates: a {beyond} one may be better still."
    took = " and ".join(f"{count} took the {end} λ tried ({lam:g})" for lam, end, _, count in found)
    beyond = " or ".join(beyond for _, _, beyond, _ in found)
    return f"Of {len(chosen)} layers, {took}: a {beyond} one may suit them better."


def value(event: Measured | None) -> float | None:
    """The number that was measured, if it was."""
    return None if event is None else event.value


def _accuracy(event: Measured) -> TaskAccuracy:
    beside = {name: fact for name, fact in event.protocol.items() if name in MEASURED_BESIDE}
    return cast(TaskAccuracy, {"accuracy": event.value, "standard_error": event.standard_error} | beside)
