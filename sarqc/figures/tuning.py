"""Shared parts of a tuning run's figures, table and words: its candidates, the words for their standings, the format of
a saving; and the sentence of a run at any moment of it, and the small print.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from sarqc.documents import End, Standing, Tuning, TuningRow
from sarqc.figures.drawing import LAM_CORNER, Figure, add_note, line_shape
from sarqc.figures.numbers import (
    NBSP,
    DataTable,
    Headings,
    counted,
    data_table,
    draws_text,
    interval_headings,
    join_names,
    lam_text,
    number,
    percent,
)
from sarqc.figures.sentence import Piece, join_sentences, piece, pieces
from sarqc.quantization.methods import METHODS
from sarqc.study.elimination import DELTA
from sarqc.study.evidence import Evidence, Sample
from sarqc.study.intervals import spans_text as spans_text

MANY = 9  # λ; more names than that don't fit beside each other on a narrow screen
HEADINGS: Headings = (
    ("method", "Method", "text"),
    ("lambda", "λ", "plain"),
    ("gamma", "γ", "plain"),
    ("standing", "Standing", "text"),
    ("draws", "Draws", "plain"),
    ("perplexity", "Perplexity", "perplexity"),
    *interval_headings("worse", "Above the best, paired", "significant", high="95 % to"),
    *interval_headings("change", "Change from GPTQ 1 %", "change", high="95 % to"),
    ("kl", "KL to the float model, nats a token", "significant"),
    ("kl_error", "± standard error", "significant"),
)
Mark = Literal["best", "as_good", "worse", "measured", "not_reached", "ruled_out"]
# The word for each mark: title, chart, sentence, table, log and lists have no others.
MARKS: dict[Mark, str] = {
    "best": "best",
    "as_good": "as good as the best",
    "worse": "worse",
    "measured": "measured, not compared yet",
    "not_reached": "not reached",
    "ruled_out": "ruled out by errors of layers",
}


def candidates(tuning: Tuning) -> list[TuningRow]:
    """Return the rows that are tuned, by λ."""
    return [row for row in tuning["rows"] if row["standing"] != "baseline"]


def rows_of_standing(tuning: Tuning, standing: Standing) -> list[TuningRow]:
    """Return the rows of a standing, in their order."""
    return [row for row in tuning["rows"] if row["standing"] == standing]


def mark_of(row: TuningRow) -> Mark:
    """Return the mark of a λ."""
    standing = row["standing"]
    assert standing != "baseline"  # has no place on the axis
    return "measured" if standing == "not_reached" and row["better"] is not None else standing


def standing_words(row: TuningRow) -> str:
    """Return the standing of a λ, or that the row is a baseline."""
    return "baseline" if row["standing"] == "baseline" else MARKS[mark_of(row)]


def mark_counts(tuning: Tuning) -> str:
    """“1 best, 2 as good as the best, 6 not reached”: of the marks that there are, in their order."""
    marks = [mark_of(row) for row in candidates(tuning)]
    return ", ".join(f"{marks.count(mark)} {words}" for mark, words in MARKS.items() if mark in marks)


def progress_text(tuning: Tuning) -> str:
    """“9 models measured, 4 of them before: 1 best, 2 as good as the best, 6 not reached”."""
    if not tuning["end"] and not any(turn["what"] == "screened" for turn in tuning.get("turns", [])):
        return "Comparing the errors of layers: {} of {} layers".format(*tuning["screened"])
    before = tuning.get("reused", 0)
    reused = f", {'all' if before == tuning['measured'] else before} of them before" if before else ""
    return f"{counted(tuning['measured'], 'model')} measured{reused}: {mark_counts(tuning)}"


def saved_share(better: float) -> float:
    """Return the saved share of GPTQ's perplexity from a difference of logarithms; negative for a cost."""
    return -math.expm1(-better)


def tuning_table(tuning: Tuning) -> DataTable:
    """Return everything known of each λ and baseline; columns that hold nothing yet are left out."""
    return data_table(
        HEADINGS,
        [
            {**row, "method": title_of(row), "standing": standing_words(row)}
            | ({} if row["better"] is None else Evidence.of_row(tuning, row).columns("change"))
            for row in tuning["rows"]
        ],
    )


def title_of(row: TuningRow) -> str:
    """“GPTQ 1 %”, “Round to nearest”."""
    return METHODS[row["method"]].title


def lam_of(row: TuningRow) -> float:
    """Return the λ of a candidate."""
    assert row["lambda"] is not None  # candidates have a λ
    return row["lambda"]


def level_of(value: float) -> dict[str, Any]:
    """Return a dotted line over all λ."""
    shape = line_shape((0, 1), [value], "var(--ink-2)", "dot", xref="paper", yref="y") | {"layer": "below"}
    shape["line"]["width"] = 1.5
    return shape


def name_axis(figure: Figure, names: Sequence[str], best: int | None) -> None:
    """Name λ on the axis, the best one in bold; on a narrow screen every other one where there are many."""
    ticks = list(names)
    if best is not None:
        ticks[best] = f'<b><span style="color:var(--quality-ink)">{names[best]}</span></b>'
    figure["layout"]["xaxis"]["ticktext"] = ticks
    if len(names) > MANY:  # the best one keeps its name, and every other one from there
        start = 0 if best is None else best % 2
        figure["narrow"]["layout.xaxis.ticktext"] = [text if at % 2 == start else "" for at, text in enumerate(ticks)]
    add_note(figure, "λ", **LAM_CORNER)


ENDS: dict[End, str] = {
    "yardstick": "the text can’t rank λ",
    "verdict": "the best λ and its neighbours are compared well enough",
    "known": "no further difference can be shown",
    "narrow": "the band is as narrow as was asked for",
    "budget": "the budget is spent",
    "draws": "all draws are made",
}


def tuning_sentence(tuning: Tuning) -> list[Piece]:
    """Return the λ to take, what is as good, and why tuning ended: as far as is known. A λ is emphasised only where it
    was compared with another one in two draws.
    """
    best = None if tuning["best"] is None else tuning["rows"][tuning["best"]]
    if tuning["end"] == "yardstick":
        return [piece(_yardstick(tuning))]
    if best is None:
        parts = [_too_little(tuning), _single_draws(tuning)]
    elif best["better"] is not None and Evidence.of_row(tuning, best).verdict != "better":
        parts = [_undecided(tuning, best)]
    else:
        parts = [_take(tuning, best), _as_good(tuning, best), _edge(tuning, best)]
    return join_sentences([*parts, _left_out(tuning), _end(tuning)])


def tuning_small_print(tuning: Tuning, recipe: Mapping[str, Any]) -> list[str]:
    """List the evidence, one plain sentence each. ``recipe``: of the tuning run, under its public names."""
    test = Path(str(recipe["test"])).name
    lines = [
        f"λ was chosen on {test}: judge the final model on another text.",
        f"Each draw is {number(recipe['samples'], 0)} sequences of {number(recipe['length'], 0)} tokens of "
        f"{Path(str(recipe['calibration'])).name}, taken at random.",
    ]
    if tuning["best"] is not None:
        lines.append(
            "Intervals are of 95 %, of the paired difference over draws, for all compared λ at once, because the "
            "best one was chosen on the draws that judge it."
        )
    lines.append(
        "Layers were solved on the float model’s inputs. The run to follow gives each layer the inputs that the "
        "quantized layers before it make, so its perplexity differs a little."
    )
    if len(tuning["gammas"]) > 1 and tuning["gamma"] is not None:
        tried = [lam_text(value) for value in tuning["gammas"] if value is not None]
        lines.append(
            f"γ = {lam_text(tuning['gamma'])} was chosen of {join_names(tried)} by the errors of layers on unseen text."
        )
    known, layers = tuning["screened"]
    if 0 < known < layers:
        lines.append(f"Errors of layers are of {known} of {layers} layers, spread over the model.")
    if rows_of_standing(tuning, "worse"):
        lines.append(
            "A λ is worse where another one is better by more than chance allows; the best one is called worse "
            f"in at most {number(100 * DELTA, 0)} % of tuning runs."
        )
    return lines


def _too_little(tuning: Tuning) -> list[Piece]:
    """Report the errors of layers alone, before two λ were compared in two draws."""
    known, layers = tuning["screened"]
    if not known:
        return [piece("Not enough time: nothing is known yet." if tuning["end"] else "Comparing the errors of layers.")]
    if any(first != last for first, last in tuning["suggested"]):
        lams = f"λ from {spans_text(tuning['suggested'])}"
    else:
        rows = [row for row in candidates(tuning) if row["layer_error"] is not None]
        promising = min(rows, key=lambda row: row["layer_error"] or 0.0)["lambda"] or 0.0
        lams = f"λ = {spans_text(tuning['suggested']) or lam_text(promising)}"
    if tuning["end"]:
        return [piece(f"Not enough time to compare: the errors of layers suggest {lams}.")]
    if known < layers and not tuning["suggested"]:
        return [piece(f"The errors of {known} of {layers} layers are known; so far they suggest {lams}.")]
    if not tuning["measured"]:
        return [piece(f"The errors of layers suggest {lams}. No whole model has been measured yet.")]
    measured = f"{counted(tuning['measured'], 'model')} {'has' if tuning['measured'] == 1 else 'have'} been measured"
    return [piece(f"The errors of layers suggest {lams}. So far {measured}: too few to compare.")]


def _single_draws(tuning: Tuning) -> list[Piece]:
    """Report the λ that leads in the first draw, by the windows of the test text."""
    if not (seen := tuning["one_draw"]):
        return []
    low, high = ((math.nan if end is None else -end) for end in (seen[0]["high"], seen[0]["low"]))
    over: Sample = "nothing" if math.isnan(low) else "windows"
    first = Evidence.of_log(
        -seen[0]["better"], low, high, quantity="perplexity", over=over, count=int(over == "nothing")
    )
    lam = tuning["rows"][seen[0]["row"]]["lambda"] or 0.0
    return [piece(f"λ = {lam_text(lam)} has {first.size}{first.beside}.")]


def _sign(sign: str, value: float) -> str:
    return f"{sign}{NBSP}={NBSP}{lam_text(value)}"


def _take(tuning: Tuning, best: TuningRow) -> list[Piece]:
    """“Use λ = 0.2: 4.3 % lower perplexity than GPTQ 1 % (95 %: 3.1 to 5.6 %, six draws, best of 5).”"""
    assert best["lambda"] is not None
    lead = ["Use " if tuning["next"] == "run" else "So far ", _point(tuning, best, best["lambda"])]
    if best["better"] is None:
        return pieces([*lead, "."])
    evidence = Evidence.of_row(tuning, best)
    return pieces([*lead, ": ", piece(evidence.size, "quality", verdict=True), f"{evidence.beside}."])


def _point(tuning: Tuning, best: TuningRow, lam: float) -> list[Piece]:
    """“λ = 0 at γ = 0.1, which is not a penalty at all, with block 3 quantized and no other”."""
    point = [piece(_sign("λ", lam), "lambda")]
    if best["gamma"] is not None:
        point = pieces([point, " at ", _sign("γ", best["gamma"])])
    blocks = ""
    if (numbers := tuning["blocks"]) is not None:
        blocks = (
            f" with block{'' if len(numbers) == 1 else 's'} {join_names([*map(str, numbers)])} quantized and no other"
        )
    if lam == 0:
        return pieces([point, f", which is not a penalty at all{',' if blocks else ''}{blocks}"])
    return pieces([point, blocks]) if blocks else point


def _undecided(tuning: Tuning, best: TuningRow) -> list[Piece]:
    """State the verdict that leads to no λ: worse, equal, or not known yet; with its numbers."""
    assert best["lambda"] is not None
    evidence = Evidence.of_row(tuning, best)
    lead = {
        "worse": "Keep GPTQ 1 %: every λ that was compared is worse.",
        "equal": "Keep GPTQ 1 %: the best λ is equal to it within 1 %.",
    }.get(evidence.verdict, "Not known yet whether a λ is better than GPTQ 1 %.")
    return [piece(f"{lead} The best compared, λ = {lam_text(best['lambda'])}, has {evidence.size}{evidence.beside}.")]


def _as_good(tuning: Tuning, best: TuningRow) -> list[Piece]:
    rows = rows_of_standing(tuning, "as_good")
    if not rows:
        return [piece("No other λ that was compared is as good.")]
    draws = draws_text(tuning["draws"])
    if len(rows) == 1 and rows[0]["lambda"] is not None:
        return [piece(f"{lam_text(rows[0]['lambda'])} is as good, as far as {draws} can tell.")]
    lead = "Each of" if len(tuning["band"]) > 1 else "Anything from"
    whole = piece(f"{lead} {spans_text(tuning['band']).replace(' ', NBSP)}", "lambda")
    return pieces([whole, f" is as good, as far as {draws} can tell."])


def _edge(tuning: Tuning, best: TuningRow) -> list[Piece]:
    """Note that the best λ has no neighbour on one side: λ beyond it were not tried."""
    if not tuning["end"] or best["lambda"] is None:
        return []
    lams = [row["lambda"] for row in candidates(tuning) if row["lambda"] is not None]
    if best["lambda"] == max(lams):
        return [piece("It is the largest λ tried; larger ones may be better.")]
    if best["lambda"] == min(lams) and best["lambda"] > 0:
        return [piece("It is the smallest λ tried; smaller ones may be better.")]
    return []


def _left_out(tuning: Tuning) -> list[Piece]:
    """Return the λ that were not reached."""
    missing = [row["lambda"] for row in rows_of_standing(tuning, "not_reached") if row["lambda"] is not None]
    if tuning["best"] is None or not missing:
        return []
    return [piece(f"Not reached: λ = {join_names([lam_text(lam) for lam in missing])}.")]


def _end(tuning: Tuning) -> list[Piece]:
    """Return why it ended, and the cost of a full sweep in as many draws."""
    if not tuning["end"]:
        return []
    lead = f"Stopped, since {ENDS[tuning['end']]}"
    if tuning["end"] == "budget" and tuning["budget"] is not None:
        lead = f"Stopped at {tuning['budget'] / 60:g} min"
    if tuning["best"] is None:
        return [piece(f"{lead}.")]
    return [piece(f"{lead}: {tuning['measured']} of {len(tuning['rows']) * tuning['draws']} models measured.")]


def _yardstick(tuning: Tuning) -> str:
    """State that the test text can't rank λ, and the remedy."""
    gptq = next(row for row in tuning["rows"] if row["method"] == "gptq")
    more = math.expm1(-(gptq["log_ratio"] or 0.0))
    than = f"has {percent(more, 1)} more perplexity than" if more else "has the perplexity of"
    return (
        f"On this test text the float model {than} its copy by GPTQ 1 %, so perplexity can’t rank λ here. Measure on a "
        "text that the model knows, or take fewer bits. Only these two models were measured."
    )
