"""GPTQ 1 % on the same grid and texts as a run, and how much the run's perplexity is lower."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np

from sarqc.calibration.job import CalibrationJob
from sarqc.documents import Baseline
from sarqc.engine.keys import ModelDescription, layer_keys, quantized_model_key
from sarqc.engine.measure import STATES_GONE, divergences, load_beside_float, measure_another
from sarqc.engine.run import RunContext
from sarqc.errors import SarqcError
from sarqc.evaluation.divergence import Divergence
from sarqc.events import Compared, Event
from sarqc.plain import measured as or_none
from sarqc.quantization.methods import METHODS
from sarqc.recipe import BASELINE, Recipe
from sarqc.study.evidence import Evidence
from sarqc.study.paired import paired_difference

_TITLE = METHODS[BASELINE].title


def baseline_job(job: CalibrationJob, recipe: Recipe) -> CalibrationJob:
    """Return the same calibration with the baseline's method, and without curves."""
    return CalibrationJob(job.grids, recipe.baseline_method(), job.inputs_from, job.sequences)


def baseline_key(model: ModelDescription, job: CalibrationJob, recipe: Recipe) -> str:
    """Return the key of the model that the baseline makes."""
    return quantized_model_key(model, layer_keys(model, baseline_job(job, recipe)))


def compare_with_baseline(run: RunContext) -> Iterator[Event]:
    """Compare the quantized model with the baseline, if the recipe asks for it.

    The model is float afterwards, unless the baseline was measured before on the same texts: then nothing is done.
    """
    bench, prepared, recipe, divergence = run.bench, run.prepared, run.recipe, run.quantized.divergence
    if not recipe.baseline:
        return
    reason = recipe.why_no_baseline()
    if reason or run.states is None or divergence is None:
        outcome = _explain_absence(reason or STATES_GONE)
    else:
        run.is_float = load_beside_float(bench, prepared, baseline_key(bench.model, run.job, recipe)) is None
        if run.is_float:
            bench.loaded.reset()
        job, stage = baseline_job(run.job, recipe), f"comparing with {_TITLE}"
        try:
            perplexity, other = yield from measure_another(bench, prepared, job, run.states, stage, "quantizing")
            outcome = (
                _explain_absence(STATES_GONE)
                if other is None
                else _compare(perplexity, divergence, other, Path(recipe.test or "").name)
            )
        except SarqcError as error:  # the run itself has its results
            outcome = _explain_absence(f"it failed, {error.what}")
    run.summary["baseline"] = outcome
    yield Compared(outcome)


def _explain_absence(reason: str) -> Baseline:
    document = {"method": BASELINE, "reason": reason, "words": f"Not compared with {_TITLE}: {reason}."}
    return cast(Baseline, dict.fromkeys(Baseline.__annotations__) | document)


def _compare(perplexity: float, run: Divergence, baseline: Divergence, test: str) -> Baseline:
    """Compare by windows: what both methods find easy or hard in one is not a difference."""
    difference = paired_difference(np.array(run.log_ratios), np.array(baseline.log_ratios))
    evidence = Evidence.of_windows(difference, quantity="perplexity", reference=f"{_TITLE} at the same grid", text=test)
    return {
        "method": BASELINE,
        "reason": "",
        "perplexity": perplexity,
        "difference": float(difference.mean),
        "difference_standard_error": or_none(float(difference.error)),
        "evidence": evidence.to_json(),
        "words": f"{evidence.words}.",
        **divergences(baseline),
    }
