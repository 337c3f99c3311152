"""The scales of a run's model tuned as its recipe says, block by block where its predictions are out of reach: large
models and mixtures.

There each block is tuned to the outputs of the float block on the float blocks before it, while it reads the outputs
of the tuned blocks before it. Finished blocks are stored, so that a run that was stopped goes on after them.
"""

import json
import math
from collections.abc import Generator, Mapping, Sequence

from torch import nn

from sarqc.calibration.block_distance import PairedWalks
from sarqc.calibration.pipeline import layers_by_block
from sarqc.calibration.whole_model import FloatModel
from sarqc.documents import Distillation, DistilledBlock
from sarqc.engine.costs import DISTILLING
from sarqc.engine.distill import ScaleTuning, best_of, describe_tuning, tune_with_events
from sarqc.engine.keys import distilled_layer_key
from sarqc.events import BlockDistilled, Event, Stage
from sarqc.files.memory import release_freed
from sarqc.models.families import LayerInfo
from sarqc.plain import measured as or_none
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.quantization.scale_distillation import DistillationEpoch, Distilled


def tune_scales(
    tuning: ScaleTuning, original: FloatModel | None, reports: Mapping[str, LayerReport]
) -> Generator[Event, None, Distillation]:
    """Tune the scales of the model as its recipe says, through the whole model or block by block; return the outcome.

    ``original``: result of ``keep_float``; ``reports``: those of the solver by layer.
    """
    if tuning.recipe.distill_by == "block":
        return (yield from _tune_blocks(tuning, reports))
    return (yield from tuning.tune(original, reports))


def _tune_blocks(tuning: ScaleTuning, reports: Mapping[str, LayerReport]) -> Generator[Event, None, Distillation]:
    yield Stage(DISTILLING, f"block by block, at most {tuning.recipe.distill} epochs")
    loaded = tuning.bench.loaded
    by_block = layers_by_block(loaded.checkpoint.layers)
    results = {index: _load_outcome(tuning, index, layers) for index, layers in by_block.items()}
    last_missing = max((index for index, outcome in results.items() if outcome is None), default=-1)
    walk = PairedWalks(loaded, tuning.job) if last_missing >= 0 else None
    for index, block in enumerate(loaded.blocks()):
        layers, is_walked = by_block.get(index, []), walk is not None and index <= last_missing
        if not layers and not is_walked:
            continue
        with loaded.at(block, changes=bool(layers)):
            if walk is not None and is_walked and layers:
                loaded.files.fill(loaded.model, f"{loaded.family.blocks}.{index}", loaded.device, loaded.compute_dtype)
            outcome = results.get(index)
            if walk is not None and is_walked:
                if layers and outcome is None:
                    outcome = yield from _tuned(tuning, walk, block, layers, reports)
                else:
                    walk.pass_float(block)
            if outcome is not None:
                tuning.put_into_block([info.name for info in layers], tuning.norms_of_block(index))
                results[index] = outcome
                yield BlockDistilled(**outcome, blocks=len(loaded.blocks()))
            if walk is not None and index < last_missing:
                walk.advance(block)
            release_freed()
    outcomes = [outcome for outcome in results.values() if outcome is not None]
    return blocks_outcome(outcomes, norms=len(tuning.norms()), codes=tuning.recipe.distill_codes)


def blocks_outcome(blocks: Sequence[DistilledBlock], *, norms: int = 0, codes: bool = False) -> Distillation:
    """Return the outcome of all blocks, in which norms, and perhaps codes, were tuned too."""
    what = describe_tuning(norms, codes=codes)
    better = [block for block in blocks if block["kept"]]
    ratios = [
        block["held_out"] / block["held_out_before"]
        for block in blocks
        if block["held_out"] is not None and block["held_out_before"]
    ]
    if not better or not ratios:
        words = f"{what} stay as they were: no epoch lowered the held-out error of any of {len(blocks)} blocks."
    else:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if min(ratios) > 0 else 0.0
        words = (
            f"{what} distilled block by block: held-out error of the outputs lower in {len(better)} of {len(blocks)} "
            f"blocks, by {1 - mean:.1%} on the mean. Errors of layers are those before."
        )
    return {"epochs": [], "kept": 0, "blocks": list(blocks), "words": words}


def _tuned(
    tuning: ScaleTuning,
    walk: PairedWalks,
    block: nn.Module,
    layers: Sequence[LayerInfo],
    reports: Mapping[str, LayerReport],
) -> Generator[Event, None, DistilledBlock]:
    """Tune a block whose weights are float, and keep its layers; the float states are past it then."""
    loaded, index = tuning.bench.loaded, layers[0].block
    prefix = f"{loaded.family.blocks}.{index}."
    means = walk.pass_float(block, with_means=True)
    paths = {info.path_in_block(loaded.family.blocks): info for info in layers}
    linears = {
        path: tuning.linear(
            info, loaded.weight(info.name).to(loaded.stored_as(f"{info.name}.weight")), means[path], reports[info.name]
        )
        for path, info in paths.items()
    }
    norms = {path.removeprefix(prefix): norm for path, norm in tuning.tuned_norms(tuning.norms_of_block(index)).items()}
    parts, epochs = yield from tune_with_events(linears, walk.distance(block), tuning.recipe.distill, norms, index)
    tuning.keep_parts(
        Distilled(
            {paths[path].name: layer for path, layer in parts.layers.items()},
            {f"{prefix}{path}": weight for path, weight in parts.norms.items()},
        )
    )
    outcome = _outcome(index, epochs)
    tuning.bench.store.write(_key(tuning, index), ".json", json.dumps(outcome).encode())
    return outcome


def _outcome(index: int, epochs: Sequence[DistillationEpoch]) -> DistilledBlock:
    first, best = epochs[0], best_of(epochs)
    return {
        "block": index,
        "epochs": len(epochs) - 1,
        "kept": best.epoch,
        "held_out_before": or_none(first.held_out),
        "held_out": or_none(best.held_out),
        "drift_before": or_none(first.drift),
        "drift": or_none(best.drift),
    }


def _load_outcome(tuning: ScaleTuning, index: int, layers: Sequence[LayerInfo]) -> DistilledBlock | None:
    """Return the stored outcome of the same for a block; None if it is not stored with its layers and norms."""
    payload = tuning.bench.store.read(_key(tuning, index), ".json")
    if payload is None or not tuning.has_parts([info.name for info in layers], tuning.norms_of_block(index)):
        return None
    outcome: DistilledBlock = json.loads(payload)
    return outcome


def _key(tuning: ScaleTuning, index: int) -> str:
    return distilled_layer_key(tuning.key(), f"block {index}")
