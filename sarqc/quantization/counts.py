"""Work of methods and of a run's stages, counted without a device, and the time a device takes for it; no torch."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace


@dataclass(frozen=True)
class Count:
    """Work by its limiting resource."""

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
        return Count(*(ours + theirs for ours, theirs in zip(astuple(self), astuple(other), strict=True)))

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


# Operations that a GPU starts for one linear, beside those of its point, and in a learned step: from runs on an H100,
# seconds over those of an operation on nothing.
_STARTED_OF_LINEAR, _STARTED_OF_POINT, STARTED_OF_STEP, STARTED_OF_CANDIDATE = 500, 300, 80, 35

FACTORISING = 44  # bytes for each number of a Gram while it is factorised: four copies in float64, three in float32
OF_REFIT = 8  # numbers for each of a Gram: normal equations of some rows and their factors, in float64
RECORDED_SHARE = 8  # the part of the budget, as a divisor, that inputs of recorded operations may take on a GPU


@dataclass(frozen=True)
class Workload:
    """Work of a method in one model, as far as estimates of memory and time depend on it."""

    shapes: tuple[tuple[int, int], ...]  # (O, I) of every linear
    block_weights: int  # weights of the linears of the largest block
    bits: int
    group_size: int | None  # None: the whole row
    points: int  # solved for each linear: one, those of a curve, or the candidates of “auto” and its choice
    together: int  # points of linears that may be solved at once
    sequences: int  # of the calibration
    length: int  # tokens of a sequence
    walks: int  # 2 where the float model's states are walked beside those of the quantized prefix
    budget_bytes: int  # for one batch of solving
    held_out: int = 0  # sequences that nothing is fitted to

    def largest(self) -> tuple[int, int]:
        """Return the shape of the linear with most weights."""
        return max(self.shapes, key=math.prod)

    def weights(self) -> int:
        return sum(map(math.prod, self.shapes))

    def squares(self) -> int:
        """Return Σ O·I², the multiplications of a weight with a Gram over all linears."""
        return sum(rows * width**2 for rows, width in self.shapes)

    def started(self) -> Count:
        """Return the operations that a GPU starts for each layer at all its points."""
        return Count(started=len(self.shapes) * (_STARTED_OF_LINEAR + _STARTED_OF_POINT * self.points))

    def fitting(self, tried: int, passes: int, rounds: int = 0) -> Count:
        """Return the work of the fitting of the grid, for one point of every linear.

        A round of refitting takes three large products and the equations of each row, and is followed by passes.

        Args:
            tried: Ranges that are tried beside the extremes' own.
            passes: Passes of refinement.
            rounds: Rounds of refitting.
        """
        passes += rounds * max(passes, 1)
        unknowns = [(rows, 2 * width / (self.group_size or width)) for rows, width in self.shapes]
        solved = math.fsum(rows * count**3 / 3 for rows, count in unknowns)
        return Count(
            rounded=tried * self.weights(),
            losses=rounds * 3 * 2 * self.squares(),
            solves=passes * 1.5 * self.squares() + rounds * solved,
            started=(passes + rounds) * len(self.shapes) * _STARTED_OF_POINT,
        )


# Measured with two server cores on the embedded models and on two blocks of TinyLlama's shapes: passes through a model
# and Grams are large products, the column solver's are small, a scale search rounds every weight for every candidate,
# and learned clipping does in every step.
TWO_CORES = Throughput(
    products=1e11, losses=1e11, solves=5e10, rounded=1e8, clipped=1.5e8, started=3e4, read=5e9, loaded=5e9, moved=2e9
)

# What a run of LLaMA-2-7B's shapes on an H100 reached of the best rates that large products had there; the bytes that a
# weight moves while it is rounded are an estimate.
_OF_PRODUCTS, _OF_SOLVES = 0.6, 0.3
# Operations of a run come with Python between them and a thread beside it that stores layers.
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
