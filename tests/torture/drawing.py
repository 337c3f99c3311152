"""Examples of a strategy outside a test: so many, decided by a seed, each handed to a function."""

from collections.abc import Callable
from typing import TypeVar

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def draw(strategy: SearchStrategy[T], count: int, seed: int, use: Callable[[T], object]) -> None:
    """Hands ``count`` examples to ``use``, which counts complaints and does not raise."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max(1, count), database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @hypothesis.given(strategy)
    def each(example: T) -> None:
        use(example)

    if count > 0:
        each()
