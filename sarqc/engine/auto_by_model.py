"""“auto” for the whole model: one λ by the perplexity of calibration sequences that nothing was solved on."""

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from sarqc.calibration.corpora import Sequences
from sarqc.calibration.job import CalibrationJob, Curves
from sarqc.calibration.pipeline import calibrate
from sarqc.documents import PerplexityProtocol, Selection
from sarqc.engine.costs import sweep_bytes
from sarqc.engine.keys import layer_keys, selection_key
from sarqc.engine.measure import Workbench
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.events import CandidateDone, EpochDone, Event, RoundingChecked, Stage
from sarqc.quantization.methods import Method
from sarqc.recipe import Recipe


@dataclass(frozen=True)
class ModelSelection:
    """The candidates and the chosen one: the smallest perplexity, the first of equals."""

    lams: tuple[float, ...]
    perplexities: tuple[float, ...]
    best: int
    protocol: PerplexityProtocol

    @property
    def lam(self) -> float:
        return self.lams[self.best]

    def to_json(self) -> Selection:
        pairs = zip(self.lams, self.perplexities, strict=True)
        return {
            "by": "model",
            "lambda": self.lam,
            "candidates": [{"lambda": lam, "perplexity": perplexity} for lam, perplexity in pairs],
            "protocol": self.protocol,
        }


def settle(
    bench: Workbench, recipe: Recipe, job: CalibrationJob
) -> Generator[Event, None, tuple[CalibrationJob, ModelSelection | None]]:
    """Return the job at the λ that “auto” chooses for the whole model; the same job without such a choice."""
    if recipe.auto_by() != "model":
        return job, None
    candidates = recipe.candidates()
    samples = recipe.validation_samples()
    yield Stage("choosing λ", f"{len(candidates)} candidates, judged on {samples} of {recipe.samples} sequences")
    selection = yield from select_for_model(bench, job, candidates, samples)
    return replace(job, method=candidates[selection.best]), selection


def select_for_model(
    bench: Workbench, job: CalibrationJob, candidates: Sequence[Method], validation_samples: int
) -> Generator[CandidateDone | EpochDone | RoundingChecked, None, ModelSelection]:
    """Quantize the model with each candidate and measure it; return the selection.

    The last ``validation_samples`` calibration sequences are kept for judging,
    in windows of their own length, the others are calibrated on. The model is float before and after. Perplexities are
    stored: a selection that was stopped goes on at its last candidate.
    """
    sequences = job.sequences.calibration
    train, validation = sequences[:-validation_samples], sequences[-validation_samples:]
    protocol = job.sequences.protocol | {"samples": len(train), "validation_samples": validation_samples}
    held_out = job.sequences.held_out if "held_out" in job.method.needs else job.sequences.held_out[:0]
    judged = replace(job, sequences=Sequences(train, held_out, protocol), curves=Curves())
    window = validation.shape[1]
    lams = tuple(0.0 if candidate.lam is None else candidate.lam for candidate in candidates)
    values, budget = list[float](), sweep_bytes(bench.settings)
    loaded, store = bench.loaded, bench.store
    state, keys = loaded.weights(), layer_keys(bench.model, judged)
    for index, candidate in enumerate(candidates):
        trial = replace(judged, method=candidate)
        key = selection_key(bench.model, keys, trial, validation)
        payload = store.read(key, ".json")
        if payload is None:
            for step in calibrate(loaded, trial, None, keys, budget_bytes=budget, spread=bench.spread):
                if isinstance(step, EpochDone | RoundingChecked):
                    yield step
            text, begin = str(protocol["corpus"]), job.sequences.begin
            measured = measure_perplexity(loaded, validation.reshape(-1), text, window, begin=begin)
            loaded.restore(state)
            payload = json.dumps({"value": measured.value, "protocol": measured.protocol}).encode()
            store.write(key, ".json", payload)
        document = json.loads(payload)
        values.append(document["value"])
        yield CandidateDone(lams[index], index, len(candidates), document["value"])
    best = values.index(min(values))
    named = {"begin": protocol["begin"]} if "begin" in protocol else {}
    judged_protocol = document["protocol"] | {"calibrated_on": len(train), "judged_on": validation_samples} | named
    return ModelSelection(lams, tuple(values), best, judged_protocol)
