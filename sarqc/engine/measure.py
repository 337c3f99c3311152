"""Measurements of a model, each under a key: made once, read from then on."""

from __future__ import annotations

import importlib.metadata
import json
import math
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass
from typing import TypeVar, cast

import numpy as np
import torch

from sarqc.calibration.block import Progress
from sarqc.calibration.corpora import Text
from sarqc.calibration.job import CalibrationJob, SolvedLayer
from sarqc.calibration.multi_device import MultiDevice
from sarqc.calibration.pipeline import calibrate
from sarqc.documents import Divergences, FeedingProtocol, PerplexityProtocol, WeightsProtocol, Which
from sarqc.engine.costs import sweep_bytes
from sarqc.engine.kept_states import KeptStates, StatesGone
from sarqc.engine.keys import (
    ModelDescription,
    accuracy_key,
    compared_text_key,
    divergence_key,
    float_text_key,
    layer_keys,
    perplexity_key,
    quantized_model_key,
)
from sarqc.engine.plan import Prepared
from sarqc.engine.progress import EVENT_INTERVAL, Returning, Tell, with_progress
from sarqc.errors import SarqcError
from sarqc.evaluation import TEXTS
from sarqc.evaluation.divergence import Divergence
from sarqc.evaluation.perplexity import Perplexity, perplexity_steps
from sarqc.evaluation.side_by_side import compare_texts, continue_float
from sarqc.evaluation.tasks import items_key, measure_accuracy
from sarqc.events import Advanced, Diverged, Event, Measured, Stage, TextsCompared, Warned
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.loading import LoadedModel
from sarqc.plain import measured as or_none
from sarqc.quantization.column_updates import kernel_obstacle
from sarqc.settings import Settings

T = TypeVar("T")
_TENSORS = ".safetensors"


@dataclass(frozen=True, eq=False)
class Workbench:
    """A loaded model, and the store of solved layers and measurements of this host."""

    loaded: LoadedModel
    model: ModelDescription  # with float weights, whatever it is given later
    store: ArtefactStore
    settings: Settings
    spread: MultiDevice | None = None  # where single linears are solved; None: on the model's own device

    def calibrated(self, job: CalibrationJob, keys: dict[str, str]) -> Iterator[SolvedLayer | Progress]:
        """Quantize the model in place, see ``calibrate``; layers are stored under ``keys``."""
        budget = sweep_bytes(self.settings)
        return calibrate(self.loaded, job, self.store, keys, budget_bytes=budget, spread=self.spread)


@dataclass(frozen=True)
class Measurements:
    """Measurements of one model, float or quantized."""

    perplexity: Measured | None
    divergence: Divergence | None  # of a quantized model from the float one
    accuracies: tuple[Measured, ...]  # one for each task
    correct: tuple[int, ...]  # 0 or 1 for each item of all tasks
    task_seconds: float  # that the tasks took when they were measured

    def mean_accuracy(self) -> tuple[float, float] | None:
        """Return the mean over the tasks and its standard error, tasks being independent; None without tasks."""
        if not self.accuracies:
            return None
        count = len(self.accuracies)
        error = math.sqrt(sum((event.standard_error or 0.0) ** 2 for event in self.accuracies)) / count
        return sum(event.value for event in self.accuracies) / count, error


NOTHING_MEASURED = Measurements(None, None, (), (), 0.0)


def load_or_make(store: ArtefactStore, key: str, make: Callable[[], bytes], suffix: str = ".json") -> bytes:
    """Return the bytes stored under a key, made by ``make`` if there are none yet."""
    payload = store.read(key, suffix)
    if payload is None:
        payload = make()
        store.write(key, suffix, payload)
    return payload


def measure(
    bench: Workbench, prepared: Prepared, which: Which, model_key: str, states: KeptStates | None
) -> Generator[Event, None, Measurements]:
    """Measure perplexity and accuracies that the recipe asks for, of the model as it is now, under ``model_key``.

    ``states`` of the test text, where there is one, are made of the float model, and a quantized one is measured beside
    them.
    """
    recipe, stage = prepared.recipe, f"measuring the {which} model"
    perplexity, divergence, accuracies, correct, seconds = None, None, [], [], 0.0
    if states is not None:
        yield Stage(stage, "perplexity")
        if which == "float":
            value, protocol = yield from _float_perplexity(bench, prepared, model_key, states)
        else:
            value, protocol, divergence = yield from measure_beside_float(bench, prepared, model_key, states)
        perplexity = Measured("perplexity", which, value, None, protocol)
        yield perplexity
        if divergence is not None:
            yield Diverged(divergences(divergence))
        elif which == "quantized":
            yield Warned(STATES_GONE, "test text")
    for task in recipe.tasks:
        yield Stage(stage, task)
        accuracy, items, task_seconds = yield from _accuracy(bench, task, recipe.task_limit, which, model_key)
        accuracies.append(accuracy)
        correct += items
        seconds += task_seconds
        yield accuracy
    return Measurements(perplexity, divergence, tuple(accuracies), tuple(correct), seconds)


STATES_GONE = (
    "the cached predictions of the float model are gone, so the quantized ones could not be compared with them: "
    "run it again, with more SARQC_CACHE_GIB"
)


def keep_states(bench: Workbench, prepared: Prepared, states: KeptStates) -> Generator[Event]:
    """Make the states of the test text, unless they are stored, while the model is float."""
    if not states.is_complete():
        yield Stage("measuring the float model", "its predictions")
        yield from _measure_and_store_states(bench, prepared, states)


def _float_perplexity(
    bench: Workbench, prepared: Prepared, model_key: str, states: KeptStates
) -> Generator[Event, None, tuple[float, PerplexityProtocol]]:
    """Return the perplexity of the float model. A pass that is made stores the states too."""
    key = _perplexity_key(prepared, model_key)
    payload = bench.store.read(key, ".json")
    if payload is None:
        payload = _to_bytes((yield from _measure_and_store_states(bench, prepared, states)))
        bench.store.write(key, ".json", payload)
    return _read(prepared, payload)


def _measure_and_store_states(
    bench: Workbench, prepared: Prepared, states: KeptStates
) -> Generator[Event, None, Perplexity]:
    test = measured_text(prepared)
    steps = perplexity_steps(
        bench.loaded, test.ids, test.corpus, prepared.window, None, states.add, begin=len(test.begin)
    )
    perplexity, _ = yield from _report(steps)
    states.finish()
    return perplexity


def _report(
    steps: Generator[tuple[int, int], None, T], what: str = "windows of the test text"
) -> Generator[Event, None, T]:
    """Return the result of the steps, and yield their progress now and then."""
    last_event = time.monotonic()
    for done, total in (passes := Returning(steps)):
        if (now := time.monotonic()) >= last_event + EVENT_INTERVAL:
            last_event = now
            yield Advanced(done, total, what)
    return passes.value


def measure_beside_float(
    bench: Workbench, prepared: Prepared, model_key: str, states: KeptStates
) -> Generator[Event, None, tuple[float, PerplexityProtocol, Divergence | None]]:
    """Return perplexity of the quantized model, with its protocol, and from the same passes how far it is from the
    float one; None for that where the states are gone.
    """
    test, store = measured_text(prepared), bench.store
    if (stored := load_beside_float(bench, prepared, model_key)) is not None:
        return stored
    text = (bench.loaded, test.ids, test.corpus, prepared.window)
    try:
        perplexity, divergence = yield from _report(perplexity_steps(*text, states, begin=len(test.begin)))
        assert divergence is not None
        key = divergence_key(model_key, test, prepared.window)
        store.write(key, ".json", json.dumps(asdict(divergence)).encode())
    except StatesGone:
        perplexity, divergence = yield from _report(perplexity_steps(*text, None, begin=len(test.begin)))
    payload = _to_bytes(perplexity)
    store.write(_perplexity_key(prepared, model_key), ".json", payload)
    return *_read(prepared, payload), divergence


def measure_another(
    bench: Workbench, prepared: Prepared, job: CalibrationJob, states: KeptStates, stage: str, doing: str
) -> Generator[Event, None, tuple[float, Divergence | None]]:
    """Return the perplexity and the divergence of the model that another job than the run's makes of the float one.

    The model is float before and after. ``stage`` and ``doing`` name the work where nothing of that model is stored.
    """
    keys = layer_keys(bench.model, job)
    key = quantized_model_key(bench.model, keys)
    if (known := load_beside_float(bench, prepared, key)) is not None:
        return known[0], known[2]
    yield Stage(stage, doing)
    try:
        layers = (solved for solved in bench.calibrated(job, keys) if isinstance(solved, SolvedLayer))
        yield from _report(((done, len(keys)) for done, _ in enumerate(layers, 1)), "layers")
        yield Stage(stage, "perplexity")
        perplexity, _, divergence = yield from measure_beside_float(bench, prepared, key, states)
    finally:
        bench.loaded.reset()
    return perplexity, divergence


def load_beside_float(
    bench: Workbench, prepared: Prepared, model_key: str
) -> tuple[float, PerplexityProtocol, Divergence] | None:
    """Return the stored result of ``measure_beside_float``; None if a part of it is not stored."""
    test = measured_text(prepared)
    keys = _perplexity_key(prepared, model_key), divergence_key(model_key, test, prepared.window)
    perplexity, divergence = (bench.store.read(key, ".json") for key in keys)
    if perplexity is None or divergence is None:
        return None
    return *_read(prepared, perplexity), Divergence.from_json(json.loads(divergence))


def divergences(divergence: Divergence) -> Divergences:
    """Return a divergence for documents."""
    return {
        "log_ratio": or_none(divergence.log_ratio.mean),
        "log_ratio_standard_error": or_none(divergence.log_ratio.error),
        "kl": or_none(divergence.kl.mean),
        "kl_standard_error": or_none(divergence.kl.error),
        "kl_99": or_none(divergence.kl_99),
        "same_top": or_none(divergence.same_top.mean),
        "same_top_standard_error": or_none(divergence.same_top.error),
    }


def measured_text(prepared: Prepared) -> Text:
    """Return the text of a recipe that measures on one."""
    assert prepared.test is not None  # states are of a text
    return prepared.test


def _perplexity_key(prepared: Prepared, model_key: str) -> str:
    return perplexity_key(model_key, measured_text(prepared), prepared.window)


def _to_bytes(perplexity: Perplexity) -> bytes:
    return json.dumps({"value": perplexity.value, "protocol": perplexity.protocol}).encode()


def _read(prepared: Prepared, payload: bytes) -> tuple[float, PerplexityProtocol]:
    """Return a stored perplexity with this recipe's protocol: two may take the same tokens of different texts."""
    document = json.loads(payload)
    text = measured_text(prepared)
    facts = {
        "part": text.part,
        "written_by": text.written_by,
        "begin": text.begin.text,
        "only_the_first_tokens": text.first,
    }
    protocol = document["protocol"] | {name: fact for name, fact in facts.items() if fact}
    return document["value"], cast(PerplexityProtocol, protocol)


def _accuracy(
    bench: Workbench, task: str, limit: int | None, which: Which, model_key: str
) -> Generator[Event, None, tuple[Measured, list[int], float]]:
    """Return the event, 0 or 1 for each item, and the seconds that it took when it was measured."""

    def work(tell: Tell) -> bytes:
        started = time.perf_counter()
        measured = measure_accuracy(bench.loaded, task, bench.settings, limit=limit, tell=tell)
        return json.dumps(asdict(measured) | {"seconds": time.perf_counter() - started}).encode()

    key = accuracy_key(bench.model, model_key, task, limit, items_key(task, bench.settings))
    payload = bench.store.read(key, ".json")
    if payload is None:
        payload = yield from with_progress(work, f"answers of {task}")
        bench.store.write(key, ".json", payload)
    document = json.loads(payload)
    event = Measured("accuracy", which, document["value"], document["standard_error"], document["protocol"])
    return event, document["correct"], document["seconds"]


def continue_prompts(bench: Workbench, prepared: Prepared) -> Generator[Event, None, tuple[str, ...]]:
    """Continue the recipe's prompts by the model while it is the float one; return the keys of the results.

    The log-probabilities of a prompt take up to half a gigabyte: they stay in the store, not in memory.
    """
    recipe, keys = prepared.recipe, []
    if prepared.prompts:
        yield Stage("measuring the float model", TEXTS)
    for ids in prepared.prompts:
        key = float_text_key(bench.model, ids, recipe.new_tokens, recipe.seed)

        def make(ids: np.ndarray = ids) -> bytes:
            return continue_float(bench.loaded, ids, recipe.new_tokens, recipe.seed)

        load_or_make(bench.store, key, make, _TENSORS)
        keys.append(key)
    return tuple(keys)


def compare_prompts(
    bench: Workbench, prepared: Prepared, text_keys: tuple[str, ...], quantized_key: str
) -> Generator[Event, None, tuple[TextsCompared, ...]]:
    """Continue the same prompts by the quantized model, each beside the float one's stored result."""
    recipe, compared = prepared.recipe, []
    if text_keys:
        yield Stage("measuring the quantized model", TEXTS)
    for index, (ids, text_key) in enumerate(zip(prepared.prompts, text_keys, strict=True)):

        def make(ids: np.ndarray = ids, text_key: str = text_key) -> bytes:
            float_part = bench.store.read(text_key, _TENSORS)
            if float_part is None:
                raise SarqcError(
                    "the cached texts of the float model are gone",
                    TEXTS,
                    "Run it again with a larger SARQC_CACHE_GIB.",
                )
            document = compare_texts(bench.loaded, ids, recipe.new_tokens, recipe.seed, float_part)
            return json.dumps(document).encode()

        document = json.loads(load_or_make(bench.store, compared_text_key(text_key, quantized_key), make))
        event = TextsCompared(recipe.prompts[index], index, len(recipe.prompts), **document)
        compared.append(event)
        yield event
    return tuple(compared)


def versions() -> dict[str, str]:
    """Return the libraries that a number depends on."""
    return {name: importlib.metadata.version(name) for name in ("torch", "transformers", "tokenizers", "numpy")}


def weights_protocol(checkpoint: Checkpoint) -> WeightsProtocol:
    """Return notes on the float model's weights; empty if there are none."""
    words = "" if checkpoint.origin is None else checkpoint.origin.words
    return {"weights": words} if words else {}


def feeding_protocol(prepared: Prepared) -> FeedingProtocol:
    """Return notes on the float model's input; empty if there are none."""
    return {"feeding": prepared.feeding} if prepared.feeding else {}


def device_warnings(device: torch.device) -> Iterator[Warned]:
    """Yield warnings about deviations of a run on this device; results are not affected."""
    if reason := kernel_obstacle(device):
        yield Warned(f"columns are solved one by one, which is slow on a GPU: {reason}", str(device))
