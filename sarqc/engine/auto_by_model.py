"""“auto” for the whole model: one λ by the perplexity of calibration sequences that nothing was solved on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sarqc.artefacts import ArtefactStore
from sarqc.calibration.corpora import Sequences
from sarqc.calibration.job import CalibrationJob, Curves
from sarqc.calibration.pipeline import calibrate
from sarqc.engine.keys import layer_keys, selection_key
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.events import CandidateDone, EpochDone
from sarqc.models.loading import LoadedModel
from sarqc.quantization.methods import Method


@dataclass(frozen=True)
class ModelSelection:
    """What was compared and what was chosen: the smallest perplexity, the first of equals."""

    lams: tuple[float, ...]
    perplexities: tuple[float, ...]
    best: int
    protocol: dict[str, Any]

    @property
    def lam(self) -> float:
        return self.lams[self.best]

    def to_json(self) -> dict[str, Any]:
        table = [{"lambda": lam, "perplexity": value} for lam, value in zip(self.lams, self.perplexities, strict=True)]
        return {"by": "model", "lambda": self.lam, "candidates": table, "protocol": self.protocol}


def select_for_model(
    loaded: LoadedModel,
    job: CalibrationJob,
    candidates: Sequence[Method],
    validation_samples: int,
    store: ArtefactStore,
    *,
    budget_bytes: int,
) -> Iterator[CandidateDone | EpochDone | ModelSelection]:
    """Quantizes the model with each candidate and measures it; the last thing yielded is what was chosen.

    The last ``validation_samples`` calibration sequences are kept for judging, in windows of their own length, the
    others are calibrated on. The model is float before and after. Perplexities are kept in ``store``: a selection
    that was stopped goes on at the candidate where it was.
    """
    sequences = job.sequences.calibration
    train, validation = sequences[:-validation_samples], sequences[-validation_samples:]
    protocol = job.sequences.protocol | {"samples": len(train), "validation_samples": validation_samples}
    judged = replace(job, sequences=Sequences(train, job.sequences.held_out[:0], protocol), curves=Curves())
    window = validation.shape[1]
    values: list[float] = []
    found_protocol: dict[str, Any] = {}
    state = loaded.weights()
    keys = layer_keys(loaded, judged)  # hashes every weight, so once: what candidates differ in is added below
    for index, candidate in enumerate(candidates):
        trial = replace(judged, method=candidate)
        key = selection_key(keys, trial, validation)
        payload = store.read(key, ".json")
        if payload is None:
            for step in calibrate(loaded, trial, None, keys, budget_bytes=budget_bytes):
                if isinstance(step, EpochDone):
                    yield step
            measured = measure_perplexity(loaded, validation.reshape(-1), str(protocol["corpus"]), window)
            loaded.restore(state)
            payload = json.dumps({"value": measured.value, "protocol": measured.protocol}).encode()
            store.write(key, ".json", payload)
        document = json.loads(payload)
        values.append(document["value"])
        found_protocol = document["protocol"] | {"calibrated_on": len(train), "judged_on": validation_samples}
        yield CandidateDone(candidate.lam, index, len(candidates), document["value"])
    best = values.index(min(values))
    yield ModelSelection(tuple(one.lam for one in candidates), tuple(values), best, found_protocol)
