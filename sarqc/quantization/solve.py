"""The verbs: quantize linears at one or many points, or sweep λ and γ of one. All that a caller needs of the package.

Which solver serves a method says the method itself; here is only what is common to all of a unit.

Axes: O out_features, I in_features.
"""

from __future__ import annotations

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
from sarqc.quantization.solving import BUDGET_BYTES, Context, Epoch, LayerJob, Solved, Solver


@dataclass(frozen=True)
class LayerSweep:
    """One layer over a grid of γ and λ. Tensors are (n_gamma, n_lambda) float64 on the CPU; NaN: not measured."""

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
    dequantized: Callable[[int, int], QuantizedLayer]  # (i_gamma, i_lambda): solved again, which is exact, not kept


_SWEPT = tuple(field.name for field in fields(LayerSweep) if field.name not in ("lams", "gammas", "dequantized"))


def quantize_layer(
    weight: Tensor,
    statistics: LayerStatistics,
    grid: Grid,
    method: Method,
    *,
    held_out: LayerStatistics | None = None,
) -> QuantizedLayer:
    """Integer weights for one linear.

    weight: (O, I), any floating dtype, which is also the dtype in which scales are stored; the mathematics runs in
    float32, in float64 for a float64 weight. statistics: of the calibration inputs; held_out: of inputs that nothing
    is fitted to. No argument is changed. Raises ``Refused`` for shapes or groups that do not fit and for statistics
    without what the method ``needs``, ``NumericalError`` for NaN or infinity.
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
    """The losses of one linear for every λ and γ.

    ``method`` gives what is not swept; γ must be (None,) for a method without it. The point (γ, λ) has the losses of
    ``quantize_layer`` with these values, whose other arguments and errors these are. Points are solved as batches whose
    working memory stays within ``budget_bytes``, but for one that alone needs more.
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


def quantize(jobs: Sequence[LayerJob], context: Context) -> Iterator[Epoch | Solved]:
    """Integer weights for linears, each at all of its points, which are of one family and one ``unit``.

    ``"layer"``: the linears, of one shape, such as the experts of a block, are solved each by itself, as batches over
    linears and points whose working memory stays within the context's budget; their points come one linear after the
    other, each as soon as its batch is solved. ``"group"``: the linears read one tensor and share a channel scale, made
    of the column means over the rows of all of them and judged by the sums of their losses; where each reads some of
    the tensor's tokens, as experts do, mean |x| is that of all tokens read. Their ``row_scale`` is divided out of the
    rows, the context's ``ties`` tie channels. ``"block"``: the linears are all those of the context's block.

    Each result equals that of its point alone, and no tensor is changed. What a method that learns reports on its way
    comes in between. Raises ``Refused`` for linears or a context that do not fit the unit, ``NumericalError`` for NaN
    or infinity; errors name the linear.
    """
    if not jobs:
        raise Refused("there is no linear to quantize", "layers", "Give the weights of at least one linear.")
    method = jobs[0].points[0]
    for job in jobs:
        if "cross" in method.needs and job.layer.cross is None:
            raise Refused(
                "the method aims at the float model's inputs, of which these statistics know nothing",
                job.layer.name or "layer statistics",
                "Give LayerStatistics.from_inputs(inputs, float_inputs); in a recipe set inputs_from to quantized.",
            )
    if method.unit == "group":
        _check_group(jobs, context)
    elif context.ties is not None or any(job.layer.row_scale is not None for job in jobs):
        raise Refused(
            f"{type(method).__name__} works on a {method.unit}, not on a group of linears",
            "method",
            "Take a scale search with mode foldable.",
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
    # Found by name, because solvers need torch and methods must be readable without it.
    solver: Solver = importlib.import_module(method.solver).solve
    return solver(jobs, context)


def only_solved(steps: Iterable[Epoch | Solved]) -> Iterator[Solved]:
    """The linears alone, where nobody wants to hear of epochs."""
    return (step for step in steps if isinstance(step, Solved))


def _check_group(jobs: Sequence[LayerJob], context: Context) -> None:
    if len({job.layer.storage for job in jobs}) != 1:
        names = ", ".join(job.layer.name for job in jobs)
        raise Refused("the weights of a group are of several dtypes", names, "Give them in one.")
    ties, width = context.ties, jobs[0].layer.weight.shape[-1]
    if ties is not None and (tuple(ties.shape) != (width,) or ties.is_floating_point()):
        raise Refused(f"ties are {tuple(ties.shape)} {ties.dtype}", "ties", f"Give {width} integers.")
