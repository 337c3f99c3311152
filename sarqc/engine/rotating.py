"""The stages of a run that quantizes a rotated model: the check before it, and the effect on the weights.

Axes: O out_features, I in_features.
"""

import json
import math
import time
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import cast

import torch
from torch import Tensor

from sarqc.calibration.job import CalibrationJob
from sarqc.calibration.kept_layers import KeptLayers
from sarqc.documents import ResidualRotation, RotatedModule
from sarqc.engine.costs import CHECKING_ROTATION, COMPARING_ROTATED
from sarqc.engine.keys import rotation_key
from sarqc.engine.measure import Workbench
from sarqc.engine.plan import Prepared
from sarqc.engine.progress import EVENT_INTERVAL
from sarqc.events import Advanced, Event, Stage
from sarqc.models.families import LayerInfo
from sarqc.models.loading import STORED, LoadedModel
from sarqc.models.rotated_files import RotatedFiles
from sarqc.models.rotation import RotatedCheckpoint
from sarqc.models.rotation_check import TOKENS, checked_logits, difference, logits_on
from sarqc.plain import measured as or_none
from sarqc.quantization.grid import Grid, dequantize_groups, round_to_grid, split_groups
from sarqc.settings import Settings


@dataclass(frozen=True, eq=False)
class RotationCheck:
    """A rotated checkpoint whose logits agree with the original's."""

    checkpoint: RotatedCheckpoint
    tokens: Tensor  # (1, T), first of the calibration text
    original: Tensor  # (1, T, V), the original's logits
    difference: float  # largest of the rotated model's logits, relative to the original's largest

    def rounded(self, loaded: LoadedModel) -> float:
        """Return the same difference of the loaded model, whose rotated weights are rounded to their dtype."""
        return difference(logits_on(loaded, self.tokens), self.original)


@dataclass(frozen=True)
class RotatedLayer:
    """A linear before and after the rotation. NaN: of a weight of zeros."""

    range_before: float  # mean over groups of max|w| / rms of the original weight
    range_after: float  # the same of the rotated weight
    rounding_before: float  # ‖ΔW‖/‖W‖ of the original weight rounded to nearest on the run's grid, from min to max
    rounding_after: float  # the same of the rotated weight
    drift: float  # ‖ΔW‖/‖W‖ of the quantized weight beside the rotated one
    original_drift: float  # the same after both were turned back: beside the original weight


def check_rotation(
    prepared: Prepared, device: torch.device, settings: Settings
) -> Generator[Event, None, RotationCheck | None]:
    """Compare a rotated model with the original before it is loaded; None for a recipe without rotation.

    Raises ``Refused`` where their logits differ.
    """
    checkpoint = prepared.checkpoint
    if not isinstance(checkpoint, RotatedCheckpoint):
        return None
    yield Stage(CHECKING_ROTATION, "logits beside the original's")
    tokens = torch.from_numpy(prepared.sequences.calibration[:1, :TOKENS].copy())
    original, largest_difference = checked_logits(checkpoint, tokens, device, settings.scratch_dir())
    return RotationCheck(checkpoint, tokens, original, largest_difference)


def rotated_layers(
    bench: Workbench, checkpoint: RotatedCheckpoint, job: CalibrationJob, keys: Mapping[str, str], layers: KeptLayers
) -> Generator[Event, None, dict[str, RotatedLayer]]:
    """Compare all quantized linears with their rotated and their original weights; results are stored.

    ``keys``: of the quantized ``layers``, by name. Returns the comparisons by name.
    """
    files = RotatedFiles(checkpoint)
    key = rotation_key(checkpoint, files, keys)
    if (payload := bench.store.read(key, ".json")) is None:
        yield Stage(COMPARING_ROTATED)
        comparisons, last_event = {}, time.monotonic()
        for number, info in enumerate(checkpoint.layers):
            comparisons[info.name] = _compare(
                files, checkpoint, info, job.grids[info.name], layers[info.name].dequantized
            )
            if (now := time.monotonic()) >= last_event + EVENT_INTERVAL:
                last_event = now
                yield Advanced(number + 1, len(checkpoint.layers), "linears")
        files.close()
        payload = json.dumps({name: asdict(layer) for name, layer in comparisons.items()}).encode()
        bench.store.write(key, ".json", payload)
    return {name: RotatedLayer(**numbers) for name, numbers in json.loads(payload).items()}


def rotation_document(check: RotationCheck, rounded: float, layers: Mapping[str, RotatedLayer]) -> ResidualRotation:
    """Return the entry of a rotation in a summary; ``rounded``: the result of ``RotationCheck.rounded``."""
    checkpoint = check.checkpoint
    by_module: dict[str, list[RotatedLayer]] = {}
    for info in checkpoint.layers:
        by_module.setdefault(info.module, []).append(layers[info.name])
    total = _means("all", list(layers.values()))
    text = checkpoint.words
    words = (
        f"{text[0].upper()}{text[1:]}. The float model's logits move by {check.difference:.1g} of the largest, "
        f"{rounded:.1g} with its weights rounded. Drift and errors of layers are those of the rotated weights"
    )
    if total["drift"] is not None and total["original_drift"] is not None:
        words += (
            f" (mean drift {total['drift']:.3g}); turned back to the original basis it is {total['original_drift']:.3g}"
        )
    return {
        "kind": checkpoint.rotation.kind,
        "seed": checkpoint.rotation.seed,
        "matrix": checkpoint.rotation.matrix,
        "added_bytes": checkpoint.added_bytes,
        "logit_difference": check.difference,
        "rounded_logit_difference": or_none(rounded),
        "modules": [*(_means(name, group) for name, group in by_module.items()), total],
        "words": f"{words}.",
    }


def _means(module: str, layers: list[RotatedLayer]) -> RotatedModule:
    def mean(name: str) -> float | None:
        values = [value for layer in layers if math.isfinite(value := getattr(layer, name))]
        return sum(values) / len(values) if values else None

    means = {number.name: mean(number.name) for number in fields(RotatedLayer)}
    return cast(RotatedModule, {"module": module, "layers": len(layers), **means})


def _compare(
    files: RotatedFiles, checkpoint: RotatedCheckpoint, info: LayerInfo, grid: Grid, quantized: Tensor
) -> RotatedLayer:
    name = f"{checkpoint.family.in_file(info.name)}.weight"
    storage, original, rotated = STORED[checkpoint.dtypes[name]], files.original.read(name), files.read(name)
    turned_back = files.to_original_basis(name, quantized.cpu())
    return RotatedLayer(
        range_before=_range(original, grid),
        range_after=_range(rotated, grid),
        rounding_before=_relative_distance(_round(original, grid, storage), original),
        rounding_after=_relative_distance(_round(rotated, grid, storage), rotated),
        drift=_relative_distance(quantized.cpu(), rotated),
        original_drift=_relative_distance(turned_back, original),
    )


def _range(weight: Tensor, grid: Grid) -> float:
    """Return the mean of max|w| / rms over the groups that are not zeros."""
    groups = split_groups(weight.double(), grid.group_size_for(weight.shape[1])).flatten(0, 1)  # (O·G, K)
    size = groups.square().mean(dim=-1).sqrt()
    return float((groups.abs().amax(dim=-1) / size)[size > 0].mean())


def _round(weight: Tensor, grid: Grid, storage: torch.dtype) -> Tensor:
    work = weight.to(torch.promote_types(storage, torch.float32))
    return dequantize_groups(*round_to_grid(work, grid, storage), grid.is_affine).to(storage)


def _relative_distance(approximation: Tensor, weight: Tensor) -> float:
    size = float(weight.double().norm())
    return float((approximation.double() - weight.double()).norm()) / size if size else math.nan
