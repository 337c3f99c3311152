"""What the page sets as the objective of a line, for every method."""

import pytest

from sarqc.figures.view import equation
from sarqc.quantization.methods import METHODS
from sarqc.study.document import Line

ONE = {"lams": (0.0,), "gammas": (None,)}
# aim, S, and λ where the line has none to move; from docs/algorithms.md
WANTED = {
    "rtn": ("weights", None, None),
    "awq": ("outputs", None, None),
    "rqc-gs": ("outputs", "one", None),
    "sarqc-gs": ("outputs", "ratio", None),
    "gptq": ("outputs", "one", "0.01"),
    "rqc-gbs": ("outputs", "one", None),
    "sarqc-gbs": ("outputs", "gamma", None),
    "gptaq": ("float outputs", "one", "0.01"),
    "gptaq-full": ("float outputs", "one", "0.01"),
    "sarqc-gptaq": ("float outputs", "gamma", None),
    "omniquant": ("block outputs", None, None),
    "sarqc-omniquant": ("block outputs", "root", None),
    "signround": ("block outputs", None, None),
    "sarqc-signround": ("block outputs", "root", None),
}


def line(method: str, **more: object) -> Line:
    fields = {"method": method, "title": method, "baseline": "gptq", "bits": 2, "grid": "asymmetric", "group_size": 8}
    return Line.model_validate(fields | {"draws": (0,), "arrays": {}} | ONE | more)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_its_objective(method):
    aim, weighing, lam = WANTED[method]
    assert equation(line(method)) == {"aim": aim, "weighing": weighing, "lam": lam}


def test_auto_has_no_lambda_to_move_and_refined_rounding_aims_at_outputs():
    chosen = equation(line("sarqc-gbs", selected="layer"))
    assert chosen == {"aim": "outputs", "weighing": "gamma", "lam": "auto"}
    refined = equation(line("rtn", fitting={"refine": 3}))
    assert refined == {"aim": "outputs", "weighing": None, "lam": None}


def test_a_method_from_elsewhere_has_none():
    assert equation(line("rtn").model_copy(update={"method": "of-tomorrow"})) is None
