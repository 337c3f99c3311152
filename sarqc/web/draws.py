"""Runs of one recipe on several calibration draws, as one comparison with the baseline."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from sarqc.documents import EvidenceDocument
from sarqc.jobs.listing import Question, series_of
from sarqc.jobs.run import Run
from sarqc.jobs.store import Store
from sarqc.jobs.tuned import evidence_of
from sarqc.study.evidence import Evidence
from sarqc.study.paired import paired_difference

MOST = 64  # runs of one recipe that are joined


class JoinedDraws:
    """Comparisons of runs with GPTQ 1 %, each over all draws of its recipe, or within its own where it has one.

    Runs that differ in the seed alone, and the one on the beginning of the text, are draws of one recipe.
    """

    def __init__(self, store: Store, seen: Question) -> None:
        """Join runs of a store; ``seen``: a question for those that the visitor may see."""
        self._store, self._seen = store, seen
        self._differences: dict[tuple[str, ...], list[float]] = {}  # by recipe

    def of(self, run: Run) -> EvidenceDocument | None:
        """Return the comparison of a run; None where it was not measured."""
        own = evidence_of(run.summary)
        if own is None or own.over == "draws":
            return None if own is None else own.to_json()
        series = tuple(series_of(run.recipe | {"sampling": sampling}) for sampling in ("sequential", "random"))
        if series not in self._differences:
            self._differences[series] = self._read(series)
        values = np.array(self._differences[series])
        if len(values) < 2:
            return own.to_json()
        paired = paired_difference(values, np.zeros(len(values)))
        mean, low, high = (float(part) for part in (paired.mean, paired.low, paired.high))
        joined = Evidence.of_log(mean, low, high, over="draws", count=len(values), quantity=own.quantity)
        return replace(joined, reference=own.reference, text=own.text).to_json()

    def _read(self, series: tuple[str, ...]) -> list[float]:
        by_draw: dict[Any, float] = {}
        for part in series:
            for run in self._store.listed(replace(self._seen, series=part), MOST):
                if (evidence := evidence_of(run.summary)) is not None:
                    is_random = run.recipe.get("sampling") == "random"
                    # The beginning of the text is one draw, whatever the seed.
                    by_draw[part, run.recipe.get("seed") if is_random else None] = math.log1p(evidence.change)
        return [*by_draw.values()]
