"""Every key under which results are stored: what a layer's bits, a measurement or a comparison depend on, as one hash.

The number of a format is part of its keys: raise it when the same inputs would give another result, or when stored
data holds more. Nothing else may change the bytes of a key, or everything stored is made again.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import torch
import transformers
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
from sarqc.models.tokenizing import text_files
from sarqc.quantization.methods import Method

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
_FORWARD = "5.23.0"  # version of transformers before which keys named none
_HASHED_AT_ONCE = 4  # blocks; each is on the CPU meanwhile


@dataclass(frozen=True)
class Weights:
    """The weights of a model at one moment as hashes."""

    outside: dict[str, str]  # of embedding, last norm and head, by their paths
    blocks: list[str]


@dataclass(frozen=True)
class ModelDescription:
    """A float model and the libraries that compute with it: all that a result may depend on besides a recipe.

    The key of every result of a model begins with one of its keys.
    """

    libraries: list[str]
    device: str  # its type
    dtype: str  # of computing
    storage: str | dict[str, str]  # dtype in which the blocks are stored; where there are several, that of each tensor
    configuration: dict[str, object]
    text_files: dict[str, str]  # by which the model reads and writes text, and ends one, as hashes by name
    begins_with_bos: bool  # each prompt and question
    weights: Weights
    embedding: str | dict[str, str]  # weights that the first block's states depend on
    layers: list[list[str]]  # names of those to quantize, by block
    threads: list[int]  # whose number the last bits of a gradient depend on: it is summed in as many parts

    @cached_property
    def key(self) -> str:
        """Key of measurements of the model on tokens."""
        return chain_key(*self.libraries, self.device, self.dtype, self.configuration, _fingerprint_of(self.weights))

    @cached_property
    def text_key(self) -> str:
        """Key of its tokenizer and of the settings by which it writes."""
        return chain_key("text files", self.text_files, *(["bos"] if self.begins_with_bos else []))


def describe(loaded: LoadedModel) -> ModelDescription:
    """Return the description of a model with float weights, of which every byte is read."""
    weights, checkpoint = weights_of(loaded), loaded.checkpoint
    prefix = loaded.family.in_file(f"{loaded.family.blocks}.")
    kinds = {name: checkpoint.dtypes[name] for name in checkpoint.parameter_names if name.startswith(prefix)}
    by_block = layers_by_block(checkpoint.layers)
    return ModelDescription(
        libraries=[torch.__version__, *([] if transformers.__version__ == _FORWARD else [transformers.__version__])],
        device=loaded.device.type,
        dtype=str(loaded.compute_dtype),
        storage=kinds if len({*kinds.values()}) > 1 else str(STORED[next(iter(kinds.values()))]),
        configuration={name: value for name, value in checkpoint.config.items() if name != "transformers_version"},
        text_files={path.name: sha256_of(path) for path in text_files(checkpoint.folder)},
        begins_with_bos=loaded.begins_with_bos,
        weights=weights,
        # Of a derived model any part outside the blocks may come before them.
        embedding=weights.outside[loaded.family.embedding] if checkpoint.decoder is None else weights.outside,
        layers=[[layer.name for layer in by_block.get(index, [])] for index in range(len(weights.blocks))],
        threads=[torch.get_num_threads()] if loaded.device.type == "cpu" else [],
    )


def weights_of(loaded: LoadedModel) -> Weights:
    """Return the model's weights as they are now: every byte is read."""
    inside = {id(module) for module in loaded.blocks().modules()}
    outside = {
        path: fingerprint(module)
        for path, module in loaded.model.named_modules()
        if id(module) not in inside and (_has_tensors(module) or not any(True for _ in module.children()))
    }

    def hash_block(block: nn.Module) -> str:
        with loaded.at(block):
            return fingerprint(block)

    if loaded.streaming is not None:  # one block at a time is in memory
        return Weights(outside, [hash_block(block) for block in loaded.blocks()])
    with ThreadPoolExecutor(_HASHED_AT_ONCE) as threads:
        return Weights(outside, list(threads.map(hash_block, loaded.blocks())))


def layer_keys(model: ModelDescription, job: CalibrationJob) -> dict[str, str]:
    """Return the key of every layer, in the order of solving, from the float model and the job alone."""
    chain = chain_key(
        LAYER_FORMAT,
        *model.libraries,
        model.device,
        model.dtype,
        model.storage,
        model.configuration,
        job.sequences.protocol,
        job.inputs_from,
        model.embedding,
        *([] if job.imported is None else [job.imported.fingerprint]),
    )
    # Every step of learning builds on the last bits of the one before. No code of another solver was seen to depend on
    # the number of threads.
    threads = model.threads if job.method.unit == "block" else []
    keys: dict[str, str] = {}
    for index, (block_hash, names) in enumerate(zip(model.weights.blocks, model.layers, strict=True)):
        chain = chain_key(chain, block_hash)
        grids, choices = {name: asdict(job.grids[name]) for name in names}, _choices(job.in_block(index))
        block_keys = [
            chain_key(chain, name, grids[name] if job.method.unit == "layer" else grids, choices, *threads)
            for name in names
        ]
        keys.update(zip(names, block_keys, strict=True))
        if job.inputs_from == "quantized":
            chain = chain_key(chain, block_keys)
    return keys


def statistics_keys(model: ModelDescription, sequences: np.ndarray) -> list[str]:
    """Return a key for each block, of the float model's statistics on sequences (samples, length)."""
    chain = chain_key(
        "statistics",
        STATISTICS_FORMAT,
        *model.libraries,
        model.device,
        model.dtype,
        model.configuration,
        sequences.shape,
        np.ascontiguousarray(sequences).tobytes(),
        model.embedding,
    )
    keys = []
    for block_hash in model.weights.blocks:
        chain = chain_key(chain, block_hash)
        keys.append(chain)
    return keys


def _has_tensors(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False))


def _choices(job: CalibrationJob) -> list[object]:
    """Return methods and their values as plain data; a stored layer holds its curve, so further λ count too."""
    return [
        methods_as_values((job.method, *job.candidates)),
        job.curves.lams,
        job.validation_samples,
        job.channel_fraction,
    ]


def methods_as_values(points: Iterable[Method]) -> list[object]:
    """Return methods with all their values; of the choices about the grid only those that are made."""
    return [[type(point).__name__, _values(point)] for point in points]


def _values(point: Method) -> dict[str, object]:
    plain = point.plain_fitting()
    return {name: value for name, value in asdict(point).items() if name not in plain} | point.fitting()


def selection_key(
    model: ModelDescription, keys: Mapping[str, str], trial: CalibrationJob, validation: np.ndarray
) -> str:
    """Return the key of one candidate for the whole model: ``keys`` of its layers, ``validation`` (samples, length)
    judged on.
    """
    outside, choices = [*model.weights.outside.values()], _choices(trial)
    return chain_key("selection", SELECTION_FORMAT, [*keys.values()], outside, choices, validation.tobytes())


def tuning_key(what: str, statistics: Sequence[str], grids: object, points: Sequence[Method], *further: object) -> str:
    """Return the key of a result of tuning with some methods from statistics of these keys: errors of layers, or a
    measurement.
    """
    return chain_key(what, TUNING_FORMAT, [*statistics], grids, methods_as_values(points), *further)


def quantized_model_key(model: ModelDescription, keys: Mapping[str, str]) -> str:
    """Return the key of the model with the layers of these keys."""
    return chain_key(model.key, [*keys.values()])


def distillation_key(
    model: ModelDescription, keys: Mapping[str, str], job: CalibrationJob, choices: Mapping[str, str | int]
) -> str:
    """Return the key of the tuning of a model's scales: ``keys`` of its layers, and the recipe's ``choices``, see
    ``Recipe.distilling``.
    """
    # Every step builds on the last bits of a gradient.
    tokens = [np.ascontiguousarray(part).tobytes() for part in (job.sequences.calibration, job.sequences.held_out)]
    shapes = [job.sequences.calibration.shape, job.sequences.held_out.shape]
    further = {name: value for name, value in choices.items() if name != "distill"}
    return chain_key(
        "distillation",
        DISTILLATION_FORMAT,
        model.key,
        [*keys.values()],
        shapes,
        *tokens,
        choices["distill"],
        *model.threads,
        *([further] if further else []),
    )


def distilled_layer_key(key: str, name: str) -> str:
    """Return the key of a layer with tuned scales: ``key`` of the tuning."""
    return chain_key("distilled layer", key, name)


def rotation_key(checkpoint: RotatedCheckpoint, files: RotatedFiles, keys: Mapping[str, str]) -> str:
    """Return the key of a rotation's effect on a model's weights: ``keys`` of its layers, which know the rotated
    weights.

    The original ones follow from these, the norms and Q.
    """
    norms = fingerprint_of((name, files.original.read(name)) for name in sorted(checkpoint.rotation.norms))
    return chain_key("rotation", ROTATION_FORMAT, checkpoint.rotation.seed, norms, dict(keys))


def text_parts(test: Text, window: int) -> list[object]:
    """Return the parts of a key that a test text decides: its tokens, the window, and how many of one are not
    predicted.
    """
    skipped = len(test.begin)
    return [test.ids.tobytes(), window, *([skipped] if skipped > 1 else [])]


def perplexity_key(model_key: str, test: Text, window: int) -> str:
    """Return the key of a perplexity."""
    return chain_key("perplexity", MEASUREMENT_FORMAT, model_key, *text_parts(test, window), test.corpus)


def states_key(model: ModelDescription, test: Text, window: int) -> str:
    """Return the key of the inputs of the float model's head on a text."""
    return chain_key("float states", DIVERGENCE_FORMAT, model.key, *text_parts(test, window))


def divergence_key(quantized_key: str, test: Text, window: int) -> str:
    """Return the key of the divergence of a quantized model from the float model, which its key names too."""
    return chain_key("divergence", DIVERGENCE_FORMAT, quantized_key, *text_parts(test, window))


def accuracy_key(model: ModelDescription, model_key: str, task: str, limit: int | None, items: Sequence[str]) -> str:
    """Return the key of a task's accuracy: ``items`` as ``tasks.items_key`` tells them apart, ``model_key`` with which
    weights.
    """
    return chain_key("accuracy", ACCURACY_FORMAT, model_key, model.text_key, task, limit, *items)


def readers_key(model: ModelDescription, text: str) -> str:
    """Return the key of the readings of the tokenizer's files by other programs, on a text."""
    parts = (model.text_key, model.configuration, transformers.__version__)
    return chain_key("read by others", 1, *parts, text.encode(errors="surrogatepass"))


def beginnings_key(model: ModelDescription, windows: np.ndarray, bos: Sequence[int]) -> str:
    """Return the key of a perplexity of windows (N, T) without and behind special tokens."""
    return chain_key("both beginnings", model.key, windows.tobytes(), windows.shape[1], bos)


def float_text_key(model: ModelDescription, ids: np.ndarray, new_tokens: int, seed: int) -> str:
    """Return the key of the float model's continuations of one prompt: ``ids`` (prompt tokens,)."""
    return chain_key(
        "text", model.key, model.text_key, ids.tobytes(), (TEXT_FORMAT, TEMPERATURE, TOP_P, new_tokens, seed)
    )


def compared_text_key(text_key: str, quantized_key: str) -> str:
    """Return the key of one prompt continued by both models: ``text_key`` of the float one's part."""
    return chain_key("texts compared", text_key, quantized_key)


def model_fingerprint(loaded: LoadedModel) -> str:
    """Return a hash that changes with any weight of the model as it is now."""
    return _fingerprint_of(weights_of(loaded))


def _fingerprint_of(weights: Weights) -> str:
    return chain_key([*weights.outside.values()], weights.blocks)


def fingerprint(module: nn.Module) -> str:
    """Return XXH3 over the names, dtypes, shapes and bits of a module's parameters and buffers.

    Ten gigabytes a second, where SHA-256 may take a minute for the weights of a 7B model. Nobody gains by weights that
    are made to collide: who chooses them reads their own results.
    """
    return fingerprint_of(sorted(module.state_dict().items()))


def fingerprint_of(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Return the same of tensors with their names, in their order."""
    digest = xxhash.xxh3_128()
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        for part in parts_on_host(tensor):
            digest.update(part.numpy().data)
    return digest.hexdigest()
