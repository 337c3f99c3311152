"""What the stages of a run work with, and its first event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from sarqc import documents
from sarqc.calibration.job import CalibrationJob
from sarqc.calibration.kept_layers import SUFFIX
from sarqc.checkpoints.formats import ExportFormat
from sarqc.engine.imported_model import ImportedModel
from sarqc.engine.measure import Workbench
from sarqc.engine.plan import Prepared
from sarqc.engine.rotating import RotationCheck
from sarqc.engine.throughput import pace_of
from sarqc.events import Started
from sarqc.recipe import Recipe


@dataclass(frozen=True)
class Output:
    """What a run leaves: a study, a quantized model, or nothing."""

    study_dir: Path | None
    study_id: str
    checkpoint_dir: Path | None
    checkpoint_format: ExportFormat

    @property
    def study(self) -> Path | None:
        """The folder of the study; None: none is written."""
        return None if self.study_dir is None else self.study_dir / self.study_id


@dataclass(frozen=True, eq=False)
class RunContext:
    """A run whose model is loaded.

    ``job``: the calibration that the recipe asks for; ``imported``: the
    quantized checkpoint of the recipe; ``started``: when, by the clock of ``Finished``; ``rotation``: the check of a
    rotated model.
    """

    bench: Workbench
    prepared: Prepared
    job: CalibrationJob
    output: Output
    imported: ImportedModel | None
    started: float
    rotation: RotationCheck | None = None

    @property
    def recipe(self) -> Recipe:
        return self.prepared.recipe

    @property
    def device(self) -> str:
        return str(self.bench.loaded.device)

    def started_event(self, keys: Mapping[str, str]) -> Started:
        """``keys``: of the layers, by which those that are finished are found."""
        checkpoint = self.bench.loaded.checkpoint
        pace = pace_of(self.bench.settings, checkpoint.name).factor
        return Started(
            model=self.recipe.model,
            device=self.device,
            layers=[cast(documents.LayerEntry, layer.model_dump(mode="json")) for layer in checkpoint.layers],
            share_quantized=checkpoint.share_quantized,
            finished_layers=sum(self.bench.store.has(key, SUFFIX) for key in keys.values()),
            phases=[{**phase, "seconds": pace * phase["seconds"]} for phase in self.prepared.phases],
        )
