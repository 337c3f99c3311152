"""The sentence of a tuning run at any moment of it, and the small print."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sarqc.documents import End, Tuning, TuningRow, TuningTasks
from sarqc.figures.numbers import NBSP, draws_text, joined, lam_text, number, percent, plus_minus
from sarqc.figures.sentence import Piece, piece, pieces
from sarqc.figures.tuning import (
    candidates,
    listed,
    of_standing,
    saved,
    savings_text,
    savings_words,
    spans_text,
)
from sarqc.language import message, tr, tr_count, tr_parts
from sarqc.study.elimination import DELTA

ENDS: dict[End, str] = {
    "known": message("because no further difference can be shown"),
    "narrow": message("because the band is as narrow as was asked for"),
    "budget": message("because the budget was spent"),
    "draws": message("because all draws were made"),
}


def tuning_sentence(tuning: Tuning) -> list[Piece]:
    """The λ to take, what is as good, and why tuning ended: as far as is known. A λ is emphasised only where it was
    compared with another one in two draws.
    """
    best = None if tuning["best"] is None else tuning["rows"][tuning["best"]]
    if best is None:
        parts = [_too_little(tuning), _one_draw(tuning)]
    elif tuning["next"] == "keep":
        parts = [_keep(tuning, best), _accuracy(tuning, best)]
    else:
        parts = [_take(tuning, best), _as_good(tuning, best), _accuracy(tuning, best), _edge(tuning, best)]
    parts += [_left_out(tuning), _end(tuning)]
    said: list[Piece] = []
    for part in (part for part in parts if part):
        said += [piece(" "), *part] if said else part
    return said


def tuning_small_print(tuning: Tuning, recipe: Mapping[str, Any]) -> list[str]:
    """What the sentence rests on, one plain sentence each. ``recipe``: of the tuning run, under its public names."""
    test = Path(str(recipe["test"])).name
    lines = [
        tr("λ was chosen on {test}: judge the final model on another text.", test=test),
        tr(
            "Each draw is {count} sequences of {length} tokens of {corpus}, taken at random.",
            count=number(recipe["samples"], 0), length=number(recipe["length"], 0),
            corpus=Path(str(recipe["calibration"])).name,
        ),
    ]  # fmt: skip
    if tuning["best"] is not None:
        lines.append(
            tr(
                "Intervals are of 95 %, of the paired difference over draws, for all compared λ at once, because the "
                "best one was chosen on the draws that judge it."
            )
        )
    lines.append(
        tr(
            "Layers were solved on the float model’s inputs. The run to follow gives each layer the inputs that the "
            "quantized layers before it make, so its perplexity differs a little."
        )
    )
    if len(tuning["gammas"]) > 1 and tuning["gamma"] is not None:
        values = [lam_text(value) for value in tuning["gammas"] if value is not None]
        chosen = message("γ = {gamma} was chosen of {gammas} by the errors of layers on unseen text.")
        lines.append(tr(chosen, gamma=lam_text(tuning["gamma"]), gammas=listed(values)))
    known, layers = tuning["screened"]
    if 0 < known < layers:
        some = message("Errors of layers are of {known} of {layers} layers, spread over the model.")
        lines.append(tr(some, known=known, layers=layers))
    if tasks := tuning["tasks"]:
        lines.append(_tasks(tasks, bool(tuning["end"])))
    if of_standing(tuning, "worse"):
        lines.append(
            tr(
                "A λ is worse where another one is better by more than chance allows; the best one is called worse in "
                "at most {share} % of tuning runs.",
                share=number(100 * DELTA, 0),
            )
        )
    return lines


def _tasks(tasks: TuningTasks, has_ended: bool) -> str:
    names, value, error = joined(tasks["names"]), tasks["accuracy_float"], tasks["accuracy_float_error"]
    if not tasks["draws"]:
        too_late, later = (
            message("{names}: not asked, the budget was spent before."),
            message("{names}: asked at the end."),
        )
        return tr(too_late if has_ended else later, names=names)
    draws = draws_text(tasks["draws"])
    if value is None or error is None:
        return tr("{names}: asked of the λ that are left and of the baselines in {draws}.", names=names, draws=draws)
    return tr(
        "{names}: asked of the λ that are left and of the baselines in {draws}; the float model answers {share} right.",
        names=names, draws=draws, share=f"{plus_minus(100 * value, 100 * error, 50.0)}{NBSP}%",
    )  # fmt: skip


def _too_little(tuning: Tuning) -> list[Piece]:
    """Before two λ were compared in two draws: what the errors of layers say alone."""
    known, layers = tuning["screened"]
    if not known:
        none, begun = message("Not enough time: nothing is known yet."), message("Comparing the errors of layers.")
        return [piece(tr(none if tuning["end"] else begun))]
    if any(first != last for first, last in tuning["suggested"]):
        lams = tr("λ from {lams}", lams=spans_text(tuning["suggested"]))
    else:
        lams = f"λ = {spans_text(tuning['suggested']) or lam_text(_promising(tuning))}"
    if tuning["end"]:
        return [piece(tr("Not enough time to compare: the errors of layers suggest {lams}.", lams=lams))]
    if known < layers and not tuning["suggested"]:
        words = message("The errors of {known} of {layers} layers are known; so far they suggest {lams}.")
        return [piece(tr(words, known=known, layers=layers, lams=lams))]
    if not tuning["measured"]:
        return [piece(tr("The errors of layers suggest {lams}. No whole model has been measured yet.", lams=lams))]
    text = tr_count(
        "The errors of layers suggest {lams}. So far {count} model has been measured: too few to compare.",
        "The errors of layers suggest {lams}. So far {count} models have been measured: too few to compare.",
        tuning["measured"], lams=lams,
    )  # fmt: skip
    return [piece(text)]


def _promising(tuning: Tuning) -> float:
    """The λ with the smallest errors of layers."""
    known = [row for row in candidates(tuning) if row["layer_error"] is not None]
    least = min(known, key=lambda row: row["layer_error"] or 0.0)
    return least["lambda"] or 0.0


def _one_draw(tuning: Tuning) -> list[Piece]:
    """What single draws say of the λ that leads in them."""
    seen = tuning["one_draw"]
    if not seen:
        return []
    lam = tuning["rows"][seen[0]["row"]]["lambda"] or 0.0
    saving = savings_words(seen[0]["better"], seen[0]["low"], seen[0]["high"])
    is_known = seen[0]["low"] is not None
    if len(seen) == 1:
        sure = message("On the one draw measured λ = {lam} has {saving}, by the windows of the test text.")
        unsure = message("On the one draw measured λ = {lam} has {saving}, which can’t say how sure that is.")
    else:
        sure = message("On the first of {draws} λ = {lam} has {saving}, by the windows of the test text.")
        unsure = message("On the first of {draws} λ = {lam} has {saving}, which can’t say how sure that is.")
    values = {"lam": lam_text(lam), "saving": saving, "draws": draws_text(len(seen))}
    return [piece(tr(sure if is_known else unsure, **values))]


def _sign(sign: str, value: float) -> str:
    return f"{sign}{NBSP}={NBSP}{lam_text(value)}"


def _take(tuning: Tuning, best: TuningRow) -> list[Piece]:
    """“Use λ = 0.2: 4.3 % less perplexity than GPTQ 1 % (3.1 to 5.6 %), compared in six draws.”"""
    assert best["lambda"] is not None
    is_final, point = tuning["next"] == "run", _point(tuning, best, best["lambda"])
    if best["better"] is None:
        use, so_far = message("Use {point}."), message("So far {point}.")
        return pieces(tr_parts(use if is_final else so_far, point=point))
    use = message("Use {point}: {saving}, compared in {draws}.")
    so_far = message("So far {point}: {saving}, compared in {draws}.")
    saving = piece(savings_text(best), "quality", verdict=True)
    said = tr_parts(use if is_final else so_far, point=point, saving=saving, draws=draws_text(tuning["draws"]))
    return [*pieces(said), *_in_each(tuning)]


def _point(tuning: Tuning, best: TuningRow, lam: float) -> list[Piece]:
    """“λ = 0 at γ = 0.1, which is not a penalty at all, with block 3 quantized and no other”."""
    point = [piece(_sign("λ", lam), "lambda")]
    if best["gamma"] is not None:
        point = pieces(tr_parts("{point} at {gamma}", point=point, gamma=_sign("γ", best["gamma"])))
    if tuning["blocks"] is None:
        return pieces(tr_parts("{point}, which is not a penalty at all", point=point)) if lam == 0 else point
    words = message("{point} with {blocks} quantized and no other")
    if lam == 0:
        words = message("{point}, which is not a penalty at all, with {blocks} quantized and no other")
    return pieces(tr_parts(words, point=point, blocks=_blocks(tuning["blocks"])))


def _in_each(tuning: Tuning) -> list[Piece]:
    """Said where more draws are needed although each of them is clear by itself."""
    if tuning["next"] != "go_on":
        return []
    least = min((one["low"] for one in tuning["one_draw"] if one["low"] is not None), default=math.nan)
    if not least > 0:
        return []
    text = tr(
        "In each of them by itself it is at least {size} less; whether it is in others too, so few draws can’t say.",
        size=percent(saved(least), 1),
    )
    return [piece(f" {text}")]


def _keep(tuning: Tuning, best: TuningRow) -> list[Piece]:
    """No measurable gain: nothing is to be changed."""
    count = sum(len(of_standing(tuning, standing)) for standing in ("best", "as_good", "worse"))
    assert best["lambda"] is not None
    saving = "" if best["better"] is None else savings_text(best)
    said = tr(
        "The best of the {count} compared, λ = {lam}, has {saving}, on {draws}.",
        count=count, lam=lam_text(best["lambda"]), saving=saving, draws=draws_text(tuning["draws"]),
    )  # fmt: skip
    high = best["better_high"]
    worse = message("Keep GPTQ 1 %: every λ is measurably worse.")
    lead = message("Keep what you have, GPTQ 1 %: no measurable difference.")
    return [piece(tr(worse if high is not None and high < 0 else lead)), piece(f" {said}")]


def _blocks(blocks: list[int]) -> str:
    if len(blocks) == 1:
        return tr("block {block}", block=blocks[0])
    return tr("blocks {blocks}", blocks=joined([", ".join(map(str, blocks[:-1])), str(blocks[-1])]))


def _as_good(tuning: Tuning, best: TuningRow) -> list[Piece]:
    others = of_standing(tuning, "as_good")
    if not others:
        return [piece(tr("No other λ that was compared is as good."))]
    words = message("{lams} is as good, as far as {draws} can tell.")
    draws = draws_text(tuning["draws"])
    if len(others) == 1 and others[0]["lambda"] is not None:
        return [piece(tr(words, lams=lam_text(others[0]["lambda"]), draws=draws))]
    several, span = message("Each of {lams}"), message("Anything from {lams}")
    text = spans_text(tuning["band"]).replace(" ", NBSP)
    whole = piece(tr(several if len(tuning["band"]) > 1 else span, lams=text), "lambda")
    return pieces(tr_parts(words, lams=whole, draws=draws))


def _accuracy(tuning: Tuning, best: TuningRow) -> list[Piece]:
    """What the best λ answers on the tasks, beside GPTQ 1 %."""
    tasks, value, more = tuning["tasks"], best.get("accuracy"), best.get("more_accurate")
    if not tasks or value is None or more is None:
        return []
    low, high, sign = best["more_accurate_low"], best["more_accurate_high"], 1 if more >= 0 else -1
    gain = message("{size}\u00a0points more than GPTQ 1 %")
    loss = message("{size}\u00a0points fewer than GPTQ 1 %")
    ends = {}
    if low is not None and high is not None:
        gain = message("{size}\u00a0points more than GPTQ 1 % ({low} to {high})")
        loss = message("{size}\u00a0points fewer than GPTQ 1 % ({low} to {high})")
        first, last = (number(100 * end, 1) for end in sorted((sign * low, sign * high)))
        ends = {"low": first, "high": last}
    points = tr(gain if sign > 0 else loss, size=number(100 * abs(more), 1), **ends)
    right = piece(tr("{share} right", share=percent(value, 1)), "quality")
    clear = message("{right} on {names}, {points}.")
    unclear = message("{right} on {names}, no measurable difference: {points}.")
    words = clear if best["more_accurate_verdict"] else unclear
    return pieces(tr_parts(words, right=right, names=joined(tasks["names"]), points=points))


def _edge(tuning: Tuning, best: TuningRow) -> list[Piece]:
    """Said where the best λ has no neighbour on one side: what lies beyond was not tried."""
    if not tuning["end"] or best["lambda"] is None:
        return []
    lams = [row["lambda"] for row in candidates(tuning) if row["lambda"] is not None]
    if best["lambda"] == max(lams):
        return [piece(tr("It is the largest λ tried; larger ones may be better."))]
    if best["lambda"] == min(lams) and best["lambda"] > 0:
        return [piece(tr("It is the smallest λ tried; smaller ones may be better."))]
    return []


def _left_out(tuning: Tuning) -> list[Piece]:
    """The λ that were not reached."""
    missing = [row["lambda"] for row in of_standing(tuning, "not_reached") if row["lambda"] is not None]
    if tuning["best"] is None or not missing:
        return []
    return [piece(tr("Not reached: λ = {lams}.", lams=listed([lam_text(lam) for lam in missing])))]


def _end(tuning: Tuning) -> list[Piece]:
    """Why it ended, and what a sweep of everything in as many draws would have taken."""
    if not tuning["end"]:
        return []
    why = tr(ENDS[tuning["end"]])
    if tuning["best"] is None:
        return [piece(tr("Tuning ended {why}.", why=why))]
    text = tr(
        "Tuning ended {why}, after {count} models of the {swept} that measuring every λ would take.",
        why=why, count=tuning["measured"], swept=len(tuning["rows"]) * tuning["draws"],
    )  # fmt: skip
    return [piece(text)]
