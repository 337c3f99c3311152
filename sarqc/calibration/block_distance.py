"""Outputs of one block as a function of its weights, beside those of the float block after the float blocks before it.

Axes: T tokens of a sequence, D hidden size.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sarqc.calibration.capture import input_means
from sarqc.calibration.input_means import InputMeans
from sarqc.calibration.job import CalibrationJob
from sarqc.models.loading import LoadedModel
from sarqc.models.walk import BlockWalk
from sarqc.quantization.scale_distillation import Weights


@dataclass(frozen=True)
class Passage:
    """A block with inputs and targets, one sequence a batch.

    Attributes:
        forward: The block as a function of its weights by path, of states (1, T, D) and of their number.
        inputs: (1, T, D) each.
        targets: (1, T, D) each, the float block's outputs.
    """

    forward: Callable[[dict[str, Tensor], Tensor, int], Tensor]
    inputs: list[Tensor]
    targets: list[Tensor]

    def squared_error(self, weights: Weights, number: int) -> Tensor:
        """Return ‖outputs - targets‖² of one sequence, at least in float32."""
        states, targets = self.inputs[number], self.targets[number]
        outputs = self.forward({path: weight.to(states.dtype) for path, weight in weights.items()}, states, number)
        dtype = torch.promote_types(outputs.dtype, torch.float32)
        return (outputs.to(dtype) - targets.to(dtype)).square().sum()

    def energy(self) -> float:
        """Return ‖targets‖² of all sequences; 1 where that is 0."""
        return sum(float(targets.double().square().sum()) for targets in self.targets) or 1.0


class BlockDistance:
    """Relative squared error of a block's outputs, ‖outputs - targets‖² / ‖targets‖²; see ``Distance``.

    Args:
        calibration: The block on the sequences that scales are fitted to.
        held_out: The block on the sequences that judge.
    """

    def __init__(self, calibration: Passage, held_out: Passage) -> None:
        self._calibration, self._held_out = calibration, held_out
        self._unit = calibration.energy() / self.steps  # of a step, so that the mean over steps is relative to all
        self._held_out_energy = held_out.energy()

    @property
    def steps(self) -> int:
        """Number of steps of an epoch, one for each sequence."""
        return len(self._calibration.inputs)

    def step_distance(self, weights: Weights, step: int) -> Tensor:
        """Return the error on the sequence of a step, with its gradient."""
        return self._calibration.squared_error(weights, step) / self._unit

    def held_out(self, weights: Weights) -> float:
        """Return the error on the held-out sequences, without a gradient."""
        with torch.no_grad():
            numbers = range(len(self._held_out.inputs))
            return sum(float(self._held_out.squared_error(weights, number)) for number in numbers) / (
                self._held_out_energy
            )

    def magnification(self, first: float) -> float:
        """Return the factor that makes slopes of a token's outputs about 1 / T, as in methods that learn a block."""
        states = self._calibration.inputs[0]
        error = math.sqrt(first * self._unit / states.numel())  # root mean square, before the first step
        return self._unit / (error * states.shape[-2]) if error > 0 else 1.0


class PairedWalks:
    """Walks of the calibration and held-out sequences through float and quantized blocks.

    Call for each block in turn ``pass_float`` while its weights are float, then ``distance``, and ``advance`` when it
    has its final weights. Under float inputs the quantized blocks read what the float ones do.

    Args:
        loaded: The model.
        job: The calibration with its sequences.
    """

    def __init__(self, loaded: LoadedModel, job: CalibrationJob) -> None:
        parts = [torch.from_numpy(part.copy()) for part in (job.sequences.calibration, job.sequences.held_out)]
        self._floats = [BlockWalk(loaded, part, at_once=1) for part in parts]
        follows = job.inputs_from == "quantized"
        self._quantized = [BlockWalk(loaded, part, at_once=1) for part in parts] if follows else []
        self._inputs: list[list[Tensor]] = []

    def pass_float(self, block: nn.Module, *, with_means: bool = False) -> Mapping[str, InputMeans]:
        """Move the float states past a block whose weights are float.

        Returns:
            Means over the inputs of its linears on the calibration sequences, by path; empty without ``with_means``.
        """
        means: Mapping[str, InputMeans] = {}
        self._inputs = [walk.hidden for walk in self._quantized or self._floats]
        calibration, held_out = self._floats
        if with_means:
            means, outputs = input_means(calibration, block)
            calibration.advance(outputs)
        else:
            calibration.advance(calibration.outputs(block))
        held_out.advance(held_out.outputs(block))
        return means

    def distance(self, block: nn.Module) -> BlockDistance:
        """Return the error of the outputs of the block that the float states have just passed."""
        return BlockDistance(
            *(
                Passage(walk.forward(block), inputs, walk.hidden)
                for walk, inputs in zip(self._floats, self._inputs, strict=True)
            )
        )

    def advance(self, block: nn.Module) -> None:
        """Move the quantized states past the block."""
        self._inputs = []
        for walk in self._quantized:
            walk.advance(walk.outputs(block))
