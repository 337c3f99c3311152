"""Events as metrics: names, values, and the step at which they stand.

Metrics of a layer have its number as their step, those of a curve over λ the position on it, with λ beside them as a
metric: a step is a whole number. Names are those of events and summaries. What was not measured is left out.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sarqc.events import (
    BlockDistilled,
    CandidateDone,
    EpochDone,
    Event,
    Finished,
    LayerDone,
    PointDone,
    RoundingChecked,
    ScalesDistilled,
)

Step = tuple[dict[str, float], int]  # metrics by name, and their step

_PROGRESS: dict[type[Event], tuple[str, Callable[[Any], int]]] = {  # group of the metrics and step of an event
    LayerDone: ("layer", lambda event: event.index),
    PointDone: ("curve", lambda event: event.index),
    CandidateDone: ("candidate", lambda event: event.index),
    EpochDone: ("epoch", lambda event: event.block * (event.epochs + 1) + event.epoch),
    RoundingChecked: ("rounding", lambda event: event.block * (event.steps + 1) + event.step),
    ScalesDistilled: ("distillation", lambda event: event.epoch),
    BlockDistilled: ("distillation", lambda event: event.block),
}


def numbers_of(event: Event) -> Iterator[Step]:
    """Yield the metrics that an event brings."""
    if isinstance(event, Finished):
        summary = event.summary
        yield _numbers({**summary, "seconds": event.seconds}), 0
        yield _numbers(summary["baseline"] or {}, "baseline/"), 0
        for name, task in summary["tasks"].items():
            yield _numbers(task["quantized"], f"task/{name}/"), 0
        for step, row in enumerate((summary["tuning"] or {"rows": []})["rows"]):
            yield _numbers(row, f"baseline/{row['method']}/" if row["standing"] == "baseline" else "candidate/"), step
        for rung in (summary["ladder"] or {"rows": []})["rows"]:
            for draw, (perplexity, kl) in enumerate(zip(rung["perplexity"], rung["kl"], strict=True)):
                yield _numbers({"perplexity": perplexity, "kl": kl}, f"ladder/{rung['step']}/"), draw
    elif type(event) in _PROGRESS:
        group, position = _PROGRESS[type(event)]
        values = vars(event)
        if isinstance(event, LayerDone):
            values = {**event.report, **event.report["chosen"], "seconds": event.seconds}
        yield _numbers(values, f"{group}/"), position(event)


def _numbers(values: Mapping[str, Any], group: str = "") -> dict[str, float]:
    """Return the numbers among the values, under the name of their group."""
    return {
        group + {"lam": "lambda"}.get(name, name): float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    }
