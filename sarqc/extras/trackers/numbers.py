"""Events as metrics: names, values, and the step at which they stand.

Metrics of a layer have its number as their step, those of a curve over λ the position on it, with λ beside them as a
metric: a step is a whole number. Names are those of events and summaries. What was not measured is left out.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from sarqc.documents import SIGNS, LadderRun, Tuning
from sarqc.events import (
    BlockDistilled,
    CandidateDone,
    Compared,
    Diverged,
    EpochDone,
    Event,
    Finished,
    LadderStanding,
    LayerDone,
    Measured,
    PointDone,
    RoundingChecked,
    ScalesDistilled,
    SpeedMeasured,
    Started,
    TuningStanding,
)
from sarqc.recipe import public_name
from sarqc.study.document import Line, Study
from sarqc.study.frames import frame

Step = tuple[dict[str, float], int]  # metrics by name, and their step

_POINT_FIELDS = ("relative_recon", "relative_held_out", "relative_sar", "relative_drift")
_LAYER_FIELDS = (*_POINT_FIELDS, "n_tokens")
_ROW_FIELDS = (
    "lambda",
    "gamma",
    "draws",
    "layer_error",
    "log_ratio",
    "worse",
    "kl",
    "better",
)
_SUMMARY_FIELDS = ("bits_per_weight", "bytes_before", "bytes_after", "accuracy", "accuracy_float")


def numbers_of(event: Event) -> Iterator[Step]:
    """Yield the metrics that an event brings."""
    match event:
        case Started():
            yield _numbers({"share_quantized": event.share_quantized}), 0
        case LayerDone():
            chosen = {public_name(name): event.report["chosen"].get(name) for name in SIGNS}
            values = _pick(event.report, _LAYER_FIELDS) | chosen | {"seconds": event.seconds}
            yield _numbers(values, "layer/"), event.index
        case PointDone():
            yield _numbers({"lambda": event.lam} | _pick(vars(event), _POINT_FIELDS), "curve/"), event.index
        case EpochDone():
            values = _pick(vars(event), ("block", "objective", "recon", "sar"))
            yield _numbers(values, "epoch/"), event.block * (event.epochs + 1) + event.epoch
        case RoundingChecked():
            values = _pick(vars(event), ("block", "error", "held_out_error", "drift"))
            yield _numbers(values, "rounding/"), event.block * (event.steps + 1) + event.step
        case ScalesDistilled():
            values = _pick(vars(event), ("calibration_kl", "held_out_kl", "drift"))
            yield _numbers(values, "distillation/"), event.epoch
        case BlockDistilled():
            values = _pick(vars(event), ("held_out_before", "held_out", "drift_before", "drift"))
            yield _numbers(values, "distillation/"), event.block
        case CandidateDone():
            yield _numbers({"lambda": event.lam, "perplexity": event.perplexity}, "candidate/"), event.index
        case TuningStanding():
            yield _tuning_state(event.tuning), event.tuning["draws"]
        case LadderStanding():
            yield _numbers(_pick(event.ladder, ("measured", "seconds")), "ladder/"), event.ladder["measured"]
        case Measured():
            yield _measurement(event), 0
        case Diverged():
            yield _numbers(event.divergences), 0
        case Compared():
            yield _numbers(event.baseline, "baseline/"), 0
        case SpeedMeasured():
            for which, rates in (("float", event.float), ("quantized", event.quantized)):
                yield _numbers(rates or {}, f"speed/{which}/"), 0
        case Finished():
            yield _numbers(_pick(event.summary, _SUMMARY_FIELDS) | {"seconds": event.seconds}), 0
            if event.summary["tuning"] is not None:
                yield from _candidates(event.summary["tuning"])
            if event.summary["ladder"] is not None:
                yield from _rungs(event.summary["ladder"])


def points_of(study: Study, line: Line) -> Iterator[Step]:
    """Yield the points (γ, λ) of a study's line as steps: means over draws and layers."""
    rows = frame(study)
    own = rows[(rows["method"] == line.name) & (rows["bits"] == line.bits)].drop(columns=["method", "bits", "draw"])
    points = own.groupby([line.second, "lambda"], dropna=False).mean().reset_index()
    for step, values in enumerate(points.to_numpy(dtype=float)):
        yield _numbers(dict(zip(map(str, points.columns), values.tolist(), strict=True))), step


def _numbers(values: Mapping[str, Any], group: str = "") -> dict[str, float]:
    """Return the numbers among the values, under the name of their group."""
    return {
        f"{group}{name}": float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    }


def _pick(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names}


def _measurement(event: Measured) -> dict[str, float]:
    """Return a model's number: perplexity, perplexity_float, accuracy/task, accuracy_float/task."""
    suffix = "_float" if event.which == "float" else ""
    asked = event.protocol.get("task")
    task = "" if asked is None else f"/{asked}"
    error = f"{event.quantity}_standard_error{suffix}{task}"
    return _numbers({f"{event.quantity}{suffix}{task}": event.value, error: event.standard_error})


def _tuning_state(tuning: Tuning) -> dict[str, float]:
    """Return where tuning stands: the best candidate, and how many are in question."""
    left = sum(row["standing"] in ("best", "as_good") for row in tuning["rows"])
    best = {} if tuning["best"] is None else _pick(tuning["rows"][tuning["best"]], ("lambda", "log_ratio", "kl"))
    return _numbers({"left": left, "measured": tuning["measured"], "seconds": tuning["seconds"]} | best, "tuning/")


def _candidates(tuning: Tuning) -> Iterator[Step]:
    for step, row in enumerate(tuning["rows"]):
        group = f"baseline/{row['method']}/" if row["standing"] == "baseline" else "candidate/"
        errors = {name: value for name, value in row.items() if name.endswith("_error")}
        yield _numbers(_pick(row, _ROW_FIELDS) | errors, group), step


def _rungs(ladder: LadderRun) -> Iterator[Step]:
    for row in ladder["rows"]:
        for draw, (perplexity, kl) in enumerate(zip(row["perplexity"], row["kl"], strict=True)):
            yield _numbers({"perplexity": perplexity, "kl": kl}, f"ladder/{row['step']}/"), draw
