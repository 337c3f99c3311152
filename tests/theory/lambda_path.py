"""All that a scale search can choose, and a finished sweep, as finite sets with the λ that select each member.

Axes: A values of α.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from torch import Tensor

from sarqc.quantization.grid import Grid
from sarqc.quantization.hull import rounded
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import Method
from sarqc.quantization.quantized_layer import CheckedLayer
from sarqc.quantization.scale_search import choose, min_max, search_losses
from sarqc.quantization.solve import LayerSweep
from tests.theory.trade_off import Interval, LambdaIntervals, _exact, lambda_intervals


@dataclass(frozen=True)
class SearchPath:
    """All that a scale search can choose for one layer, and the λ that choose it. Tensors are (A,) float64.

    alphas: None for s̃ = 1; recon_loss and sar_loss: as the search sees them; recon_normalised and sar_normalised:
    after min–max, the plane in which the search's λ acts; intervals: of λ in that plane. Neighbouring intervals share
    an end, where ``select`` takes the first of the tied candidates, up to the last bit of the arithmetic.
    """

    alphas: tuple[float | None, ...]
    recon_loss: Tensor
    sar_loss: Tensor
    recon_normalised: Tensor
    sar_normalised: Tensor
    intervals: LambdaIntervals

    def select(self, lam: float) -> int:
        """Position of the candidate that the search takes at this λ: the choice that ``quantize_layer`` makes."""
        return choose(self.recon_loss, self.sar_loss, lam)


def search_path(weight: Tensor, statistics: LayerStatistics, grid: Grid, method: Method) -> SearchPath:
    """The candidates of AWQ, RQC-GS or SARQC-GS on one layer with the λ-interval on which each of them wins.

    Arguments and errors as for ``quantize_layer``, whose choice ``select`` repeats for every λ; the λ of ``method``
    plays no part, its saliency and include_identity do. A layer that saw no token has one candidate, s̃ = 1.
    """
    losses = search_losses([CheckedLayer(weight, statistics, grid, None)], method)
    alphas = tuple(candidate.alpha for candidate in losses.found)
    recon, sar = min_max(losses.recon), min_max(losses.sar)
    return SearchPath(alphas, losses.recon, losses.sar, recon, sar, lambda_intervals(sar, recon))


def sweep_intervals(sweep: LayerSweep) -> LambdaIntervals:
    """The points of a finished sweep as one finite set in the plain plane (drift, recon_loss): (n_gamma, n_lambda).

    λ has the unit of recon_loss/drift: for the column solver with identity it is the sweep's own λ times h̄, the mean
    of the Gram's diagonal. A column solve is greedy, so its point need not be supported at the λ that made it.
    """
    return lambda_intervals(sweep.drift, sweep.recon_loss)


def multipliers(drift: Tensor, recon: Tensor, selected: int) -> Interval:
    """λ_min and λ_max of one candidate by the definition of Corollary 1; an empty interval says that it is unsupported.

    λ_min = max(0, sup of (recon_k - recon')/(drift' - drift_k) over the candidates with larger drift),
    λ_max = inf of (recon' - recon_k)/(drift_k - drift') over those with smaller drift, inf where there are none.
    drift and recon (K,); ``selected`` is the position k. λ has the unit of recon/drift: with recon_loss, a sum over
    tokens, it is n_tokens times the λ_R of the paper, whose risk is a mean.

    The corollary is about a minimiser of recon under a bound on drift. Such a one has no rival of its own drift and
    smaller recon; for any other candidate the definition, which leaves equal drifts out, can give an interval where
    ``lambda_intervals`` rightly has none. Everywhere else the two are equal. Errors as there.
    """
    points = _exact(drift, recon)
    own_drift, own_recon = points[selected]
    least, most = Fraction(0), None
    for other_drift, other_recon in points:
        if other_drift == own_drift:
            continue
        tie = (own_recon - other_recon) / (other_drift - own_drift)
        if other_drift > own_drift:
            least = max(least, tie)
        else:
            most = tie if most is None else min(most, tie)
    lowest, highest = rounded(least), math.inf if most is None else rounded(most)
    if most is not None and least > most and lowest == highest:  # empty by less than rounding can show
        lowest = math.nextafter(lowest, math.inf)
    return Interval(lowest, highest)
