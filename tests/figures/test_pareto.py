"""Size against quality: the frontier beside a plain definition, models and texts apart, and what is left out."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarqc.errors import Refused
from sarqc.figures.pareto import ParetoRun, frontier, pareto_view

RUN = ParetoRun("1", "one", "tiny", "toy, window 64, 100 tokens", 2.25, 2**20, 80.0)
few = st.sampled_from((1.0, 1.5, 2.0, 2.5, 3.0))


@given(st.lists(st.tuples(few, few)))
def test_the_frontier_is_what_no_other_point_beats(points):
    def beaten(one: tuple[float, float]) -> bool:
        return any(other != one and other[0] <= one[0] and other[1] <= one[1] for other in points)

    found = [points[at] for at in frontier(points)]
    assert set(found) == {one for one in points if not beaten(one)}
    assert found == sorted(set(found))  # from the smallest on, equal ones once


def several() -> list[ParetoRun]:
    return [
        RUN,
        replace(RUN, id="2", name="two", bits=3.25, perplexity=70.0),
        replace(RUN, id="3", name="three", bits=3.25, perplexity=75.0),
        replace(RUN, id="4", name="four", bits=None),
    ]


def test_each_run_is_a_point_and_the_frontier_is_filled():
    view = pareto_view(several())
    line, points = view["figure"]["data"]
    assert (line["x"], line["y"]) == ([2.25, 3.25], [80.0, 70.0])
    assert points["customdata"] == ["1", "2", "3"]
    colours = points["marker"]["color"]
    assert colours[0] == colours[1] != colours[2]
    assert view["words"].startswith("2 of 3 runs are on the frontier")
    assert "1 is not drawn" in view["words"]
    json.dumps(view, allow_nan=False)


def test_bits_are_in_full_and_a_run_names_its_grid():
    view = pareto_view([replace(RUN, grid="affine, groups of 128"), *several()[1:]])
    points = view["figure"]["data"][1]
    assert "<br>affine, groups of 128<br>2.25 bits per weight" in points["text"][0]
    assert view["figure"]["layout"]["xaxis"]["title"]["text"] == "Bits per quantized weight, in full"
    assert "zero points or biases" in view["words"]
    assert "zero points or biases" not in pareto_view(several(), "mib")["words"]


def test_the_size_can_be_that_of_the_whole_model():
    line, points = pareto_view(several(), "mib")["figure"]["data"]
    assert set(points["x"]) == {1.0}
    assert (line["x"], line["y"]) == ([1.0], [70.0])


def test_models_and_test_texts_have_frontiers_of_their_own():
    other = replace(RUN, id="5", test="another, window 64, 100 tokens", perplexity=90.0, bits=4.0)
    view = pareto_view([*several(), other, replace(RUN, id="6", model="moe", bits=4.0)])
    lines = [trace for trace in view["figure"]["data"] if trace["mode"] == "lines"]
    assert [line["x"] for line in lines] == [[2.25, 3.25], [4.0], [4.0]]
    assert "frontiers of their own" in view["words"]
    assert len({line["line"]["color"] for line in lines}) == 3


def test_what_can_not_be_drawn_is_refused():
    with pytest.raises(Refused, match="size and a perplexity"):
        pareto_view([replace(RUN, bits=None), replace(RUN, perplexity=None)])
    with pytest.raises(Refused, match="5 models"):
        pareto_view([replace(RUN, model=f"model {i}") for i in range(5)])
