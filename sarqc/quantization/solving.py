"""What a family's file is given and what it yields: the nouns between the verbs in ``solve`` and the solvers.

The module that a method names as its ``solver`` offers one function, ``solve``, of the type ``Solver``.

Axes: O out_features, I in_features, B sequences of a batch, T tokens, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from sarqc.errors import Refused
from sarqc.quantization.methods import RECORDED_SHARE, Method
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.recorded import Recorder

BUDGET_BYTES = 1 << 30  # what the candidates solved at once may take by default; more are solved in turns

# Flags of reports.
LITTLE_MEMORY = "little_memory"  # the device had no room for a batch, which was made smaller
NOT_RECORDED = "not_recorded"  # operations could not be recorded as one, or had other bits then

BlockForward = Callable[[dict[str, Tensor], Tensor], Tensor]  # weights by name, inputs (B, T, D) -> outputs (B, T, D)

Family = TypeVar("Family", bound=Method)


@dataclass(frozen=True)
class LayerJob:
    """A linear, and the points at which it is wanted: methods of one family that differ in λ, γ or nothing."""

    layer: CheckedLayer
    points: Sequence[Method]

    def points_of(self, family: type[Family]) -> list[Family]:
        """The points, which must be of this family. Raises ``Refused``."""
        points = [point for point in self.points if isinstance(point, family)]
        if len(points) < len(self.points):
            names = ", ".join(sorted({type(point).__name__ for point in self.points}))
            raise Refused(f"points of {names}", self.layer.name or "method", f"Give points of {family.__name__} alone.")
        return points


@dataclass(frozen=True)
class BlockRun:
    """A block as a function, for a method that learns through it.

    forward runs the block on weights in the dtype of the inputs. inputs: batches (B, T, D) of states of the quantized
    prefix; targets: the float block's outputs on the float prefix.
    """

    forward: BlockForward
    inputs: Sequence[Tensor]
    targets: Sequence[Tensor]


@dataclass(frozen=True)
class Context:
    """What a solver may use beside the linears.

    ties: (I,) integers, for linears that share a scale: channels with equal numbers get one, where several channels
    come from one row of a linear before. recorder: for operations on a GPU that come again; None: each is started.
    """

    budget_bytes: int = BUDGET_BYTES
    ties: Tensor | None = None
    block: BlockRun | None = None
    recorder: Recorder | None = None

    @classmethod
    def on(cls, device: torch.device, budget_bytes: int) -> Context:
        """For all linears of a model on this device."""
        return cls(budget_bytes, recorder=Recorder.on(device, budget_bytes // RECORDED_SHARE))


class Solved(NamedTuple):
    """One linear at one of its points; the numbers are positions among the jobs and among the job's points."""

    job: int
    point: int
    layer: QuantizedLayer


@dataclass(frozen=True)
class Epoch:
    """Where a learning method stands, over all sequences and with the weights that would be stored.

    recon: mean squared error of the block's outputs; sar: Σ ‖ΔW diag(s)‖² over its linears, before λ.
    """

    epoch: int  # 0: before the first step
    epochs: int
    objective: float
    recon: float
    sar: float


Solver = Callable[[Sequence[LayerJob], Context], Iterator[Epoch | Solved]]
