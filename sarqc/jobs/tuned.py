"""Results of a tuning run, in the few numbers and words that lists, files and comparisons show: made here and nowhere
else, so that all of them say the same."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from sarqc.documents import Tuned

NOT_COMPARED = "not compared"
# Of a tuning run without a λ to take, by its verdict; former versions had none, and only said that there was no gain.
WORDS = {"equal": "equal within 1 %: keep GPTQ 1 %", "worse": "worse: keep GPTQ 1 %", "unknown": "not known yet"}


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
    evidence = tuning.get("evidence") or {"verdict": "unknown"}
    words = f"{best['lambda'] or 0.0:g} found" if to_take else WORDS.get(evidence["verdict"], NOT_COMPARED)
    return {
        "lam": best["lambda"] if to_take else None,
        "gamma": best["gamma"],
        "words": words,
        "band": band_words(tuning["band"]),
        "best": best["lambda"],
        "perplexity": best["perplexity"],
        "log_ratio": best["log_ratio"],
        "against_gptq": _relative(best["better"]),
        "against_gptq_low": _relative(best["better_high"]),
        "against_gptq_high": _relative(best["better_low"]),
    }


def band_words(band: Sequence[Sequence[float]]) -> str:
    """“0, 0.02 to 2 and 5”: spans of λ, each with its smallest and its largest."""
    spans = [f"{low:g}" if low == high else f"{low:g} to {high:g}" for low, high in band]
    first, last = ", ".join(spans[:-1]), "".join(spans[-1:])
    return f"{first} and {last}" if first else last


def against_gptq(summary: Mapping[str, Any] | None) -> float | None:
    """Relative difference of a run's perplexity to that of GPTQ 1 % on the same texts, of a tuning run of its best λ's;
    None where it was not measured."""
    if (of_tuning := tuned(summary)) is not None:
        return of_tuning["against_gptq"]
    difference = ((summary or {}).get("baseline") or {}).get("difference")
    return None if difference is None else _relative(-difference)


def _relative(better: float | None) -> float | None:
    """From ln(perplexity of GPTQ 1 % / its own) to its own over that of GPTQ 1 %, less one."""
    return None if better is None or not math.isfinite(better) else math.expm1(-better)
