"""Work of a run's stages, counted without a device, and the time that a device takes for it; no torch."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace


@dataclass(frozen=True)
class Count:
    """Work by what limits it."""

    products: float = 0.0  # floating-point operations of large products: passes through the model, Grams
    losses: float = 0.0  # of large products in float32: of a linear with its Gram
    solves: float = 0.0  # of solvers: factors, columns
    rounded: float = 0.0  # weights that a search rounds
    clipped: float = 0.0  # weights that a learned step rounds
    started: float = 0.0  # operations that a GPU starts, whatever they do
    read: float = 0.0  # bytes in the device's memory: states between products, weights for each token made alone
    loaded: float = 0.0  # bytes of weights that come from files and are hashed
    moved: float = 0.0  # bytes of statistics and weights that go to other processes of the host, and back

    def __add__(self, other: Count) -> Count:
        return Count(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))

    def times(self, number: float) -> Count:
        """Return this work, repeated."""
        return Count(*(number * part for part in astuple(self)))

    def in_float32(self) -> Count:
        """Return the same work with all large products in float32, for a model with such weights."""
        return replace(self, products=0.0, losses=self.losses + self.products)


@dataclass(frozen=True)
class Throughput(Count):
    """Work that a device does in a second, sustained; infinity for work that takes no time worth counting."""

    def seconds(self, count: Count) -> float:
        """Return the time for some work in seconds."""
        pairs = zip(astuple(count), astuple(self), strict=True)
        return math.fsum(part / rate for part, rate in pairs if part)


# Measured with two server cores on the embedded models and on two blocks of TinyLlama's shapes: passes through a model
# and Grams are large products, the column solver's are small, a scale search rounds every weight for every candidate,
# and learned clipping does in every step.
TWO_CORES = Throughput(
    products=1e11, losses=1e11, solves=5e10, rounded=1e8, clipped=1.5e8, started=3e4, read=5e9, loaded=5e9, moved=2e9
)

# What a run of LLaMA-2-7B's shapes on an H100 reached of the best rates that large products had there; the bytes that a
# weight moves while it is rounded are an estimate.
_OF_PRODUCTS, _OF_SOLVES = 0.6, 0.3
# Operations of a run come with Python between them and a thread beside it that keeps layers.
_OF_STARTED = 0.8
_BYTES_OF_SEARCH, _BYTES_OF_STEP = 60, 100
_FROM_DISK = 2e9
_BETWEEN = 5e9  # between processes that have a GPU each, by way of the machine's memory; not measured


def rates_of_gpu(half: float, single: float, memory: float, started: float) -> Throughput:
    """Return the rates of a GPU from its measured peaks.

    Args:
        half: Floating-point operations a second of large products in 16 bits.
        single: Floating-point operations a second of large products in float32.
        memory: Bytes of memory read and written a second.
        started: Operations on nothing started a second.
    """
    return Throughput(
        products=_OF_PRODUCTS * half,
        losses=single,
        solves=_OF_SOLVES * single,
        rounded=memory / _BYTES_OF_SEARCH,
        clipped=memory / _BYTES_OF_STEP,
        started=_OF_STARTED * started,
        read=memory,
        loaded=_FROM_DISK,
        moved=_BETWEEN,
    )
