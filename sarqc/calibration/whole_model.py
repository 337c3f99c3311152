"""The predictions of a whole model as a function of its linears' and norms' weights, beside the float model's.

Axes: N sequences, B sequences of a step, T tokens of a sequence, D hidden size, V vocabulary, I in_features.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from sarqc.calibration.input_means import InputMeans, RunningMeans
from sarqc.calibration.job import CalibrationJob
from sarqc.calibration.pipeline import layers_by_block
from sarqc.models.linears import as_parameters
from sarqc.models.loading import LoadedModel
from sarqc.quantization.scale_distillation import Weights

SEQUENCES_OF_A_STEP = 1


@dataclass(frozen=True, eq=False)
class FloatModel:
    """Parts of the float model that are held while its linears are quantized.

    Attributes:
        calibration: Inputs of the head for the calibration sequences, (B, T, D) for each step.
        held_out: The same for the held-out sequences.
        inputs: Means over the inputs of each linear on the calibration sequences, by name.
        weights: Weights (O, I) by name, in the dtype of the checkpoint.
    """

    calibration: list[Tensor]
    held_out: list[Tensor]
    inputs: dict[str, InputMeans]
    weights: dict[str, Tensor]


def float_model(loaded: LoadedModel, job: CalibrationJob) -> FloatModel:
    """Return the parts to hold of a model that is float now.

    Args:
        loaded: The model, whose linears are modules of their own.
        job: The calibration with its sequences.
    """
    names = [layer.name for layer in loaded.checkpoint.layers]
    means = {name: RunningMeans() for name in names}
    with torch.no_grad():
        with ExitStack() as hooks:
            for name, running in means.items():
                hook = partial(_add, running)
                hooks.callback(loaded.model.get_submodule(name).register_forward_pre_hook(hook).remove)
            calibration = [loaded.head_input(tokens) for tokens in _steps(loaded, job.sequences.calibration)]
        held_out = [loaded.head_input(tokens) for tokens in _steps(loaded, job.sequences.held_out)]
    return FloatModel(
        calibration,
        held_out,
        {name: running.total() for name, running in means.items()},
        {name: loaded.weight(name).to(loaded.stored_as(f"{name}.weight"), copy=True) for name in names},
    )


def _add(running: RunningMeans, _module: nn.Module, given: tuple[Tensor, ...]) -> None:
    running.add(given[0])


class ModelDistance:
    """Mean KL(float ‖ quantized) of predictions in nats a token, see ``scale_distillation.Distance``.

    Args:
        loaded: The model; its own weights have no effect where others are given.
        job: The calibration with its sequences.
        original: Parts of the float model.
    """

    def __init__(self, loaded: LoadedModel, job: CalibrationJob, original: FloatModel) -> None:
        self._loaded, self._call, self._original = loaded, _HeadInput(loaded), original
        self._calibration = _steps(loaded, job.sequences.calibration)
        self._held_out = _steps(loaded, job.sequences.held_out)
        blocks = layers_by_block(loaded.checkpoint.layers)
        prefix = loaded.family.blocks
        self._paths = {  # of the linears of each block, by name
            index: {layer.name: layer.path_in_block(prefix) for layer in layers} for index, layers in blocks.items()
        }

    @property
    def steps(self) -> int:
        """Number of steps of an epoch."""
        return len(self._calibration)

    def magnification(self, first: float) -> float:
        """Return 1: slopes of a divergence are large enough."""
        return 1.0

    def step_distance(self, weights: Weights, step: int) -> Tensor:
        """Return the divergence on the sequences of a step, with its gradient."""
        return self._mean(weights, self._calibration[step], self._original.calibration[step])

    def held_out(self, weights: Weights) -> float:
        """Return the divergence on the held-out sequences, without a gradient."""
        with torch.no_grad():
            pairs = zip(self._held_out, self._original.held_out, strict=True)
            means = [(float(self._mean(weights, tokens, states)), tokens.numel()) for tokens, states in pairs]
        return sum(mean * count for mean, count in means) / sum(count for _, count in means)

    def _mean(self, weights: Weights, tokens: Tensor, states: Tensor) -> Tensor:
        """Return the mean over tokens (B, T), of which the float model's head reads states (B, T, D)."""
        logits = self._loaded.logits(functional_call(self._call, self._parameters(weights), (tokens,)))  # (B, T, V)
        with torch.no_grad():
            p = self._loaded.float_head()(states).float().log_softmax(dim=-1)
        return (p.exp() * (p - logits.float().log_softmax(dim=-1))).sum(dim=-1).mean()

    def _parameters(self, weights: Weights) -> dict[str, Tensor]:
        """Return weights by the names of parameters in ``_HeadInput``, in the dtype that the model computes in."""
        left = {name: weight.to(self._loaded.compute_dtype) for name, weight in weights.items()}
        parameters: dict[str, Tensor] = {}
        for index, paths in self._paths.items():
            block_weights = {path: left.pop(name) for name, path in paths.items()}
            prefix = f"model.{self._loaded.family.blocks}.{index}"
            own = as_parameters(self._loaded.blocks()[index], block_weights)
            parameters |= {f"{prefix}.{name}": parameter for name, parameter in own.items()}
        return parameters | {f"model.{name}.weight": weight for name, weight in left.items()}  # of norms


class _HeadInput(nn.Module):
    """The model up to its head as one module, so that its parameters can be replaced for a call."""

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__()
        self.model = loaded.model
        self._head_input = loaded.head_input

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the head's input (B, T, D) for tokens (B, T)."""
        return self._head_input(tokens)


def _steps(loaded: LoadedModel, sequences: np.ndarray) -> list[Tensor]:
    """Return sequences (N, T) in their order, as tokens (B, T) of each step."""
    ids = torch.from_numpy(sequences.copy()).to(loaded.device)
    return list(ids.split(SEQUENCES_OF_A_STEP)) if len(ids) else []
