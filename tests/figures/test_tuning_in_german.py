"""Tuning and comparisons in German: sentences, titles, logs and tables, and figures of which no word is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from sarqc.documents import Tuned, Tuning
from sarqc.figures import compare_view, tuning_view
from sarqc.figures.compare import Ending
from sarqc.figures.sentence import plain
from sarqc.figures.titles import finding_at
from sarqc.figures.tuning import tuning_table
from sarqc.figures.tuning_layers import layers_figure
from sarqc.figures.tuning_log import tuning_legend, tuning_log
from sarqc.figures.tuning_race import race_figure
from sarqc.figures.tuning_words import tuning_sentence, tuning_small_print
from sarqc.jobs.tuned import tuned
from sarqc.language import speaking
from sarqc.study.document import Study
from tests.figures.test_tuning_figures import NBSP, RECIPE, compared, documents, screened, single, texts, traces, turn

TASKS: Any = {"names": ["piqa", "arc"], "draws": 3, "accuracy_float": 0.667, "accuracy_float_error": 0.021}


def said(tuning: Tuning) -> str:
    with speaking("de"):
        return plain(tuning_sentence(tuning)).replace(NBSP, " ")


@pytest.mark.parametrize(
    ("tuning", "words"),
    [
        (
            compared("known", "run"),
            "Nehmen Sie λ = 0,2 bei γ = 0,1: 4,9 % weniger Perplexität als GPTQ 1 % (3,9 bis 5,8 %), verglichen über "
            "vier Stichproben. 0,5 ist gleich gut, soweit vier Stichproben das zeigen können. Die Suche endete, weil "
            "sich kein weiterer Unterschied zeigen lässt, nach 20 Modellen; jedes λ zu messen hätte 28 gebraucht.",
        ),
        (
            compared(blocks=[0, 15, 31], band=[[0.0, 0.0], [0.2, 0.5]]),
            "Bisher λ = 0,2 bei γ = 0,1 (nur Blöcke 0, 15 und 31 quantisiert): 4,9 % weniger Perplexität als GPTQ 1 % "
            "(3,9 bis 5,8 %), verglichen über vier Stichproben. 0,5 ist gleich gut, soweit vier Stichproben das zeigen "
            "können.",
        ),
        (
            compared("draws", "keep", half=0.06),
            "Bleiben Sie bei GPTQ 1 %: kein messbarer Unterschied. Das beste von 3 verglichenen, λ = 0,2, hat über "
            "vier Stichproben 4,9 % weniger Perplexität als GPTQ 1 % (−1,0 bis 10,4 %). Die Suche endete, weil alle "
            "Stichproben gemessen sind, nach 20 Modellen; jedes λ zu messen hätte 28 gebraucht.",
        ),
        (
            single(end="budget", next="go_on"),
            "Zu wenig Zeit zum Vergleichen: Die Schichtfehler legen λ von 0,05 bis 0,5 nahe. λ = 0,2 hat in der einen "
            "gemessenen Stichprobe 33,0 % weniger Perplexität als GPTQ 1 % (29,5 bis 36,2 %), nach den Fenstern des "
            "Testtexts. Die Suche endete, weil das Budget verbraucht war.",
        ),
        (
            screened(screened=[12, 42], suggested=[]),
            "Die Fehler von 12 der 42 Schichten sind bekannt; bisher legen sie λ = 0,2 nahe.",
        ),
        (
            screened(measured=1),
            "Die Schichtfehler legen λ von 0,05 bis 0,5 nahe. Bisher ist 1 Modell gemessen: zu wenig für einen "
            "Vergleich.",
        ),
    ],
)
def test_the_sentence(tuning: Tuning, words: str) -> None:
    assert said(tuning) == words


def test_tasks_are_said_with_their_doubt() -> None:
    tuning = compared("known", "run", tasks=TASKS)
    tuning["rows"][2] |= {
        "accuracy": 0.658, "more_accurate": -0.031, "more_accurate_low": -0.054, "more_accurate_high": -0.008,
        "more_accurate_verdict": -1,
    }  # fmt: skip
    assert "65,8 % richtig bei piqa und arc, 3,1 Prozentpunkte weniger als GPTQ 1 % (0,8 bis 5,4)." in said(tuning)
    with speaking("de"):
        lines = [line.replace(NBSP, " ") for line in tuning_small_print(tuning, RECIPE)]
    assert "γ = 0,1 wurde aus 0; 0,1 und 0,5 nach den Schichtfehlern auf ungesehenem Text gewählt." in lines
    assert lines[-2] == (
        "piqa und arc: geprüft bei den verbliebenen λ und den Bezugspunkten über drei Stichproben; das "
        "Gleitkommamodell beantwortet 66,7 ± 2,1 % richtig."
    )


def test_the_race_says_what_is_saved_and_why_a_lambda_is_out() -> None:
    with speaking("de"):
        figure, legend = race_figure(compared("known", "run")), tuning_legend(compared("known", "run"))
    assert (figure["title"], figure["subtitle"]) == (
        "λ = 0,2 bis 0,5 sparen am meisten Perplexität", ", verglichen über vier Stichproben"
    )  # fmt: skip
    notes = texts(figure)
    for words in (
        "<b>Ersparte Perplexität gegenüber GPTQ 1 %</b>, gleicher Kalibriertext", "<b>so gut wie das beste</b>",
        "klar schlechter nach<br>Stichprobe 4", "nach Schichtfehlern<br>ausgeschieden", "↑ Gleitkommamodell 22",
    ):  # fmt: skip
        assert words in notes
    (hover,) = traces(figure)["am besten"]["text"]
    assert hover.replace(NBSP, " ") == (
        "λ = 0,2, am besten: 4,9 % weniger Perplexität als GPTQ 1 % (3,9 bis 5,8 %), vier Stichproben"
    )
    assert figure["aria"].endswith("Nach Schichtfehlern ausgeschieden: λ = 0; 10.")
    assert {"mark": "worse", "text": "0,05 klar schlechter nach Stichprobe 4"} in legend


def test_errors_of_layers() -> None:
    with speaking("de"):
        figure = layers_figure(screened())
    assert (figure["title"], figure["subtitle"]) == (
        "Die Schichtfehler sind am kleinsten bei λ = 0,2", ", alle 42 Schichten"
    )  # fmt: skip
    assert figure["layout"]["separators"] == ",."
    assert "λ = 0,5: 4,1 %" in figure["aria"].replace(NBSP, " ")


def test_the_log_and_the_table() -> None:
    turns = [
        turn("screening", 3.0), turn("screened", 31.0, left=[0.05, 0.2, 0.5], out=[0.0, 10.0]),
        turn("draw", 54.0, draws=1, leading=0.2, left=[0.05, 0.2, 0.5]),
        turn("draw", 90.0, draws=3, leading=0.2, left=[0.2, 0.5], out=[0.05]), turn("tasks", 100.0, left=[0.2]),
        turn("end", 120.0, draws=4),
    ]  # fmt: skip
    tuning = compared("known", "run", turns=turns, tasks=TASKS)
    with speaking("de"):
        lines, table = tuning_log(tuning), tuning_table(tuning)
    assert [line["text"] for line in lines] == [
        "Vorauswahl: Schichtfehler bei 5 λ",
        "0 und 10 nach Schichtfehlern ausgeschieden",
        "Stichprobe 1: 0,2 vorn, noch nichts sicher",
        "Stichprobe 3: 0,2 führt, 0,2 bis 0,5 nicht zu trennen; 0,05 klar schlechter",
        "Prüfung mit piqa und arc: λ = 0,2",
        "Beendet, weil sich kein weiterer Unterschied zeigen lässt",
    ]
    assert [column["title"] for column in table["columns"]][:5] == ["Verfahren", "λ", "γ", "Stand", "Stichproben"]
    assert table["rows"][2]["standing"] == "am besten"
    assert table["rows"][2]["lambda"] == 0.2


@given(documents())
def test_any_stage_is_said_in_german_beside_english(tuning: Tuning) -> None:
    tuning["screened"][0] *= any(one["layer_error"] is not None for one in tuning["rows"])
    english = tuning_view(tuning, RECIPE)
    with speaking("de"):
        german = tuning_view(tuning, RECIPE)
    assert english == tuning_view(tuning, RECIPE)
    assert plain(german["sentence"]) != plain(english["sentence"])
    for name in ("figure", "layers"):
        before, after = english[name], german[name]
        assert before["title"] != after["title"]
        assert before["aria"] != after["aria"]
        assert [trace["y"] for trace in before["data"]] == [trace["y"] for trace in after["data"]]
    for words in (*german["small_print"], plain(german["sentence"]), german["figure"]["aria"]):
        assert "{" not in words


def test_what_tuning_came_to() -> None:
    summary = {"tuning": compared("known", "run", band=[[0.0, 0.0], [0.05, 0.2], [0.5, 0.5]])}
    with speaking("de"):
        taken, kept = tuned(summary), tuned({"tuning": compared("draws", "keep")})
    assert taken is not None
    assert kept is not None
    assert (taken["words"], taken["band"]) == ("0,2 gefunden", "0; 0,05 bis 0,2 und 0,5")
    assert kept["words"] == "kein Unterschied: bei GPTQ 1 % bleiben"


def test_studies_side_by_side() -> None:
    study = Study.open(Path("assets/studies/tiny-llama"))
    lines = [study.line(name, 2) for name in ("sarqc-gbs", "rqc-gbs")]
    both = [study.model_copy(update={"lines": (line,)}) for line in lines]
    came_to: Tuned = {
        "lam": 0.1, "gamma": None, "words": "0,1 gefunden", "band": "0 bis 0,1", "best": 0.1, "perplexity": 40.25,
        "log_ratio": 0.5, "against_gptq": -0.03, "against_gptq_low": -0.05, "against_gptq_high": -0.012,
    }  # fmt: skip
    with speaking("de"):
        view = compare_view(both, [Ending(came_to, -0.03), Ending()])
    assert {one["field"]: one["values"] for one in view["differences"]}["lambda"][0] == (
        "0,1 gefunden; so gut wie das beste: 0 bis 0,1"
    )
    titles = [row["title"] for row in view["numbers"]]
    assert titles[:3] == [
        "Perplexität, ungesehener Text", "Perplexität gegenüber GPTQ 1 %", "Perplexität, Gleitkommamodell"
    ]  # fmt: skip
    assert view["numbers"][1]["notes"][0] == f"−5,0 bis −1,2{NBSP}%"
    assert view["layers_on"] == "ungesehener Text"
    figure = view["figure"]
    assert figure["title"] == "Kurven über λ"
    assert finding_at(figure, {"gamma": 0, "lambda": 0}).startswith("A hat die niedrigste Perplexität: 40,")
    assert "Perplexität auf ungesehenem Text, kleiner ist besser" in texts(figure)
