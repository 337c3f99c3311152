"""Public names, the points where two methods are one, and what is turned down."""

import math

import pytest

from sarqc import method
from sarqc.documents import SIGNS
from sarqc.errors import Refused
from sarqc.quantization.methods import METHODS, Candidates, ColumnSolver, LearnedClipping, RoundToNearest, ScaleSearch


def test_named_methods_are_points_of_one_family():
    assert method("gptq") == method("rqc-gbs", lam=0.01)
    assert method("awq") == method("sarqc-gs", lam=0.0)
    assert method("sarqc-gbs", lam=0.5, gamma=0.35) == ColumnSolver(lam=0.5, gamma=0.35, saliency="saliency")
    assert method("rqc-gs", lam=0.7) == ScaleSearch(lam=0.7, saliency="identity")


@pytest.mark.parametrize("name", METHODS)
def test_every_row_makes_its_method_and_has_a_baseline(name):
    entry = METHODS[name]
    assert method(name) == entry.make
    assert entry.baseline in METHODS
    assert set(entry.tunes) <= {*SIGNS}
    assert set(entry.auto.axes() if entry.auto else ()) == set(entry.tunes)
    assert ("shift_strength" in entry.tunes) == (entry.make.alpha is not None)
    assert entry.make.unit in {"layer", "group", "block"}


def test_axes_of_auto_are_the_fields_that_have_values():
    assert Candidates("layer", (0.0, 0.5), (None, 0.1)).axes() == {"lam": (0.0, 0.5), "gamma": (0.1,)}
    assert Candidates("layer", strengths=(0.0, 1.0)).axes() == {"shift_strength": (0.0, 1.0)}


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1])
@pytest.mark.parametrize("name", [name for name, entry in METHODS.items() if "lam" in entry.tunes])
def test_bad_numbers_are_refused(name, value):
    with pytest.raises(Refused):
        method(name, lam=value)


def test_gamma_is_between_zero_and_one():
    for gamma in (-0.1, 1.1, math.nan, None):
        with pytest.raises(Refused):
            method("sarqc-gbs", gamma=gamma)
    with pytest.raises(Refused):
        ColumnSolver(lam=0.1, gamma=0.5, saliency="identity")


def test_unknown_names_and_choices_are_refused():
    with pytest.raises(Refused) as unknown:
        method("gtpq")
    assert "gptq" in unknown.value.remedy
    with pytest.raises(Refused):
        method("gptq", lam=0.5)
    with pytest.raises(Refused):
        method("rqc-gbs", gamma=0.5)


@pytest.mark.parametrize("name", METHODS)
def test_what_a_row_lets_people_choose_is_a_field_of_its_method(name):
    entry = METHODS[name]
    assert entry.make.with_(**entry.defaults()) == entry.make
    assert ("lam" in entry.tunes) <= entry.make.sweeps()
    assert ("gamma" in entry.tunes) == (entry.make.gamma is not None)
    for choice in ("lam", "gamma"):
        assert getattr(entry.make, choice) == entry.make.settled().get(choice)


def test_a_method_without_a_value_refuses_it():
    assert ColumnSolver(lam=0.1).with_(lam=0.2, static_groups=True) == ColumnSolver(lam=0.2, static_groups=True)
    with pytest.raises(Refused) as nothing:
        RoundToNearest().with_(lam=0.1)
    assert "range, refine" in nothing.value.remedy
    with pytest.raises(Refused) as some:
        LearnedClipping().with_(gamma=0.5)
    assert "learning_rate" in some.value.remedy
    with pytest.raises(Refused):
        LearnedClipping().with_(lam=-1.0)  # a value that it has is still checked


def test_points_are_every_gamma_with_every_lambda():
    solver = method("sarqc-gbs", static_groups=True)
    points = solver.points((0.0, 0.3), (0.1, 0.5))
    assert [(point.gamma, point.lam) for point in points] == [(0.1, 0.0), (0.1, 0.3), (0.5, 0.0), (0.5, 0.3)]
    assert all(point.with_(lam=solver.lam, gamma=solver.gamma) == solver for point in points)
    assert solver.points((0.3,)) == [solver.with_(lam=0.3)]  # its own γ
    assert RoundToNearest().points((0.0, 0.3), (None, None)) == [RoundToNearest()] * 4
    assert not RoundToNearest().sweeps()
    with pytest.raises(Refused):
        ScaleSearch().points((0.3,), (0.5,))


def test_a_report_names_what_the_result_depends_on():
    assert RoundToNearest().settled() == {"method": "RoundToNearest"}
    quick = ColumnSolver(lam=0.2, block_size=8)
    assert quick.settled() == ColumnSolver(lam=0.2).settled()
    assert list(quick.settled()) == ["method", "lam", "gamma", "saliency", "static_groups"]
    shifted = ColumnSolver(shift="full").settled()
    assert (shifted["shift"], shifted["shift_strength"]) == ("full", 0.25)


def test_only_channel_scales_of_its_own_keep_a_method_from_being_packed():
    reasons = {name for name, entry in METHODS.items() if entry.make.why_not_packed() is not None}
    assert reasons == {"awq", "rqc-gs", "sarqc-gs"}
    assert method("awq", mode="foldable").why_not_packed() is None
