"""A whole model, block by block: statistics, solve, write back, move on. Finished layers are kept by content.

The key of a layer hashes everything that determines it: the weights up to and including its block, the token
sequences, the grid, the method and, under a quantized prefix, the keys of all layers before. All keys are therefore
known before anything is solved, and a run that was stopped continues from its files to bit-identical weights.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from sarqc.artefacts import ArtefactStore, chain_key
from sarqc.calibration.capture import BlockWalk
from sarqc.calibration.corpora import Sequences
from sarqc.errors import NumericalError, SarqcError
from sarqc.models.loading import LoadedModel
from sarqc.models.structure import LayerInfo
from sarqc.quantization.drift import drift_by_saliency, drift_surface
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import Method, RoundToNearest
from sarqc.quantization.quantized_layer import LayerReport, QuantizedLayer
from sarqc.quantization.solve import quantize_points, sweep_points

LAYER_FORMAT = 2  # part of every key: raise it when the same inputs would give other bits


@dataclass(frozen=True)
class LayerCurve:
    """One layer at every λ of a curve, at the method's own γ. All float32, L values of λ."""

    lams: tuple[float, ...]
    recon: np.ndarray  # (L,) relative_recon
    held_out: np.ndarray  # (L,) relative_held_out, NaN without held-out text
    sar: np.ndarray  # (L,) relative_sar
    drift: np.ndarray  # (L,) relative_drift
    surface: np.ndarray  # (L, 40, 40) pooled |ΔW|
    deciles: np.ndarray  # (L, 10)


@dataclass(frozen=True)
class SolvedLayer:
    """What the pipeline yields for each linear, whose weight in the model is by then replaced."""

    info: LayerInfo
    quantized: QuantizedLayer
    curve: LayerCurve
    seconds: float
    from_cache: bool


@dataclass(frozen=True)
class CalibrationPlan:
    """Everything that determines the quantized weights, apart from the float model."""

    grids: dict[str, Grid]  # by layer name
    method: Method
    inputs_from: Literal["quantized", "float"]
    sequences: Sequences
    sweep: tuple[float, ...] = ()

    def curve_lams(self) -> tuple[float, ...]:
        """λ of the curves: the method's own and those of the sweep, in order; (0,) for a method without λ."""
        if isinstance(self.method, RoundToNearest):
            return (0.0,)
        return tuple(sorted({*self.sweep, self.method.lam}))


def layer_keys(loaded: LoadedModel, plan: CalibrationPlan) -> dict[str, str]:
    """The key of every layer, in the order of solving, from the float weights and the plan alone."""
    config = {name: value for name, value in loaded.checkpoint.config.items() if name != "transformers_version"}
    chain = chain_key(
        LAYER_FORMAT, torch.__version__, loaded.device.type, str(loaded.compute_dtype), str(loaded.storage_dtype),
        config, plan.sequences.protocol, plan.inputs_from,
        fingerprint(loaded.model.get_submodule(loaded.family.embedding)),
    )  # fmt: skip
    method = [type(plan.method).__name__, asdict(plan.method)]
    keys: dict[str, str] = {}
    by_block = _by_block(loaded.checkpoint.layers)
    for index, block in enumerate(loaded.blocks()):
        chain = chain_key(chain, fingerprint(block))
        names = [layer.name for layer in by_block[index]]
        block_keys = [chain_key(chain, name, asdict(plan.grids[name]), method, plan.sweep) for name in names]
        keys.update(zip(names, block_keys, strict=True))
        if plan.inputs_from == "quantized":
            chain = chain_key(chain, block_keys)
    return keys


def calibrate(
    loaded: LoadedModel, plan: CalibrationPlan, store: ArtefactStore, keys: dict[str, str]
) -> Iterator[SolvedLayer]:
    """Quantizes the model in place and yields each linear as it is done.

    Layers found in ``store`` are not solved again; the walk goes no further than the last block that has one
    missing. Errors of the mathematics are raised with the layer's name in front.
    """
    by_block = _by_block(loaded.checkpoint.layers)
    missing = {name for name, key in keys.items() if not store.has(key, ".layer")}
    last_missing = max((layer.block for layer in loaded.checkpoint.layers if layer.name in missing), default=-1)
    walk = unseen = float_walk = None
    if last_missing >= 0:
        walk = BlockWalk(loaded, torch.from_numpy(plan.sequences.calibration.copy()))
        if plan.inputs_from == "quantized" and "cross" in plan.method.needs:
            float_walk = BlockWalk(loaded, torch.from_numpy(plan.sequences.calibration.copy()))
        unseen = BlockWalk(loaded, torch.from_numpy(plan.sequences.held_out.copy()))
    for index, block in enumerate(loaded.blocks()):
        layers = by_block[index]
        kept = {layer.name: _load(store, keys[layer.name], loaded, layer) for layer in layers}
        needs_statistics = index <= last_missing and (
            plan.inputs_from == "float" or any(solved is None for solved in kept.values())
        )
        statistics = unseen_statistics = None
        if needs_statistics:
            _check_weights(loaded, layers)
            try:
                statistics, outputs = walk.collect(block, float_walk)
                unseen_statistics, unseen_outputs = unseen.collect(block)
            except SarqcError as error:
                raise error.at(f"{loaded.family.blocks}.{index}") from None
        elif float_walk is not None and index < last_missing:
            float_walk.advance(float_walk.outputs(block))  # while the block is float: its layers are all kept
        solved_layers = []
        for layer in layers:
            solved = kept[layer.name]
            if solved is None:
                path = layer.name.removeprefix(f"{loaded.family.blocks}.{index}.")
                held_out = unseen_statistics[path] if len(plan.sequences.held_out) else None
                solved = _solve(loaded, plan, layer, statistics[path], held_out)
                store.write(keys[layer.name], ".layer", _serialise(solved))
            solved_layers.append(solved)
            yield solved
        for solved in solved_layers:  # after all of the block's linears were solved on its float outputs
            linear = loaded.linear(solved.info.name)
            linear.weight.data.copy_(solved.quantized.dequantized)
        if index < last_missing:
            if plan.inputs_from == "quantized":
                outputs, unseen_outputs = walk.outputs(block), unseen.outputs(block)
            walk.advance(outputs)
            unseen.advance(unseen_outputs)


def solve_curve(
    weight: Tensor,
    statistics: LayerStatistics,
    held_out: LayerStatistics | None,
    grid: Grid,
    method: Method,
    lams: tuple[float, ...],
) -> tuple[list[QuantizedLayer], LayerCurve]:
    """One layer at every λ, as quantized layers and as the curve that is drawn of them."""
    solved = list(quantize_points(weight, statistics, grid, sweep_points(method, lams), held_out=held_out))
    reports = [layer.report for layer in solved]
    deltas = [layer.dequantized.float() - weight.float() for layer in solved]

    def numbers(name: str) -> np.ndarray:
        values = [getattr(report, name) for report in reports]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float32)

    curve = LayerCurve(
        lams=lams,
        recon=numbers("relative_recon"),
        held_out=numbers("relative_held_out"),
        sar=numbers("relative_sar"),
        drift=numbers("relative_drift"),
        surface=np.stack([drift_surface(delta).cpu().numpy() for delta in deltas]),
        deciles=np.stack(
            [
                drift_by_saliency(delta, statistics.abs_mean.to(delta.device), weight.float()).cpu().numpy()
                for delta in deltas
            ]
        ),
    )
    return solved, curve


def _solve(
    loaded: LoadedModel,
    plan: CalibrationPlan,
    layer: LayerInfo,
    statistics: LayerStatistics,
    held_out: LayerStatistics | None,
) -> SolvedLayer:
    started = time.perf_counter()
    weight = loaded.linear(layer.name).weight.to(loaded.storage_dtype)  # (O, I), exact: it was loaded from there
    lams = plan.curve_lams()
    own = getattr(plan.method, "lam", 0.0)
    try:
        solved, curve = solve_curve(weight, statistics, held_out, plan.grids[layer.name], plan.method, lams)
    except SarqcError as error:
        raise error.at(layer.name) from None
    return SolvedLayer(layer, solved[lams.index(own)], curve, time.perf_counter() - started, from_cache=False)


def _check_weights(loaded: LoadedModel, layers: list[LayerInfo]) -> None:
    """Raises before the walk carries a bad weight into the statistics of layers that are sound."""
    for layer in layers:
        if not torch.isfinite(loaded.linear(layer.name).weight).all():
            raise NumericalError("the weight is not finite", layer.name, "Repair or re-download the checkpoint.")


def _by_block(layers: list[LayerInfo]) -> dict[int, list[LayerInfo]]:
    grouped: dict[int, list[LayerInfo]] = {}
    for layer in layers:
        grouped.setdefault(layer.block, []).append(layer)
    return grouped


def fingerprint(module: nn.Module) -> str:
    """SHA-256 over the names, dtypes, shapes and bits of a module's parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


_CURVE_ARRAYS = ("recon", "held_out", "sar", "drift", "surface", "deciles")


def _serialise(solved: SolvedLayer) -> bytes:
    quantized, curve = solved.quantized, solved.curve
    document = {"report": quantized.report.to_json(), "lams": curve.lams, "seconds": solved.seconds}
    tensors = {
        "codes": quantized.codes,
        "scales": quantized.scales,
        "zero_points": quantized.zero_points,
        "dequantized": quantized.dequantized,
        "document": torch.frombuffer(bytearray(json.dumps(document).encode()), dtype=torch.uint8),
    }
    if quantized.channel_scale is not None:
        tensors["channel_scale"] = quantized.channel_scale
    tensors |= {f"curve.{name}": torch.from_numpy(getattr(curve, name)) for name in _CURVE_ARRAYS}
    return safetensors.torch.save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})


def _load(store: ArtefactStore, key: str, loaded: LoadedModel, layer: LayerInfo) -> SolvedLayer | None:
    payload = store.read(key, ".layer")
    if payload is None:
        return None
    tensors = safetensors.torch.load(payload)
    document = json.loads(bytes(tensors["document"].numpy()))
    report = document["report"] | {"flags": tuple(document["report"]["flags"])}
    quantized = QuantizedLayer(
        codes=tensors["codes"],
        scales=tensors["scales"],
        zero_points=tensors["zero_points"],
        channel_scale=tensors.get("channel_scale"),
        dequantized=tensors["dequantized"],
        report=LayerReport(**report),
    )
    arrays = {name: tensors[f"curve.{name}"].numpy() for name in _CURVE_ARRAYS}
    curve = LayerCurve(lams=tuple(document["lams"]), **arrays)
    return SolvedLayer(layer, quantized, curve, document["seconds"], from_cache=True)
