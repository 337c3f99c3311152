"""Quantization of linears at one or many points, and sweeps of λ and γ: the interface of the package.

The method itself names its solver; this module has the parts common to all units.

Axes: O out_features, I in_features.
"""

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from sarqc.errors import Refused
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import Method
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.solving import BUDGET_BYTES, Context, LayerJob, Learning, Solved, Solver


@dataclass(frozen=True)
class LayerSweep:
    """Losses of one layer over a grid of γ and λ.

    Tensors are (n_gamma, n_lambda) float64 on the CPU; NaN was not measured.
    """

    lams: tuple[float, ...]
    gammas: tuple[float | None, ...]
    recon_loss: Tensor
    sar_loss: Tensor
    drift: Tensor
    relative_recon: Tensor
    relative_sar: Tensor  # sar_loss / ‖W S‖², so that methods with another S can be compared
    relative_drift: Tensor
    held_out_loss: Tensor
    relative_held_out: Tensor
    diagonal_floor: Tensor
    dequantized: Callable[[int, int], QuantizedLayer]  # (i_gamma, i_lambda): solved again on each call, exactly


_SWEPT = tuple(field.name for field in fields(LayerSweep) if field.name not in ("lams", "gammas", "dequantized"))


def quantize_layer(
    weight: Tensor,
    statistics: LayerStatistics,
    grid: Grid,
    method: Method,
    *,
    held_out: LayerStatistics | None = None,
) -> QuantizedLayer:
    """Quantize one linear to integer weights.

    The mathematics runs in float32, in float64 for a float64 weight. No argument is changed.

    Args:
        weight: (O, I), any floating dtype, which is also the dtype of the stored scales.
        statistics: Statistics of the calibration inputs.
        grid: Grid of the codes.
        method: Method with all its values.
        held_out: Statistics of inputs that nothing is fitted to, for the report.

    Returns:
        Codes, scales and zero points with their report.

    Raises:
        Refused: If shapes or groups do not fit, or the statistics lack a need of the method.
        NumericalError: If a value is NaN or infinite.
    """
    job = LayerJob(CheckedLayer(weight, statistics, grid, held_out), [method])
    return next(only_solved(quantize([job], Context()))).layer


def sweep_layer(
    weight: Tensor,
    statistics: LayerStatistics,
    grid: Grid,
    method: Method,
    *,
    lams: Sequence[float],
    gammas: Sequence[float | None] = (None,),
    held_out: LayerStatistics | None = None,
    budget_bytes: int = BUDGET_BYTES,
) -> LayerSweep:
    """Compute the losses of one linear for every λ and γ.

    The point (γ, λ) has the losses of ``quantize_layer`` with these values. Points are solved in batches whose working
    memory stays within ``budget_bytes``, except for a point that alone needs more.

    All other arguments are those of ``quantize_layer``.

    Args:
        method: Method with the values that are not swept.
        lams: Values of λ.
        gammas: Values of γ; (None,) for a method without γ, or to keep its own.
        budget_bytes: Working memory of a batch, in bytes.

    Raises:
        Refused: As for ``quantize_layer``, and if the method has no γ to sweep.
        NumericalError: If a value is NaN or infinite.
    """
    points = method.points(lams, gammas)
    job = LayerJob(CheckedLayer(weight, statistics, grid, held_out), points)
    reports = [solved.layer.report for solved in only_solved(quantize([job], Context(budget_bytes)))]

    def table(name: str) -> Tensor:
        values = [math.nan if (value := getattr(report, name)) is None else value for report in reports]
        return torch.tensor(values, dtype=torch.float64).reshape(len(gammas), len(lams))

    def solve_again(i_gamma: int, i_lambda: int) -> QuantizedLayer:
        return quantize_layer(weight, statistics, grid, points[i_gamma * len(lams) + i_lambda], held_out=held_out)

    tables = {name: table(name) for name in _SWEPT}
    return LayerSweep(lams=tuple(lams), gammas=tuple(gammas), dequantized=solve_again, **tables)


def quantize(jobs: Sequence[LayerJob], context: Context) -> Iterator[Learning | Solved]:
    """Quantize linears, each at all of its points, which share one family and one ``unit``.

    - ``"layer"``: linears of one shape, such as the experts of a block, are solved independently, in batches over
      linears and points whose working memory stays within the context's budget. Their points come one linear after the
      other, each as soon as its batch is solved.
    - ``"group"``: the linears read one tensor and share a channel scale, made of the column means over the rows of all
      of them and judged by the sums of their losses. Where each reads some of the tensor's tokens, as experts do, mean
      |x| is that of all tokens read. Their ``row_scale`` is divided out of the rows; the context's ``ties`` tie
      channels.
    - ``"block"``: the linears are all those of the context's block.

    Each result equals that of its point alone, and no tensor is changed. Methods that learn yield their epochs or
    checks in between.

    Args:
        jobs: Linears with their points.
        context: Budget, ties, block and recorder.

    Yields:
        Solved linears, and epochs or checks of methods that learn.

    Raises:
        Refused: If linears or context do not fit the unit; the error names the linear.
        NumericalError: If a value is NaN or infinite; the error names the linear.
    """
    if not jobs:
        raise Refused("no linear to quantize", "layers", "Give the weights of at least one linear.")
    method = jobs[0].points[0]
    for job in jobs:
        if "cross" in method.needs and job.layer.cross is None:
            raise Refused(
                "the method needs the float model's inputs, which these statistics lack",
                job.layer.name or "layer statistics",
                "Give LayerStatistics.from_inputs(inputs, float_inputs); in a recipe set inputs_from to quantized.",
            )
    if method.unit == "group":
        _check_group(jobs, context)
    elif context.ties is not None or any(job.layer.row_scale is not None for job in jobs):
        raise Refused(
            f"{type(method).__name__} works on a {method.unit}, not on a group of linears",
            "method",
            "Use a scale search with mode foldable.",
        )
    if "block" in method.needs and context.block is None:
        raise Refused(
            f"{type(method).__name__} works on a {method.unit}, not on a single layer",
            "method",
            "Give the block as a function, or run a recipe.",
        )
    if method.unit == "layer" and len({job.layer.weight.shape for job in jobs}) > 1:
        names = ", ".join(job.layer.name for job in jobs)
        raise Refused("layers of several shapes are not solved together", names, "Give those of one shape at a time.")
    # Imported by name, because solvers need torch and methods must be readable without it.
    solver: Solver = importlib.import_module(method.solver).solve
    return solver(jobs, context)


def only_solved(steps: Iterable[Learning | Solved]) -> Iterator[Solved]:
    """Return the solved linears alone, without epochs and checks."""
    return (step for step in steps if isinstance(step, Solved))


def _check_group(jobs: Sequence[LayerJob], context: Context) -> None:
    if len({job.layer.storage for job in jobs}) != 1:
        names = ", ".join(job.layer.name for job in jobs)
        raise Refused("the weights of a group are of several dtypes", names, "Give them in one.")
    ties, width = context.ties, jobs[0].layer.weight.shape[-1]
    if ties is not None and (tuple(ties.shape) != (width,) or ties.is_floating_point()):
        raise Refused(f"ties are {tuple(ties.shape)} {ties.dtype}", "ties", f"Give {width} integers.")
