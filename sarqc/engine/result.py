"""The summary of a run."""

from collections.abc import Sequence
from typing import cast

from sarqc.documents import (
    AccuracyProtocol,
    CalibrationProtocol,
    PerplexityProtocol,
    RunProtocol,
    Selection,
    Summary,
    TaskAccuracy,
)
from sarqc.engine.measure import Measurements, divergences, feeding_protocol, versions, weights_protocol
from sarqc.engine.plan import Prepared
from sarqc.engine.repair import gain
from sarqc.engine.run import RunContext
from sarqc.evaluation.tasks import MEASURED_BESIDE
from sarqc.events import Measured
from sarqc.study.experts import counts_of_run


def fill_in_summary(run: RunContext) -> None:
    """Give a run's summary the numbers of its quantized model; those of layers are in the study."""
    layers, quantized, recipe = run.prepared.checkpoint.layers, run.quantized, run.recipe
    counts = counts_of_run(layers, {name: report.n_tokens for name, report in run.reports.items()})
    accuracy, accuracy_error = quantized.mean_accuracy() or (None, None)
    run.summary |= {
        "selection": _selection(run),
        "perplexity": value(quantized.perplexity),
        **({} if quantized.divergence is None else divergences(quantized.divergence)),
        "protocol": protocol_of(run.prepared, run.job.sequences.protocol, quantized),
        "tasks": {
            cast(AccuracyProtocol, other.protocol)["task"]: {
                "float": _accuracy(original),
                "protocol": {name: fact for name, fact in other.protocol.items() if name not in MEASURED_BESIDE},
                "quantized": _accuracy(other),
            }
            for original, other in zip(run.original.accuracies, quantized.accuracies, strict=True)
        },
        "accuracy": accuracy,
        "accuracy_standard_error": accuracy_error,
        "experts": None if counts is None else counts.to_json(),
        "stamp": None if run.stamp is None else run.stamp.digest,
        "opened": None if run.imported is None else run.imported.facts(recipe.quantized_checkpoint or ""),
        "repair": gain(run) if recipe.repairs else None,
    }


def _selection(run: RunContext) -> Selection | None:
    """Return the choice of “auto”; the candidates of layers are in their reports."""
    lams: Sequence[float | None]
    if run.selection is not None:
        chosen, lams = run.selection.to_json(), (run.selection.lam,)
    elif run.recipe.candidates():
        chosen, lams = Selection(by="layer"), tuple(report.chosen.get("lam") for report in run.reports.values())
    else:
        return None
    edge = edge_words([point.lam for point in run.recipe.candidates()], lams)
    return {**chosen, "edge": edge} if edge else chosen


def summary_of(prepared: Prepared, original: Measurements, device: str) -> Summary:
    """Return the summary as far as it is known without a quantized model; ``original``: of the float model."""
    checkpoint, planned = prepared.checkpoint, prepared.shown
    accuracy, accuracy_error = original.mean_accuracy() or (None, None)
    summary = {
        "recipe": prepared.recipe.to_json(),
        "device": device,
        "share_quantized": checkpoint.share_quantized,
        "quantized_layers": len(checkpoint.layers),
        "bits_per_weight": planned.bits_per_weight,
        "bytes_before": planned.bytes_before,
        "bytes_after": planned.bytes_after,
        "perplexity_float": value(original.perplexity),
        "vocabulary": checkpoint.architecture.vocab_size,
        "protocol": protocol_of(prepared, prepared.sequences.protocol, original),
        "tasks": {},
        "accuracy_float": accuracy,
        "accuracy_standard_error_float": accuracy_error,
        "texts": [],
        "derived": None if checkpoint.decoder is None else checkpoint.decoder.title,
    }
    return cast(Summary, dict.fromkeys(Summary.__annotations__) | summary)


def protocol_of(prepared: Prepared, calibration: CalibrationProtocol, measured: Measurements) -> RunProtocol:
    """Return the conditions of a run's numbers."""
    test = measured.perplexity
    return {
        "calibration": calibration,
        "test": None if test is None else cast(PerplexityProtocol, test.protocol),
        "versions": versions(),
        **weights_protocol(prepared.checkpoint),
        **feeding_protocol(prepared),
    }


def edge_words(tried: Sequence[float | None], chosen: Sequence[float | None]) -> str:
    """Return a note if an end of the candidates was chosen, for the whole model or for some of its layers.

    Below 0 there is nothing that a candidate could have missed. Empty where no end was chosen.
    """
    lams = sorted({lam for lam in tried if lam is not None})
    if len(lams) < 2:
        return ""
    ends = [(lams[0], "smallest", "smaller")] if lams[0] > 0 else []
    ends.append((lams[-1], "largest", "larger"))
    reached = [(lam, end, beyond, chosen.count(lam)) for lam, end, beyond in ends if lam in chosen]
    if not reached:
        return ""
    if len(chosen) == 1:
        [(lam, end, beyond, _)] = reached
        return f"λ = {lam:g} is the {end} of the candidates: a {beyond} one may be better still."
    counts = " and ".join(f"{count} took the {end} λ tried ({lam:g})" for lam, end, _, count in reached)
    beyond = " or ".join(beyond for _, _, beyond, _ in reached)
    return f"Of {len(chosen)} layers, {counts}: a {beyond} one may suit them better."


def value(event: Measured | None) -> float | None:
    """Return the measured number, if there is one."""
    return None if event is None else event.value


def _accuracy(event: Measured) -> TaskAccuracy:
    beside = {name: fact for name, fact in event.protocol.items() if name in MEASURED_BESIDE}
    return cast(TaskAccuracy, {"accuracy": event.value, "standard_error": event.standard_error} | beside)
