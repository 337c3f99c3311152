"""What is drawn and said of tuning, from made-up stages of it whose every number is known."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarqc.documents import End, Tuning, TuningRow
from sarqc.figures import tuning_view
from sarqc.figures.sentence import plain
from sarqc.figures.tuning import ENDS, MARKS, mark_of, progress_text, tuning_sentence, tuning_small_print, tuning_table
from sarqc.figures.tuning_figures import race_figure, tuning_legend, tuning_log

RECIPE = {"test": "some/held-out.txt", "calibration": "wiki", "samples": 8, "length": 256}
NBSP = "\u00a0"


def row(lam: float | None, standing: Any, method: str = "sarqc-gbs", **known: Any) -> TuningRow:
    names = (
        "layer_error", "log_ratio", "log_ratio_error", "perplexity", "worse", "worse_low", "worse_high", "kl",
        "kl_error",
        "better", "better_low", "better_high",
    )  # fmt: skip
    plain_row = {
        "method": method, "lambda": lam, "gamma": 0.1 if method == "sarqc-gbs" else None, "standing": standing,
        "draws": 0, "better_by_draw": [],
    }  # fmt: skip
    return plain_row | dict.fromkeys(names) | known  # type: ignore[return-value]


def document(rows: list[TuningRow], **known: Any) -> Tuning:
    return {
        "method": "sarqc-gbs", "gamma": 0.1, "gammas": [0.0, 0.1, 0.5], "gamma_errors": [-3.0, -3.1, -3.0],
        "screened": [42, 42], "rows": rows, "best": None, "band": [], "suggested": [[0.05, 0.5]], "one_draw": [],
        "draws": 0, "measured": 0, "planned": 20, "seconds": 3.0, "budget": 180.0, "blocks": None,
        "end": "", "next": "", "more_minutes": None, "recipe": None, **known,
    }  # type: ignore[typeddict-item]  # fmt: skip


def screened(**known: Any) -> Tuning:
    """After the errors of layers."""
    excess = {0.0: 0.5, 0.05: 0.1, 0.2: 0.0, 0.5: 0.04, 10.0: 1.2}
    rows = [
        row(
            lam, "ruled_out" if lam in (0.0, 10.0) else "not_reached", layer_error=-3.1 + above,
        )
        for lam, above in excess.items()
    ]  # fmt: skip
    return document([*rows, row(0.01, "baseline", "gptq"), row(None, "baseline", "rtn")], **known)


BETTER = {0.05: -0.02, 0.2: 0.05, 0.5: 0.04}  # than GPTQ 1 %


def compared(end: End = "", step: Any = "", half: float = 0.01, draws: int = 4, **known: Any) -> Tuning:
    """λ = 0.2 is the best, 0.5 as good, 0.05 worse, each known to ± ``half``."""
    standings = {0.05: "worse", 0.2: "best", 0.5: "as_good"}
    rows = screened()["rows"]
    for one in rows:
        lam = one["lambda"]
        if one["standing"] != "baseline" and lam in BETTER:
            gain = BETTER[lam]
            one |= {  # type: ignore[misc]
                "standing": standings[lam], "draws": draws, "better": gain, "better_low": gain - half,
                "better_high": gain + half, "log_ratio": 0.25 - gain, "worse": 0.05 - gain, "perplexity": 20.0 - gain,
                "better_by_draw": [gain - 0.005, gain + 0.005],
            }  # fmt: skip
        elif one["standing"] == "baseline":
            ratio = {"gptq": 0.25, "rtn": 0.9}[one["method"]]
            one |= {"draws": draws, "log_ratio": ratio, "better": 0.25 - ratio}  # type: ignore[misc]
    values = {"best": 2, "band": [[0.2, 0.5]], "draws": draws, "measured": 5 * draws, "end": end, "next": step}
    return document(rows, **{**values, **known})


def single(draws: int = 1, **known: Any) -> Tuning:
    """λ = 0.2 was measured beside GPTQ 1 %, and no other."""
    tuning = screened()
    for one in tuning["rows"]:
        if one["lambda"] == 0.2:
            one |= {"draws": draws, "better": 0.4, "log_ratio": 0.1, "better_by_draw": [0.4]}  # type: ignore[misc]
        if one["method"] == "gptq":
            one |= {"draws": draws, "better": 0.0, "log_ratio": 0.5}  # type: ignore[misc]
    of_draw = [{"row": 2, "draw": draw, "better": 0.4, "low": 0.35, "high": 0.45} for draw in range(draws)]
    return {**tuning, "draws": 1, "measured": 2, "one_draw": of_draw, **known}  # type: ignore[typeddict-item]


def two_in_one_draw(better: float) -> Tuning:
    """λ = 0.2 and λ = 0.5 were measured in one draw, the first with this gain and the second with less."""
    tuning = single()
    gains = {0.2: better, 0.5: better - 0.1}
    for one in tuning["rows"]:
        if one["lambda"] in gains:
            one["draws"], one["better"] = 1, gains[one["lambda"]]
    tuning["one_draw"][0]["better"] = better
    return tuning


def yardstick() -> Tuning:
    """The float model is worse than its copy by GPTQ 1 % on the test text."""
    tuning = document([row(0.1, "not_reached"), row(0.01, "baseline", "gptq")], end="yardstick", measured=1)
    tuning["rows"][1]["log_ratio"] = -math.log(1.009)
    return tuning


def traces(figure: Any) -> dict[str, Any]:
    return {one["name"]: one for one in figure["data"]}


def texts(figure: Any) -> str:
    return " | ".join(one["text"] for one in figure["layout"]["annotations"])


def marks_at(figure: Any, name: str) -> list[Any]:
    """Return the λ of a kind of mark, by the ids that a page moves them with."""
    return traces(figure)[name]["ids"]


def test_progress_counts_what_the_chart_shows():
    """Each λ by its mark, models of earlier runs apart, and no draw that is only begun."""
    turns = [{"what": "screened", "seconds": 3.0, "draws": 0, "leading": None, "left": [], "out": []}]
    assert progress_text(screened(screened=[12, 42])) == "Comparing the errors of layers: 12 of 42 layers"
    words = progress_text(two_in_one_draw(0.4) | {"turns": turns, "measured": 3})
    assert words == "3 models measured: 2 measured, not compared yet, 1 not reached, 2 ruled out by errors of layers"
    done = compared("verdict", "run", measured=12, reused=8)
    assert progress_text(done) == (
        "12 models measured, 8 of them before: 1 best, 1 as good as the best, 1 worse, 2 ruled out by errors of layers"
    )


class TestRace:
    def test_before_the_first_model_every_lambda_is_a_ghost_in_one_row(self):
        figure = race_figure(screened())
        assert marks_at(figure, "not reached") == ["0.05", "0.2", "0.5"]
        assert marks_at(figure, "ruled out by errors of layers") == ["0", "10"]
        ghosts = [traces(figure)[name] for name in ("not reached", "ruled out by errors of layers")]
        assert [trace["x"] for trace in ghosts] == [[1, 2, 3], [0, 4]]
        heights = {height for trace in ghosts for height in trace["y"]}
        assert len(heights) == 1
        assert heights.pop() < 0
        assert all(trace["marker"]["line"]["dash"] == "2px 2px" for trace in ghosts)
        assert not traces(figure)["draws"]["x"]
        assert "here: each λ that is left" in texts(figure)
        assert figure["title"] == "The errors of layers leave 3 of 5 λ"
        assert [text for text in figure["layout"]["yaxis"]["ticktext"] if text] == [f"0{NBSP}%"]
        assert not [one for one in figure["layout"]["shapes"] if one["type"] == "rect"]
        assert "<b>" not in "".join(figure["layout"]["xaxis"]["ticktext"])

    def test_one_draw_has_a_dot_and_words_instead_of_an_interval(self):
        figure = race_figure(single())
        assert marks_at(figure, MARKS["measured"]) == ["0.2"]
        assert "error_y" not in traces(figure)[MARKS["measured"]]
        assert traces(figure)["draws"]["y"] == pytest.approx([1 - math.exp(-0.4)])
        assert "one dot a draw, intervals need two draws" in texts(figure)
        assert figure["title"] == "λ = 0.2 is measured in one draw, too few to be sure"
        assert race_figure(two_in_one_draw(0.4))["title"] == "λ = 0.2 is ahead in one draw, too few to be sure"
        worse = race_figure(two_in_one_draw(-0.1))["title"]
        assert worse == "λ = 0.2 is the least bad of 2, none below GPTQ’s default"
        assert "<b>" not in "".join(figure["layout"]["xaxis"]["ticktext"])

    def test_at_the_end_marks_intervals_band_and_words_are_of_the_same_standings(self):
        figure = race_figure(compared("known", "run"))
        every = traces(figure)
        assert [marks_at(figure, name) for name in ("best", "as good as the best", "worse")] == [
            ["0.2"], ["0.5"], ["0.05"]
        ]  # fmt: skip
        best, up = every["best"], every["best"]["error_y"]
        assert best["y"][0] == pytest.approx(1 - math.exp(-0.05))
        assert best["y"][0] + up["array"][0] == pytest.approx(1 - math.exp(-0.06))
        assert best["y"][0] - up["arrayminus"][0] == pytest.approx(1 - math.exp(-0.04))
        assert best["marker"]["color"] != every["as good as the best"]["marker"]["color"], "filled, and open"
        (band,) = (one for one in figure["layout"]["shapes"] if one["type"] == "rect")
        assert [index for index in range(5) if band["x0"] < index < band["x1"]] == [2, 3]
        assert "<b>" in figure["layout"]["xaxis"]["ticktext"][2]
        assert (figure["title"], figure["subtitle"]) == (
            "λ = 0.2 to 0.5 save the most perplexity", ", compared in four draws"
        )  # fmt: skip
        aria = figure["aria"].replace(NBSP, " ")
        assert (
            "Best: λ = 0.2 (4.9 % lower perplexity than GPTQ 1 % (95 %: 3.9 to 5.8 %, four draws, best of 3))" in aria
        )
        assert "Clearly worse after draw 4: λ = 0.05 (2.0 % higher" in aria
        assert "GPTQ’s default" in texts(figure)
        assert "Round to nearest" not in texts(figure)  # far beyond the scale
        assert {"mark": "worse", "text": "0.05 clearly worse after draw 4"} in tuning_legend(compared("known", "run"))

    def test_a_draw_keeps_its_place_and_its_id_when_another_one_comes(self):
        tuning = compared()
        few = traces(race_figure(tuning))["draws"]
        for one in tuning["rows"]:
            if one["better_by_draw"]:
                one["better_by_draw"] = [*one["better_by_draw"], one["better"]]  # type: ignore[list-item]
        many = traces(race_figure(tuning))["draws"]
        before, after = (dict(zip(one["ids"], one["x"], strict=True)) for one in (few, many))
        assert after.items() >= before.items()
        assert len(after) == len(before) + 3
        assert set(after) - set(before) == {"0.05 draw 3", "0.2 draw 3", "0.5 draw 3"}
        assert len(set(after.values())) == len(after)
        assert all(round(place) == at for at in (1, 2, 3) for place in many["x"][3 * (at - 1) : 3 * at])

    def test_wide_intervals_end_with_the_scale(self):
        figure = race_figure(compared(half=3.0))
        low, high = (figure["layout"]["yaxis"]["tickvals"][at] for at in (0, -1))
        best = traces(figure)["best"]
        assert best["y"][0] - best["error_y"]["arrayminus"][0] == pytest.approx(low)
        assert best["y"][0] + best["error_y"]["array"][0] == pytest.approx(min(high, 1 - math.exp(-3.05)))

    @pytest.mark.parametrize(("end", "step", "half", "words"), [
        ("", "", 0.06, "Not known yet whether a λ saves perplexity"),
        ("draws", "go_on", 0.06, "Not known yet whether a λ saves perplexity"),
    ])  # fmt: skip
    def test_the_title_claims_what_the_interval_allows(self, end, step, half, words):
        assert race_figure(compared(end, step, half=half))["title"] == words

    def test_a_band_may_have_gaps(self):
        figure = race_figure(compared("known", "run", band=[[0.0, 0.0], [0.2, 0.5]]))
        bands = [one for one in figure["layout"]["shapes"] if one["type"] == "rect"]
        assert [(one["x0"], one["x1"]) for one in bands] == [(-0.45, 0.45), (1.55, 3.45)]


def turn(what: str, seconds: float, **known: Any) -> Any:
    return {"what": what, "seconds": seconds, "draws": 0, "leading": None, "left": [], "out": [], **known}


class TestLog:
    def test_each_turning_point_is_a_line(self):
        turns = [
            turn("screening", 3.0), turn("screened", 31.0, left=[0.05, 0.2, 0.5], out=[0.0, 10.0]),
            turn("draw", 54.0, draws=1, leading=0.2, left=[0.05, 0.2, 0.5]),
            turn("draw", 90.0, draws=3, leading=0.2, left=[0.2, 0.5], out=[0.05]),
            turn("draw", 99.0, draws=4, leading=0.2, left=[0.2], out=[0.5]),
            turn("end", 120.0, draws=4),
        ]  # fmt: skip
        lines = tuning_log(compared("known", "run", turns=turns))
        assert [line["seconds"] for line in lines] == [3.0, 31.0, 54.0, 90.0, 99.0, 120.0]
        assert [line["text"] for line in lines] == [
            "Screening: errors of layers at 5 λ",
            "0 and 10 ruled out by errors of layers",
            "Draw 1: 0.2 lowest, nothing sure yet",
            "Draw 3: 0.2 leads, 0.2 to 0.5 can’t be separated; 0.05 clearly worse",
            "Draw 4: 0.2 leads alone; 0.5 clearly worse",
            "Stopped: no further difference can be shown",
        ]

    def test_a_former_document_has_no_lines(self):
        assert tuning_log(compared("known", "run")) == []


class TestTable:
    def test_the_table_has_every_row_and_no_empty_column(self):
        before, after = (tuning_table(one) for one in (screened(), compared()))
        assert [column["key"] for column in before["columns"]] == [
            "method", "lambda", "gamma", "standing", "draws"
        ]  # fmt: skip
        assert [one["lambda"] for one in after["rows"]] == [0.0, 0.05, 0.2, 0.5, 10.0, 0.01, None]
        assert after["rows"][1]["standing"] == "worse"
        assert {"perplexity", "change", "change_low", "change_high"} <= {column["key"] for column in after["columns"]}


def said(tuning: Tuning) -> str:
    return plain(tuning_sentence(tuning)).replace(NBSP, " ")


def edge() -> Tuning:
    """Return a document whose best λ is the largest, with some blocks alone quantized."""
    tuning = compared("draws", "run", best=1, band=[[0.5, 0.5]], blocks=[0, 15, 31])
    rows = [one for one in tuning["rows"] if one["lambda"] not in (0.0, 0.05, 10.0)]
    rows[0]["standing"], rows[1]["standing"] = "worse", "best"
    return {**tuning, "rows": rows}  # type: ignore[typeddict-item]


def changed(tuning: Tuning, at: int, **values: Any) -> Tuning:
    tuning["rows"][at] |= values  # type: ignore[typeddict-item]
    return tuning


# Documents, parts of their sentences, and the λ that are emphasised.
SENTENCES: dict[str, tuple[Tuning, list[str], list[str]]] = {
    "while layers are compared": (
        screened(screened=[12, 42], suggested=[]),
        ["The errors of 12 of 42 layers are known; so far they suggest λ = 0.2."],
        [],
    ),
    "before any layer": (screened(screened=[0, 42]), ["Comparing the errors of layers."], []),
    "before the first model": (
        screened(),
        ["The errors of layers suggest λ from 0.05 to 0.5. No whole model has been measured yet."],
        [],
    ),
    "one draw": (single(), ["So far 2 models have been measured: too few to compare."], []),
    "too little time": (
        single(end="budget", next="go_on", more_minutes=5.0),
        [
            "Not enough time to compare: the errors of layers suggest λ from 0.05 to 0.5. λ = 0.2 has 33.0 % lower "
            "perplexity than GPTQ 1 % (95 %: 29.5 to 36.2 %, windows of one draw). Stopped at 3 min."
        ],
        [],
    ),
    "a gain": (
        compared("known", "run"),
        [
            "Use λ = 0.2 at γ = 0.1: 4.9 % lower perplexity than GPTQ 1 % (95 %: 3.9 to 5.8 %, four draws, best of 3). "
            "0.5 is as good, as far as four draws can tell. Stopped, since no further difference can be shown: "
            "20 of 28 models measured."
        ],
        ["λ = 0.2"],
    ),
    "a text that ranks nothing": (
        yardstick(),
        [
            "On this test text the float model has 0.9 % more perplexity than its copy by GPTQ 1 %, so perplexity "
            "can’t rank λ here. Measure on a text that the model knows, or take fewer bits."
        ],
        [],
    ),
    "nothing known yet": (
        compared("draws", "go_on", half=0.06),
        [
            "Not known yet whether a λ is better than GPTQ 1 %. The best compared, λ = 0.2, has 4.9 % lower perplexity "
            "than GPTQ 1 % (95 %: −1.0 to 10.4 %, four draws, best of 3)."
        ],
        [],
    ),
    "no gain": (
        changed(compared("draws", "keep"), 2, better=0.001, better_low=-0.003, better_high=0.005),
        [
            "Keep GPTQ 1 %: the best λ is equal to it within 1 %. The best compared, λ = 0.2, has 0.1 % lower "
            "perplexity than GPTQ 1 % (95 %: −0.3 to 0.5 %, four draws, best of 3)."
        ],
        [],
    ),
    "a loss": (
        changed(compared("draws", "keep"), 2, better=-0.05, better_low=-0.06, better_high=-0.04),
        ["every λ that was compared is worse", "5.1 % higher perplexity than GPTQ 1 % (95 %: 4.1 to 6.2 %"],
        [],
    ),
    "a λ that was not reached": (
        changed(compared("budget", "run"), 0, standing="not_reached"), ["Not reached: λ = 0."], ["λ = 0.2"]
    ),
    "an edge and a slice": (
        edge(),
        [
            "λ = 0.5 at γ = 0.1 with blocks 0, 15 and 31 quantized and no other",
            "No other λ that was compared is as good.",
            "It is the largest λ tried; larger ones may be better.",
        ],
        ["λ = 0.5"],
    ),
}  # fmt: skip


class TestSentence:
    @pytest.mark.parametrize("moment", SENTENCES)
    def test_every_moment_has_its_words_and_bold_lambda_were_compared(self, moment):
        tuning, parts, bold = SENTENCES[moment]
        pieces = tuning_sentence(tuning)
        words = plain(pieces).replace(NBSP, " ")
        assert all(part in words for part in parts), words
        assert [one["text"].replace(NBSP, " ") for one in pieces if one["role"] == "lambda"] == bold

    @pytest.mark.parametrize("end", sorted(ENDS))
    def test_every_end_is_said(self, end):
        words = {"budget": "Stopped at 3 min: 20 of 28 models", "yardstick": "can’t rank λ"}.get(end, ENDS[end])
        assert words in said(compared(end, "run"))

    def test_the_small_print_names_the_text_and_the_prefix(self):
        lines = tuning_small_print(compared(), RECIPE)
        assert lines[0] == "λ was chosen on held-out.txt: judge the final model on another text."
        assert any("8 sequences of 256 tokens of wiki" in line for line in lines)
        assert any("float model’s inputs" in line for line in lines)
        assert "γ = 0.1 was chosen of 0, 0.1 and 0.5 by the errors of layers on unseen text." in lines
        assert any("at most 5 %" in line for line in lines)
        assert any("of 12 of 42 layers" in line for line in tuning_small_print(compared(screened=[12, 42]), RECIPE))


STANDING_NAMES = ("best", "as_good", "worse", "ruled_out", "not_reached")


@st.composite
def documents(draw: st.DrawFn) -> Tuning:
    """Any stage of tuning that an engine could say, and some stranger ones."""
    grid = [0.0, *(step * 10.0**power for power in range(-3, 3) for step in (1, 2, 5))]
    lams = sorted(draw(st.sets(st.sampled_from(grid), min_size=2, max_size=16)))
    value, draws = st.floats(-0.5, 5), draw(st.integers(0, 8))
    has_best = draws > 1 and draw(st.booleans())
    best = draw(st.integers(0, len(lams) - 1)) if has_best else None
    rows: list[TuningRow] = []
    for at, lam in enumerate(lams):
        standing = draw(st.sampled_from(STANDING_NAMES[1:] if has_best else STANDING_NAMES[3:]))
        standing = "best" if at == best else standing
        known: dict[str, Any] = {"layer_error": draw(st.one_of(st.none(), st.floats(-12, 3)))}
        if standing in STANDING_NAMES[:3] or (standing == "not_reached" and draws and draw(st.booleans())):
            better, half = draw(st.floats(-5, 5)), draw(st.floats(0, 1))
            known |= {"draws": max(1, draws), "log_ratio": draw(value), "better": better, "better_by_draw": [better]}
            if standing != "not_reached":
                known |= {"better_low": better - half, "better_high": better + half}
        rows.append(row(lam, standing, **known))
    for method in ("gptq", "rtn", "awq"):
        known = {"log_ratio": draw(value), "better": draw(value), "draws": draws} if draw(st.booleans()) else {}
        rows.append(row(0.01 if method == "gptq" else None, "baseline", method, **known))
    inside = [lams[at] for at, one in enumerate(rows[: len(lams)]) if one["standing"] in ("best", "as_good")]
    end = draw(st.sampled_from(["", *ENDS]))
    step = "" if not end else draw(st.sampled_from(["run", "keep", "go_on"] if has_best else ["go_on"]))
    blocks = draw(st.one_of(st.none(), st.lists(st.integers(0, 40), min_size=1, max_size=3, unique=True)))
    return document(
        rows, best=best, band=[[lam, lam] for lam in inside], draws=draws, measured=sum(one["draws"] for one in rows),
        end=end, next=step, blocks=blocks, suggested=draw(st.sampled_from([[], [[lams[0], lams[-1]]]])),
        screened=draw(st.sampled_from([[0, 42], [12, 42], [42, 42]])),
    )  # fmt: skip


@pytest.mark.thorough
@given(documents())
def test_any_stage_can_be_drawn_said_and_sent(tuning):
    known = any(one["layer_error"] is not None for one in tuning["rows"])
    tuning["screened"][0] *= known
    view = tuning_view(tuning, RECIPE)
    json.dumps(view, allow_nan=False)
    figure, marks = view["figure"], traces(view["figure"])
    for kind in (*STANDING_NAMES, "measured"):
        own = {f"{one['lambda']:g}" for one in tuning["rows"] if one["standing"] != "baseline" and mark_of(one) == kind}
        assert set(marks[MARKS[kind]]["ids"]) == own
    assert {entry["mark"] for entry in view["legend"]} == {
        mark_of(one) for one in tuning["rows"] if one["standing"] != "baseline"
    }
    assert len(view["table"]["rows"]) == len(tuning["rows"])
    words = plain(view["sentence"])
    assert words
    assert "nan" not in words + figure["aria"]
    bold = [one for one in view["sentence"] if one["role"] == "lambda"]
    assert not bold or (tuning["best"] is not None and tuning["draws"] > 1), "no λ in bold that was not compared"
    low, high = figure["layout"]["yaxis"]["range"]
    for standing in STANDING_NAMES:
        assert all(low <= y <= high for y in marks[MARKS[standing]]["y"])
