"""A run whose model is loaded, with the results that its stages share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from sarqc import documents
from sarqc.calibration.job import CalibrationJob
from sarqc.calibration.kept_layers import SUFFIX, KeptLayers
from sarqc.calibration.pictures import LayerCurve
from sarqc.calibration.whole_model import FloatModel
from sarqc.checkpoints.formats import ExportFormat
from sarqc.engine.auto_by_model import ModelSelection
from sarqc.engine.distill import ScaleTuning
from sarqc.engine.imported_model import ImportedModel
from sarqc.engine.kept_states import KeptStates
from sarqc.engine.keys import quantized_model_key
from sarqc.engine.measure import NOTHING_MEASURED, Measurements, Workbench
from sarqc.engine.plan import Prepared
from sarqc.engine.rotating import RotatedLayer, RotationCheck
from sarqc.engine.throughput import pace_of
from sarqc.evaluation.divergence import Divergence
from sarqc.events import Started
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.recipe import Recipe
from sarqc.study.stamp import LayerHashes, Stamp


@dataclass(frozen=True)
class Output:
    """The output of a run: a study, a quantized model, or nothing."""

    study_dir: Path | None
    study_id: str
    checkpoint_dir: Path | None
    checkpoint_format: ExportFormat

    @property
    def study(self) -> Path | None:
        """The folder of the study; None: none is written."""
        return None if self.study_dir is None else self.study_dir / self.study_id


@dataclass(eq=False)
class RunContext:
    """A run; stages read the results of earlier ones. Weights and codes are in the store."""

    bench: Workbench
    prepared: Prepared
    job: CalibrationJob  # that the recipe asks for; with its λ once “auto” has chosen one
    output: Output
    imported: ImportedModel | None  # the quantized checkpoint of the recipe
    started: float  # by the clock of ``Finished``
    rotation: RotationCheck | None
    summary: documents.Summary = field(init=False)  # as far as it is known
    solved: dict[str, str] = field(default_factory=dict)  # keys of the solver's layers by name
    states: KeptStates | None = None  # of the float model on the test text
    original: Measurements = NOTHING_MEASURED
    float_texts: tuple[str, ...] = ()  # keys of the prompts continued by the float model
    selection: ModelSelection | None = None
    rounded: float = 0.0  # of a rotated model, see ``RotationCheck.rounded``
    tuning: ScaleTuning | None = None  # of a recipe that distills
    float_model: FloatModel | None = None  # until the scales are distilled
    before: tuple[float, Divergence | None] | None = None  # perplexity and divergence of a checkpoint before its repair
    reports: dict[str, LayerReport] = field(default_factory=dict)  # by layer, in order
    curves: list[LayerCurve] = field(default_factory=list)  # in the same order
    hashes: dict[str, LayerHashes] = field(default_factory=dict)  # by layer
    rotated: dict[str, RotatedLayer] | None = None  # by layer, of a rotated model
    stamp: Stamp | None = None
    quantized: Measurements = NOTHING_MEASURED
    is_float: bool = False  # the model is float again, although its layers are solved

    @property
    def recipe(self) -> Recipe:
        return self.prepared.recipe

    @property
    def device(self) -> str:
        return str(self.bench.loaded.device)

    @property
    def keys(self) -> dict[str, str]:
        """Keys of the quantized model's layers by name."""
        return self.solved if self.tuning is None else self.tuning.keys()

    @property
    def layers(self) -> KeptLayers:
        """The quantized model's layers."""
        return KeptLayers(self.bench.store, self.keys, self.prepared.checkpoint.layers)

    @property
    def quantized_key(self) -> str:
        return quantized_model_key(self.bench.model, self.keys)

    def started_event(self, keys: Mapping[str, str]) -> Started:
        """Return the first event; ``keys`` of the layers tell which of them are finished."""
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
