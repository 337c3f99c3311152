"""What the map of layers is coloured by, against plain loops over what is stored."""

import json
import math
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from sarqc.errors import Refused
from sarqc.figures import figure_table, lab_view
from sarqc.figures.layer_map import Quantity, fewest_for_half
from sarqc.study.document import Study
from tests.figures.test_figures import at
from tests.synthetic_study import LAYER_GAMMAS, LAYER_LAMS, write_mixture, write_study

TOKENS = np.array([[[40, 0, 9, 64], [30, 20, 3, 12]], [[44, 2, 11, 64], [30, 24, 5, 14]]])
ERRORS = ("held_out", "recon", "drift", "sar")
CELLS = [(0, 0), (0, 1), (1, 0), (1, 1)]  # of the toy's layers: block, linear


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("study") / "toy", auto=True)


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    return write_mixture(tmp_path_factory.mktemp("mixture") / "moe", tokens=TOKENS)


def stored(made: Study, name: str, line: str = "sarqc-gbs") -> np.ndarray:
    return np.asarray(made.array(made.line(line, 2), name))


def map_of(made: Study, quantity: str | None, g: int = 0, m: int = 0, **more: Any) -> dict[str, Any]:
    view = lab_view(made, **{"method": "sarqc-gbs", "bits": 2, "quantity": quantity, **more})
    json.dumps(view, allow_nan=False)
    return at(view["figures"]["map"], g, m)


@pytest.mark.thorough
def test_a_line_offers_what_it_has_and_shows_the_first_without_a_wish(study, mixture):
    def offered(made: Study, method: str) -> list[str]:
        return [one["name"] for one in lab_view(made, method=method, bits=2)["quantities"]]

    assert offered(study, "sarqc-gbs") == list(ERRORS)
    assert offered(study, "sarqc-gbs-auto") == [*ERRORS, "lambda", "gamma"]
    assert offered(study, "rqc-gbs-auto") == [*ERRORS, "lambda"]  # it has no γ
    assert offered(study, "sarqc-gs-auto") == list(ERRORS)  # one λ for the model is not a map
    assert offered(mixture, "sarqc-gbs") == [*ERRORS, "tokens"]
    assert lab_view(study)["quantity"] == "held_out"
    assert lab_view(study, quantity="sar")["quantity"] == "sar"
    assert lab_view(study, quantity="tokens")["quantity"] == "held_out"  # a dense model's layers all see the same
    with pytest.raises(Refused, match="unknown quantity “loss”"):
        lab_view(study, quantity="loss")


@pytest.mark.parametrize(("name", "axis"), [("lambda", LAYER_LAMS), ("gamma", LAYER_GAMMAS)])
def test_what_auto_chose_is_the_most_frequent_of_the_draws(study, name, axis):
    figure = map_of(study, name, method="sarqc-gbs-auto")
    chosen = stored(study, f"selected_{name}", "sarqc-gbs-auto")  # D L
    trace = figure["data"][0]
    assert (trace["zmin"], trace["zmax"]) == (-0.5, len(axis) - 0.5)
    assert trace["colorbar"]["ticktext"] == [f"{value:g}" for value in axis]
    total: Counter[float] = Counter()
    for layer, (row, column) in enumerate(CELLS):
        value, times = Counter(np.round(chosen[:, layer], 4).tolist()).most_common(1)[0]
        total[value] += 1
        assert axis[round(trace["z"][row][column])] == pytest.approx(value, abs=1e-4)
        assert trace["text"][row][column].endswith(f"= {value:g}, {times} of {len(chosen)} choices")
    for value, count in total.items():
        assert f"{value:g} in {count}" in figure["aria"]
    colours = [colour for _, colour in trace["colorscale"]]
    assert colours[::2] == colours[1::2]
    assert len(set(colours)) == len(axis)


def test_experts_share_a_cell_with_their_mean_of_tokens(mixture):
    view = lab_view(mixture, method="sarqc-gbs", bits=2, quantity="tokens")
    figure = view["figures"]["map"]
    assert figure["bindings"] == []  # λ changes none of it, so a step has nothing to do
    trace = figure["data"][0]
    for block in range(2):
        assert 10 ** trace["z"][block][1] == pytest.approx(TOKENS[:, block].mean(), rel=2e-4)


def test_an_expert_without_tokens_has_no_error_and_the_colour_of_the_least(mixture):
    one = {"method": "sarqc-gbs", "bits": 2, "draw": 0}
    errors = lab_view(mixture, quantity="recon", **one)["figures"]["map_experts"]
    trace = at(errors, 0, 2)["data"][0]
    assert (trace["text"][0][1], trace["z"][0][1]) == ("not measured", None)
    tokens = lab_view(mixture, quantity="tokens", **one)["figures"]["map_experts"]["data"][0]
    assert tokens["text"][0][1] == "no tokens"
    assert tokens["z"][0][1] < tokens["zmin"]  # not a hole
    assert tokens["colorbar"]["ticktext"][0].startswith("≤ ")


def test_the_table_has_every_quantity_of_the_line(study, mixture):
    table = figure_table(study, "map", method="sarqc-gbs-auto", bits=2, layer=None)
    keys = [column["key"] for column in table["columns"]]
    assert {"recon", "held_out", "drift", "sar", "chosen_lambda", "chosen_gamma"} < set(keys)
    chosen = stored(study, "selected_lambda", "sarqc-gbs-auto")
    for layer, row in enumerate(table["rows"]):
        assert row["chosen_lambda"] == Counter(chosen[:, layer].tolist()).most_common(1)[0][0]
    rows = figure_table(mixture, "map", method="sarqc-gbs", bits=2, layer=None)["rows"]
    assert len(rows) == 18 * 2 * 5
    tokens = stored(mixture, "tokens").mean(axis=0)
    sar = stored(mixture, "sar").mean(axis=0)
    for index, row in enumerate(rows):
        layer, g, m = np.unravel_index(index, (18, 2, 5))
        assert row["tokens"] == tokens[layer]
        assert row["sar"] == pytest.approx(sar[layer, g, m])


def test_the_most_frequent_is_the_smallest_of_several_and_nothing_stays_nothing():
    samples = np.array([[0.5, math.nan], [0.1, math.nan]])
    made = Quantity("lambda", np.zeros((2, 1, 1)), samples, (0.1, 0.5))
    assert made.pooled([0]).tolist() == [[0.1]]
    assert np.isnan(made.pooled([1])).all()
    assert np.isnan(made.colours(made.pooled([1]))).all()
    assert made.text(math.nan, [1]) == "not measured"
    assert made.colours(np.array([0.1, 0.5])).tolist() == [0, 1]


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
