"""What each section of the Lab says before it is opened, against plain loops over what the studies hold."""

import json
import math
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from sarqc.figures.findings import Door, fewest_for_half, findings
from sarqc.study.document import Line, Study, StudyWriter, one_draw
from sarqc.study.facts import line_facts
from sarqc.study.ladder import ladder
from tests.synthetic_study import (
    layers,
    one_line,
    shipped,
    study_document,
    write_mixture,
    write_study,
)  # fmt: skip

SIGN = np.array([1.0, -1.0, 1.0, -1.0])  # of four draws
DOORS = ("where", "trade_off", "steps", "text", "proof")


def sentences(study: Study, method: str, bits: int = 2, layer: int | None = None) -> dict[Door, list[list[str]]]:
    """Return the findings of a line, with plain spaces."""
    made = findings(line_facts(study, method=method, bits=bits, layer=layer), ladder(study, bits))
    return {door: [[text.replace("\u00a0", " ") for text in row] for row in rows] for door, rows in made.items()}


def made_up(
    folder: Path, lams: tuple[float, ...] = (0.0, 0.1, 1.0), sizes: tuple[int, ...] = (), **arrays: Any
) -> Study:
    """Return a study of one line without γ; values of arrays broadcast to draw, layer and λ (or size and λ)."""
    with_gamma = {name: np.atleast_1d(values)[..., None, :] for name, values in arrays.items()}
    return one_line(folder, lams, method="rqc-gbs", sizes=sizes, **with_gamma)


@pytest.mark.parametrize("seed", range(20))
def test_no_smaller_set_of_layers_makes_half(seed):
    rng = np.random.default_rng(seed)
    errors = rng.integers(0, 6, int(rng.integers(2, 8))).astype(float)
    enough = [
        count
        for count in range(1, len(errors) + 1)
        if any(2 * sum(part) >= errors.sum() for part in combinations(errors.tolist(), count))
    ]
    assert fewest_for_half(errors) == (enough[0] if errors.sum() else None)


def test_equal_layers_and_a_single_one():
    assert fewest_for_half(np.full(6, 0.1)) == 3  # whatever the sums of tenths are
    assert fewest_for_half(np.full(7, 0.1)) == 4
    assert fewest_for_half(np.array([1.0])) is fewest_for_half(np.array([])) is None


def test_ranks_at_the_ends_and_of_equal_layers(tmp_path):
    share = np.array([0.4, 0.1, 0.2, 0.2])[None, :, None]
    study = made_up(tmp_path / "ranks", recon=share)
    where = [sentences(study, "rqc-gbs", layer=layer)["where"][0][0] for layer in range(4)]
    assert [text.partition(" relative")[0] for text in where] == [
        "largest", "smallest", "joint 2nd largest", "joint 2nd largest",
    ]  # fmt: skip
    assert all(text.endswith("of 4 layers on calibration text") for text in where)  # without unseen text
    half = sentences(study, "rqc-gbs")["where"][0][0]
    assert half == "2 of 4 layers make up half the relative error on calibration text"


def test_of_a_mixture_every_linear_of_an_expert_counts(tmp_path):
    tokens = np.array([[[40, 0, 9, 64], [30, 20, 3, 12]], [[44, 2, 11, 64], [30, 24, 5, 14]]])
    study = write_mixture(tmp_path / "moe", tokens=tokens)
    assert len(study.layers) == 2 * (1 + 2 * 4)
    assert " of 18 layers make up half " in sentences(study, "sarqc-gbs")["where"][0][0]


def test_layers_without_an_error_are_left_out(tmp_path):
    study = made_up(tmp_path / "part", held_out=np.array([0.5, math.nan, 0.1, 0.3])[None, :, None])
    where = sentences(study, "rqc-gbs")["where"][0][0]
    assert where == "1 of 3 measured layers makes up half the relative error on unseen text"
    assert sentences(study, "rqc-gbs", layer=1)["where"] == [["", "", ""]]
    assert (
        sentences(study, "rqc-gbs", layer=3)["where"][0][0] == "2nd largest relative error of 3 layers on unseen text"
    )


def test_the_words_for_each_way_it_can_go(tmp_path):
    def at(drift: float, held_out: float, spread: float = 0.0) -> str:
        wobble = 1 + spread * SIGN[:, None, None] * np.array([0.0, 1.0])
        study = made_up(
            tmp_path / f"{drift}-{held_out}-{spread}", (0.0, 1.0), drift=[0.5, 0.5 * drift],
            held_out=np.array([0.2, 0.2 * held_out]) * wobble,
        )  # fmt: skip
        return sentences(study, "rqc-gbs")["trade_off"][0][1]

    assert at(0.87, 1.02) == "13 % less drift for 2 % more error than at λ = 0"
    assert at(0.87, 0.98) == "13 % less drift and 2 % less error than at λ = 0"
    assert at(1.05, 0.97) == "5 % more drift for 3 % less error than at λ = 0"
    assert at(0.87, 1.0) == "13 % less drift than at λ = 0, with the same error"
    assert at(0.87, 1.01, 0.1) == "13 % less drift than at λ = 0, no clear change in error"
    assert at(1.0, 0.5) == "50 % less error than at λ = 0, with the same drift"
    assert at(1.0, 1.0) == "the same drift and error as at λ = 0"
    assert at(1.0, 1.01, 0.1) == "no clear change in drift or error from λ = 0"
    assert at(0.001, 3.5) == "99.9 % less drift for 250 % more error than at λ = 0"  # never “100 % less”
    assert at(0.993, math.nan) == "0.70 % less drift than at λ = 0"
    assert at(math.nan, math.nan) == ""


def test_the_reference_says_what_the_whole_range_does(tmp_path):
    # Of a line that does not begin at 0 the first λ is the reference.
    later = made_up(tmp_path / "later", (0.01, 0.1), drift=[0.5, 0.4], recon=[0.1, 0.2])
    assert sentences(later, "rqc-gbs")["trade_off"] == [
        [
            "raising λ from 0.01 to 0.1 takes drift down by 20 %",
            "20 % less drift for 100 % more error on calibration text than at λ = 0.01",
        ]
    ]
    wobble = 0.5 + 0.1 * SIGN[:, None, None] * np.array([0.0, 1.0])
    unclear = made_up(tmp_path / "unclear", (0.0, 1.0), drift=wobble)
    assert sentences(unclear, "rqc-gbs")["trade_off"][0][0] == "raising λ from 0 to 1 has no clear effect on drift"


def test_one_draw_of_a_ladder_is_called_that():
    steps = sentences(shipped("smollm2"), "rqc-gbs", 4)["steps"]
    assert steps[0][0] == "the searched range alone cuts perplexity most, by 13 % (one draw)"


def test_without_a_ladder_the_place_among_the_methods(tmp_path):
    study = shipped("tiny-llama-methods")
    logs = {
        line.name: fmean(math.log(float(value)) for value in study.array(line, "perplexity")[:, 0, 0])
        for line in study.lines
        if line.bits == 3
    }
    order = sorted(logs, key=lambda name: logs[name])
    assert sentences(study, order[0], 3)["steps"][0][0] == "lowest perplexity of 16 methods at 3 bits"
    assert sentences(study, order[2], 3)["steps"][0][0] == "3rd lowest perplexity of 16 methods at 3 bits"
    assert sentences(study, order[11], 3)["steps"][0][0] == "12th lowest perplexity of 16 methods at 3 bits"
    assert sentences(study, order[15], 3)["steps"][0][0] == "highest perplexity of 16 methods at 3 bits"
    curves = write_study(tmp_path / "curves")
    assert sentences(curves, "rtn")["steps"][0][0].endswith("methods, each at its best λ")


def test_the_words_for_two_texts(tmp_path):
    def at(ratio: float, spread: float = 0.0) -> str:
        held = 0.1 * ratio * (1 + spread * SIGN)[:, None, None]
        study = made_up(tmp_path / f"{ratio}-{spread}", recon=0.1, held_out=held)
        return sentences(study, "rqc-gbs")["text"][0][0]

    assert at(2.4) == "unseen text has 2.4 × the error of calibration text"
    assert at(1.4) == "unseen text has 40 % more error than calibration text"
    assert at(0.9) == "unseen text has 10 % less error than calibration text"
    assert at(1.0) == "unseen text has the same error as calibration text"
    assert at(1.1, 0.5) == "no clear difference between unseen and calibration text"
    assert at(math.nan) == at(0.0) == ""
    assert sentences(made_up(tmp_path / "unseen", held_out=0.1), "rqc-gbs")["text"] == [["", "", ""]]


def test_a_best_lambda_that_is_not_known_is_not_named(tmp_path):
    lams, sizes = (0.0, 0.01, 0.1, 0.5), (2, 8)
    curve = np.array([[0.5, 0.4, 0.3, 0.2], [0.4, 0.2, 0.3, 0.5]])  # by size and λ
    noise = 1 + 1e-3 * SIGN[:, None, None, None] * np.arange(4)
    clear = made_up(tmp_path / "clear", lams, sizes=sizes, held_out_by_size=curve * noise)
    assert sentences(clear, "rqc-gbs")["text"][0][2] == "error on unseen text with 8 sequences is least at λ = 0.01"
    flat = made_up(tmp_path / "flat", lams, sizes=sizes, held_out_by_size=0.3 + 0.1 * (noise - 1))
    assert sentences(flat, "rqc-gbs")["text"][0][2] == ""
    assert sentences(one_draw(clear, 2), "rqc-gbs")["text"][0][2] == ""
    gone = made_up(tmp_path / "gone", lams, sizes=sizes, held_out_by_size=math.nan)
    assert sentences(gone, "rqc-gbs")["text"][0][2] == ""


def test_one_draw_has_no_intervals_and_says_so():
    study = one_draw(shipped("tiny-llama"), shipped("tiny-llama").line("rqc-gbs", 2).draws[1])
    made = sentences(study, "rqc-gbs")
    assert all(text.startswith("one draw, 17,595 test tokens; Theorem 1 is ") for text in made["proof"][0])
    assert "no clear" not in json.dumps(made)
    assert made["steps"][0][0].endswith(" (one draw)")


def test_what_was_not_measured_is_not_spoken_of(tmp_path):
    empty = {door: [["", "", ""]] for door in DOORS}
    names = ("recon", "held_out", "drift", "perplexity")
    assert sentences(made_up(tmp_path / "nan", **dict.fromkeys(names, math.nan)), "rqc-gbs") == empty
    assert sentences(made_up(tmp_path / "none"), "rqc-gbs") == empty
    part = np.array([0.2, math.nan, 0.3])
    some = sentences(made_up(tmp_path / "part", recon=part, held_out=2 * part, drift=part), "rqc-gbs")
    for door in ("where", "trade_off", "text"):
        assert [bool(text) for text in some[door][0]] == [True, False, True]
    gone = np.array([math.nan, 0.2, 0.3])  # nothing to compare with
    assert sentences(made_up(tmp_path / "base", drift=gone), "rqc-gbs")["trade_off"] == [["", "", ""]]


def test_a_study_of_one_layer(tmp_path):
    writer = StudyWriter(tmp_path / "single")
    axes = ("draw", "layer", "gamma", "lambda")
    arrays = {
        "held_out": writer.add(np.full((1, 1, 1, 1), 0.2), axes),
        "drift": writer.add(np.zeros((1, 1, 1, 1)), axes),
    }
    line = Line(
        method="rtn", title="", baseline="rtn", bits=2, grid="asymmetric", group_size=None, lams=(0.0,),
        gammas=(None,), draws=(0,), arrays=arrays,
    )  # fmt: skip
    document = study_document(writer.folder, "float", [line]).model_copy(update={"layers": layers()[:1]})
    made = sentences(writer.finish(document), "rtn", layer=0)
    assert made["where"] == [["the only layer measured"]]
    assert made["trade_off"] == [["weights drift by 0 %, with an error of 20 % on unseen text"]]
    assert made["steps"] == made["text"] == made["proof"] == [[""]]
