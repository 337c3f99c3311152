"""Values in plain form: as JSON can hold them, and sizes as people read them."""

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def plain(value: object) -> Json:
    """Return ``value`` as JSON can hold it: lists for tuples and arrays, null for NaN and infinity.

    Raises ``TypeError`` for anything that has no plain form.
    """
    # The most frequent comes first: the views of a study have millions of numbers.
    if isinstance(value, float):
        return measured(float(value))  # of numpy's too
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    raise TypeError(f"{type(value).__name__} has no plain form")


def measured(value: float) -> float | None:
    """Return a number as JSON can hold it: None for NaN and infinity."""
    return value if math.isfinite(value) else None


def mib(size: float) -> str:
    """Return a number of bytes in MiB, from one GiB on in GiB; three digits."""
    return gib(size) if size >= 2**30 else f"{size / 2**20:.3g} MiB"


def gib(size: float) -> str:
    """Return a number of bytes in GiB, three digits."""
    return f"{size / 2**30:.3g} GiB"


def percent(share: float) -> str:
    """Return a share as a percentage with a digit behind the point."""
    return f"{100 * share:.1f}%"
