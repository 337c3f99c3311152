"""Inputs and outputs of the solvers: the data between ``solve`` and the family modules.

The module that a method names as its ``solver`` has one function ``solve`` of the type ``Solver``.

Axes: O out_features, I in_features, B sequences of a batch, T tokens, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from sarqc.errors import Refused
from sarqc.quantization.counts import RECORDED_SHARE
from sarqc.quantization.methods import Method
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.recorded import Recorder

BUDGET_BYTES = 1 << 30  # of the candidates solved at once, by default; more are solved in turns

# Flags of reports.
LITTLE_MEMORY = "little_memory"  # the device had no room for a batch, which was made smaller
NOT_RECORDED = "not_recorded"  # operations could not be recorded as one, or had other bits then

BlockForward = Callable[[dict[str, Tensor], Tensor], Tensor]  # weights by name, inputs (B, T, D) -> outputs (B, T, D)

Family = TypeVar("Family", bound=Method)


@dataclass(frozen=True)
class LayerJob:
    """A linear with its points: methods of one family that differ in λ, γ or nothing."""

    layer: CheckedLayer
    points: Sequence[Method]

    def points_of(self, family: type[Family]) -> list[Family]:
        """Return the points, all of which must be of this family.

        Raises:
            Refused: If a point is of another family.
        """
        points = [point for point in self.points if isinstance(point, family)]
        if len(points) < len(self.points):
            names = ", ".join(sorted({type(point).__name__ for point in self.points}))
            raise Refused(f"points of {names}", self.layer.name or "method", f"Give points of {family.__name__} alone.")
        return points


@dataclass(frozen=True)
class BlockRun:
    """A block as a function, for a method that learns through it.

    Attributes:
        forward: Function that runs the block on weights in the dtype of the inputs.
        inputs: Batches (B, T, D) of states of the quantized prefix.
        targets: The float block's outputs on the float prefix, of the same shapes.
        held_out_inputs: The inputs of sequences that nothing is fitted to; empty without any.
        held_out_targets: Their targets.
    """

    forward: BlockForward
    inputs: Sequence[Tensor]
    targets: Sequence[Tensor]
    held_out_inputs: Sequence[Tensor] = ()
    held_out_targets: Sequence[Tensor] = ()


@dataclass(frozen=True)
class Context:
    """Resources of a solver beside the linears.

    Attributes:
        budget_bytes: Working memory of one batch of solving, in bytes.
        ties: (I,) integers, for linears that share a scale: channels with equal numbers get one scale, because they
            come from one row of a linear before.
        block: The block, for a method that learns through it.
        recorder: Recorder of repeated operations on a GPU; None starts each operation by itself.
    """

    budget_bytes: int = BUDGET_BYTES
    ties: Tensor | None = None
    block: BlockRun | None = None
    recorder: Recorder | None = None

    @classmethod
    def on(cls, device: torch.device, budget_bytes: int) -> Context:
        """Return the context for all linears of a model on this device."""
        return cls(budget_bytes, recorder=Recorder.on(device, budget_bytes // RECORDED_SHARE))


class Solved(NamedTuple):
    """A linear at one of its points; the numbers are positions among the jobs and among the job's points."""

    job: int
    point: int
    layer: QuantizedLayer


@dataclass(frozen=True)
class Epoch:
    """State of a method that learns, over all sequences and with the weights that would be stored.

    Attributes:
        epoch: Passes over the sequences so far; 0 is before the first step.
        epochs: Passes in all.
        objective: Value that is minimised.
        recon: Mean squared error of the block's outputs.
        sar: Σ ‖ΔW diag(s)‖² over the block's linears, before λ.
    """

    epoch: int
    epochs: int
    objective: float
    recon: float
    sar: float


@dataclass(frozen=True)
class StepCheck:
    """State of learned rounding at a checked step, with the weights that would be stored.

    Attributes:
        step: Steps so far; 0 is before the first.
        steps: Largest number of steps.
        error: Mean squared error of the block's outputs on the calibration sequences.
        held_out_error: The same on sequences that nothing is fitted to.
        drift: √(Σ ‖ΔW‖² / Σ ‖W‖²) over the block's linears.
    """

    step: int
    steps: int
    error: float
    held_out_error: float
    drift: float


Learning = Epoch | StepCheck
Solver = Callable[[Sequence[LayerJob], Context], Iterator[Learning | Solved]]
