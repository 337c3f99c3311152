"""The ladder against numbers that are known: steps that are additive but for one pair, in any order."""

import json
import re
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy import stats

from sarqc.errors import Refused
from sarqc.figures import figure_table, lab_view
from sarqc.figures.ladder import rung_name
from sarqc.quantization.methods import METHODS
from sarqc.recipe import method_title
from sarqc.study.document import Line, Study, StudyWriter, copied
from sarqc.study.ladder import STEPS, ladder
from tests.synthetic_study import layers, shipped, study_document, write_study

WORTH = {"order": -4.0, "range": -9.0, "refine": -1.5, "lambda": -3.0}
TOGETHER = 2.0  # what range and λ are worth less in company
DRAWS = np.array([0.0, 1.5, -2.0, 4.0])  # of the draw itself, which cancels in pairs
NOISE = {"order": 0.5, "range": 0.25, "refine": 0.1, "lambda": 0.3}
SIGN = np.array([1.0, -1.0, 1.0, -1.0])
FITTING = {"order": "activation", "range": "search", "refine": 3}


def perplexity(steps: set[str]) -> np.ndarray:
    value = 86.0 + sum(WORTH[step] for step in steps) + (TOGETHER if {"range", "lambda"} <= steps else 0.0)
    return value + DRAWS + sum(NOISE[step] for step in steps) * SIGN


def line(writer: StudyWriter, method: str, fitting: dict, lams: tuple[float, ...], values: np.ndarray) -> Line:
    """``values`` (D, M)."""
    title = method_title(method, fitting)
    arrays = {
        "perplexity": writer.add(values[:, None], ("draw", "gamma", "lambda")),
        "kl": writer.add(values[:, None] / 100, ("draw", "gamma", "lambda")),
        "drift": writer.add(np.ones((4, len(layers()), 1, len(lams))), ("draw", "layer", "gamma", "lambda")),
    }
    return Line(
        method=method, title=title, baseline=METHODS[method].baseline, bits=2, grid="asymmetric", group_size=128,
        lams=lams, gammas=(None,), draws=(0, 1, 2, 3), fitting=fitting, arrays=arrays,
    )  # fmt: skip


@pytest.fixture(scope="module")
def lines_of_a_ladder() -> list[set[str]]:
    return [set(part) for count in range(4) for part in combinations(("order", "range", "refine"), count)]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, lines_of_a_ladder: list[set[str]]) -> Study:
    writer = StudyWriter(tmp_path_factory.mktemp("ladder") / "ladder")
    lines = [line(writer, "rtn", {}, (0.0,), (100 + DRAWS)[:, None])]
    for steps in lines_of_a_ladder:
        fitting = {name: value for name, value in FITTING.items() if name in steps}
        both = np.stack([perplexity(steps), perplexity(steps | {"lambda"})], axis=1)
        lines.append(line(writer, "rqc-gbs", fitting, (0.01, 0.1), both))
    learned = np.stack([perplexity(set(STEPS)) - 1, perplexity(set(STEPS)) - 2], axis=1)
    lines.append(line(writer, "sarqc-signround", {"range": "search"}, (0.0, 0.05), learned))
    return writer.finish(study_document(writer.folder, "float", lines))


@pytest.mark.parametrize(
    "order", [None, ("lambda", "range", "order", "refine"), ("refine", "range", "lambda", "order")]
)
def test_every_step_is_its_paired_difference(study, order):
    climbed = ladder(study, 2, order)
    assert climbed is not None
    order = order or STEPS
    assert climbed.steps == order
    assert [rung.step for rung in climbed.rungs] == ["nearest", "gptq", *order, "learned"]
    worth = {step: WORTH[step] for step in order}
    later = max(("range", "lambda"), key=order.index)
    worth[later] += TOGETHER
    for before, rung in pairwise(climbed.rungs[1:-1]):
        difference = rung.differences["perplexity"]
        assert difference.mean == pytest.approx(worth[rung.step], rel=0.02)  # but for the draws' unequal weights
        assert difference.mean == pytest.approx(rung.mean("perplexity") - before.mean("perplexity"))
        ratios = np.log(rung.values["perplexity"] / before.values["perplexity"])
        error = np.std(ratios, ddof=1) / 2 * rung.mean("perplexity")
        assert difference.error == pytest.approx(error)
        assert rung.differences["kl"].mean == pytest.approx(worth[rung.step] / 100, abs=1e-6)
    assert climbed.rungs[1].differences["perplexity"].mean == pytest.approx(-14, rel=0.02)
    assert climbed.rungs[-1].differences["perplexity"].mean == pytest.approx(-2, rel=0.02)
    for step in STEPS:
        together = TOGETHER if step in ("range", "lambda") else 0.0
        assert climbed.alone[step]["perplexity"].mean == pytest.approx(WORTH[step], rel=0.02)
        assert climbed.last[step]["perplexity"].mean == pytest.approx(WORTH[step] + together, rel=0.02)


@pytest.mark.parametrize("steps", [("order",), ("order", "order", "lambda", "refine"), ("all", "of", "them", "so")])
def test_other_steps_are_refused(study, steps):
    with pytest.raises(Refused, match="steps"):
        ladder(study, 2, steps)


def test_without_a_corner_there_is_none(study):
    for missing in range(1, 9):
        fewer = study.model_copy(update={"lines": study.lines[:missing] + study.lines[missing + 1 :]})
        assert ladder(fewer, 2) is None
    assert ladder(study, 3) is None


def test_the_page_has_it_in_the_order_asked_for(study):
    view = lab_view(study, method="rqc-gbs", bits=2, steps="lambda,refine,order,range")
    assert [step["name"] for step in view["ladder"]["steps"]] == ["lambda", "refine", "order", "range"]
    figure = view["figures"]["ladder"]
    assert figure["layout"]["yaxis"]["ticktext"] == [
        "Round to nearest", "GPTQ 1 %", "+ λ = 0.1", "+ refined × 3", "+ activation order", "+ searched range",
        "Learned rounding instead",
    ]  # fmt: skip
    bars, kl = figure["data"]
    ends = np.array(bars["base"]) + np.array(bars["x"])
    expected = [100, 86, 83, 81.5, 77.5, 70.5, 68.5]
    np.testing.assert_allclose(ends, np.array(expected) + DRAWS.mean(), rtol=1e-3)
    of_kl = np.array(kl["base"]) + np.array(kl["x"])
    np.testing.assert_allclose(of_kl, (np.array(expected) + DRAWS.mean()) / 100, atol=1e-5)
    gptq = 86 + DRAWS.mean()
    alone = [one["change"] * gptq for one in view["ladder"]["alone"]]
    np.testing.assert_allclose(alone, [-3, -1.5, -4, -9], rtol=0.02)
    assert [one["verdict"] for one in view["ladder"]["last"]] == ["better"] * 4
    first, last = view["ladder"]["words"].replace("\u00a0", " ").split("; ")
    worth = r"\d\.\d % lower perplexity than without it \(95 %: .* draws\)"
    assert re.fullmatch(rf"λ = 0\.1: {worth} on the min–max grid", first)
    assert re.fullmatch(rf"{worth} after the others\.", last)
    table = figure_table(study, "ladder", method="rqc-gbs", bits=2, layer=None, steps="lambda,refine,order,range")
    before = np.array(expected[1:-1]) + DRAWS.mean()
    shares = np.array([row["perplexity_difference"] for row in table["rows"][2:]])
    np.testing.assert_allclose(shares * before, [-3, -1.5, -4, -7, -2], rtol=0.02)
    assert "perplexity_difference" not in table["rows"][0]


def test_it_is_said_how_kl_was_measured_where_it_was(study, tmp_path):
    told = {one["name"]: one["text"] for one in lab_view(study, method="rqc-gbs", bits=2)["measured"]}
    assert "KL(float ‖ quantized) in nats" in told["KL to the float model"]
    assert "KL" not in json.dumps(lab_view(write_study(tmp_path / "older"))["measured"])


def test_lines_on_a_better_grid(study):
    """Named by how the grid is fitted; compared with GPTQ on their own grid, and with themselves on the plain one."""
    name = "rqc-gbs-search-activation-refine3"
    names = [one["name"] for one in lab_view(study)["choices"]]
    name = next(one for one in names if all(word in one for word in ("search", "activation", "refine3")))
    view = lab_view(study, method=name, bits=2)
    mine = next(choice for choice in view["choices"] if choice["name"] == name)
    assert mine["title"].startswith(METHODS["rqc-gbs"].title)
    assert mine["title"].count(",") == 3
    small = " ".join(view["told"]["perplexity"]["small_print"][0][1]).replace("\u00a0", " ")
    assert re.search(r"On this grid: perplexity .* % lower than on the plain one \(95 %: .*draws\)", small)
    said = "".join(piece["text"] for piece in view["told"]["perplexity"]["sentences"][0][1])
    assert re.search(r"% lower than GPTQ 1 % on this grid, .* \(95.%: ", said)
    row = next(one for one in view["table"]["rows"] if one["lambda"] == 0.1)
    baseline = perplexity({"order", "range", "refine"}).mean()
    assert row["perplexity_difference"] * baseline == pytest.approx(WORTH["lambda"] + TOGETHER, rel=0.02)
    hero = view["figures"]["hero"]
    assert any(trace.get("name") == "perplexity, min–max grid" for trace in hero["data"])


def test_without_kl_perplexity_has_all_the_room(tmp_path, study):
    writer = StudyWriter(tmp_path / "without-kl")
    lines = [copied(study, part, writer) for part in study.lines]
    lines[0] = lines[0].model_copy(update={"arrays": {k: v for k, v in lines[0].arrays.items() if k != "kl"}})
    bare = writer.finish(study_document(writer.folder, "float", lines))
    figure = lab_view(bare, method="rqc-gbs", bits=2)["figures"]["ladder"]
    assert figure["layout"]["xaxis"]["domain"] == [0.0, 1.0]
    assert [trace["name"] for trace in figure["data"]] == ["perplexity"]


def test_learned_rounding_stands_for_the_others_unless_it_begins_at_their_codes(tmp_path, study):
    warm = "sarqc-signround", {"range": "search", "warm_start": "gptq"}, (0.05,), (70 + DRAWS)[:, None]
    plain = "signround", {}, (0.0,), (69 + DRAWS)[:, None]
    for added, name, value in (([warm], "+ learned rounding", 70), ([warm, plain], "Learned rounding instead", 69)):
        writer = StudyWriter(tmp_path / f"with-{len(added)}")
        lines = [copied(study, part, writer) for part in study.lines if "signround" not in part.method]
        lines += [line(writer, *values) for values in added]
        climbed = ladder(writer.finish(study_document(writer.folder, "float", lines)), 2)
        assert climbed is not None
        assert rung_name(climbed.rungs[-1]) == name
        assert climbed.rungs[-1].values["perplexity"] == pytest.approx(value + DRAWS, abs=1e-4)


@pytest.mark.parametrize(("name", "method", "bits"), [("smollm2", "sarqc-gbs", 3), ("tiny-llama", "sarqc-gbs", 2)])
def test_the_lab_ends_with_the_worth_of_lambda_after_the_other_steps(name, method, bits):
    """Beside Student's t over the logarithms of the ratios of each draw."""
    study = shipped(name)
    climbed = ladder(study, bits)
    at = next(at for at, rung in enumerate(climbed.rungs) if rung.step == "lambda")
    after, before = (climbed.rungs[place].values["perplexity"] for place in (at, at - 1))
    ratios = np.log(after / before)
    half = stats.t.ppf(0.975, len(ratios) - 1) * stats.sem(ratios)
    mean, low, high = 100 * np.expm1([ratios.mean(), ratios.mean() - half, ratios.mean() + half])
    assert mean < 0
    view = lab_view(study, method=method, bits=bits)
    start = view["start"]
    words = "".join(one["text"] for one in view["told"]["perplexity"]["sentences"][start["gamma"]][start["lambda"]])
    worth = "still adds" if high < 0 else "adds nothing clear"
    ending = f"{worth}: {-mean:.1f} % lower (95 %: {-high:.1f} to {-low:.1f} %, five draws)."
    assert words.replace("\u00a0", " ").replace("−", "-").endswith(ending), words
    layer = lab_view(study, method=method, bits=bits, layer=0)["told"]["perplexity"]["sentences"]
    assert "After activation order" not in str(layer[start["gamma"]][start["lambda"]])
