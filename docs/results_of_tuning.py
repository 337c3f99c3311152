"""The part of docs/results.md about tuning, from docs/tuning.json, which ``benchmarks/tuning.py`` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from make_reference import table

from sarqc.study.paired import Difference, paired_difference

NUMBERS = Path(__file__).parent / "tuning.json"
NOT_MODELS = ("simulated", "again")


def parts() -> Iterator[str]:
    """Paragraphs and tables; nothing where nothing was measured."""
    if not NUMBERS.exists():
        return
    document = json.loads(NUMBERS.read_text(encoding="utf-8"))
    models = {name: one for name, one in document.items() if name not in NOT_MODELS}
    yield "## Tuning"
    yield (
        "Tuning runs (`python -m sarqc tune`) beside an exhaustive comparison: every λ that tuning looks at, at the "
        "method's own γ, whole models in five other calibration draws. A λ is in the band where its paired difference "
        "to the best point, over those draws, is not clear of 0 at 5 %. The cost is counted in models that are "
        "quantized and measured."
    )
    if models:
        yield table(
            ["", "λ found", "in the band", "models measured", "of all λ at one γ", "of all λ and γ", "gain missed"],
            [row for name, one in models.items() for row in _rows(name, one)],
        )
        yield from _words(models)
    if "simulated" in document:
        yield from _simulated(document["simulated"])
    if "again" in document:
        first, more = document["again"]["first"], document["again"]["one_more"]
        yield (
            f"A second question to the same model, one more λ: {more / first:.2f} of the time of the first "
            f"(tiny-llama, {first:.0f} and {more:.0f} s on the wall)."
        )


def _rows(name: str, one: dict[str, Any]) -> Iterator[list[str]]:
    everything = Exhaustive(one["exhaustive"])
    recipe = one["recipe"]
    label = f"{name.removesuffix('-2')}, {recipe['bits']} bits"
    for part, words in (("tuned", ""), ("slices", ", a slice")):
        found = one[part]
        inside = sum(everything.in_band(run) for run in found)
        measured = float(np.mean([run["measured"] for run in found]))
        regrets = [everything.regret(run) for run in found]
        yield [
            f"{label}{words}",
            ", ".join(f"{run['lambda']:g}" for run in found),
            f"{inside} of {len(found)}",
            f"{measured:.0f}",
            f"{measured / everything.points:.2f}",
            f"{measured / everything.points / one['gammas']:.2f}",
            everything.said(regrets),
        ]


class Exhaustive:
    """Every λ of a model in every draw."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.lams, self.gammas = document["lams"], document["gammas"]
        ratios = np.array(document["log_ratio"])  # draw, γ, λ
        self._flat = ratios.reshape(len(ratios), -1)
        self.points = self._flat.size
        self._best = int(self._flat.mean(axis=0).argmin())
        gptq = np.array(document["gptq"])
        self.gain: Difference = paired_difference(gptq[:, None], self._flat[:, [self._best]])

    def _at(self, run: dict[str, Any]) -> int | None:
        """Position of the point that a run found; None for one that was not compared."""
        if run["lambda"] not in self.lams or run["gamma"] not in self.gammas:
            return None
        return int(self.gammas.index(run["gamma"]) * len(self.lams) + self.lams.index(run["lambda"]))

    def in_band(self, run: dict[str, Any]) -> bool:
        at = self._at(run)
        if at is None or at == self._best:
            return at is not None
        difference = paired_difference(self._flat[:, [at]], self._flat[:, [self._best]])
        return difference.verdict((0,)) == 0

    def regret(self, run: dict[str, Any]) -> float:
        """ln perplexity at the found point above that at the best one."""
        at = self._at(run)
        return float("nan") if at is None else float((self._flat[:, at] - self._flat[:, self._best]).mean())

    def said(self, regrets: list[float]) -> str:
        """The mean of what was missed, of what the best point is better than GPTQ 1 %, where that is clear."""
        mean = float(np.nanmean(regrets))
        if self.gain.verdict((0,)) != 1:
            return f"{mean:.4f} of no clear gain"
        return f"{mean:.4f} of {float(self.gain.mean[0]):.4f}, {mean / float(self.gain.mean[0]):.0%}"


def _words(models: dict[str, Any]) -> Iterator[str]:
    runs = [(Exhaustive(one["exhaustive"]), run) for one in models.values() for run in one["tuned"]]
    inside = sum(everything.in_band(run) for everything, run in runs)
    yield (
        f"Of {len(runs)} tuning runs {inside} found a λ in the band. “Gain missed” is the *regret*: ln perplexity "
        "above the best point's, in means over the exhaustive draws, beside what that point is better than GPTQ 1 %. "
        "A slice is a quarter of the blocks on a quarter of the sequences. Fewer tokens ask for a larger λ: what a "
        "slice finds "
        "is a beginning, not the end."
    )


def _simulated(document: dict[str, Any]) -> Iterator[str]:
    yield (
        "**A gain where there is none.** Simulated models to which λ makes no difference, 2,000 each: how often the "
        "best of K λ is said to be better or worse than GPTQ 1 % (promised: at most 5 %), by the errors of draws and "
        "windows: independent from λ to λ, nearly the same for neighbours, with heavy tails, of uneven size."
    )
    heads = [f"K = {one['lams']}, {one['draws']} draws" for one in next(iter(document["claims"].values()))]
    yield table(
        ["errors", *heads],
        [[kind, *(f"{one['false']:.1%}" for one in rows)] for kind, rows in document["claims"].items()],
    )
    any_of = next(iter(next(iter(document["searches"].values())).values()))
    yield (
        f"**Searches on a host of any load.** {any_of['searches']:.0f} each, on a host that takes 1 to 20 times the "
        "planned time, each step as much longer again as chance has it, with pauses; budgets in planned times of one "
        "model. “Outside”: of the λ that were named, those that five draws of each would tell from the true best "
        "(promised: at most 5 %). “Nothing said”: though three λ in two draws had fitted. “Late”: more than a tenth "
        "over the budget. “False”: a verdict on the best λ beside GPTQ 1 % that is not true: better, worse, or equal "
        "within 1 % (promised: at most 5 %); “not known yet”: there was none. “Regret”: ln perplexity above the true "
        "best's."
    )
    names = ("named", "outside", "silent", "late", "better", "worse", "equal", "unknown", "false")
    heads = ["λ named", "outside", "nothing said", "late", "better", "worse", "equal", "not known yet", "false"]
    yield table(
        ["errors", "truth", "budget", *heads, "regret", "models"],
        [
            [
                kind,
                truth.removesuffix(", short"),
                f"{one['budget']:.0f}",
                *(f"{one[name]:.1%}" for name in names),
                f"{one['regret']:.4f}",
                f"{one['measured']:.0f}",
            ]
            for kind, by_truth in document["searches"].items()
            for truth, one in by_truth.items()
        ],
    )
