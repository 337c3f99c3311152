"""Theorem 1 as arithmetic on floats, numpy arrays and tensors alike. Needs no torch."""

from __future__ import annotations

import math
from typing import Any, TypeVar

Number = TypeVar("Number", bound=Any)
DELTA = 0.05  # the bound holds with probability 1 - δ


def log_all_codes(n_weights: int, bits: int) -> float:
    """ln|Q| at fixed scales: n_weights · bits · ln 2, an upper bound on ln|Q_R| for every radius R."""
    return n_weights * bits * math.log(2)


def bound_on_gap(span: Number, log_count: Number | float, n_tokens: Number | int, delta: float = DELTA) -> Number:
    """The right side of Theorem 1: span · √(ln(2 · count/δ)/2n).

    span: R² M_X², which every risk of weights within R of the float ones lies below; log_count: the logarithm of how
    many code matrices the statement holds for at once; n_tokens: of the calibration text, taken as independent.
    """
    bound: Number = span * ((math.log(2 / delta) + log_count) / (2 * n_tokens)) ** 0.5
    return bound
