"""Results of methods on calibration draws, from the float model's statistics: errors of layers and of the whole model.

Everything is stored under a key with the seconds that it took: a result is computed once and read from then on, and a
run that was stopped goes on where it was, with the same account of its budget.

Axes: L layers, G values of γ, M values of λ.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from sarqc.calibration.block import BlockStatistics, solve_points
from sarqc.calibration.corpora import Sequences, draw_sequences
from sarqc.calibration.float_statistics import float_statistics
from sarqc.calibration.pictures import CURVE_ARRAYS, LayerCurve, LayerNumbers, curve_of, numbers_of
from sarqc.calibration.pipeline import layers_by_block
from sarqc.engine.costs import HELD, sweep_bytes
from sarqc.engine.kept_states import KeptStates, StatesGone
from sarqc.engine.keys import states_key, statistics_keys, text_parts, tuning_key
from sarqc.engine.measure import Workbench, measured_text, report
from sarqc.engine.plan import Prepared
from sarqc.errors import SarqcError
from sarqc.evaluation.divergence import Divergence
from sarqc.evaluation.perplexity import perplexity_steps
from sarqc.events import Advanced
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.families import LayerInfo
from sarqc.quantization.grid import Grid
from sarqc.quantization.methods import Method
from sarqc.quantization.solving import Context
from sarqc.quantization.storage import Kind
from sarqc.recipe import Recipe

_RESULT = ".found"
Check = Callable[[], object]
Said = TypeVar("Said")

log = logging.getLogger("sarqc.worker")
_NUMBERS = tuple(field.name for field in dataclasses.fields(LayerNumbers) if field.name not in ("lams", "tokens"))


@dataclass(frozen=True, eq=False)
class TuningContext:
    """The common context of all draws of a model. The model is float whenever nothing is being measured."""

    bench: Workbench
    prepared: Prepared
    grids: dict[str, Grid]  # by layer, of those that are quantized
    states: KeptStates  # of the float model on the test text
    statistics: ArtefactStore

    @property
    def layers(self) -> list[LayerInfo]:
        return self.bench.loaded.checkpoint.layers

    def context(self) -> Context:
        return Context.on(self.bench.loaded.device, sweep_bytes(self.bench.settings))


def ground_of(bench: Workbench, prepared: Prepared, grids: dict[str, Grid]) -> TuningContext:
    """Return the context of a recipe with a test text; its states are still to be stored, see ``keep_states``."""
    states = KeptStates(bench.store, states_key(bench.model, measured_text(prepared), prepared.window))
    statistics = ArtefactStore(bench.settings.statistics_root(), bench.store.claims.crew)
    return TuningContext(bench, prepared, grids, states, statistics)


@dataclass(frozen=True, eq=False)
class Draw:
    """One calibration draw: statistics to solve on, and statistics of sequences that nothing is fitted to."""

    ground: TuningContext
    sequences: Sequences
    own_keys: tuple[str, ...]  # of the statistics of each block
    unseen_keys: tuple[str, ...]

    @classmethod
    def of(cls, ground: TuningContext, sequences: Sequences) -> Draw:
        keys = (statistics_keys(ground.bench.model, part) for part in (sequences.calibration, sequences.held_out))
        return cls(ground, sequences, *map(tuple, keys))

    def on_grid(self, kind: Kind) -> Draw:
        """Return the same draw with the layers on grids of another kind."""
        grids = {name: replace(grid, kind=kind) for name, grid in self.ground.grids.items()}
        return replace(self, ground=replace(self.ground, grids=grids))

    def keys(self) -> list[str]:
        """Return the last ones, in which those of all blocks before are."""
        return [self.own_keys[-1], self.unseen_keys[-1]]

    def blocks(self, only: Sequence[int] | None = None) -> Iterator[BlockStatistics]:
        """Yield the blocks with layers to quantize, or those of these numbers. Weights are copies: the model gets
        others later.
        """
        loaded, by_block = self.ground.bench.loaded, layers_by_block(self.ground.layers)
        by_block = by_block if only is None else {index: by_block[index] for index in only}
        parts = ((self.sequences.calibration, self.own_keys), (self.sequences.held_out, self.unseen_keys))
        own, unseen = (
            float_statistics(loaded, sequences, [*by_block], keys, self.ground.statistics) for sequences, keys in parts
        )
        for (index, own_statistics), (_, unseen_statistics) in zip(own, unseen, strict=True):
            layers = {layer.path_in_block(loaded.family.blocks): layer for layer in by_block[index]}
            with loaded.at(loaded.blocks()[index]):
                weights = {
                    path: loaded.weight(layer.name).detach().to(loaded.stored_as(f"{layer.name}.weight"), copy=True)
                    for path, layer in layers.items()
                }
            yield BlockStatistics(layers, weights, own_statistics, unseen_statistics)


def draw_of(recipe: Recipe, ground: TuningContext, number: int) -> Draw:
    """Return the draw of a number, on statistics of its own sequences; the seed is the recipe's plus the number."""
    sequences = draw_sequences(
        ground.prepared.calibration,
        samples=recipe.samples,
        length=recipe.length,
        held_out_samples=recipe.unseen_samples(),
        sampling="random",
        seed=recipe.seed + number,
    )
    return Draw.of(ground, sequences)


@dataclass(frozen=True)
class TrialResult:
    """Results of one method in one draw: each layer, and the whole model on the test text where that was measured."""

    perplexity: float | None
    divergence: Divergence | None
    layers: tuple[LayerNumbers, ...]  # at one λ; curves with pictures where they were asked for
    seconds: float


def errors_of_layers(
    blocks: Iterable[BlockStatistics], grids: dict[str, Grid], points: Sequence[Method], context: Context
) -> Iterator[tuple[str, list[float | None]]]:
    """Yield each layer's name with its relative errors on unseen text at these points; None without unseen tokens."""
    for block in blocks:
        for path, solved in solve_points(block, grids, points, context):
            yield block.layers[path].name, [layer.report.relative_held_out for layer in solved]


def run_trials(
    draw: Draw, points: Sequence[Method], *, pictures: bool, measured: bool = True, check: Check = bool
) -> Iterator[tuple[int, TrialResult] | Advanced]:
    """Quantize the model at each point and measure it unless layers are enough; yield positions with results,
    stored ones first, and in between how far measuring is. The model is float before and after each. The seconds of
    statistics and of solving are shared out evenly. ``check`` is called between parts of the work; an error of it ends
    them.
    """
    keys = [_key(draw, point, pictures, measured) for point in points]

    def make(positions: list[int]) -> Iterator[bytes | Advanced]:
        missing = [points[index] for index in positions]
        for made in _run_missing(draw, missing, pictures=pictures, measured=measured, check=check):
            yield _to_bytes(made) if isinstance(made, TrialResult) else made

    for made in load_or_make_each(draw.ground.bench.store, keys, _RESULT, make):
        yield made if isinstance(made, Advanced) else (made[0], _read(made[1]))


def is_stored(draw: Draw, point: Method, *, pictures: bool) -> bool:
    """Return True if ``run_trials`` would measure nothing."""
    return draw.ground.bench.store.touch(_key(draw, point, pictures, True), _RESULT)


def load_or_make_each(
    store: ArtefactStore, keys: Sequence[str], suffix: str, make: Callable[[list[int]], Iterator[bytes | Said]]
) -> Iterator[tuple[int, bytes] | Said]:
    """Yield positions of the keys with each one's bytes, stored ones first; the rest is made, by each worker of the
    store's crew a share, and yielded by all of them. Of what is made all but bytes is passed on.
    """
    missing = dict(enumerate(keys))
    while missing:
        for index, key in [*missing.items()]:
            if (payload := store.read(key, suffix)) is not None:
                del missing[index]
                yield index, payload
        with store.claims.share(missing) as claimed:
            mine = [index for index in claimed if not store.touch(keys[index], suffix)]
            if mine and store.claims.crew > 1:
                log.info("process %d makes %d of %d", os.getpid(), len(mine), len(missing))
            positions = iter(mine)
            for made in make(mine) if mine else ():
                if not isinstance(made, bytes):
                    yield made
                    continue
                index = next(positions)
                store.write(keys[index], suffix, made)
                del missing[index]
                yield index, made
        if missing and not claimed:
            store.claims.wait()


def _key(draw: Draw, point: Method, *which: bool) -> str:
    ground, test = draw.ground, measured_text(draw.ground.prepared)
    return tuning_key(
        "found",
        draw.keys(),
        grids_as_values(ground),
        [point],
        which,
        *text_parts(test, ground.prepared.window),
        ground.bench.model.key,
    )


def grids_as_values(ground: TuningContext) -> dict[str, object]:
    """Return the grids of all layers, for keys."""
    return {name: asdict(grid) for name, grid in ground.grids.items()}


def _run_missing(
    draw: Draw, points: Sequence[Method], *, pictures: bool, measured: bool, check: Check
) -> Iterator[TrialResult | Advanced]:
    """Yield a result for each point, and how far measuring is. Neighbours that differ in λ and γ alone are solved
    together, as many at once as memory holds. The model stays float.
    """
    stored = sum(layer.shape[0] * layer.shape[1] for layer in draw.ground.layers) * 4
    for part in _batches(points, max(1, HELD // stored)):
        started = time.perf_counter()
        layers, quantized = _solve(draw, part, pictures=pictures, check=check)
        solving = (time.perf_counter() - started) / len(part)
        for numbers, weights in zip(layers, quantized, strict=True):
            began = time.perf_counter()
            perplexity, divergence = (yield from _measure(draw.ground, weights, check)) if measured else (None, None)
            yield TrialResult(perplexity, divergence, tuple(numbers), solving + time.perf_counter() - began)


def _batches(points: Sequence[Method], limit: int) -> Iterator[Sequence[Method]]:
    """Yield the points in their order, in parts that one solver takes together."""
    for _, group in groupby(points, _batch_key):
        members = [*group]
        for first in range(0, len(members), limit):
            yield members[first : first + limit]


def _batch_key(point: Method) -> tuple[object, ...]:
    values = {field.name: getattr(point, field.name) for field in dataclasses.fields(point)}
    return (type(point), *(value for name, value in values.items() if name not in ("lam", "gamma")))


def _solve(
    draw: Draw, points: Sequence[Method], *, pictures: bool, check: Check
) -> tuple[list[list[LayerNumbers]], list[dict[str, Tensor]]]:
    ground, context = draw.ground, draw.ground.context()
    numbers: list[list[LayerNumbers]] = [[] for _ in points]
    quantized: list[dict[str, Tensor]] = [{} for _ in points]
    for block in draw.blocks():
        for path, solved in solve_points(block, ground.grids, points, context):
            check()
            name, texts = block.layers[path].name, (block.weights[path], block.own[path], block.unseen[path])
            for at, (point, layer) in enumerate(zip(points, solved, strict=True)):
                lams = (point.lam or 0.0,)
                numbers[at].append(
                    curve_of(lams, [layer], *texts, ground.grids[name])
                    if pictures
                    else numbers_of(lams, [layer.report], *texts)
                )
                quantized[at][name] = layer.dequantized.cpu()
    return numbers, quantized


def _measure(
    ground: TuningContext, weights: dict[str, Tensor], check: Check
) -> Generator[Advanced, None, tuple[float, Divergence]]:
    """Measure the model with quantized weights by name. It is float again afterwards."""
    test, loaded = measured_text(ground.prepared), ground.bench.loaded
    float_weights = {name: loaded.weight(name).detach().clone() for name in weights} if not loaded.streaming else {}
    _put_weights(ground, weights)
    try:
        text = (loaded, test.ids, test.corpus, ground.prepared.window)
        steps = perplexity_steps(*text, ground.states, begin=len(test.begin))
        perplexity, divergence = yield from report(steps, check=check)
    except StatesGone:
        raise SarqcError(
            "the cached predictions of the float model are gone",
            f"test text {test.corpus}",
            "Continue the run: they are made again. Raise SARQC_CACHE_GIB.",
        ) from None
    finally:
        if loaded.streaming is None:
            _put_weights(ground, float_weights)
        else:
            loaded.streaming.forget_changes()
    assert divergence is not None
    return perplexity.value, divergence


def _put_weights(ground: TuningContext, weights: dict[str, Tensor]) -> None:
    loaded = ground.bench.loaded
    for index, block in enumerate(loaded.blocks()):
        names = [layer.name for layer in ground.layers if layer.block == index]
        if names:
            with loaded.at(block, changes=True):
                for name in names:
                    loaded.weight(name).data.copy_(weights[name])


def _to_bytes(trial: TrialResult) -> bytes:
    layers = [{name: torch.from_numpy(getattr(layer, name)) for name in _arrays(layer)} for layer in trial.layers]
    divergence = None if trial.divergence is None else asdict(trial.divergence)
    document = {
        "perplexity": trial.perplexity,
        "divergence": divergence,
        "seconds": trial.seconds,
        "lams": trial.layers[0].lams,
        "tokens": [layer.tokens for layer in trial.layers],
    }
    tensors = {f"{index}.{name}": array for index, layer in enumerate(layers) for name, array in layer.items()}
    tensors["document"] = torch.frombuffer(bytearray(json.dumps(document).encode()), dtype=torch.uint8)
    return safetensors.torch.save(tensors)


def _arrays(layer: LayerNumbers) -> Sequence[str]:
    return CURVE_ARRAYS if isinstance(layer, LayerCurve) else _NUMBERS


def _read(payload: bytes) -> TrialResult:
    tensors = safetensors.torch.load(payload)
    document = json.loads(bytes(tensors.pop("document").numpy()))
    lams, kind = tuple(document["lams"]), LayerCurve if "0.surface" in tensors else LayerNumbers
    arrays: list[dict[str, np.ndarray]] = [{} for _ in document["tokens"]]
    for name, tensor in tensors.items():
        index, _, field = name.partition(".")
        arrays[int(index)][field] = tensor.numpy()
    layers = tuple(kind(lams, tokens, **of) for tokens, of in zip(document["tokens"], arrays, strict=True))
    stored: dict[str, Any] | None = document["divergence"]
    divergence = None if stored is None else Divergence.from_json(stored)
    return TrialResult(document["perplexity"], divergence, layers, document["seconds"])
