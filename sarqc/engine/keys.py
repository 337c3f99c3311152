"""Every key under which results are kept: what a layer's bits, a measurement or a comparison depend on, as one hash.

The number of a format is part of its keys: raise it when the same inputs would give another result, or when what is
kept holds more. Nothing else may change the bytes of a key, or everything kept is made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import numpy as np
import torch
import xxhash
from torch import Tensor, nn

from sarqc.calibration.corpora import Text
from sarqc.calibration.job import CalibrationJob
from sarqc.calibration.pipeline import layers_by_block
from sarqc.evaluation import TEMPERATURE, TOP_P
from sarqc.files.artefacts import chain_key
from sarqc.files.hashes import sha256_of
from sarqc.models.host_copies import parts_on_host
from sarqc.models.loading import STORED, LoadedModel
from sarqc.models.rotated_files import RotatedFiles
from sarqc.models.rotation import RotatedCheckpoint
from sarqc.models.tokenizer_files import text_files
from sarqc.quantization.grid import Grid
from sarqc.quantization.methods import FITTING, Method

LAYER_FORMAT = 8
MEASUREMENT_FORMAT = 1
ACCURACY_FORMAT = 2
DIVERGENCE_FORMAT = 1
DISTILLATION_FORMAT = 1
ROTATION_FORMAT = 1
SELECTION_FORMAT = 3
STATISTICS_FORMAT = 1
TUNING_FORMAT = 1
TEXT_FORMAT = 1
SURVEY_FORMAT = 1
_HASHED_AT_ONCE = 4  # blocks; each is on the CPU meanwhile


@dataclass(frozen=True)
class Weights:
    """The weights of a model at one moment as hashes, made once for all keys that depend on them."""

    outside: dict[str, str]  # of embedding, last norm and head, by their paths
    blocks: list[str]


def weights_of(loaded: LoadedModel) -> Weights:
    """The model's weights as they are now: every byte is read."""
    inside = {id(module) for module in loaded.blocks().modules()}
    outside = {
        path: fingerprint(module)
        for path, module in loaded.model.named_modules()
        if id(module) not in inside and (_has_own(module) or not any(True for _ in module.children()))
    }

    def of_block(block: nn.Module) -> str:
        with loaded.at(block):
            return fingerprint(block)

    if loaded.streaming is not None:  # one block at a time is in memory
        return Weights(outside, [of_block(block) for block in loaded.blocks()])
    with ThreadPoolExecutor(_HASHED_AT_ONCE) as threads:
        return Weights(outside, list(threads.map(of_block, loaded.blocks())))


def layer_keys(loaded: LoadedModel, job: CalibrationJob, weights: Weights | None = None) -> dict[str, str]:
    """The key of every layer, in the order of solving, from the float weights and the job alone.

    ``weights``: those of the float model, where they are known.
    """
    weights = weights or weights_of(loaded)
    chain = chain_key(
        LAYER_FORMAT, torch.__version__, loaded.device.type, str(loaded.compute_dtype), _storage(loaded),
        _configuration(loaded), job.sequences.protocol, job.inputs_from,
        _before_blocks(loaded, weights), *([] if job.found is None else [job.found.fingerprint]),
    )  # fmt: skip
    # Gradients through a block are summed in as many parts as there are threads, and every step builds on the last bits
    # of the one before. No code of another solver was seen to depend on it.
    threads = [torch.get_num_threads()] if job.method.unit == "block" and loaded.device.type == "cpu" else []
    keys: dict[str, str] = {}
    by_block = layers_by_block(loaded.checkpoint.layers)
    for index, of_block in enumerate(weights.blocks):
        chain = chain_key(chain, of_block)
        names = [layer.name for layer in by_block.get(index, [])]
        grids, choices = {name: asdict(job.grids[name]) for name in names}, _choices(job.in_block(index))
        block_keys = [
            chain_key(chain, name, grids[name] if job.method.unit == "layer" else grids, choices, *threads)
            for name in names
        ]
        keys.update(zip(names, block_keys, strict=True))
        if job.inputs_from == "quantized":
            chain = chain_key(chain, block_keys)
    return keys


def statistics_keys(loaded: LoadedModel, sequences: np.ndarray, weights: Weights) -> list[str]:
    """Of the float model's statistics on sequences (samples, length), a key for each block."""
    chain = chain_key(
        "statistics", STATISTICS_FORMAT, torch.__version__, loaded.device.type, str(loaded.compute_dtype),
        _configuration(loaded), sequences.shape, np.ascontiguousarray(sequences).tobytes(),
        _before_blocks(loaded, weights),
    )  # fmt: skip
    keys = []
    for of_block in weights.blocks:
        chain = chain_key(chain, of_block)
        keys.append(chain)
    return keys


def _before_blocks(loaded: LoadedModel, weights: Weights) -> str | dict[str, str]:
    """The weights that the first block's states depend on; of a derived model all that are outside the blocks."""
    return weights.outside[loaded.family.embedding] if loaded.checkpoint.decoder is None else weights.outside


def _has_own(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False))


def _configuration(loaded: LoadedModel) -> dict[str, object]:
    return {name: value for name, value in loaded.checkpoint.config.items() if name != "transformers_version"}


def text_hashes(loaded: LoadedModel) -> dict[str, str]:
    """The files by which a model reads and writes text, and ends one, as hashes by name."""
    return {path.name: sha256_of(path) for path in text_files(loaded.checkpoint.folder)}


def _storage(loaded: LoadedModel) -> str | dict[str, str]:
    """The dtype in which the blocks are stored; where there are several, that of each tensor."""
    checkpoint = loaded.checkpoint
    prefix = loaded.family.in_file(f"{loaded.family.blocks}.")
    kinds = {name: checkpoint.dtypes[name] for name in checkpoint.parameter_names if name.startswith(prefix)}
    several = len({*kinds.values()}) > 1
    return kinds if several else str(STORED[next(iter(kinds.values()))])


def _choices(job: CalibrationJob) -> list[object]:
    """Methods and their values as plain data; a kept layer holds its curve, so further λ count too."""
    points = [[type(point).__name__, _values(point)] for point in (job.method, *job.candidates)]
    return [points, job.curves.lams, job.validation_samples, job.channel_fraction]


def _values(point: Method) -> dict[str, object]:
    """All values of a method; of the choices about the grid only those that are made, as before there were any."""
    return {name: value for name, value in asdict(point).items() if name not in FITTING} | point.fitting()


def selection_key(
    keys: Mapping[str, str], outside: Sequence[str], trial: CalibrationJob, validation: np.ndarray
) -> str:
    """Of one candidate for the whole model: ``keys`` of its layers, ``outside`` of the blocks (see
    ``Weights``), ``validation`` (samples, length) judged on.
    """
    choices = _choices(trial)
    return chain_key("selection", SELECTION_FORMAT, [*keys.values()], [*outside], choices, validation.tobytes())


def tuning_key(what: str, statistics: Sequence[str], grids: object, points: Sequence[Method], *further: object) -> str:
    """Of what tuning finds out with some methods from statistics of these keys: errors of layers, or a measurement."""
    values = [[type(point).__name__, _values(point)] for point in points]
    return chain_key(what, TUNING_FORMAT, [*statistics], grids, values, *further)


def float_model_key(loaded: LoadedModel, weights: Weights) -> str:
    """Of the model as it was loaded, and of how it computes: by its configuration, which no weight shows."""
    return chain_key(loaded.device.type, str(loaded.compute_dtype), _configuration(loaded), _fingerprint_of(weights))


def quantized_model_key(float_key: str, keys: Mapping[str, str]) -> str:
    """Of the model with the layers of these keys."""
    return chain_key(float_key, [*keys.values()])


def distillation_key(
    loaded: LoadedModel, float_key: str, keys: Mapping[str, str], job: CalibrationJob, choices: Mapping[str, str | int]
) -> str:
    """Of the tuning of a model's scales: ``keys`` of its layers, ``float_key`` of the float model, and the recipe's
    ``choices``, see ``Recipe.distilling``."""
    # Every step builds on the last bits of a gradient, which is summed in as many parts as there are threads.
    threads = [torch.get_num_threads()] if loaded.device.type == "cpu" else []
    tokens = [np.ascontiguousarray(part).tobytes() for part in (job.sequences.calibration, job.sequences.held_out)]
    shapes = [job.sequences.calibration.shape, job.sequences.held_out.shape]
    further = {name: value for name, value in choices.items() if name != "distill"}
    return chain_key(
        "distillation", DISTILLATION_FORMAT, float_key, [*keys.values()], shapes, *tokens, choices["distill"], *threads,
        *([further] if further else []),
    )  # fmt: skip


def distilled_layer_key(key: str, name: str) -> str:
    """Of a layer with tuned scales: ``key`` of the tuning."""
    return chain_key("distilled layer", key, name)


def rotation_key(checkpoint: RotatedCheckpoint, files: RotatedFiles, keys: Mapping[str, str]) -> str:
    """Of what a rotation did to a model's weights: ``keys`` of its layers, which know the rotated weights.

    The original ones follow from these, the norms and Q.
    """
    norms = fingerprint_of((name, files.original.read(name)) for name in sorted(checkpoint.rotation.norms))
    return chain_key("rotation", ROTATION_FORMAT, checkpoint.rotation.seed, norms, dict(keys))


def text_parts(test: Text, window: int) -> list[object]:
    """The parts of a key that a test text decides: its tokens, the window, and how many of one are not predicted."""
    skipped = len(test.begin)
    return [test.ids.tobytes(), window, *([skipped] if skipped > 1 else [])]


def perplexity_key(model_key: str, test: Text, window: int) -> str:
    """Of a perplexity."""
    return chain_key("perplexity", MEASUREMENT_FORMAT, model_key, *text_parts(test, window), test.corpus)


def states_key(float_key: str, test: Text, window: int) -> str:
    """Of what the float model's head reads of a text."""
    return chain_key("float states", DIVERGENCE_FORMAT, float_key, *text_parts(test, window))


def divergence_key(quantized_key: str, test: Text, window: int) -> str:
    """Of how far a quantized model's predictions are from the float model's, which its key names too."""
    return chain_key("divergence", DIVERGENCE_FORMAT, quantized_key, *text_parts(test, window))


def accuracy_key(loaded: LoadedModel, model_key: str, task: str, limit: int | None, items: Sequence[str]) -> str:
    """Of a task's accuracy: ``items`` as ``tasks.items_key`` tells them apart."""
    begin = ["bos"] if loaded.begins_with_bos else []
    return chain_key("accuracy", ACCURACY_FORMAT, model_key, text_hashes(loaded), task, limit, *items, *begin)


def survey_model_key(loaded: LoadedModel) -> str:
    """Of the model with its weights as they are now: a survey puts them there one point after the other."""
    return chain_key(model_fingerprint(loaded), _configuration(loaded), str(loaded.device))


def survey_line_key(
    float_key: str,
    grid: Grid,
    methods: Sequence[Method],
    lams: Sequence[float],
    sequences: np.ndarray,
    held_out: np.ndarray,
    by_size: Sequence[np.ndarray],
) -> str:
    """Of a line of a survey, solved on one draw of the float model of that key: each of the methods at each λ."""
    values = [[type(one).__name__, _values(one)] for one in methods]
    tokens = [np.ascontiguousarray(one).tobytes() for one in (sequences, held_out, *by_size)]
    return chain_key("survey line", SURVEY_FORMAT, torch.__version__, float_key, asdict(grid), values, [*lams], *tokens)


def survey_point_key(model_key: str, float_key: str, test: Text, window: int) -> str:
    """Of what a point of a survey says of a text, beside the float model of that key."""
    return chain_key("survey point", MEASUREMENT_FORMAT, model_key, float_key, *text_parts(test, window))


def float_text_key(loaded: LoadedModel, float_key: str, ids: np.ndarray, new_tokens: int, seed: int) -> str:
    """Of the float model's continuations of one prompt: ``ids`` (prompt tokens,)."""
    return chain_key(
        "text", float_key, text_hashes(loaded), ids.tobytes(), (TEXT_FORMAT, TEMPERATURE, TOP_P, new_tokens, seed)
    )


def compared_text_key(text_key: str, quantized_key: str) -> str:
    """Of one prompt continued by both models: ``text_key`` of the float one's part."""
    return chain_key("texts compared", text_key, quantized_key)


def model_fingerprint(loaded: LoadedModel) -> str:
    """What changes with any weight of the model as it is now."""
    return _fingerprint_of(weights_of(loaded))


def _fingerprint_of(weights: Weights) -> str:
    return chain_key([*weights.outside.values()], weights.blocks)


def fingerprint(module: nn.Module) -> str:
    """XXH3 over the names, dtypes, shapes and bits of a module's parameters and buffers.

    Ten gigabytes a second, where SHA-256 may take a minute for the weights of a 7B model. Nobody gains by weights that
    are made to collide: who chooses them reads their own results.
    """
    return fingerprint_of(sorted(module.state_dict().items()))


def fingerprint_of(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """The same of tensors with their names, in their order."""
    digest = xxhash.xxh3_128()
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        for part in parts_on_host(tensor):
            digest.update(part.numpy().data)
    return digest.hexdigest()
