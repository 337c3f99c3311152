"""What tuning found out, in one sentence at any moment of it, and the small print under it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sarqc.documents import End, Tuning, TuningRow, TuningTasks
from sarqc.figures.numbers import NBSP, draws_text, lam_text, percent, plus_minus
from sarqc.figures.sentence import Piece, piece
from sarqc.figures.tuning import candidates, of_standing
from sarqc.study.racing import DELTA
from sarqc.study.students_t import clear_from

ENDS: dict[End, str] = {
    "known": "because nothing more can be told apart",
    "narrow": "because the band is as narrow as was asked for",
    "budget": "because the budget was spent",
    "draws": "because all draws were made",
}


def tuning_sentence(tuning: Tuning) -> list[Piece]:
    """The best λ, what can't be told from it, what it gains over GPTQ, and why tuning ended: as far as is known."""
    best = None if tuning["best"] is None else tuning["rows"][tuning["best"]]
    if best is None:
        parts = [_nothing_yet(tuning)]
    else:
        parts = [_best(tuning, best), _band(tuning, best), _gain(best), _accuracy(tuning, best), _edge(tuning, best)]
    parts.append(_end(tuning))
    pieces: list[Piece] = []
    for part in (part for part in parts if part):
        pieces += [piece(" "), *part] if pieces else part
    return pieces


def tuning_small_print(tuning: Tuning, recipe: Mapping[str, Any]) -> list[str]:
    """What the sentence rests on, one plain sentence each. ``recipe``: of the tuning run, under its public names."""
    test = Path(str(recipe["test"])).name
    lines = [
        f"λ was chosen on {test}: judge the final model on another text.",
        f"Each draw is {recipe['samples']} sequences of {recipe['length']} tokens of "
        f"{Path(str(recipe['calibration'])).name}, taken at random; gains and bars have standard errors of the paired "
        "difference to GPTQ 1 % over the draws.",
        "Layers were solved on the float model’s inputs. The run to follow gives each layer the inputs that the "
        "quantized layers before it make, so its perplexity differs a little.",
    ]
    if len(tuning["gammas"]) > 1 and tuning["gamma"] is not None:
        values = [lam_text(value) for value in tuning["gammas"] if value is not None]
        chosen = lam_text(tuning["gamma"])
        lines.append(
            f"γ = {chosen} was chosen of {', '.join(values[:-1])} and {values[-1]} by the errors of layers on unseen "
            "text."
        )
    if tasks := tuning.get("tasks"):
        lines.append(_tasks(tasks))
    if of_standing(tuning, "retired"):
        lines.append(
            f"A λ is given up where another one is better by more than chance allows; the best one is given up in at "
            f"most {100 * DELTA:.0f} % of tuning runs."
        )
    return lines


def _tasks(tasks: TuningTasks) -> str:
    names, value, error = " and ".join(tasks["names"]), tasks["accuracy_float"], tasks["accuracy_float_error"]
    said = f"{names}: asked of the λ in question and the baselines in {draws_text(tasks['draws'])}"
    if value is None or error is None:
        return f"{said}."
    return f"{said}; the float model answers {plus_minus(100 * value, 100 * error, 50.0)}{NBSP}% right."


def _nothing_yet(tuning: Tuning) -> list[Piece]:
    """Before the first whole model: what the errors of layers say alone."""
    rows = candidates(tuning)
    left = of_standing(tuning, "left")
    least = min(rows, key=lambda row: math.inf if row["layer_error"] is None else row["layer_error"])
    lead = "No whole model was measured: " if tuning["end"] else "No whole model has been measured yet. "
    words = "by the errors of layers alone, " if tuning["end"] else "By the errors of layers "
    return [
        piece(lead + words),
        piece(_sign("λ", least), "lambda"),
        piece(f" looks best, and {len(left)} of {len(rows)} values of λ are in question."),
    ]


def _sign(sign: str, row: TuningRow) -> str:
    value = row["lambda"] if sign == "λ" else row["gamma"]
    assert value is not None
    return f"{sign}{NBSP}={NBSP}{lam_text(value)}"


def _best(tuning: Tuning, best: TuningRow) -> list[Piece]:
    lead = "" if tuning["end"] else "So far "
    point = _sign("λ", best)
    more = "" if best["gamma"] is None else f" at {_sign('γ', best)}"
    if best["lambda"] == 0:
        more += ", which is no penalty at all"
    if tuning["blocks"] is not None:
        more += f"{',' if best['lambda'] == 0 else ''} with {_blocks(tuning['blocks'])} quantized and no other"
    return (
        [piece(lead), piece(point, "lambda"), piece(f"{more}.")]
        if lead
        else [piece(point, "lambda"), piece(f"{more}.")]
    )


def _blocks(blocks: list[int]) -> str:
    named = [str(block) for block in blocks]
    return f"block {named[0]}" if len(named) == 1 else f"blocks {', '.join(named[:-1])} and {named[-1]}"


def _band(tuning: Tuning, best: TuningRow) -> list[Piece]:
    if tuning["draws"] < 2:
        which = "One draw" if tuning["draws"] else "A part of the first draw"
        return [piece(f"{which} can’t say which other λ are as good.")]
    if tuning["band"] is None:
        return []
    first, last = tuning["band"]
    if first == last:
        return [piece("No other λ tried is as good.")]
    return [piece(f"λ from {lam_text(first)} to {lam_text(last)}".replace(" ", NBSP), "lambda"),
            piece(" can’t be told from it.")]  # fmt: skip


def _gain(best: TuningRow) -> list[Piece]:
    """Perplexity against GPTQ 1 % in per cent; clear by Student's t at 5 %."""
    if best["better"] is None:
        return []
    share = -math.expm1(-best["better"])  # of GPTQ's perplexity, that is saved
    error = math.nan if best["better_error"] is None else math.exp(-best["better"]) * best["better_error"]
    size = f"{plus_minus(100 * abs(share), 100 * error, 50.0)}{NBSP}%"
    what = f"{size} {'less' if share >= 0 else 'more'} perplexity"
    if math.isnan(error):
        return [
            piece(what, "quality", verdict=True),
            piece(" than GPTQ 1 % on the one draw measured, which can’t say how sure that is."),
        ]
    draws = draws_text(best["draws"])
    if abs(best["better"]) <= float(clear_from(best["draws"] - 1)) * (best["better_error"] or 0.0):
        return [
            piece(f"No measurable difference to GPTQ 1 % on {draws}: "),
            piece(what, "quality", verdict=True),
            piece("."),
        ]
    return [piece(what, "quality", verdict=True), piece(f" than GPTQ 1 %, on {draws}.")]


def _accuracy(tuning: Tuning, best: TuningRow) -> list[Piece]:
    """What the best λ answers on the tasks, beside GPTQ 1 %. Runs made before tasks were asked say nothing of them."""
    tasks, value, more = tuning.get("tasks"), best.get("accuracy"), best.get("more_accurate")
    if not tasks or value is None or more is None:
        return []
    error = best["more_accurate_error"]
    size = plus_minus(100 * abs(more), math.nan if error is None else 100 * error, 50.0)
    points = f"{size}{NBSP}points {'more' if more >= 0 else 'fewer'}"
    lead = [piece(f"{percent(value, 1)} right", "quality"), piece(f" on {' and '.join(tasks['names'])}")]
    if best["more_accurate_verdict"]:
        return [*lead, piece(f", {points} than GPTQ 1 %.")]
    return [*lead, piece(f", no measurable difference to GPTQ 1 % ({points}).")]


def _edge(tuning: Tuning, best: TuningRow) -> list[Piece]:
    """Said where the best λ has no neighbour on one side: what lies beyond was not tried."""
    if not tuning["end"] or best["lambda"] is None:
        return []
    lams = [row["lambda"] for row in candidates(tuning) if row["lambda"] is not None]
    if best["lambda"] == max(lams):
        return [piece("It is the largest λ tried; larger ones may be better.")]
    if best["lambda"] == min(lams) and best["lambda"] > 0:
        return [piece("It is the smallest λ tried; smaller ones may be better.")]
    return []


def _end(tuning: Tuning) -> list[Piece]:
    """Why it ended, and what a sweep of everything in as many draws would have taken."""
    if not tuning["end"]:
        return []
    why = f"Tuning ended {ENDS[tuning['end']]}"
    if not tuning["measured"]:
        return [piece(f"{why}; give it more minutes.")]
    swept = len(tuning["rows"]) * tuning["draws"]
    return [piece(f"{why}, after {tuning['measured']} models of the {swept} that measuring every λ would take.")]
