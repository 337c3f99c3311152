"""execute(recipe): one run from recipe to study, as a generator of events. No database, no web, no clock in results."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.artefacts import ArtefactStore
from sarqc.calibration.corpora import described, read_corpus, token_ids
from sarqc.calibration.job import SolvedLayer, calibration_job
from sarqc.calibration.kept_layers import SUFFIX, KeptLayers
from sarqc.calibration.pictures import LayerCurve
from sarqc.calibration.pipeline import calibrate
from sarqc.engine.auto_by_model import ModelSelection, select_for_model
from sarqc.engine.keys import accuracy_key, float_model_key, layer_keys, perplexity_key, quantized_model_key
from sarqc.engine.plan import drawn_sequences, indivisible_layers, output_is_free, plan, window_for
from sarqc.engine.study_output import AXES, UNMEASURED, auto_fields, curve_arrays, now, study_line, versions
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.evaluation.side_by_side import TextComparison
from sarqc.evaluation.speed import measure_speed
from sarqc.evaluation.tasks import MEASURED_BESIDE, items_key, measure_accuracy
from sarqc.events import (
    Event,
    Finished,
    LayerDone,
    Measured,
    Saved,
    SpeedMeasured,
    Stage,
    Started,
    TextsCompared,
    Warned,
)
from sarqc.export.card import model_card
from sarqc.export.packed import save_packed
from sarqc.export.plain import save_plain
from sarqc.export.readers import Format, check_format
from sarqc.models.catalogue import fetch
from sarqc.models.checkpoint import Checkpoint, read_checkpoint
from sarqc.models.loading import LoadedModel, choose_device, load
from sarqc.quantization.methods import METHODS
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.document import ModelFacts, Study, StudyWriter
from sarqc.study.experts import counts_of_run

_FALLBACKS = {  # flags of a layer that got something else than was asked for
    "not_foldable": "no operation before it can take up scales: it is rounded without any",
    "not_judged": "no token came by which its candidates could be judged: the first one was taken",
}
_STARVED = {  # flags of experts' linears
    "no_tokens": "saw no calibration token: they are rounded to nearest",
    "fewer_tokens_than_channels": "saw fewer calibration tokens than they have input channels",
}


def execute(
    recipe: Recipe,
    settings: Settings | None = None,
    *,
    study_dir: Path | None = None,
    study_id: str | None = None,
    checkpoint_dir: Path | None = None,
    checkpoint_format: Format = "plain",
) -> Iterator[Event]:
    """Runs a recipe and yields what happens; the last event is ``Finished`` with the summary.

    Refusals of ``preflight.plan`` are raised before any work, other errors as ``SarqcError``. Finished layers and
    measurements are kept under ``settings.artefacts_dir()``: the same recipe again costs nothing, and one that was
    stopped anywhere continues to bit-identical weights. With ``study_dir`` a study named ``study_id`` is written
    there; with ``checkpoint_dir`` (a new folder) the quantized model, with its weights dequantized (``plain``) or its
    codes (``packed``). Without ``settings`` those of the environment count.
    """
    settings = settings or Settings()
    started = time.perf_counter()
    planned = plan(recipe, settings)
    if checkpoint_dir is not None:
        check_format(recipe, checkpoint_format)
        output_is_free(checkpoint_dir)
    if planned.parameters is None:
        yield Stage("downloading", recipe.model)
        fetch(recipe.model, recipe.revision, settings, download=True)
        planned = plan(recipe, settings)  # what could not be checked before the model was here
    for warning in planned.warnings:
        yield Warned(warning, "plan")
    yield Stage("loading", recipe.model)
    run = _Run(recipe, settings, planned.streamed)
    yield run.started()
    for name, what in run.float_measurements():
        yield Stage("measuring the float model", name)
        yield from what
    yield from run.choose_lambda()
    yield Stage("quantizing", f"{recipe.method}, {recipe.bits} bits")
    yield from run.layers()
    for name, what in run.quantized_measurements():
        yield Stage("measuring the quantized model", name)
        yield from what
    if recipe.speed:
        yield Stage("measuring speed")
        yield run.measure_speed()
    if study_dir is not None:
        name = study_id or recipe.fingerprint()
        yield Stage("saving", "study")
        run.save_study(study_dir / name, name)
        yield Saved("study", str(study_dir / name))
    if checkpoint_dir is not None:
        yield Stage("saving", "checkpoint")
        run.save_checkpoint(checkpoint_dir, checkpoint_format)
        yield Saved("checkpoint", str(checkpoint_dir))
    run.store.trim(int(settings.cache_gib * 2**30))
    yield Finished(run.summary(), time.perf_counter() - started)


def warm_up() -> None:
    """Imports what every run needs, so that a process that waits for work has done so before the work comes."""
    import transformers

    for name in ("AutoModelForCausalLM", "AutoTokenizer"):  # transformers imports its parts when they are touched
        getattr(transformers, name)


class _Run:
    """The state of one execution: the loaded model, what was solved and what was measured."""

    def __init__(self, recipe: Recipe, settings: Settings, streamed: bool) -> None:
        self.recipe, self.settings = recipe, settings
        self.store = ArtefactStore(settings.artefacts_dir())
        whole = read_checkpoint(fetch(recipe.model, recipe.revision, settings, download=True))
        self.checkpoint: Checkpoint = whole.restricted(recipe.only)
        self.loaded: LoadedModel = load(
            self.checkpoint, choose_device(settings.device), scratch=settings.scratch_dir() if streamed else None
        )
        self.calibration = calibration_job(
            recipe,
            self.checkpoint,
            drawn_sequences(recipe, self.checkpoint, settings),
            indivisible_layers(recipe, self.checkpoint),
        )
        self.keys = layer_keys(self.loaded, self.calibration)
        self.selection: ModelSelection | None = None
        self.model_key = float_model_key(self.loaded)
        self.reports: dict[str, LayerReport] = {}  # by layer; weights and codes are in the store
        self.curves: list[LayerCurve] = []
        self.measured: dict[tuple[str, str], Measured] = {}
        self.correct: dict[str, list[int]] = {}
        prompts = [token_ids(prompt, self.checkpoint.folder) for prompt in recipe.prompts]
        self.texts = TextComparison(self.loaded, recipe, prompts, self.store, self.model_key)
        self.compared: list[TextsCompared] = []
        self.speed: SpeedMeasured | None = None

    def started(self) -> Started:
        return Started(
            model=self.recipe.model,
            device=str(self.loaded.device),
            layers=[layer.model_dump(mode="json") for layer in self.checkpoint.layers],
            share_quantized=self.checkpoint.share_quantized,
            finished_layers=sum(self.store.has(key, SUFFIX) for key in self.keys.values()),
        )

    def choose_lambda(self) -> Iterator[Event]:
        """Settles on one λ where the recipe leaves that to the whole model; otherwise nothing happens."""
        recipe, candidates = self.recipe, self.recipe.candidates()
        if not candidates or METHODS[recipe.method].auto.by != "model":
            return
        samples = recipe.validation_samples()
        yield Stage("choosing λ", f"{len(candidates)} candidates, judged on {samples} of {recipe.samples} sequences")
        for step in select_for_model(
            self.loaded, self.calibration, candidates, samples, self.store, budget_bytes=self.settings.sweep_bytes()
        ):
            if isinstance(step, ModelSelection):
                self.selection = step
                chosen = candidates[step.best]
                self.calibration = dataclasses.replace(self.calibration, method=chosen)
                self.keys = layer_keys(self.loaded, self.calibration)
            else:
                yield step

    def layers(self) -> Iterator[Event]:
        for solved in calibrate(
            self.loaded, self.calibration, self.store, self.keys, budget_bytes=self.settings.sweep_bytes()
        ):
            if not isinstance(solved, SolvedLayer):
                yield solved
                continue
            index, report = len(self.curves), solved.quantized.report
            self.reports[solved.info.name] = report
            self.curves.append(solved.curve)
            yield LayerDone(
                name=solved.info.name,
                index=index,
                total=len(self.keys),
                report=report.to_json(),
                seconds=solved.seconds,
                from_cache=solved.from_cache,
            )
            if report.diagonal_floor > 0:
                yield Warned(f"{report.diagonal_floor:.3g} was added to the Gram's diagonal", solved.info.name)
            for flag in report.flags:
                if flag in _FALLBACKS:
                    yield Warned(_FALLBACKS[flag], solved.info.name)
        yield from self._starved_experts()

    def _starved_experts(self) -> Iterator[Event]:
        """One warning for each kind, because a mixture may have thousands of such layers; reports name them."""
        experts = [layer.name for layer in self.checkpoint.layers if layer.expert is not None]
        for flag, words in _STARVED.items():
            found = [name for name in experts if flag in self.reports[name].flags]
            if found:
                yield Warned(f"{len(found)} of {len(experts)} linears of experts {words}", f"{found[0]} and others")

    def float_measurements(self) -> Iterator[tuple[str, Iterator[Event]]]:
        yield from self._measurements("float", self.model_key)

    def quantized_measurements(self) -> Iterator[tuple[str, Iterator[Event]]]:
        yield from self._measurements("quantized", quantized_model_key(self.model_key, self.keys))

    def _measurements(self, which: str, weights_key: str) -> Iterator[tuple[str, Iterator[Event]]]:
        recipe = self.recipe
        if recipe.test:
            yield "perplexity", self._perplexity(which, weights_key)
        for task in recipe.tasks:
            yield task, self._accuracy(which, weights_key, task)
        if recipe.prompts:
            yield "text side by side", self.texts.read_float() if which == "float" else self._compare(weights_key)

    def _compare(self, weights_key: str) -> Iterator[Event]:
        for event in self.texts.compare(weights_key):
            self.compared.append(event)
            yield event

    def kept_layers(self) -> KeptLayers:
        return KeptLayers(self.store, self.keys, self.checkpoint.layers)

    def measure_speed(self) -> SpeedMeasured:
        """Measured anew each time: what a clock said once is nothing to keep."""
        length = window_for(self.checkpoint.max_positions, None)
        self.speed = measure_speed(self.loaded, self.kept_layers(), self.calibration.grids, length)
        return self.speed

    def _perplexity(self, which: str, weights_key: str) -> Iterator[Event]:
        recipe, folder = self.recipe, self.checkpoint.folder
        ids = token_ids(read_corpus(recipe.test, self.settings), folder)[: recipe.test_tokens]
        corpus = described(recipe.test, self.settings)
        window = window_for(self.checkpoint.max_positions, recipe.window)

        def measure() -> dict[str, Any]:
            found = measure_perplexity(self.loaded, ids, corpus, window)
            limit = {} if recipe.test_tokens is None else {"only_the_first_tokens": recipe.test_tokens}
            return {"value": found.value, "protocol": found.protocol | limit}

        key = perplexity_key(weights_key, ids, window, corpus)
        document = self._kept(key, measure)
        yield self._note(Measured("perplexity", which, document["value"], None, document["protocol"]))

    def _accuracy(self, which: str, weights_key: str, task: str) -> Iterator[Event]:
        def measure() -> dict[str, Any]:
            return dataclasses.asdict(measure_accuracy(self.loaded, task, self.settings, limit=self.recipe.task_limit))

        key = accuracy_key(weights_key, task, self.recipe.task_limit, items_key(task, self.settings))
        document = self._kept(key, measure)
        self.correct[which] = self.correct.get(which, []) + list(document["correct"])
        yield self._note(
            Measured("accuracy", which, document["value"], document["standard_error"], document["protocol"])
        )

    def _kept(self, key: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        payload = self.store.read(key, ".json")
        if payload is None:
            payload = json.dumps(measure()).encode()
            self.store.write(key, ".json", payload)
        return json.loads(payload)

    def _note(self, event: Measured) -> Measured:
        name = event.quantity if event.quantity == "perplexity" else f"accuracy on {event.protocol['task']}"
        self.measured[(name, event.which)] = event
        return event

    def _mean_accuracy(self, which: str) -> tuple[float, float] | None:
        """Mean over the tasks and its standard error, tasks being independent."""
        found = [event for (_, of), event in self.measured.items() if of == which and event.quantity == "accuracy"]
        if not found:
            return None
        error = math.sqrt(sum(event.standard_error**2 for event in found)) / len(found)
        return sum(event.value for event in found) / len(found), error

    def summary(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        summary: dict[str, Any] = {
            "recipe": self.recipe.to_json(),
            "device": str(self.loaded.device),
            "share_quantized": self.checkpoint.share_quantized,
            "selection": self._selection(),
            "perplexity": self._value("perplexity", "quantized"),
            "perplexity_float": self._value("perplexity", "float"),
            "protocol": {
                "calibration": self.calibration.sequences.protocol,
                "test": self._protocol("perplexity"),
                "versions": versions(),
            },
        }
        tasks = {}
        for (_, which), event in self.measured.items():
            if event.quantity == "accuracy":
                task = tasks.setdefault(event.protocol["task"], {})
                beside = {name: event.protocol[name] for name in MEASURED_BESIDE if name in event.protocol}
                task[which] = {"accuracy": event.value, "standard_error": event.standard_error} | beside
                task["protocol"] = {name: said for name, said in event.protocol.items() if name not in beside}
        summary["tasks"] = tasks
        for which, suffix in (("quantized", ""), ("float", "_float")):
            accuracy = self._mean_accuracy(which)
            summary[f"accuracy{suffix}"] = None if accuracy is None else accuracy[0]
            summary[f"accuracy_standard_error{suffix}"] = None if accuracy is None else accuracy[1]
        summary["texts"] = [event.comparison() for event in self.compared]
        summary["speed"] = None if self.speed is None else dataclasses.asdict(self.speed)
        found = counts_of_run(self.checkpoint.layers, {name: one.n_tokens for name, one in self.reports.items()})
        summary["experts"] = None if found is None else found.to_json()
        summary["layers"] = [{"name": name, "report": report.to_json()} for name, report in self.reports.items()]
        return summary

    def _selection(self) -> dict[str, Any] | None:
        """How “auto” chose; the candidates of layers are in their reports."""
        if self.selection is not None:
            return self.selection.to_json()
        return {"by": "layer"} if self.calibration.candidates else None

    def _value(self, name: str, which: str) -> float | None:
        event = self.measured.get((name, which))
        return None if event is None else event.value

    def _protocol(self, name: str) -> dict[str, Any] | None:
        event = self.measured.get((name, "quantized"))
        return None if event is None else event.protocol

    def save_checkpoint(self, folder: Path, checkpoint_format: Format) -> None:
        """The model with its card."""
        card = model_card(self.recipe, self.summary(), checkpoint_format, self.checkpoint.family)
        if checkpoint_format == "packed":
            save_packed(self.loaded, self.kept_layers(), self.calibration.grids, folder, card)
        else:
            save_plain(self.loaded, folder, card)

    def save_study(self, folder: Path, study_id: str) -> Study:
        """The study of this one run: one line with one draw, measured at the chosen point only."""
        recipe, calibration, summary = self.recipe, self.calibration, self.summary()
        lams, own = calibration.curve_lams(), calibration.own_point()
        reports = list(self.reports.values())
        writer = StudyWriter(folder)
        try:
            arrays = curve_arrays(writer, [[[curve] for curve in self.curves]])
            perplexity, accuracy = np.full((1, 1, len(lams)), np.nan), np.full((1, 1, len(lams)), np.nan)
            if self._value("perplexity", "quantized") is not None:
                perplexity[0, 0, own] = self._value("perplexity", "quantized")
            mean_accuracy = self._mean_accuracy("quantized")
            if mean_accuracy is not None:
                accuracy[0, 0, own] = mean_accuracy[0]
                correct = np.full((1, 1, len(lams), len(self.correct["quantized"])), UNMEASURED, dtype=np.uint8)
                correct[0, 0, own] = self.correct["quantized"]
                arrays["correct"] = writer.add(correct, (*AXES, "item"))
            arrays |= {"perplexity": writer.add(perplexity, AXES), "accuracy": writer.add(accuracy, AXES)}
            fields = {"lams": lams, "gammas": (calibration.method.gamma,), "chosen": (0, own)}
            if (selection := self._selection()) is not None:
                fields, chosen = auto_fields(writer, selection["by"], recipe.candidates(), [reports], [self.selection])
                arrays |= chosen
            line = study_line(
                recipe.method, bits=recipe.bits, grid=recipe.grid, group_size=recipe.group_size,
                draws=(recipe.seed,), arrays=arrays, **fields,
            ).model_copy(update={"texts": tuple(summary["texts"]), "speed": summary["speed"]})  # fmt: skip
            accuracy_float = self._mean_accuracy("float")
            study = Study(
                id=study_id,
                title=f"{Path(recipe.model).name}, {recipe.bits} bits, {line.title}",
                created=now(),
                prefix=recipe.inputs_from,
                model=ModelFacts(
                    name=recipe.model, parameters=self.checkpoint.parameters,
                    share_quantized=self.checkpoint.share_quantized,
                    perplexity=self._value("perplexity", "float"),
                    accuracy=None if accuracy_float is None else accuracy_float[0],
                    accuracy_standard_error=None if accuracy_float is None else accuracy_float[1],
                ),
                protocol=summary["protocol"] | {"device": str(self.loaded.device), "tasks": list(recipe.tasks)},
                recipe=recipe.to_json(),
                layers=tuple(self.checkpoint.layers),
                lines=(line,),
                layer_reports={name: report.to_json() for name, report in self.reports.items()},
                flags=tuple(sorted({flag for report in reports for flag in report.flags})),
            )  # fmt: skip
            return writer.finish(study)
        finally:
            writer.discard()
