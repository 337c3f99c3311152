"""Learned weight clipping through a whole block: OmniQuant weight-only, and with λ its SARQC form.

Each group's range is [sigmoid(lower) · min, sigmoid(upper) · max] with two learned logits. Steps are AdamW's.

Axes: O out_features, I in_features, G groups of a row.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from sarqc.quantization.block_learning import BlockLearning, Learned, Schedule, learn_points
from sarqc.quantization.learned_linear import LearnedLinear, Rounded
from sarqc.quantization.methods import LearnedClipping
from sarqc.quantization.solving import BlockRun, Context, LayerJob, Learning, Solved

FIRST_LOGIT = 4.0  # sigmoid(4) = 0.982: next to no clipping


def solve(jobs: Sequence[LayerJob], context: Context) -> Iterator[Learning | Solved]:
    """Learn all linears of the context's block, a sequence at each step, see ``learn_points``."""
    return learn_points(jobs, context, _learnings)


def _learnings(jobs: Sequence[LayerJob], block: BlockRun) -> Iterator[BlockLearning]:
    bits, sequences = jobs[0].layer.grid.bits, sum(len(states) for states in block.inputs if states.numel())
    for point in jobs[0].points_of(LearnedClipping):
        linears = {job.layer.name: ClippedLinear(job.layer, point.saliency) for job in jobs}
        schedule = Schedule(point.epochs_at(bits) * sequences, 1, _adam_at(point.learning_rate))
        yield BlockLearning(linears, point, block, schedule)


def _adam_at(rate: float) -> Callable[[Learned], torch.optim.Optimizer]:
    # A constant rate, as OmniQuant's: at 2 bits on the embedded model a cosine decay to 0 ended 15 to 42 % higher
    # with 8 sequences, where the logits run out of steps on their way; with 32, 1 to 4 % lower than the best epoch.
    return lambda learned: torch.optim.AdamW(itertools.chain(*learned.values()), lr=rate, weight_decay=0.0)


class ClippedLinear(LearnedLinear):
    """A linear with two learned logits per group, (2, O, G): the upper ones, then the lower ones."""

    def first(self) -> list[Tensor]:
        return [torch.full_like(self.ends, FIRST_LOGIT)]

    def round(self, learned: Sequence[Tensor]) -> Rounded:
        (logits,) = learned
        high, low = torch.sigmoid(logits) * self.ends  # (O, G) each
        return self.rounded_in(high, low)

    def gradient(self, learned: Sequence[Tensor], rounded: Rounded, slope: Tensor) -> list[Tensor]:
        (logits,) = learned
        shares = torch.sigmoid(logits)  # (2, O, G)
        high, low = shares * self.ends
        by_end = self.gradient_of_range(high, low, rounded, slope.unflatten(-1, self.groups.shape[1:]))
        return [by_end * self.ends * shares * (1 - shares)]
