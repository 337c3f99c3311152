"""GPTQ 1 % on the same grid and texts as a run, and how much the run's perplexity is lower."""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np

from sarqc.calibration.job import CalibrationJob
from sarqc.documents import Baseline
from sarqc.engine.kept_states import KeptStates
from sarqc.engine.keys import Weights, layer_keys, quantized_model_key
from sarqc.engine.measure import STATES_GONE, Measurements, Workbench, beside_float, divergences, kept_beside
from sarqc.engine.plan import Prepared
from sarqc.errors import SarqcError
from sarqc.evaluation.divergence import Divergence
from sarqc.events import Compared, Event, Stage
from sarqc.models.loading import LoadedModel
from sarqc.plain import measured as or_none
from sarqc.quantization.methods import METHODS
from sarqc.recipe import BASELINE, Recipe
from sarqc.study.paired import paired_difference

_TITLE = METHODS[BASELINE].title


def baseline_job(job: CalibrationJob, recipe: Recipe) -> CalibrationJob:
    """The same calibration with the baseline's method, and without curves."""
    return CalibrationJob(job.grids, recipe.baseline_method(), job.inputs_from, job.sequences)


def baseline_key(loaded: LoadedModel, job: CalibrationJob, recipe: Recipe, weights: Weights, float_key: str) -> str:
    """Of the model that the baseline makes; ``weights``: those of the float model."""
    return quantized_model_key(float_key, layer_keys(loaded, baseline_job(job, recipe), weights))


def compare(
    bench: Workbench, prepared: Prepared, job: CalibrationJob, weights: Weights, float_key: str,
    states: KeptStates | None, run: Measurements,
) -> Generator[Event, None, tuple[Baseline | None, bool]]:  # fmt: skip
    """The baseline beside what was measured of the ``run``; None where the recipe does not ask for it.

    ``weights``: those of the float model. Also returns whether the model was changed: it is float then. Where the
    baseline was measured before, on the same texts, nothing is done.
    """
    if not prepared.recipe.baseline:
        return None, False
    reason = prepared.recipe.why_no_baseline()
    if reason or states is None or run.divergence is None:
        unmeasured = _unmeasured(reason or STATES_GONE)
        yield Compared(unmeasured)
        return unmeasured, False
    job = baseline_job(job, prepared.recipe)
    keys = layer_keys(bench.loaded, job, weights)
    key = quantized_model_key(float_key, keys)
    changed = kept_beside(bench, prepared, key) is None
    if changed:
        yield Stage(f"comparing with {_TITLE}", "quantizing")
        bench.loaded.reset()
    try:
        if changed:
            for _ in bench.calibrated(job, keys):
                pass  # its layers are not the run's
            yield Stage(f"comparing with {_TITLE}", "perplexity")
        perplexity, _, divergence = yield from beside_float(bench, prepared, key, states)
        said = _unmeasured(STATES_GONE) if divergence is None else _compared(perplexity, run.divergence, divergence)
    except SarqcError as error:  # the run itself has its results
        said = _unmeasured(f"it failed, {error.what}")
    if changed:
        bench.loaded.reset()
    yield Compared(said)
    return said, changed


def _unmeasured(reason: str) -> Baseline:
    return {
        "method": BASELINE, "reason": reason, "perplexity": None, "difference": None, "difference_standard_error": None,
        "verdict": None, "words": f"Not compared with {_TITLE}: {reason}.", **divergences(None),
    }  # fmt: skip


def _compared(perplexity: float, run: Divergence, baseline: Divergence) -> Baseline:
    """Windows are paired: what both methods find easy or hard in a window is no difference."""
    difference = paired_difference(np.array(run.log_ratios), np.array(baseline.log_ratios))
    mean, error, verdict = float(difference.mean), or_none(float(difference.error)), difference.verdict(())
    return {
        "method": BASELINE, "reason": "", "perplexity": perplexity, "difference": mean,
        "difference_standard_error": error, "verdict": verdict,
        "words": difference_words(mean, error, verdict),
        **divergences(baseline),
    }  # fmt: skip


def difference_words(mean: float, error: float | None, verdict: int) -> str:
    """The difference of two ln perplexities, run − baseline, as a share of the baseline's perplexity.

    ``error``: its standard error, None for a single window; ``verdict``: -1, 0 or 1, see ``Difference.verdict``.
    """
    beside, share = f"than {_TITLE} at the same grid", 100 * math.expm1(mean)
    if mean == 0:
        return f"The same perplexity as {_TITLE} at the same grid."
    if error is None:
        side = "higher" if mean > 0 else "lower"
        return f"{_rounded(abs(share), 1)} % {side} perplexity {beside}; one window says nothing about chance."
    spread = 100 * math.exp(mean) * error
    decimals = min(4, max(1, math.ceil(-math.log10(spread)) if spread > 0 else 1))
    if verdict:
        value = f"{_rounded(abs(share), decimals)} ± {_rounded(spread, decimals)} %"
        return f"{value} {'higher' if verdict > 0 else 'lower'} perplexity {beside}."
    value = f"{'+' if share > 0 else ''}{_rounded(share, decimals)} ± {_rounded(spread, decimals)} %"
    return f"Its perplexity can't be told apart from that of {_TITLE} at the same grid ({value})."


def _rounded(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}".replace("-", "−")
