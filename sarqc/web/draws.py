"""Runs of one recipe on several calibration draws, as one comparison with the baseline."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sarqc.documents import EvidenceDocument
from sarqc.jobs.listing import Question, series_of
from sarqc.jobs.run import Run
from sarqc.jobs.store import Store
from sarqc.study.evidence import Evidence
from sarqc.study.paired import paired_difference

MOST = 64  # runs of one recipe that are joined


def draws_of(store: Store, run: Run, seen: Question) -> EvidenceDocument | None:
    """Return the comparison of a run with GPTQ 1 % over all its recipe's draws, or within its own where it has one.

    Runs that differ in the seed alone, and the one on the beginning of the text, are draws of one recipe.

    Args:
        store: The store of runs.
        run: The run.
        seen: A question for the runs that the visitor may see.
    """
    own = _baseline(run.summary)
    if own is None:
        return None
    by_draw: dict[Any, float] = {}
    for sampling in ("sequential", "random"):
        series = series_of(run.recipe | {"sampling": sampling})
        for other in store.listed(replace(seen, series=series), MOST):
            if (baseline := _baseline(other.summary)) is not None:
                # The beginning of the text is one draw, whatever the seed.
                by_draw[sampling, other.recipe.get("seed") if sampling == "random" else None] = baseline["difference"]
    if len(by_draw) < 2:
        return own.get("evidence")
    return _joined(by_draw.values(), own["evidence"])


def _joined(differences: Iterable[float], own: EvidenceDocument) -> EvidenceDocument:
    values = np.array([*differences])
    paired = paired_difference(values, np.zeros(len(values)))
    mean, low, high = (float(part) for part in (paired.mean, paired.low, paired.high))
    facts = {name: own[name] for name in ("quantity", "reference", "text")}
    return Evidence.of_log(mean, low, high, over="draws", count=len(values), **facts).to_json()


def _baseline(summary: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the comparison of a finished run; None of others, and of runs without evidence, which older ones lack."""
    baseline = (summary or {}).get("baseline") or {}
    return baseline if baseline.get("evidence") and baseline.get("difference") is not None else None
