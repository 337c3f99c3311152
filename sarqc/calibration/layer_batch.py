"""Linears that are solved together, with all their inputs, as a unit that may go to another process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise

import torch
from torch import Tensor

from sarqc.calibration.job import SolvedLayer, point_event
from sarqc.calibration.pictures import curve_of
from sarqc.events import PointDone
from sarqc.models.families import LayerInfo
from sarqc.quantization.auto_by_layer import SelectionJob, select_layers
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import ColumnSolver, Method
from sarqc.quantization.quantized_layer import CheckedLayer, ImportedCodes, QuantizedLayer
from sarqc.quantization.repair import repair_layer
from sarqc.quantization.solve import only_solved, quantize
from sarqc.quantization.solving import Context, LayerJob


@dataclass(frozen=True)
class LinearData:
    """One linear with the inputs of its solution."""

    info: LayerInfo
    weight: Tensor  # (O, I)
    parts: tuple[LayerStatistics, ...]  # of all calibration sequences, or of train and of validation
    held_out: LayerStatistics | None
    imported: ImportedCodes | None = None  # of a checkpoint that was opened

    def statistics(self) -> LayerStatistics:
        """Return the statistics of all calibration sequences."""
        first, *others = self.parts
        return sum(others, first)

    def checked(self, grid: Grid, name: str, row_scale: Tensor | None = None) -> CheckedLayer:
        """Return the linear for a solver; ``name`` is its name in errors."""
        statistics = self.statistics()
        return CheckedLayer(self.weight, statistics, grid, self.held_out, row_scale, imported=self.imported, name=name)


@dataclass(frozen=True)
class LayerBatch:
    """Linears of one shape that are solved together, each by itself and at all λ of a curve.

    With ``candidates`` each takes the best of them; linears of a quantized checkpoint are then repaired. With
    ``yields_points`` each λ is yielded as soon as it is solved.
    """

    linears: tuple[LinearData, ...]
    grid: Grid
    method: Method
    lams: tuple[float, ...]
    own_point: int  # position of the λ whose weights the model gets
    candidates: tuple[Method, ...] = ()
    channel_fraction: float = 1.0
    yields_points: bool = False

    def solved(self, context: Context) -> Iterator[SolvedLayer | PointDone]:
        """Yield the linears in their order.

        Raises:
            SarqcError: For errors of the mathematics, with the name of the linear.
        """
        started = time.perf_counter()
        results = self._select(context) if self.candidates else self._solve_points(context)
        for linear in self.linears:
            info, layers = linear.info, []
            for index in range(len(self.lams)):
                layers.append(next(results))
                if self.yields_points:
                    yield point_event(info, self.lams, index, layers[-1])
            curve = curve_of(self.lams, layers, linear.weight, linear.statistics(), linear.held_out, self.grid)
            seconds, started = time.perf_counter() - started, time.perf_counter()
            yield SolvedLayer(info, layers[self.own_point], curve, seconds, from_cache=False)

    def split(self, number: int) -> list[LayerBatch]:
        """Return the same linears in at most this many parts of nearly equal size.

        Each result depends on its linear alone. Linears of one expert stay together: they read one tensor.
        """
        experts = [tuple(own) for _, own in groupby(self.linears, key=lambda linear: linear.info.expert)]
        number = min(number, len(experts))
        bounds = [index * len(experts) // number for index in range(number + 1)]
        return [
            replace(self, linears=tuple(chain.from_iterable(experts[first:last]))) for first, last in pairwise(bounds)
        ]

    def to(self, device: torch.device) -> LayerBatch:
        """Return the same batch on another device; statistics that several linears share stay one object."""
        moved: dict[int, LayerStatistics] = {}

        def there(statistics: LayerStatistics) -> LayerStatistics:
            return moved.setdefault(id(statistics), statistics.to(device))

        linears = (
            replace(
                linear,
                weight=linear.weight.to(device),
                parts=tuple(map(there, linear.parts)),
                held_out=None if linear.held_out is None else there(linear.held_out),
                imported=None if linear.imported is None else linear.imported.to(device),
            )
            for linear in self.linears
        )
        return replace(self, linears=tuple(linears))

    def _select(self, context: Context) -> Iterator[QuantizedLayer]:
        selecting = [
            SelectionJob(linear.info.name, linear.weight, train, validation, linear.held_out, linear.imported)
            for linear in self.linears
            for train, validation in [linear.parts]
        ]
        candidates = self._points(self.candidates)
        if any(job.imported is not None for job in selecting):
            solvers = [point for point in candidates if isinstance(point, ColumnSolver)]
            return (repair_layer(job, self.grid, solvers, context) for job in selecting)
        fraction = self.channel_fraction
        return iter(select_layers(selecting, self.grid, candidates, channel_fraction=fraction, context=context))

    def _solve_points(self, context: Context) -> Iterator[QuantizedLayer]:
        points = self._points([self.method])[0].points(self.lams)
        solving = [LayerJob(linear.checked(self.grid, linear.info.name), points) for linear in self.linears]
        return (step.layer for step in only_solved(quantize(solving, context)))  # one layer after the other

    def _points(self, methods: Sequence[Method]) -> list[Method]:
        return [method_for(self.linears[0].info, method) for method in methods]


def method_for(layer: LayerInfo, method: Method) -> Method:
    """Return the method for this linear: only linears of experts can be starved of tokens."""
    return method.without_expert_damping() if layer.expert is None else method
