"""Sentences that runs store in English: a German page knows each of them, made by the code that makes them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import product

import numpy as np

from sarqc.documents import DistilledBlock
from sarqc.engine import repair
from sarqc.engine.baseline import difference_words
from sarqc.engine.distill import outcome_of
from sarqc.engine.distill_blocks import blocks_outcome
from sarqc.engine.measure import STATES_GONE
from sarqc.evaluation.side_by_side import TEMPERATURE, TOP_P
from sarqc.quantization.scale_distillation import DistillationEpoch
from sarqc.study.paired import paired_difference
from tests.js.node import NODE

ENGLISH = re.compile(r"\b(the|of|than|from|lower|higher|layers|epochs|blocks|not|nats at|gain)\b", re.IGNORECASE)


def sentences() -> Iterator[str]:
    rising, random = np.linspace(0.05, 0.06, 8), np.random.default_rng(0)
    for values in (rising, -rising, random.normal(0, 1, 8), rising[:1], -rising[:1], rising * 0):
        difference = paired_difference(values, np.zeros(len(values)))
        yield difference_words(difference)
        yield repair.gain_words(0.2, 0.1, difference)
    for reason in (STATES_GONE, "no test text", "a single layer is quantized", "it is that itself"):
        yield f"Not compared with GPTQ 1 %: {reason}."
    yield from (repair._of_layers(42, kept, worse) for kept in (0, 3) for worse in (0, 2))
    epochs = [
        DistillationEpoch(epoch=number, calibration=value, held_out=value, drift=0.3)
        for number, value in enumerate((0.2, 0.1, 0.15))
    ]
    for norms, codes in product((0, 13), (False, True)):
        yield outcome_of(epochs, 5, norms=norms, codes=codes)["words"]
        yield outcome_of(epochs[:1], 5, norms=norms, codes=codes)["words"]
        yield blocks_outcome([], norms=norms, codes=codes)["words"]
        yield blocks_outcome([BLOCK], norms=norms, codes=codes)["words"]
    yield (
        f"temperature {TEMPERATURE}, top-p {TOP_P}; one uniform number a step for both models, inverted through the "
        "cumulative probabilities in order of token id"
    )


BLOCK: DistilledBlock = {
    "block": 0, "epochs": 5, "kept": 3, "held_out_before": 0.2, "held_out": 0.1, "drift_before": 0.3, "drift": 0.3,
}  # fmt: skip


def test_a_german_page_knows_every_stored_sentence() -> None:
    english = list(sentences())
    command = [str(NODE), "tests/js/run_stored_words.mjs"]
    done = subprocess.run(command, input=json.dumps(english), capture_output=True, text=True, check=True)
    for before, after in zip(english, json.loads(done.stdout), strict=True):
        assert before != after
        assert not ENGLISH.search(after), after
        assert len(re.findall(r"\d+", before)) == len(re.findall(r"\d+", after))
