"""What a run found out, and its summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from sarqc.calibration.job import CalibrationJob
from sarqc.calibration.pictures import LayerCurve
from sarqc.documents import (
    AccuracyProtocol,
    PerplexityProtocol,
    RunProtocol,
    Selection,
    Summary,
    TaskAccuracy,
    TaskResult,
)
from sarqc.engine.auto_by_model import ModelSelection
from sarqc.engine.measure import Measurements, versions
from sarqc.engine.plan import Prepared
from sarqc.evaluation.tasks import MEASURED_BESIDE
from sarqc.events import Measured, SpeedMeasured, TextsCompared
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.study.experts import counts_of_run


@dataclass(frozen=True, eq=False)
class Outcome:
    """Everything that a finished run leaves in memory; weights and codes are in the store."""

    prepared: Prepared
    device: str
    job: CalibrationJob  # with the λ that “auto” settled on
    selection: ModelSelection | None
    reports: dict[str, LayerReport]  # by layer, in order
    curves: list[LayerCurve]  # by layer, in the same order
    original: Measurements
    quantized: Measurements
    texts: tuple[TextsCompared, ...]
    speed: SpeedMeasured | None

    def chosen(self) -> Selection | None:
        """How “auto” chose; the candidates of layers are in their reports."""
        if self.selection is not None:
            return self.selection.to_json()
        return {"by": "layer"} if self.job.candidates else None

    def protocol(self) -> RunProtocol:
        """What the numbers rest on."""
        test = self.quantized.perplexity
        return {
            "calibration": self.job.sequences.protocol,
            "test": None if test is None else cast(PerplexityProtocol, test.protocol),
            "versions": versions(),
        }

    def summary(self) -> Summary:
        """The numbers of the whole model; what happened to each layer is in the study."""
        checkpoint = self.prepared.checkpoint
        counts = counts_of_run(checkpoint.layers, {name: report.n_tokens for name, report in self.reports.items()})
        accuracy, accuracy_error = self.quantized.mean_accuracy() or (None, None)
        original, original_error = self.original.mean_accuracy() or (None, None)
        return {
            "recipe": self.prepared.recipe.to_json(),
            "device": self.device,
            "share_quantized": checkpoint.share_quantized,
            "quantized_layers": len(checkpoint.layers),
            "selection": self.chosen(),
            "perplexity": value(self.quantized.perplexity),
            "perplexity_float": value(self.original.perplexity),
            "protocol": self.protocol(),
            "tasks": self._tasks(),
            "accuracy": accuracy,
            "accuracy_standard_error": accuracy_error,
            "accuracy_float": original,
            "accuracy_standard_error_float": original_error,
            "texts": [event.comparison() for event in self.texts],
            "speed": None if self.speed is None else self.speed.speed(),
            "experts": None if counts is None else counts.to_json(),
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


def value(event: Measured | None) -> float | None:
    """The number that was measured, if it was."""
    return None if event is None else event.value


def _accuracy(event: Measured) -> TaskAccuracy:
    beside = {name: fact for name, fact in event.protocol.items() if name in MEASURED_BESIDE}
    return cast(TaskAccuracy, {"accuracy": event.value, "standard_error": event.standard_error} | beside)
