"""What steps and λ are worth alone and after all others, against a loop over the draws of made-up lines."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student

from sarqc.figures import figure_table, lab_view
from sarqc.quantization.methods import METHODS, title_of
from sarqc.study.document import Line, Study, StudyWriter
from sarqc.study.step_worth import EVERY_STEP, EveryStep, every_step
from tests.synthetic_study import layers, study_document

MADE = {
    "order": {"order": "activation"}, "range": {"range": "search"}, "joint": {"range": "joint"},
    "refine": {"refine": 3}, "affine": {"grid": "affine"}, "refit": {"refit": 3}, "distill": {"distill": 5},
    "codes": {"distill": 5, "distill_codes": 1},
}  # fmt: skip
ALL = {
    "grid": "affine", "range": "joint", "order": "activation", "refine": 3, "refit": 3, "distill": 5,
    "distill_codes": 1,
}  # fmt: skip
SAVES = {
    "order": 3.0, "range": 7.0, "joint": 8.0, "refine": 1.0, "affine": 2.5, "refit": 4.0, "distill": 5.0, "codes": 1.5,
}  # fmt: skip
# What goes with a step that is taken away from all, and what comes in its place.
GOES = {"distill": {"distill", "codes"}}
COMES = {"joint": {"range"}}
DRAWS = (0, 1, 2, 5)
LAM_SAVES = {0.0: 0.0, 0.01: 2.0, 0.1: 4.0, 0.3: 3.5}  # without steps; each step leaves half as much

Values = dict[tuple[frozenset[str], float, int], float]


def without(step: str) -> dict[str, str | int]:
    gone = {"codes": {"distill_codes"}, "distill": {"distill", "distill_codes"}}.get(step, set(MADE[step]))
    left = {name: value for name, value in ALL.items() if name not in gone}
    return {"grid": "affine", "range": "search"} | left if step == "joint" else left


def all_but(step: str) -> frozenset[str]:
    return frozenset(MADE) - {"range"} - GOES.get(step, {step}) | COMES.get(step, set())


def perplexity(steps: frozenset[str], lam: float, draw: int) -> float:
    """Of one model: steps add up, and what λ saves is halved by each of them."""
    wobble = 0.3 * math.sin(7.0 * draw + 3.0 * len(steps) + 11.0 * lam + sum(map(len, steps)))
    return 100.0 - sum(SAVES[step] for step in steps) - LAM_SAVES[lam] / 2 ** len(steps) + 2.0 * draw + wobble


def line(writer: StudyWriter, fitting: Mapping[str, str | int], steps: frozenset[str], draws: tuple[int, ...]) -> Line:
    lams = tuple(LAM_SAVES) if len(steps) < 2 else (0.0, 0.1, 0.3)
    values = np.array([[[perplexity(steps, lam, draw) for lam in lams]] for draw in draws])
    axes = ("draw", "gamma", "lambda")
    arrays = {
        "perplexity": writer.add(values, axes),
        "kl": writer.add(values / 200, axes),
        "seconds": writer.add(np.full(values.shape, 1.0 + len(steps)), axes),
        "drift": writer.add(np.ones((len(draws), len(layers()), 1, len(lams))), ("draw", "layer", "gamma", "lambda")),
    }
    return Line(
        method="rqc-gbs", title=title_of("rqc-gbs", fitting), baseline=METHODS["rqc-gbs"].baseline, bits=2,
        grid=str(fitting.get("grid", "asymmetric")), group_size=4, lams=lams, gammas=(None,), draws=draws,
        fitting=dict(fitting), arrays=arrays,
    )  # fmt: skip


def made_study(folder: Path, *, draws: tuple[int, ...] = DRAWS, left_out: str = "") -> Study:
    """Every line on one draw more than ``draws``, all steps on these alone."""
    writer, more, every = StudyWriter(folder), (*draws, 9), frozenset(MADE) - {"range"}
    lines = [line(writer, {}, frozenset(), more), line(writer, ALL, every, draws)]
    lines += [line(writer, fitting, frozenset({step}), more) for step, fitting in MADE.items() if step != left_out]
    lines += [line(writer, without(step), all_but(step), more) for step in MADE if step not in ("range", left_out)]
    return writer.finish(study_document(folder, "float", lines))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return made_study(tmp_path_factory.mktemp("steps") / "steps")


@pytest.fixture(scope="module")
def steps(study: Study) -> EveryStep:
    found = every_step(study, 2)
    assert found is not None
    return found


def interval(logs: list[float], comparisons: int, reference: float) -> tuple[float, float, float]:
    """Mean and ends of a change in perplexity, from the logarithms of its ratios by draw."""
    mean = statistics.fmean(logs)
    reach = student.ppf(1 - 0.025 / comparisons, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, middle, high = (reference * math.expm1(part) for part in (mean - reach, mean, mean + reach))
    return low, middle, high


def between(some: frozenset[str], other: frozenset[str], lams: tuple[float, float], among: int = 1) -> list[float]:
    pairs = [(perplexity(some, lams[0], draw), perplexity(other, lams[1], draw)) for draw in DRAWS]
    reference = statistics.geometric_mean(theirs for _, theirs in pairs)
    return list(interval([math.log(ours / theirs) for ours, theirs in pairs], among, reference))


def test_each_step_is_its_paired_difference_alone_and_after_all_others(steps: EveryStep) -> None:
    none, every = frozenset[str](), frozenset(MADE) - {"range"}
    assert [step.step for step in steps.steps] == list(EVERY_STEP)
    assert steps.draws == len(DRAWS)
    for step in steps.steps:
        alone = step.alone_worth["perplexity"]
        expected = between(frozenset({step.step}), none, (0.1, 0.1))
        assert [alone.low, alone.mean, alone.high] == pytest.approx(expected, rel=1e-4, abs=1e-4)
        if step.step == "range":
            assert (step.without, step.last_worth) == (None, {})
            continue
        last = step.last_worth["perplexity"]
        fewer = all_but(step.step)
        expected = between(every, fewer, (0.1, 0.1))
        assert [last.low, last.mean, last.high] == pytest.approx(expected, rel=1e-4, abs=1e-4)
        of_kl = [(perplexity(every, 0.1, draw) - perplexity(fewer, 0.1, draw)) / 200 for draw in DRAWS]
        assert float(step.last_worth["kl"].mean) == pytest.approx(statistics.fmean(of_kl), abs=1e-6)


def test_lambda_is_the_best_of_those_that_all_lines_have(steps: EveryStep) -> None:
    assert steps.lams == (0.1, 0.3)
    places = [(steps.plain, frozenset[str]()), (steps.every, frozenset(MADE) - {"range"})]
    places += [(step.alone, frozenset({step.step})) for step in steps.steps]
    for combination, taken in places:
        means = {lam: statistics.geometric_mean(perplexity(taken, lam, draw) for draw in DRAWS) for lam in (0.1, 0.3)}
        best = min(means, key=lambda lam: means[lam])
        assert combination.lam.lam == best
        saved = combination.lam.saved["perplexity"]
        high, middle, low = (-part for part in between(taken, taken, (best, 0.0), among=2))
        assert [saved.low, saved.mean, saved.high] == pytest.approx([low, middle, high], rel=1e-3, abs=1e-4)
    assert steps.plain.lam.saved["perplexity"].verdict(()) > 0


def test_bits_in_full_and_seconds_stand_beside(steps: EveryStep) -> None:
    by_step = {step.step: step.alone for step in steps.steps}
    assert (steps.plain.bits, steps.every.bits) == (2 + 18 / 4, 2 + 32 / 4)  # groups of 4: a scale, then 2 or 16 bits
    assert {name for name, alone in by_step.items() if alone.bits != steps.plain.bits} == {"affine"}
    assert [steps.plain.seconds, by_step["refit"].seconds, steps.every.seconds] == [1.0, 2.0, 8.0]


def test_without_its_lines_there_is_none(study: Study, tmp_path: Path) -> None:
    assert every_step(study, 3) is None
    for missing in ([{}], [ALL, without("codes")]):
        lines = tuple(line for line in study.lines if line.fitting not in missing)
        assert every_step(study.model_copy(update={"lines": lines}), 2) is None
    assert every_step(study.model_copy(update={"lines": study.lines[:2]}), 2) is None
    found = every_step(made_study(tmp_path / "fewer", left_out="refit"), 2)
    assert found is not None
    assert [step.step for step in found.steps] == [step for step in EVERY_STEP if step != "refit"]


def test_all_steps_may_be_without_distilled_codes(study: Study) -> None:
    lines = tuple(line for line in study.lines if "distill_codes" not in line.fitting)
    found = every_step(study.model_copy(update={"lines": lines}), 2)
    assert found is not None
    assert "distill_codes" not in found.every.fitting
    assert [step.step for step in found.steps] == [step for step in EVERY_STEP if step != "codes"]
    assert [step.step for step in found.steps if step.without is not None] == ["distill"]


def test_the_page_shows_it(study: Study) -> None:
    view = lab_view(study, method="rqc-gbs", bits=2)
    figure = view["figures"]["every_step"]
    assert figure is not None
    names = figure["layout"]["yaxis"]["ticktext"]
    assert names[:2] + names[5:6] + names[-1:] == [
        "No step",
        "+ activation order",
        "+ affine grid, 10 bits",
        "All steps",
    ]
    filled, hollow, lam_filled, lam_hollow = figure["data"]
    assert [len(trace["x"]) for trace in figure["data"]] == [8, 7, 9, 8]
    assert filled["x"][1] == pytest.approx(7.0 - 2.0, abs=0.5)  # of what λ = 0.1 saves one half is left
    joint = SAVES["joint"] - SAVES["range"]
    assert hollow["x"] == pytest.approx([3.0, joint, 1.0, 2.5, 4.0, 6.5, 1.5], abs=0.7)
    assert lam_filled["x"][0] == pytest.approx(4.0, abs=0.5)
    assert max(map(abs, lam_hollow["x"])) < 0.8
    assert figure["finding"]["values"].startswith("λ saves ")
    assert "four draws" in figure["subtitle"]
    assert view["every_step"].startswith("Without any step the best λ saves ")
    assert "Affine grid" in figure["aria"] or "The affine grid" in figure["aria"]
    table = figure_table(study, "every_step", method="rqc-gbs", bits=2, layer=None)
    assert len(table["rows"]) == 2 + 2 * len(MADE) - 1
    assert [row.get("taken") for row in table["rows"]][:4] == [None, "alone", "after all others", "alone"]


def test_one_draw_is_called_that(tmp_path: Path) -> None:
    view = lab_view(made_study(tmp_path / "one", draws=(3,)), method="rqc-gbs", bits=2)
    figure = view["figures"]["every_step"]
    assert figure is not None
    assert figure["finding"]["values"].endswith("on one draw")
    assert "not clear" not in view["every_step"]
    assert "one draw" in figure["subtitle"]


def test_a_single_lambda_is_no_choice(study: Study) -> None:
    lines = tuple(fewer(line) for line in study.lines)
    view = lab_view(study.model_copy(update={"lines": lines}), method="rqc-gbs", bits=2)
    figure = view["figures"]["every_step"]
    assert figure is not None
    assert "; λ = 0.1 against 0; 95 %" in figure["subtitle"].replace("\u00a0", " ")
    assert view["every_step"].startswith("Without any step λ = 0.1 saves ")


def fewer(line: Line) -> Line:
    """The line without its λ of 0.3, as its axis says."""
    return line.model_copy(
        update={"lams": tuple(0.7 if lam == 0.3 and "grid" in line.fitting else lam for lam in line.lams)}
    )


def test_other_studies_have_none(tmp_path: Path) -> None:
    from tests.synthetic_study import write_study

    view = lab_view(write_study(tmp_path / "plain"))
    assert (view["figures"]["every_step"], view["every_step"]) == (None, "")
