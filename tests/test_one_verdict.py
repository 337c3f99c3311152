"""One measurement has one verdict, one interval and one wording, wherever it is shown.

The same differences in ln perplexity from GPTQ 1 %, draw by draw, are a study, runs, a tuning run and a ladder.
"""

import csv
import io
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sarqc import Recipe
from sarqc.checkpoints.model_card import model_card
from sarqc.events import Finished
from sarqc.figures import compare_view, figure_table, lab_view, ladder_view, tuning_view
from sarqc.figures.sentence import plain
from sarqc.jobs.run import State
from sarqc.study.document import Study, StudyWriter
from sarqc.study.evidence import Evidence
from sarqc.terminal import print_summary
from tests.checkpoints.test_card import a_summary
from tests.figures.test_ladder_figures import RECIPE, ladder
from tests.figures.test_tuning_figures import document, row
from tests.http.conftest import client as client
from tests.http.conftest import settings as settings
from tests.http.conftest import store as store
from tests.jobs.fake_runs import recipe
from tests.synthetic_study import _line, study_document

DRAWS = {
    "better": [-0.030, -0.028, -0.033, -0.031],
    "equal": [-0.001, 0.0018, -0.0005, -0.0012],
    "unknown": [-0.030],
}
LEVEL = 80 + 3.0 * np.arange(4)  # perplexity of GPTQ 1 % by draw
BOUNDS = re.compile(r"\((95 %: [^()]*|one draw, no interval)\)")


@pytest.fixture(params=DRAWS)
def verdict(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def logs(verdict: str) -> np.ndarray:
    return np.array(DRAWS[verdict])


def expected(logs: np.ndarray) -> tuple[float, float, float]:
    """The change and the ends of its interval by scipy; NaN of one draw."""
    ends = stats.ttest_1samp(logs, 0).confidence_interval() if len(logs) > 1 else (math.nan, math.nan)
    return (math.expm1(logs.mean()), *np.expm1(ends))


def bounds_of(text: str) -> list[str]:
    """What stands in brackets behind each size."""
    return BOUNDS.findall(text.replace("\u00a0", " "))


def check(verdict: str, logs: np.ndarray, *texts: str) -> None:
    """Each text says the verdict and the same interval, sample and number of draws."""
    change, low, high = expected(logs)
    known = Evidence("perplexity", change, low, high, "draws" if len(logs) > 1 else "nothing", len(logs))
    assert known.verdict == verdict
    lead = {"better": "", "equal": "equal within 1 %: ", "unknown": "not known yet: "}[verdict]
    for text in texts:
        said = text.replace("\u00a0", " ")
        assert known.bounds.replace("\u00a0", " ") in bounds_of(said), said
        assert f"{lead}{known.size}".replace("\u00a0", " ").lower() in said.lower(), said
        if verdict == "better":
            assert "not known yet" not in said.lower()


@pytest.fixture
def study(tmp_path: Path, logs: np.ndarray) -> Study:
    """λ = 0.01 with identity, which is GPTQ 1 %, and λ = 0.1."""
    writer, rng = StudyWriter(tmp_path / "one"), np.random.default_rng(0)
    level = LEVEL[: len(logs)]
    values = np.stack([level, level * np.exp(logs)], axis=-1)[:, None]
    line = _line(writer, rng, ("rqc-gbs", "gptq", (0.01, 0.1), (None,), values, None))
    return writer.finish(study_document(tmp_path / "one", "float", [line]))


def test_the_lab_and_learn(verdict, logs, study):
    view = lab_view(study, method="rqc-gbs", bits=2)
    told = view["told"]["perplexity"]
    sentence, best = plain(told["sentences"][0][1]), told["best"][0]["words"]
    check(verdict, logs, best)
    assert bounds_of(sentence)[0] == bounds_of(best)[0]
    bold = [piece for piece in told["sentences"][0][1] if piece["verdict"] and piece["role"] == "quality"]
    assert bool(bold) == (verdict != "unknown")
    ruler = view["figures"]["ruler"]["data"][0]["text"][1]
    assert bounds_of(ruler)[0] == bounds_of(best)[0]
    row = next(row for row in view["table"]["rows"] if row["lambda"] == 0.1)
    known = [row["perplexity_difference"], row.get("perplexity_low"), row.get("perplexity_high")]
    change, *ends = expected(logs)
    assert known[0] == pytest.approx(change, abs=1e-6)
    assert known[1:] == ([None, None] if len(logs) < 2 else pytest.approx(ends, abs=1e-6))
    assert row["perplexity_among"] == 1
    rows = {row["lambda"]: row for row in figure_table(study, "ruler", method="rqc-gbs", bits=2, layer=None)["rows"]}
    assert rows[0.1]["perplexity_change"] == pytest.approx(change, abs=1e-6)


def test_compare(verdict, logs, study):
    line = study.lines[0]
    first, second = (
        study.model_copy(update={"lines": (line.model_copy(update={"chosen": (0, at)}),)}) for at in (0, 1)
    )
    view = compare_view([first, second])
    evidence = next(one for one in view["numbers"] if one["title"].startswith("Perplexity, unseen"))["evidence"][1]
    assert evidence["verdict"] == verdict
    check(verdict, logs, evidence["words"], view["figure"]["finding"]["values"])


def test_tuning_and_the_terminal(verdict, logs, capsys):
    change, low, high = (math.log1p(value) for value in expected(logs))
    single = len(logs) < 2
    best = row(
        0.1, "not_reached" if single else "best", draws=len(logs), better=-change, log_ratio=0.2, perplexity=20.0
    )
    if not single:
        best |= {"better_low": -high, "better_high": -low}
    after = {"better": "run", "equal": "keep", "unknown": "go_on"}[verdict]
    rows = [best, row(0.01, "baseline", "gptq", draws=len(logs), log_ratio=0.25, better=0.0)]
    one_draw = [{"row": 0, "draw": 0, "better": -change, "low": None, "high": None}] if single else []
    tuning = document(rows, best=None if single else 0, next=after, draws=len(logs), one_draw=one_draw, measured=2)
    texts = "texts"
    view = tuning_view(tuning, {"test": texts, "calibration": texts, "samples": 4, "length": 32})
    said = plain(view["sentence"])
    print_summary({"tuning": tuning, "recipe": {"test": texts, "calibration": texts, "samples": 4, "length": 32}})
    printed = capsys.readouterr().out
    known = Evidence.of_row(tuning, best)
    assert known.verdict == verdict
    assert bounds_of(said)[0] == known.bounds.replace("\u00a0", " ")
    assert f"{100 * math.expm1(change):+.2f} %" in printed
    assert bounds_of(printed) == bounds_of(said)
    table = view["table"]["rows"][0]
    assert table["change"] == pytest.approx(math.expm1(change))


def test_the_ladder(verdict, logs):
    values = [[2 * one for one in LEVEL[: len(logs)]], list(LEVEL[: len(logs)])]
    values += [list(LEVEL[: len(logs)] * np.exp(logs)), *([[None] * len(logs)] * 3)]
    view = ladder_view(ladder(values), RECIPE)
    row = next(row for row in view["table"]["rows"] if "order" in row["step"])
    change, low, _ = expected(logs)
    assert row["perplexity_difference"] == pytest.approx(change)
    assert row.get("perplexity_difference_low") == (None if len(logs) < 2 else pytest.approx(low))
    check(verdict, logs, view["figure"]["data"][0]["text"][2])


def test_runs_rest_and_files(verdict, logs, client, capsys):
    every = client.app.state.supervisor.store
    own = [
        Evidence.of_log(log, math.nan, math.nan, quantity="perplexity", over="nothing", count=1, text="a.txt")
        for log in logs
    ]
    for seed, (log, evidence) in enumerate(zip(logs, own, strict=True)):
        run_id = every.create(recipe(3, sampling="random").model_copy(update={"seed": seed}), "local").id
        baseline = {"difference": log, "evidence": evidence.to_json(), "words": f"{evidence.words}.", "reason": ""}
        every.move(run_id, State.RUNNING)
        every.move(run_id, State.FINISHED, Finished({"perplexity": 80.0, "baseline": baseline}, 1.0))
    change, *ends = expected(logs)
    listed = client.get("/api/runs").json()["runs"]
    one = client.get(f"/api/runs/{listed[0]['id']}").json()
    group = client.get("/api/runs/groups?by=seeds").json()["groups"][0]["run"]
    for run in (*listed, one, group):
        evidence = run["evidence"]
        assert evidence["verdict"] == verdict
        if len(logs) > 1:
            check(verdict, logs, evidence["words"])
            assert [evidence["change"], evidence["low"], evidence["high"]] == pytest.approx([change, *ends])
    for line in csv.DictReader(io.StringIO(client.get("/api/runs/csv").text)):
        assert (line["against_gptq_verdict"], line["against_gptq_count"]) == (verdict, str(len(logs)))
        assert float(line["against_gptq"]) == pytest.approx(change)
    # A run knows its own draw alone; its card and the command line say no more.
    words = f"{own[0].words}."
    made = {"model": "toy", "calibration": "a.txt", "test": "a.txt"}
    card = model_card(Recipe.parse(made), a_summary(baseline={"words": words}), "plain")
    assert words in card
    plain_run = {"share_quantized": 0.5, "perplexity": None, "tasks": {}}
    print_summary(plain_run | {"layers": [{"report": {"relative_recon": 0.1}}], "baseline": {"words": words}})
    assert words in capsys.readouterr().out
    if len(logs) < 2:
        assert one["evidence"]["words"] == words
