"""Results of a tuning run, in the few numbers and words that lists, files and comparisons show: made here and nowhere
else, so that all of them say the same."""

import math
from collections.abc import Mapping
from typing import Any, cast

from sarqc.documents import Tuned, Tuning
from sarqc.study.evidence import Evidence
from sarqc.study.intervals import spans_text

NOT_COMPARED = "not compared"
WORDS = {"keep": "keep GPTQ 1 %", "go_on": "not known yet"}  # of a tuning run without a λ to take, by its next step


def tuned(summary: Mapping[str, Any] | None) -> Tuned | None:
    """Return what tuning came to by a run's summary; None of a run that did not tune, or has not ended."""
    tuning = (summary or {}).get("tuning")
    if not isinstance(tuning, Mapping):
        return None
    best = next((row for row in tuning["rows"] if row["standing"] == "best"), None)
    if best is None:
        nothing: Any = dict.fromkeys(Tuned.__annotations__) | {"words": NOT_COMPARED, "band": ""}
        return cast(Tuned, nothing)
    to_take = tuning["next"] == "run"
    words = f"{best['lambda'] or 0.0:g} found" if to_take else WORDS.get(tuning["next"], NOT_COMPARED)
    return {
        "lam": best["lambda"] if to_take else None,
        "gamma": best["gamma"],
        "words": words,
        "band": spans_text(tuning["band"]),
        "best": best["lambda"],
        "perplexity": best["perplexity"],
        "log_ratio": best["log_ratio"],
    }


def evidence_of(summary: Mapping[str, Any] | None) -> Evidence | None:
    """Return the comparison of a run with GPTQ 1 % on the same texts, of a tuning run that of its best λ; None where it
    was not measured."""
    tuning, baseline = ((summary or {}).get(name) for name in ("tuning", "baseline"))
    if isinstance(tuning, Mapping):
        best = next((row for row in tuning["rows"] if row["standing"] == "best" and row["better"] is not None), None)
        return None if best is None else Evidence.of_row(cast(Tuning, tuning), best)
    if not baseline or baseline.get("difference") is None:
        return None
    if (known := baseline.get("evidence")) is not None:
        return Evidence.of_json(known)
    facts: Any = {"over": "nothing", "count": 1, "quantity": "perplexity"}  # former versions had words alone
    return Evidence.of_log(baseline["difference"], math.nan, math.nan, **facts)
