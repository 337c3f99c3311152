"""Data that all points of a survey share: the float model, its texts, and measurements beside it."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from sarqc.calibration.capture import collect
from sarqc.calibration.corpora import Sequences, Text, draw_sequences, separate_texts, text_of
from sarqc.engine.keys import MEASUREMENT_FORMAT, accuracy_key, describe, model_fingerprint, text_parts
from sarqc.engine.measure import Workbench, load_or_make
from sarqc.evaluation.perplexity import drain, perplexity_steps, states_of
from sarqc.evaluation.tasks import items_key, measure_accuracy
from sarqc.extras.survey.schema import Survey
from sarqc.files.artefacts import ArtefactStore, chain_key
from sarqc.models.admission import admit
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.loading import choose_device, load
from sarqc.models.walk import BlockWalk
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.settings import Settings


@dataclass(frozen=True, eq=False)
class SurveyPoint:
    """A point of a survey, measured."""

    perplexity: float
    kl: float  # KL(float ‖ quantized) in nats, mean over the test text's tokens
    correct: np.ndarray  # (items,) uint8, 0 or 1, of all tasks; empty without any

    def accuracy(self) -> tuple[float, float] | None:
        """Return the share of the items and its standard error; None without tasks."""
        items = len(self.correct)
        if not items:
            return None
        share = float(self.correct.mean())
        return share, math.sqrt(share * (1 - share) / max(items - 1, 1))


@dataclass(frozen=True, eq=False)
class SharedData:
    """Data that all points of a survey share."""

    survey: Survey
    bench: Workbench
    calibration: Text
    held_out: Sequences  # all of them in ``calibration``: nothing is fitted on them
    held_out_part: str  # of its text, see ``Text``
    test: Text
    states: Tensor  # of the float model on the test text, as ``states_of`` gives them
    float_weights: dict[str, Tensor]

    @cached_property
    def unseen(self) -> dict[str, LayerStatistics]:
        """Statistics of the held-out sequences, by layer."""
        return self.collected(self.held_out.calibration)

    def collected(self, sequences: np.ndarray) -> dict[str, LayerStatistics]:
        """Return statistics of every linear from the float model, by full name."""
        loaded = self.bench.loaded
        loaded.restore(self.float_weights)
        walk = BlockWalk(loaded, torch.from_numpy(sequences.copy()))
        collected: dict[str, LayerStatistics] = {}
        for index, block in enumerate(loaded.blocks()):
            statistics, outputs = collect(walk, block)
            collected |= {f"{loaded.family.blocks}.{index}.{path}": part for path, part in statistics.items()}
            walk.advance(outputs)
        return collected

    def model_key(self) -> str:
        """Return the key of the model with its weights as they are now, which a survey changes point by point."""
        return chain_key("survey model", self.bench.model.key, model_fingerprint(self.bench.loaded))

    def _keys(self, model_key: str, tasks: Sequence[str]) -> list[str]:
        """Return the keys of the measurements on the test text, beside the float model, and on tasks."""
        bench, limit = self.bench, self.survey.recipe.task_limit
        text = text_parts(self.test, self.survey.window)
        return [chain_key("survey point", MEASUREMENT_FORMAT, model_key, bench.model.key, *text)] + [
            accuracy_key(bench.model, model_key, task, limit, ("survey", *items_key(task, bench.settings)))
            for task in tasks
        ]

    def is_measured(self, model_key: str, tasks: Sequence[str]) -> bool:
        """Return True if ``point`` needs no model, because everything is stored."""
        return all(self.bench.store.has(key, ".json") for key in self._keys(model_key, tasks))

    def point(self, model_key: str, tasks: Sequence[str]) -> SurveyPoint:
        """Measure the model with that key on the text and on tasks.

        Its weights are the loaded model's where something is not measured yet.
        """
        bench, test = self.bench, self.test

        def on_text() -> bytes:
            text = (bench.loaded, test.ids, test.corpus, self.survey.window)
            perplexity, divergence = drain(perplexity_steps(*text, self.states, begin=len(test.begin)))
            assert divergence is not None
            return json.dumps({"perplexity": perplexity.value, "kl": divergence.kl.mean}).encode()

        def on_task(task: str) -> bytes:
            measured = measure_accuracy(bench.loaded, task, bench.settings, limit=self.survey.recipe.task_limit)
            return json.dumps(measured.correct).encode()

        text_key, *task_keys = self._keys(model_key, tasks)
        document, correct = json.loads(load_or_make(bench.store, text_key, on_text)), []
        for task, task_key in zip(tasks, task_keys, strict=True):
            correct += json.loads(load_or_make(bench.store, task_key, partial(on_task, task)))
        return SurveyPoint(document["perplexity"], document["kl"], np.array(correct, dtype=np.uint8))


def prepare(survey: Survey, settings: Settings) -> SharedData:
    """Load the model and the texts."""
    recipe = survey.recipe
    checkpoint = checkpoint_of(recipe.model, None, settings, download=True)
    assert checkpoint is not None  # fetched where it was not here
    loaded = load(checkpoint, choose_device(settings.device), begins_with_bos=recipe.begin == "bos")
    if checkpoint.decoder is not None:
        admit(loaded, learns=any(line.to_method().unit == "block" for line in survey.lines))
    bench = Workbench(loaded, describe(loaded), ArtefactStore(settings.artefacts_root()), settings)
    # In halves where calibration and another are the same text.
    whole, held_out, test = (
        text_of(name, checkpoint, settings, begin=recipe.begin, download=True)
        for name in (recipe.calibration, survey.held_out, survey.test)
    )
    (beside_held_out, held_out), (beside_test, test) = separate_texts(whole, held_out), separate_texts(whole, test)
    unseen = draw_sequences(
        held_out,
        samples=survey.held_out_samples,
        length=recipe.length,
        held_out_samples=0,
        sampling="sequential",
        seed=0,
    )
    test = test.limited(recipe.test_tokens).in_windows(survey.window)
    return SharedData(
        survey,
        bench,
        beside_held_out if beside_held_out.part else beside_test,
        unseen,
        held_out.part,
        test,
        states_of(loaded, test.ids, test.corpus, survey.window),
        loaded.weights(),
    )
