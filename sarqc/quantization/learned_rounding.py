"""Learned rounding through a whole block: SignRound, the method of AutoRound, and with λ its SARQC form.

Each weight has an offset V that is added in units of the scale before it is rounded, and the range of each group two
factors: [f_low · min, f_high · max]. Steps follow the sign of the gradient.

With the codes of the column solver as the start, not W is rounded but B, which each of these codes is nearest to. V = 0
is then exactly that solver's result. B is the value that the solver's objective would like best for a weight while all
others stay, Ŵ_j - (ΔW G)_j / G_jj, as far as it lies within half a step of its code, less ``MARGIN``: V reaches the
neighbouring code on its side, and codes that the objective hardly tells apart change first.

Axes: O out_features, I in_features, G groups of a row, K channels of a group.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from sarqc.quantization import column_solver
from sarqc.quantization.block_learning import BlockLearning, Learned, Schedule, learn_points
from sarqc.quantization.grid import dequantize, round_to_grid, span_of_range
from sarqc.quantization.learned_linear import LearnedLinear, Rounded
from sarqc.quantization.methods import CHECKS, SEQUENCES_OF_A_STEP, SHRINKS, ColumnSolver, LearnedRounding
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.solving import BlockRun, Context, LayerJob, Learning, Solved

LARGEST_OFFSET = 0.5  # in units of the scale: no weight passes its nearest level but one
SMALLEST_FACTOR = 0.5  # of a range, unless it begins below
MARGIN = 2**-6  # of a step, between B and the middle of two codes: more than rounding errors make of it


def solve(jobs: Sequence[LayerJob], context: Context) -> Iterator[Learning | Solved]:
    """Learn all linears of the context's block, see ``learn_points``."""
    return learn_points(jobs, context, _learnings)


def _learnings(jobs: Sequence[LayerJob], block: BlockRun) -> Iterator[BlockLearning]:
    linears: dict[str, RoundedLinear] = {}
    for index, point in enumerate(jobs[0].points_of(LearnedRounding)):
        if index == 0 or point.warm_start == "column_solver":  # points differ in λ alone, on which other starts do not
            linears = {job.layer.name: RoundedLinear(job.layer, point) for job in jobs}
        checks = CHECKS if point.stopping == "early" else 0
        schedule = Schedule(point.steps, SEQUENCES_OF_A_STEP, partial(SignDescent, steps=point.steps), checks)
        yield BlockLearning(linears, point, block, schedule)


class RoundedLinear(LearnedLinear):
    """A linear with learned offsets (O, G, K) and learned factors (2, O, G): the upper ones, then the lower ones.

    Args:
        layer: The linear with its statistics and grid.
        method: Method with the saliency of the drift term and the initial codes.
    """

    def __init__(self, layer: CheckedLayer, method: LearnedRounding) -> None:
        super().__init__(layer, method.saliency)
        solver = method.starting_solver()
        if solver is None:
            _, scales, _ = round_to_grid(layer.weight, self.grid, layer.storage, method.range, layer.gram.diagonal())
            self._factors, self._offsets = self._factors_of(scales), torch.zeros_like(self.groups)
            return
        (solved,) = column_solver.solve([LayerJob(layer, [solver])], Context())
        dtype = layer.weight.dtype
        self._factors = self._factors_of(solved.layer.scales.to(dtype))
        nearest = self.rounded_in(*self._factors * self.ends).codes
        codes = solved.layer.codes.to(dtype).view_as(nearest)
        if method.warm_start == "column_solver":
            self._offsets = torch.zeros_like(codes)
            self.groups = self._begun_at(codes, solver, solved.layer)
            return
        # Half a step reaches the level on the weight's other side; a code beyond it starts there or at the nearest.
        self._offsets = (codes - nearest).clamp_(-LARGEST_OFFSET, LARGEST_OFFSET)

    def _begun_at(self, codes: Tensor, solver: ColumnSolver, solved: QuantizedLayer) -> Tensor:
        """Return B (O, G, K) of these codes (O, G, K)."""
        rounded = self.rounded_in(*self._factors * self.ends)
        scale, zero_point = rounded.scales.unsqueeze(-1), rounded.zero_points.unsqueeze(-1)
        gram = column_solver.gram_of(self.layer, solver)
        diagonal = gram.diagonal()
        weights = solved.dequantized.to(gram.dtype)
        pull = (weights - self.layer.weight) @ gram / torch.where(diagonal > 0, diagonal, torch.ones_like(diagonal))
        places = codes - pull.view_as(codes) / scale
        # Beyond the last code there is no other side: a weight that lies there is clamped, as any other.
        half = 0.5 - MARGIN
        least = torch.where(codes == self.grid.lowest, -torch.inf, codes - half)
        most = torch.where(codes == self.grid.highest, torch.inf, codes + half)
        return dequantize(torch.minimum(torch.maximum(places, least), most), scale, zero_point, self.grid.is_affine)

    def _factors_of(self, scales: Tensor) -> Tensor:
        """Return the part of each group's range that these scales span: one of ``SHRINKS``, (O, G) -> (2, O, G).

        By the nearest of them, as scales are rounded to storage.
        """
        spans = span_of_range(self.ends[1], self.ends[0], self.grid)  # (O, G)
        shares = torch.where(spans == 0, torch.ones_like(spans), scales * self.grid.steps / spans)
        candidates = shares.new_tensor(SHRINKS)
        nearest = candidates[(shares.unsqueeze(-1) - candidates).abs().argmin(dim=-1)]
        return torch.stack([nearest, nearest])

    def first(self) -> list[Tensor]:
        return [self._offsets.clone(), self._factors.clone()]

    def round(self, learned: Sequence[Tensor]) -> Rounded:
        offsets, factors = learned
        high, low = factors * self.ends  # (O, G) each
        return self.rounded_in(high, low, offsets)

    def gradient(self, learned: Sequence[Tensor], rounded: Rounded, slope: Tensor) -> list[Tensor]:
        _, factors = learned
        slope = slope.unflatten(-1, self.groups.shape[1:])  # (O, G, K)
        by_offset = (slope - slope * rounded.clamped) * rounded.scales.unsqueeze(-1)
        high, low = factors * self.ends
        return [by_offset, self.gradient_of_range(high, low, rounded, slope) * self.ends]


class SignDescent:
    """Steps along the sign of the gradient, at a rate that falls linearly from 1/steps; all values stay in bounds.

    Args:
        learned: Offsets and factors of each linear.
        steps: Number of steps.
    """

    def __init__(self, learned: Learned, *, steps: int) -> None:
        self._steps, self._left = steps, steps
        self._bounded: list[tuple[Tensor, Tensor, Tensor]] = []  # values, the least and the largest they may be
        for offsets, factors in learned.values():
            limit, whole = offsets.new_tensor(LARGEST_OFFSET), factors.new_tensor(1.0)
            self._bounded.append((offsets, -limit, limit))
            self._bounded.append((factors, factors.clamp(max=SMALLEST_FACTOR), whole))

    def step(self) -> None:
        """Move all values by one step along their ``grad``."""
        # 1/steps · left/steps: SignRound's linear decay.
        rate = self._left / self._steps**2
        for values, least, largest in self._bounded:
            assert values.grad is not None
            values.sub_(values.grad.sign(), alpha=rate).clamp_(least, largest)
        self._left -= 1
