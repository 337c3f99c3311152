"""Public names, the points where two methods are one, and what is turned down."""

from __future__ import annotations

import math

import pytest

from sarqc.errors import Refused
from sarqc.quantization.methods import METHODS, ColumnSolver, ScaleSearch, method


def test_named_methods_are_points_of_one_family() -> None:
    assert method("gptq") == method("rqc-gbs", lam=0.01)
    assert method("awq") == method("sarqc-gs", lam=0.0)
    assert method("sarqc-gbs", lam=0.5, gamma=0.35) == ColumnSolver(lam=0.5, gamma=0.35, saliency="saliency")
    assert method("rqc-gs", lam=0.7) == ScaleSearch(lam=0.7, saliency="identity")


@pytest.mark.parametrize("name", METHODS)
def test_every_row_makes_its_method_and_has_a_baseline(name: str) -> None:
    entry = METHODS[name]
    assert method(name) == entry.make
    assert entry.baseline in METHODS
    assert set(entry.tunes) <= {"lam", "gamma"}
    assert entry.make.unit in {"layer", "group", "block"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1])
@pytest.mark.parametrize("name", [name for name, entry in METHODS.items() if "lam" in entry.tunes])
def test_bad_numbers_are_refused(name: str, value: float) -> None:
    with pytest.raises(Refused):
        method(name, lam=value)


def test_gamma_is_between_zero_and_one() -> None:
    for gamma in (-0.1, 1.1, math.nan, None):
        with pytest.raises(Refused):
            method("sarqc-gbs", gamma=gamma)
    with pytest.raises(Refused):
        ColumnSolver(lam=0.1, gamma=0.5, saliency="identity")


def test_unknown_names_and_choices_are_refused() -> None:
    with pytest.raises(Refused) as unknown:
        method("gtpq")
    assert "gptq" in unknown.value.remedy
    with pytest.raises(Refused):
        method("gptq", lam=0.5)
    with pytest.raises(Refused):
        method("rqc-gbs", gamma=0.5)
