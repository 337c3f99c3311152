"""The gain of a repair: the original checkpoint, measured beside the float model, and the same repaired."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from sarqc.calibration.job import CalibrationJob, Curves
from sarqc.documents import Repair
from sarqc.engine.costs import MEASURING_CODES
from sarqc.engine.keys import ModelDescription, layer_keys, quantized_model_key
from sarqc.engine.measure import STATES_GONE, measure_another
from sarqc.engine.run import RunContext
from sarqc.events import Event
from sarqc.plain import measured as or_none
from sarqc.quantization.methods import ExistingCodes
from sarqc.quantization.repair import UNCHANGED, WORSE
from sarqc.study.evidence import Evidence
from sarqc.study.paired import paired_difference


def unrepaired_job(job: CalibrationJob) -> CalibrationJob:
    """Return the same calibration with the checkpoint's own codes."""
    return replace(
        job, method=ExistingCodes(), candidates=(), validation_samples=0, channel_fraction=1.0, curves=Curves()
    )


def unrepaired_key(model: ModelDescription, job: CalibrationJob) -> str:
    """Return the key of the model before its repair."""
    return quantized_model_key(model, layer_keys(model, unrepaired_job(job)))


def measure_before_repair(run: RunContext) -> Iterator[Event]:
    """Measure the checkpoint that the run repairs, beside the float model, before its repair."""
    if run.recipe.repairs and run.states is not None:
        job = unrepaired_job(run.job)
        run.before = yield from measure_another(run.bench, run.prepared, job, run.states, MEASURING_CODES, "its layers")


def gain(run: RunContext) -> Repair:
    """Return the outcome of a repair. Windows are paired: what is hard in a window for both is not a difference."""
    flags = [report.flags for report in run.reports.values()]
    layers = len(flags)
    unchanged, worse = (sum(flag in each for each in flags) for flag in (UNCHANGED, WORSE))
    counts = {
        "layers": layers,
        "kept": unchanged,
        "worse": worse,
        "layers_words": _layers_words(layers, unchanged, worse),
    }
    nothing = cast(Repair, dict.fromkeys(Repair.__annotations__) | counts)
    if run.before is None:
        return {**nothing, "words": "What the repair is worth was not measured, since there is no test text."}
    (perplexity, before), after = run.before, run.quantized.divergence
    if before is None or after is None:
        words = f"What the repair is worth was not measured: {STATES_GONE}."
        return {**nothing, "perplexity_found": perplexity, "words": words}
    kl = paired_difference(np.array(after.kls), np.array(before.kls))
    evidence = Evidence.of_windows(
        kl.scaled(1 / before.kl.mean),
        quantity="KL",
        reference="the file as found",
        text=Path(run.recipe.test or "").name,
    )
    ratio = paired_difference(np.array(after.log_ratios), np.array(before.log_ratios))
    return {
        **nothing,
        "perplexity_found": perplexity,
        "kl_found": before.kl.mean,
        "kl_found_standard_error": or_none(before.kl.error),
        "kl_difference": float(kl.mean),
        "kl_difference_standard_error": or_none(float(kl.error)),
        "log_ratio_difference": float(ratio.mean),
        "log_ratio_difference_standard_error": or_none(float(ratio.error)),
        "verdict": kl.verdict(()),
        "words": gain_words(before.kl.mean, after.kl.mean, evidence),
    }


def gain_words(before: float, after: float, evidence: Evidence) -> str:
    """Describe the change of KL: the decrease, no gain, or an increase."""
    words = f"KL from the original went from {before:.4g} to {after:.4g} nats a token, {evidence.clause}."
    if not evidence.has_interval or evidence.high < 0:
        return words
    return f"No gain: {words}{' Keep the file as it is.' if evidence.low > 0 else ''}"


def _layers_words(layers: int, unchanged: int, worse: int) -> str:
    words = f"{layers - unchanged} of {layers} layers have other codes"
    if unchanged:
        words += f"; the codes found are better for {unchanged}, on sequences kept for judging, and stay"
    if worse:
        words += f"; {worse} have a larger error on held-out text than with the codes found"
    return f"{words}."
