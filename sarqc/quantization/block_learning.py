"""Learning through a whole block: steps over its sequences, a report now and then, and the best state.

Axes: O out_features, I in_features, G groups of a row, B sequences of a batch, T tokens, D hidden size.
"""

import math
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from sarqc.errors import NumericalError, Refused
from sarqc.quantization.learned_linear import LearnedLinear
from sarqc.quantization.methods import LearnedMethod
from sarqc.quantization.objective import sar_loss
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.solving import BlockRun, Context, Epoch, LayerJob, Learning, Solved, StepCheck

# Checks in a row, of ``methods.CHECKS``, that end early stopping where none has a held-out error below all those after
# earlier steps. The start does not count: the first steps are the largest, and an error that they raise may fall later.
PATIENCE = 10

Learned = dict[str, list[Tensor]]  # learned tensors of each linear, by name


class Optimiser(Protocol):
    """Optimiser of the learned tensors along their ``grad``; an optimiser of PyTorch is one."""

    def step(self) -> object: ...


@dataclass(frozen=True)
class Schedule:
    """Number of steps, sequences of a step, rule of descent, and early stopping."""

    steps: int
    sequences: int  # of a step; the last step of an epoch takes the rest
    descent: Callable[[Learned], Optimiser]
    checks: int = 0  # of early stopping, spread evenly over the steps; 0: none, each epoch is measured


class BlockLearning:
    """Learning of all linears of a block at once.

    An epoch is a pass over the calibration sequences, in their order. Only the graph of one sequence is ever held.
    Ours: the result is that of the epoch with the smallest objective, the start included and the earlier of equals.
    With early stopping it is that of the check with the smallest error on held-out sequences, the start included, and
    the steps end after ``PATIENCE`` checks that are not below those after earlier steps.

    Args:
        linears: Linears by the names that the block's function knows.
        method: Method with λ and the normalisation of the two terms.
        block: The block as a function, with inputs and targets.
        schedule: Number of steps, sequences of a step, rule of descent, and early stopping.

    Raises:
        Refused: For early stopping without held-out sequences.
    """

    def __init__(
        self, linears: Mapping[str, LearnedLinear], method: LearnedMethod, block: BlockRun, schedule: Schedule
    ) -> None:
        self.linears, self.method, self.forward, self.schedule = linears, method, block.forward, schedule
        pairs = zip(block.inputs, block.targets, strict=True)
        self.batches = [(states.detach(), target.detach()) for states, target in pairs if states.numel()]
        pairs = zip(block.held_out_inputs, block.held_out_targets, strict=True)
        self.held_out = [(states.detach(), target.detach()) for states, target in pairs if states.numel()]
        if schedule.checks and not self.held_out:
            raise Refused(
                "early stopping is judged by the block's outputs on held-out sequences, and there are none",
                "held_out_inputs",
                "Give held-out inputs and targets, or set stopping to none.",
            )
        sequences = [
            pair
            for states, targets in self.batches
            for pair in zip(states.split(1), targets.split(1), strict=True)  # (1, T, D) each
        ]
        size = schedule.sequences
        self.steps = [sequences[start : start + size] for start in range(0, len(sequences), size)]  # of an epoch
        self.epochs = math.ceil(schedule.steps / len(self.steps))
        self.recon_unit = self.sar_unit = 1.0  # divisors of the two terms
        self.first_error = 1.0  # root mean square, before the first step

    def learn(self) -> Generator[Learning, None, dict[str, QuantizedLayer]]:
        """Yield an ``Epoch`` before the first step and after each epoch, and return the layers by name.

        With early stopping yield a ``StepCheck`` before the first step and after each twentieth of the steps.

        Raises:
            NumericalError: If the objective is not finite.
            Refused: If the block's outputs do not have the shape of the targets.
        """
        learned = {name: linear.first() for name, linear in self.linears.items()}
        descent = self.schedule.descent(learned)
        first = self._measure(learned, 0)
        self.first_error = math.sqrt(first.recon) or 1.0
        if self.method.normalise == "initial":
            self.recon_unit, self.sar_unit = first.recon or 1.0, first.sar or 1.0
            first = replace(first, objective=self._objective(first.recon, first.sar))
        if self.schedule.checks:
            return (yield from self._until_stopped(learned, descent, first))
        yield first
        best, best_state = first, _copy(learned)
        for epoch in range(1, self.epochs + 1):
            left = self.schedule.steps - (epoch - 1) * len(self.steps)
            for sequences in self.steps[:left]:
                self._step(learned, descent, sequences)
            reached = self._measure(learned, epoch)
            if reached.objective < best.objective:
                best, best_state = reached, _copy(learned)
            yield reached
        facts = {
            "epochs": self.epochs,
            "best_epoch": best.epoch,
            "objective": best.objective,
            "initial_objective": first.objective,
        }
        return {name: self._layer(linear, best_state[name], facts) for name, linear in self.linears.items()}

    def _until_stopped(
        self, learned: Learned, descent: Optimiser, start: Epoch
    ) -> Generator[StepCheck, None, dict[str, QuantizedLayer]]:
        """Yield the checks; return the layers of the one with the smallest held-out error.

        All checks are in the report of the first linear.
        """
        steps = self.schedule.steps
        checks = [self._check(learned, 0, start.recon)]
        yield checks[0]
        best, best_state, done = checks[0], _copy(learned), 0
        least, since = math.inf, 0  # of the checks after a step
        for step in check_steps(steps, self.schedule.checks):
            for number in range(done, step):
                self._step(learned, descent, self.steps[number % len(self.steps)])
            done = step
            reached = self._check(learned, step, self._measure(learned, math.ceil(step / len(self.steps))).recon)
            checks.append(reached)
            yield reached
            if reached.held_out_error < best.held_out_error:
                best, best_state = reached, _copy(learned)
            since = 0 if reached.held_out_error < least else since + 1
            least = min(least, reached.held_out_error)
            if since == PATIENCE:
                break
        facts = {"steps_made": done, "best_step": best.step}
        layers = {name: self._layer(linear, best_state[name], facts) for name, linear in self.linears.items()}
        first_name, layer = next(iter(layers.items()))
        report = replace(layer.report, checks=tuple(asdict(check) for check in checks))
        return layers | {first_name: replace(layer, report=report)}

    @torch.no_grad()
    def _check(self, learned: Learned, step: int, error: float) -> StepCheck:
        """Return the state after some steps; ``error``: on the calibration sequences."""
        dtype = self.batches[0][0].dtype
        weights, moved, energy = {}, 0.0, 0.0
        for name, linear in self.linears.items():
            rounded = linear.round(learned[name])
            moved += float(sar_loss(linear.drift(rounded)))
            energy += float(sar_loss(linear.layer.weight))
            weights[name] = rounded.stored.to(dtype)
        held_out = self._mean_squared_error(weights, self.held_out)
        if not math.isfinite(held_out):
            raise NumericalError(
                f"the error on held-out sequences is not finite ({held_out})",
                f"{self.method.learns}, step {step} of {self.schedule.steps}",
                "Look for NaN in the held-out inputs, or load the model in a wider dtype.",
            )
        drift = math.sqrt(moved / energy) if energy > 0 else 0.0
        return StepCheck(step, self.schedule.steps, error, held_out, drift)

    @torch.no_grad()
    def _step(self, learned: Learned, descent: Optimiser, sequences: Sequence[tuple[Tensor, Tensor]]) -> None:
        rounded = {name: linear.round(learned[name]) for name, linear in self.linears.items()}
        dtype = sequences[0][0].dtype
        leaves = {name: part.stored.to(dtype).detach().requires_grad_() for name, part in rounded.items()}
        # (O, I), of the mean squared error: 0 for a linear that no sequence reached
        by_weight = {name: torch.zeros_like(linear.layer.weight) for name, linear in self.linears.items()}
        # The error is divided before it is differentiated and the slopes are multiplied after: the same gradient, but
        # slopes of about 1 on their way through the block, in which half precision neither underflows nor overflows.
        unit = self.first_error * sum(states.shape[1] for states, _ in sequences)
        for states, targets in sequences:
            with torch.enable_grad(), fixed_order(states.device):
                error = self._squared_error(leaves, states, targets) / unit
                slopes = torch.autograd.grad(error, list(leaves.values()), allow_unused=True)
            for total, slope in zip(by_weight.values(), slopes, strict=True):
                if slope is not None:
                    total.add_(slope)
        per_error = unit / sum(targets.numel() for _, targets in sequences) / self.recon_unit
        for name, linear in self.linears.items():
            slope = by_weight[name].mul_(per_error)
            if self.method.lam > 0:
                drift = linear.drift(rounded[name])
                weighted = drift if linear.s is None else drift * linear.s.square()
                slope.add_(weighted, alpha=2 * self.method.lam / self.sar_unit)
            for part, gradient in zip(learned[name], linear.gradient(learned[name], rounded[name], slope), strict=True):
                part.grad = gradient
        descent.step()

    @torch.no_grad()
    def _measure(self, learned: Learned, epoch: int) -> Epoch:
        dtype = self.batches[0][0].dtype
        weights, sar = {}, 0.0
        for name, linear in self.linears.items():
            rounded = linear.round(learned[name])
            sar += float(sar_loss(linear.drift(rounded), linear.s))
            weights[name] = rounded.stored.to(dtype)
        recon = self._mean_squared_error(weights, self.batches)
        reached = Epoch(epoch, self.epochs, self._objective(recon, sar), recon, sar)
        if not math.isfinite(reached.objective):
            cause = "Look for NaN in the block's inputs" if epoch == 0 else self.method.divergence_remedy
            raise NumericalError(
                f"the objective is not finite (mean squared error {reached.recon}, drift term {sar})",
                f"{self.method.learns}, epoch {epoch} of {self.epochs}",
                f"{cause}, or load the model in a wider dtype.",
            )
        return reached

    def _mean_squared_error(self, weights: dict[str, Tensor], batches: Sequence[tuple[Tensor, Tensor]]) -> float:
        error = sum(float(self._squared_error(weights, *batch)) for batch in batches)
        return error / sum(targets.numel() for _, targets in batches)

    def _squared_error(self, weights: dict[str, Tensor], states: Tensor, targets: Tensor) -> Tensor:
        outputs = self.forward(weights, states)  # (B, T, D)
        if outputs.shape != targets.shape:
            raise Refused(
                f"the block makes {tuple(outputs.shape)} and the targets are {tuple(targets.shape)}",
                "targets",
                "Give the float block's outputs for the same sequences.",
            )
        dtype = torch.promote_types(outputs.dtype, torch.float32)
        return (outputs.to(dtype) - targets.to(outputs.device, dtype)).square().sum()

    def _objective(self, recon: float, sar: float) -> float:
        return recon / self.recon_unit + self.method.lam * sar / self.sar_unit

    @torch.no_grad()
    def _layer(self, linear: LearnedLinear, state: Sequence[Tensor], facts: Mapping[str, object]) -> QuantizedLayer:
        """Return the linear with its learned tensors; ``facts`` of the learning are for its report."""
        rounded = linear.round(state)
        return linear.layer.quantized(
            rounded.codes.flatten(-2),
            rounded.scales,
            rounded.zero_points,
            rounded.stored,
            drift_scale=linear.s,
            chosen={**self.method.settled(), **facts},
        )


def learn_points(
    jobs: Sequence[LayerJob],
    context: Context,
    learnings: Callable[[Sequence[LayerJob], BlockRun], Iterator[BlockLearning]],
) -> Iterator[Learning | Solved]:
    """Learn all linears of the context's block, one point after the other.

    Args:
        jobs: All linears of the block, named as the block's function does; statistics are those of their inputs on the
            quantized prefix.
        context: The block as a function.
        learnings: Function that returns the learning of each point, made when its turn comes.

    Yields:
        For each point an ``Epoch`` before the first step and after each epoch, then the layers. With early stopping a
        ``StepCheck`` before the first step and after each twentieth of the steps takes the place of epochs.

    Raises:
        Refused: If names, shapes or bit widths do not fit.
        NumericalError: If a value is NaN or infinite.
    """
    assert context.block is not None  # the method needs it
    _check_block([job.layer for job in jobs], context.block)
    return _learn(jobs, learnings(jobs, context.block))


def _learn(jobs: Sequence[LayerJob], learnings: Iterator[BlockLearning]) -> Iterator[Learning | Solved]:
    for index, learning in enumerate(learnings):
        layers = yield from learning.learn()
        yield from (Solved(number, index, layers[job.layer.name]) for number, job in enumerate(jobs))


@contextmanager
def fixed_order(device: torch.device) -> Iterator[None]:
    """Sum gradients in one order within this context, so that a GPU gives the same bits every time."""
    if device.type != "cuda":
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    # cuDNN's attention would keep to an order only where every other operation must, too.
    kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        with sdpa_kernel(kernels), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*determinis")  # of an operation that has no order to keep to
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def check_steps(steps: int, checks: int) -> list[int]:
    """Return the numbers of steps after which early stopping checks: evenly spread, the last step among them."""
    return sorted({math.ceil(steps * number / checks) for number in range(1, checks + 1)})


def _check_block(layers: Sequence[CheckedLayer], block: BlockRun) -> None:
    """Check that a block can be learned."""
    names = [layer.name for layer in layers]
    if len(set(names)) < len(names):
        raise Refused("linears share a name", ", ".join(names), "Name each as the block's function does.")
    bits = sorted({layer.grid.bits for layer in layers})
    if len(bits) > 1:
        raise Refused(
            f"its linears have {' and '.join(map(str, bits))} bits", "grids", "Give one bit width for a whole block."
        )
    for what, inputs, targets in (
        ("", block.inputs, block.targets),
        ("held-out ", block.held_out_inputs, block.held_out_targets),
    ):
        shapes = [[tuple(batch.shape) for batch in batches] for batches in (inputs, targets)]
        if shapes[0] != shapes[1]:
            raise Refused(
                f"{what}inputs are {shapes[0]} and targets {shapes[1]}",
                f"{what}targets",
                "Give a target for every input.",
            )
    own = [tuple(batch.shape) for batch in block.inputs]
    if any(len(shape) != 3 for shape in own):
        raise Refused(f"inputs are {own}", "inputs", "Give batches of (sequences, tokens, hidden size).")
    if not any(math.prod(shape) for shape in own):
        raise Refused("no sequence to learn from", "inputs", "Give at least one calibration sequence.")


def _copy(learned: Learned) -> Learned:
    return {name: [part.clone() for part in parts] for name, parts in learned.items()}
