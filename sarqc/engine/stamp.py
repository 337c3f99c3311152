"""The stamp of a run, made when its layers are solved. ``verify`` hashes with the same functions."""

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

import sarqc
from sarqc.calibration.corpora import Sequences, Text
from sarqc.calibration.job import CalibrationJob
from sarqc.calibration.kept_layers import MOST_WAITING
from sarqc.checkpoints.codes import Levels, levels_of
from sarqc.engine.keys import LAYER_FORMAT, fingerprint_of
from sarqc.engine.measure import versions
from sarqc.engine.plan import Prepared
from sarqc.files.names import path_of
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.host_copies import parts_on_host
from sarqc.models.loading import STORED, LoadedModel
from sarqc.models.weight_files import WeightFiles
from sarqc.quantization.grid import Grid
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.recipe import Recipe, field_extra, public_name
from sarqc.study.stamp import Computing, LayerHashes, Stamp, StampedText, StampedWeights

_HASH_DIGITS = 32
_HASHED_AT_ONCE = 2  # layers
_SOLVED_FOR = ("layer", "sweep")  # of the fields that measure, those that are part of the solving


def stamp_of(
    prepared: Prepared, loaded: LoadedModel, job: CalibrationJob, lam: float | None, layers: Mapping[str, LayerHashes]
) -> Stamp:
    """Return the stamp of a run whose quantized model is ``loaded``; ``lam``: the λ that “auto” chose for the whole
    model.
    """
    return Stamp(
        recipe=_describe_recipe(prepared.recipe),
        lam=lam,
        layer_format=LAYER_FORMAT,
        text=text_of_stamp(prepared.calibration, job.sequences),
        weights=stored_weights(prepared.checkpoint, loaded.files),
        computing=computing(loaded, job, distills=prepared.recipe.distills),
        opened=None if job.imported is None else job.imported.fingerprint,
        layers=dict(layers),
        folded=dict(_changed_tensors(prepared.recipe, loaded, job)),
        made_with=made_with(loaded.device),
        feeding=prepared.feeding,
    ).sealed()


def hash_of(tensor: Tensor) -> str:
    """Return the hash of a tensor's bytes, as ``sarqc.study.stamp`` defines it."""
    digest = hashlib.sha256()
    for part in parts_on_host(tensor):
        digest.update(part.numpy().data)
    return digest.hexdigest()[:_HASH_DIGITS]


def hashes_of(levels: Levels, weight: Tensor) -> LayerHashes:
    """Return the hashes of a linear's numbers and of its weight (O, I) in the dtype of the checkpoint."""
    offsets = levels.offsets if levels.is_affine else levels.offsets.to(torch.uint8)
    return LayerHashes(hash_of(levels.codes), hash_of(levels.scales), hash_of(offsets), hash_of(weight))


def solved_hashes(layer: QuantizedLayer, grid: Grid, job: CalibrationJob) -> LayerHashes:
    """Return the hashes of a layer as the solver left it; the model has what its method writes back."""
    weight = layer.stored() if job.method.unit == "group" else layer.dequantized
    return hashes_of(levels_of(layer, grid), weight)


class LayerHashing:
    """Hashes of a run's layers, made in threads while the next ones are solved. A context."""

    def __init__(self, job: CalibrationJob) -> None:
        self._job, self._threads = job, ThreadPoolExecutor(_HASHED_AT_ONCE, thread_name_prefix="layer-hashes")
        self._hashes: dict[str, Future[LayerHashes]] = {}
        self._waiting: deque[Future[LayerHashes]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown(wait=True)

    def add(self, name: str, layer: QuantizedLayer) -> None:
        """Take a layer; wait while the allowed number of others is in memory."""
        hashes = self._threads.submit(solved_hashes, layer, self._job.grids[name], self._job)
        self._hashes[name] = hashes
        self._waiting.append(hashes)
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popleft().result()

    def finish(self) -> dict[str, LayerHashes]:
        """Return the hashes of all layers, in the order in which they came."""
        return {name: hashes.result() for name, hashes in self._hashes.items()}


def stored_weights(checkpoint: Checkpoint, files: WeightFiles) -> StampedWeights:
    """Return the float checkpoint's parameters as they are stored, whatever the device computes in."""
    family = checkpoint.family
    prefixes = [family.in_file(f"{family.blocks}.{index}.") for index in range(checkpoint.n_blocks)]
    inside: dict[str, list[str]] = {prefix: [] for prefix in prefixes}
    outside: list[str] = []  # with further blocks, which are not the model's
    blocks = family.in_file(f"{family.blocks}.")
    for name in sorted(checkpoint.stored_parameters):
        number = name.removeprefix(blocks).partition(".")[0]
        inside.get(f"{blocks}{number}." if name.startswith(blocks) else "", outside).append(name)

    def of(names: list[str]) -> str:
        return fingerprint_of((name, files.read(name)) for name in names)

    return StampedWeights(outside=of(outside), blocks=tuple(of(inside[prefix]) for prefix in prefixes))


def text_of_stamp(text: Text, sequences: Sequences) -> StampedText:
    """Return the sequences that a run calibrates on."""
    ids = np.ascontiguousarray(sequences.calibration, dtype="<i8")
    digest = hashlib.sha256(ids.tobytes()).hexdigest()
    return StampedText(name=_without_folder(text.corpus), part=text.part, tokens=digest)


def computing(loaded: LoadedModel, job: CalibrationJob, *, distills: bool = False) -> Computing:
    """Return the environment of this process, as far as codes and scales depend on it, see ``keys.layer_keys``."""
    learns = (distills or job.method.unit == "block") and loaded.device.type == "cpu"
    return Computing(
        torch=torch.__version__,
        device=loaded.device.type,
        dtype=str(loaded.compute_dtype).removeprefix("torch."),
        threads=torch.get_num_threads() if learns else None,
    )


def made_with(device: torch.device) -> dict[str, str | int]:
    """Return versions and processor of this process, which a result should not depend on."""
    cuda = device.type == "cuda"
    processor = torch.cuda.get_device_name(device) if cuda else torch.backends.cpu.get_cpu_capability()
    return {"sarqc": sarqc.__version__, **versions(), "processor": processor, "threads": torch.get_num_threads()}


def _describe_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return the fields of a recipe that decide about the codes; of files and folders of this host only the names."""
    document = recipe.to_json()
    for name, info in Recipe.model_fields.items():
        if field_extra(info).section in ("measure", "tune") and name not in _SOLVED_FOR:
            del document[public_name(name)]
    return {name: _without_folder(value) if isinstance(value, str) else value for name, value in document.items()}


def _without_folder(name: str) -> str:
    """Return the last part of a path of this host; any other name as it is."""
    path = path_of(name)
    return name if path is None else Path(name).name or path.name


def _changed_tensors(recipe: Recipe, loaded: LoadedModel, job: CalibrationJob) -> Iterator[tuple[str, str]]:
    """Yield tensors that are not quantized weights and are others than in the float checkpoint, as hashes."""
    tunes_norms = recipe.distills and recipe.distill_norms
    if job.method.unit == "group" or job.imported is not None or tunes_norms:
        yield from _changed_in_blocks(loaded)
    if tunes_norms:
        for path in loaded.replaced:
            name = loaded.family.in_file(path)
            if not torch.equal(stored := loaded.stored_outside(name), loaded.files.read(name)):
                yield name, hash_of(stored)


def _changed_in_blocks(loaded: LoadedModel) -> Iterator[tuple[str, str]]:
    checkpoint, family = loaded.checkpoint, loaded.family
    weights = {f"{family.in_file(layer.name)}.weight" for layer in checkpoint.layers}
    for index, block in enumerate(loaded.blocks()):
        with loaded.at(block):
            for name, value in loaded.stored_tensors(index):
                if name in weights:
                    continue
                stored = value.detach().to("cpu", STORED[checkpoint.dtypes[name]])
                if not torch.equal(stored, loaded.files.read(name)):
                    yield name, hash_of(stored)
