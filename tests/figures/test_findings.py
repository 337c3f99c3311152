"""What each section of the Lab says before it is opened, against plain loops over what the studies hold."""

import json
import math
import re
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sarqc.figures.findings import Door, fewest_for_half, findings
from sarqc.figures.ranking import methods
from sarqc.study.document import Line, Study, StudyWriter, one_draw
from sarqc.study.facts import line_facts
from sarqc.study.ladder import ladder
from tests.synthetic_study import (
    SHIPPED,
    layers,
    one_line,
    shipped,
    study_document,
    write_mixture,
    write_points_study,
    write_study,
)  # fmt: skip

T_975 = {2: 4.302653, 4: 2.776445}  # Student's t by degrees of freedom
SIGN = np.array([1.0, -1.0, 1.0, -1.0])  # of four draws
DOORS = ("where", "trade_off", "steps", "text", "proof")


def sentences(study: Study, method: str, bits: int = 2, layer: int | None = None) -> dict[Door, list[list[str]]]:
    """The findings of a line, with plain spaces."""
    made = findings(line_facts(study, method=method, bits=bits, layer=layer), ladder(study, bits))
    return {door: [[text.replace("\u00a0", " ") for text in row] for row in rows] for door, rows in made.items()}


def made_up(
    folder: Path, lams: tuple[float, ...] = (0.0, 0.1, 1.0), sizes: tuple[int, ...] = (), **arrays: Any
) -> Study:
    """A study of one line without γ; of each array the values that broadcast to draw, layer and λ (or size and λ)."""
    with_gamma = {name: np.atleast_1d(values)[..., None, :] for name, values in arrays.items()}
    return one_line(folder, lams, method="rqc-gbs", sizes=sizes, **with_gamma)


def per_cent(text: str) -> float:
    """A change as it is written, “31 % less”, as a share."""
    size, word = re.match(r"([\d,.]+) % (less|more)", text).groups()
    return (-1 if word == "less" else 1) * float(size.replace(",", "")) / 100


@pytest.mark.thorough
def test_every_shipped_line_has_sentences_for_people() -> None:
    spoken = dict.fromkeys(DOORS, 0)
    for name in SHIPPED:
        study = shipped(name)
        for line in study.lines:
            for layer in (None, 3):
                made = sentences(study, line.name, line.bits, layer)
                json.dumps(made, allow_nan=False)
                assert tuple(made) == DOORS
                for door, rows in made.items():
                    assert np.array(rows).shape == (len(line.gammas), len(line.lams))
                    for text in (text for row in rows for text in row):
                        assert not re.search(r"nan|inf\b|None|  |\.$|^ | $", text), text
                        assert len(text) <= 72, text
                        spoken[door] += bool(text)
    assert min(spoken.values()) > 100


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-moe"])
def test_the_layers_counted_make_half_and_one_fewer_does_not(name: str) -> None:
    study = shipped(name)
    line = study.line("sarqc-gbs", 2)
    stored = np.asarray(study.read(line, "held_out"))  # D L G M
    where = sentences(study, "sarqc-gbs")["where"]
    for g, m in np.ndindex(*stored.shape[2:]):
        errors = []
        for layer in range(len(study.layers)):
            known = [float(error) for error in stored[:, layer, g, m] if math.isfinite(error)]
            errors += [fmean(known)] if known else []
        errors.sort(reverse=True)
        pattern = r"(\d+) of (\d+)( measured)? layers makes? up half the relative error on unseen text"
        count, of, some = re.fullmatch(pattern, where[g][m]).groups()
        assert int(of) == len(errors)
        assert bool(some) == (len(errors) < len(study.layers)) == (name == "tiny-moe")
        assert sum(errors[: int(count)]) >= sum(errors) / 2 > sum(errors[: int(count) - 1])


@pytest.mark.parametrize("seed", range(20))
def test_no_smaller_set_of_layers_makes_half(seed: int) -> None:
    rng = np.random.default_rng(seed)
    errors = rng.integers(0, 6, int(rng.integers(2, 8))).astype(float)
    enough = [
        count
        for count in range(1, len(errors) + 1)
        if any(2 * sum(part) >= errors.sum() for part in combinations(errors.tolist(), count))
    ]
    assert fewest_for_half(errors) == (enough[0] if errors.sum() else None)


def test_equal_layers_and_a_single_one() -> None:
    assert fewest_for_half(np.full(6, 0.1)) == 3  # whatever the sums of tenths are
    assert fewest_for_half(np.full(7, 0.1)) == 4
    assert fewest_for_half(np.array([1.0])) is fewest_for_half(np.array([])) is None


def test_a_chosen_layer_has_its_rank() -> None:
    study = shipped("tiny-llama")
    stored = np.asarray(study.read(study.line("rqc-gbs", 2), "held_out"))
    for layer in (0, 3, 41):
        where = sentences(study, "rqc-gbs", layer=layer)["where"][0]
        for m, text in enumerate(where):
            means = [fmean(map(float, stored[:, at, 0, m])) for at in range(42)]
            rank = 1 + sum(mean > means[layer] for mean in means)
            lead = re.match(r"(\d+)(st|nd|rd|th) largest|largest|smallest", text)
            assert rank == (int(lead[1]) if lead[1] else 1 if lead[0] == "largest" else 42)
            assert text.endswith(" relative error of 42 layers on unseen text")


def test_ranks_at_the_ends_and_of_equal_layers(tmp_path: Path) -> None:
    share = np.array([0.4, 0.1, 0.2, 0.2])[None, :, None]
    study = made_up(tmp_path / "ranks", recon=share)
    where = [sentences(study, "rqc-gbs", layer=layer)["where"][0][0] for layer in range(4)]
    assert [text.partition(" relative")[0] for text in where] == [
        "largest", "smallest", "joint 2nd largest", "joint 2nd largest",
    ]  # fmt: skip
    assert all(text.endswith("of 4 layers on calibration text") for text in where)  # without unseen text
    half = sentences(study, "rqc-gbs")["where"][0][0]
    assert half == "2 of 4 layers make up half the relative error on calibration text"


def test_of_a_mixture_every_linear_of_an_expert_counts(tmp_path: Path) -> None:
    tokens = np.array([[[40, 0, 9, 64], [30, 20, 3, 12]], [[44, 2, 11, 64], [30, 24, 5, 14]]])
    study = write_mixture(tmp_path / "moe", tokens=tokens)
    assert len(study.layers) == 2 * (1 + 2 * 4)
    assert " of 18 layers make up half " in sentences(study, "sarqc-gbs")["where"][0][0]


def test_layers_without_an_error_are_left_out(tmp_path: Path) -> None:
    study = made_up(tmp_path / "part", held_out=np.array([0.5, math.nan, 0.1, 0.3])[None, :, None])
    where = sentences(study, "rqc-gbs")["where"][0][0]
    assert where == "1 of 3 measured layers makes up half the relative error on unseen text"
    assert sentences(study, "rqc-gbs", layer=1)["where"] == [["", "", ""]]
    assert (
        sentences(study, "rqc-gbs", layer=3)["where"][0][0] == "2nd largest relative error of 3 layers on unseen text"
    )


@pytest.mark.parametrize(("method", "layer"), [("rqc-gbs", None), ("sarqc-gbs", 3), ("rqc-gbs-search", None)])
def test_what_drift_costs_by_loops(method: str, layer: int | None) -> None:
    study = shipped("tiny-llama")
    line = study.line(method, 2)
    stored = {name: np.asarray(study.read(line, name)) for name in ("drift", "held_out")}
    rows = sentences(study, method, layer=layer)["trade_off"]
    lam = f"{line.lams[0]:g}"
    checked = 0
    for g, m in np.ndindex(len(line.gammas), len(line.lams)):
        if m == 0:
            continue
        parts = {}
        for name, values in stored.items():
            picked = range(42) if layer is None else [layer]
            here, base = (
                [fmean(float(values[d, at, g, where]) for at in picked) for d in range(5)] for where in (m, 0)
            )
            logs = [math.log(a / b) for a, b in zip(here, base, strict=True)]
            clear = abs(fmean(logs)) > T_975[4] * stdev(logs) / math.sqrt(5)
            parts[name] = (fmean(here) / fmean(base) - 1, clear)
        text = rows[g][m]
        for name, word in (("drift", "drift"), ("held_out", "error")):
            change, clear = parts[name]
            phrase = re.search(rf"([\d.,]+ % (?:less|more)) {word}", text)
            if not clear:
                assert phrase is None
                assert f"no clear change in {word}" in text
            elif abs(change) >= 0.005:
                assert phrase is not None
                assert per_cent(phrase[1]) == pytest.approx(change, abs=0.0051)
                checked += 1
        assert f"λ = {lam}" in text
    assert checked > len(line.lams) / 2


def test_the_words_for_each_way_it_can_go(tmp_path: Path) -> None:
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


def test_the_reference_says_what_the_whole_range_does(tmp_path: Path) -> None:
    study = shipped("tiny-llama")
    drift = np.asarray(study.read(study.line("rqc-gbs", 2), "drift")).mean(axis=(0, 1))[0]
    text = sentences(study, "rqc-gbs")["trade_off"][0][0]
    assert text == f"raising λ from 0 to 2 takes drift down by {100 * (1 - drift[-1] / drift[0]):.0f} %"
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


def test_without_a_choice_of_lambda_drift_and_error_stand_alone() -> None:
    study = shipped("tiny-llama-methods")
    for method in ("gptq", "sarqc-gbs-auto"):
        facts = line_facts(study, method=method, bits=2, layer=None)
        text = sentences(study, method)["trade_off"][0][0]
        drift, error = map(
            float, re.fullmatch(r"weights drift by (.*) %, with an error of (.*) % on unseen text", text).groups()
        )
        assert drift == pytest.approx(100 * float(facts.drift[0, 0]), rel=0.05)
        assert error == pytest.approx(100 * float(facts.held_out[0, 0]), rel=0.05)


def alone(study: Study, bits: int) -> dict[str, list[float]]:
    """By step ln(perplexity with it alone / perplexity of GPTQ 1 %), a number for each draw."""
    names = {"order": "rqc-gbs-activation", "range": "rqc-gbs-search", "refine": "rqc-gbs-refine3"}

    def perplexities(name: str, lam: float) -> list[float]:
        line = study.line(name, bits)
        return np.asarray(study.array(line, "perplexity"))[:, 0, line.lams.index(lam)].astype(float).tolist()

    base = perplexities("rqc-gbs", 0.01)
    places = {step: (name, 0.01) for step, name in names.items()} | {"lambda": ("rqc-gbs", 0.1)}
    return {
        step: [math.log(a / b) for a, b in zip(perplexities(*place), base, strict=True)]
        for step, place in places.items()
    }


@pytest.mark.parametrize(("name", "bits"), [("tiny-llama", 2), ("tiny-llama", 3), ("smollm2", 3), ("tiny-moe", 2)])
def test_what_the_steps_are_worth_by_loops(name: str, bits: int) -> None:
    study = shipped(name)
    logs = alone(study, bits)
    worth = {step: 1 - math.exp(fmean(values)) for step, values in logs.items()}
    best = max(worth, key=lambda step: worth[step])
    clear = {step: abs(fmean(values)) > T_975[4] * stdev(values) / math.sqrt(5) for step, values in logs.items()}
    assert best == "range"
    assert clear["range"]
    for method in {line.name for line in study.lines if line.bits == bits}:
        rows = sentences(study, method, bits)["steps"]
        assert {text for row in rows for text in row} == {rows[0][0]}
    if clear["lambda"]:
        times = re.fullmatch(r"the searched range alone is worth ([\d.]+) × as much as λ = 0\.1", rows[0][0])
        assert float(times[1]) == pytest.approx(worth["range"] / worth["lambda"], abs=0.051)
    else:
        size = re.fullmatch(r"the searched range alone cuts perplexity most, by ([\d.]+) %", rows[0][0])
        assert float(size[1]) == pytest.approx(100 * worth["range"], abs=0.51)
    assert clear["lambda"] == (bits == 2)


def test_one_draw_of_a_ladder_is_called_that() -> None:
    steps = sentences(shipped("smollm2"), "rqc-gbs", 4)["steps"]
    assert steps[0][0] == "the searched range alone cuts perplexity most, by 13 % (one draw)"


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["tiny-llama-methods", "smollm2-methods", "points", "curves"])
def test_without_a_ladder_the_place_among_the_methods(name: str, tmp_path: Path) -> None:
    writers = {"points": write_points_study, "curves": write_study}
    study = writers[name](tmp_path / name) if name in writers else shipped(name)
    assert ladder(study, 2) is None
    for line in study.lines:
        figure = methods(line_facts(study, method=line.name, bits=line.bits, layer=None))
        rows = figure["data"][0]["customdata"]  # worst first
        text = sentences(study, line.name, line.bits)["steps"][0][0]
        pattern = r"(joint )?(?:(\d+)(?:st|nd|rd|th) lowest|lowest|(highest)) perplexity of (\d+) methods(.*)"
        joint, rank, highest, count, rest = re.fullmatch(pattern, text).groups()
        assert int(count) == len(rows)
        assert rest == (", each at its best λ" if name == "curves" else f" at {line.bits} bits")
        place = len(rows) - rows.index(line.name)
        stands = int(rank) if rank else len(rows) if highest else 1
        assert (stands <= place <= stands + 2) if joint else stands == place


def test_ranks_by_loops() -> None:
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


@pytest.mark.parametrize(("name", "layer"), [("tiny-llama", 5), ("smollm2", 7), ("tiny-moe", 111)])
def test_unseen_beside_calibration_text_by_loops(name: str, layer: int) -> None:
    study = shipped(name)
    for line in (line for line in study.lines if line.bits == 2 and not line.fitting):
        recon, held = (np.asarray(study.read(line, quantity))[:, layer] for quantity in ("recon", "held_out"))
        rows = sentences(study, line.name, layer=layer)["text"]
        for g, m in np.ndindex(*recon.shape[1:]):
            both = [
                (float(a), float(b))
                for a, b in zip(held[:, g, m], recon[:, g, m], strict=True)
                if a > 0 and b > 0  # not NaN either
            ]
            ratio = sum(a for a, _ in both) / sum(b for _, b in both)
            text = rows[g][m]
            if "no clear" in text or "the same" in text:
                logs = [math.log(a / b) for a, b in both]
                assert abs(ratio - 1) < 0.005 or abs(fmean(logs)) <= T_975[4] * stdev(logs) / math.sqrt(5)
            elif times := re.search(r"([\d.,]+) × the error", text):
                assert float(times[1].replace(",", "")) == pytest.approx(ratio, rel=0.051)
                assert ratio >= 2
            else:
                change = per_cent(re.search(r"[\d.,]+ % (?:more|less) error", text)[0])
                assert change == pytest.approx(ratio - 1, abs=0.0051)


def test_the_words_for_two_texts(tmp_path: Path) -> None:
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


def test_the_best_lambda_with_the_most_text_by_loops() -> None:
    """The λ named are those that no other clearly beats (t at 0.025 / 9, 4 degrees of freedom)."""
    study = shipped("tiny-llama")
    line = study.line("sarqc-gbs", 2)
    stored = np.asarray(study.read(line, "held_out_by_size"))[:, :, -1].mean(axis=1)  # D G M
    for g, row in enumerate(sentences(study, "sarqc-gbs")["text"]):
        logs = np.log(stored[:, g])
        good = []
        for m in range(10):
            apart = [(logs[:, m] - logs[:, other]).tolist() for other in range(10) if other != m]
            if all(fmean(each) <= stats.t.isf(0.025 / 9, 4) * stdev(each) / math.sqrt(5) for each in apart):
                good.append(f"{line.lams[m]:g}")
        named = good[0] if len(good) == 1 else f"{good[0]}–{good[-1]}"
        assert {text.partition("; ")[2] for text in row} == {f"least with 32 sequences at λ = {named}"}


def test_a_best_lambda_that_is_not_known_is_not_named(tmp_path: Path) -> None:
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


def test_the_bound_beside_the_gap_by_loops() -> None:
    study = shipped("tiny-llama")
    line = study.line("rqc-gbs", 2)
    relative, norms = ("recon", "held_out", "drift"), ("weight_norm", "token_norm", "output_energy", "held_out_energy")
    arrays = {name: np.asarray(study.read(line, name)) for name in (*relative, *norms, "tokens")}
    weights = math.prod(study.layers[3].shape)
    for m, text in enumerate(sentences(study, "rqc-gbs", layer=3)["proof"][0]):
        gaps, bounds = [], []
        for d in range(5):
            own = {
                name: float(values[d, 3, 0, m] if values.ndim == 4 else values[d, 3]) for name, values in arrays.items()
            }
            gaps.append(own["held_out"] * own["held_out_energy"] / own["output_energy"] - own["recon"])
            span = (own["drift"] * own["weight_norm"] * own["token_norm"]) ** 2 / own["output_energy"]
            log_count = math.log(2 / 0.05) + weights * 2 * math.log(2)
            bounds.append(span * math.sqrt(log_count / (2 * own["tokens"])))
        lead, _, rest = text.partition("; ")
        assert lead == "five draws, 17,595 test tokens"
        if abs(fmean(gaps)) <= T_975[4] * stdev(gaps) / math.sqrt(5):
            assert rest == "no clear gap to unseen text"
        else:
            ratio = re.fullmatch(r"Theorem 1 is ([\d,]+) × too loose", rest)[1]
            assert float(ratio.replace(",", "")) == pytest.approx(fmean(bounds) / abs(fmean(gaps)), rel=0.051)


def test_one_draw_has_no_intervals_and_says_so() -> None:
    study = one_draw(shipped("tiny-llama"), shipped("tiny-llama").line("rqc-gbs", 2).draws[1])
    made = sentences(study, "rqc-gbs")
    assert all(text.startswith("one draw, 17,595 test tokens; Theorem 1 is ") for text in made["proof"][0])
    assert "no clear" not in json.dumps(made)
    assert made["steps"][0][0].endswith(" (one draw)")
    drift = np.asarray(study.read(study.line("rqc-gbs", 2), "drift")).mean(axis=(0, 1))[0]
    assert per_cent(made["trade_off"][0][-1]) == pytest.approx(drift[-1] / drift[0] - 1, abs=0.0051)


def test_what_was_not_measured_is_not_spoken_of(tmp_path: Path) -> None:
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


def test_a_study_of_one_layer(tmp_path: Path) -> None:
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
