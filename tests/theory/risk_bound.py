"""What drift may cost on unseen inputs: the risks, their gap and the bound of Theorem 1, with nothing left out.

Axes: N weights of a layer, L levels of a weight, O out_features, I in_features, G groups.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sarqc.errors import Refused
from sarqc.figures.theorem import DELTA, bound_on_gap, log_all_codes
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.objective import recon_loss
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.quantization.solve import LayerSweep

_CHUNK = 1 << 22  # distances looked at together


@dataclass(frozen=True)
class RiskBound:
    """Theorem 1 with every ingredient; tensors share one shape: () for a layer, (n_gamma, n_lambda) for a sweep.

    calibration_risk and held_out_risk: mean over tokens of ‖ΔW x‖² (NaN: not measured); gap: their difference,
    held-out minus calibration; radius: R = ‖ΔW‖_F; log_class: ln|Q|, all code matrices at these scales; log_ball:
    an upper bound on ln|Q_R|, those within R of W; span: R² M_X², which no two risks can differ by more than.

    bound: R² M_X² √(ln(2|Q_R|/δ)/2n), the theorem as printed, with log_ball. It holds for an R fixed before the
    calibration tokens were seen. bound_any_radius: the same with |Q|. It holds for all of Q at once, each with its
    own R, because Hoeffding's inequality is applied to each with its own range, so R may be the drift of the weights
    that were chosen. Both take the scales as fixed beforehand and tokens as independent, which scales chosen from
    the calibration inputs and running text are not: they show how the terms grow, they certify nothing.
    """

    calibration_risk: Tensor
    held_out_risk: Tensor
    gap: Tensor
    radius: Tensor
    max_token_norm: float
    n_tokens: int
    delta: float
    log_class: Tensor
    log_ball: Tensor
    span: Tensor
    bound: Tensor
    bound_any_radius: Tensor

    @property
    def is_vacuous(self) -> Tensor:
        """True where the bound says no more than that both risks lie between 0 and R² M_X²."""
        return self.bound >= self.span


def risk_bound(
    calibration_loss: Tensor | float,
    drift: Tensor | float,
    *,
    n_tokens: int,
    max_token_norm: float,
    log_class: Tensor | float,
    log_ball: Tensor | float | None = None,
    held_out_loss: Tensor | float = math.nan,
    held_out_tokens: int = 0,
    delta: float = DELTA,
) -> RiskBound:
    """The two sides of Theorem 1 from sums over tokens.

    calibration_loss and held_out_loss: tr(ΔW gram ΔWᵀ), drift: ‖ΔW‖²_F, all of one shape; max_token_norm: M_X, the
    largest ‖x‖₂ of any token; log_ball: None takes log_class, and no less than 0 is used, the chosen weights themselves
    lying in the ball. Raises ``Refused`` without tokens and for δ outside (0, 1).
    """
    if n_tokens < 1:
        raise Refused("there is no calibration token", "risk bound", "Give the layer inputs first.")
    if not 0 < delta < 1:
        raise Refused(f"δ is {delta}", "risk bound", "Give a probability between 0 and 1, both excluded.")
    if not (math.isfinite(max_token_norm) and max_token_norm >= 0):
        raise Refused(f"M_X is {max_token_norm}", "risk bound", "Give the largest norm of a token.")

    drift = _double(drift)
    log_class = _double(log_class).expand_as(drift)
    within = log_class if log_ball is None else _double(log_ball).expand_as(drift).clamp(min=0)
    calibration = _double(calibration_loss) / n_tokens
    held_out = _double(held_out_loss) / held_out_tokens if held_out_tokens else torch.full_like(calibration, math.nan)
    span = drift * max_token_norm**2

    return RiskBound(
        calibration_risk=calibration,
        held_out_risk=held_out,
        gap=held_out - calibration,
        radius=drift.sqrt(),
        max_token_norm=max_token_norm,
        n_tokens=n_tokens,
        delta=delta,
        log_class=log_class,
        log_ball=within,
        span=span,
        bound=bound_on_gap(span, within, n_tokens, delta),
        bound_any_radius=bound_on_gap(span, log_class, n_tokens, delta),
    )


def layer_risk(
    weight: Tensor,
    layer: QuantizedLayer,
    grid: Grid,
    statistics: LayerStatistics,
    *,
    max_token_norm: float | None = None,
    held_out: LayerStatistics | None = None,
    delta: float = DELTA,
) -> RiskBound:
    """Theorem 1 for one quantized layer at R = ‖ΔW‖_F, with the code matrices within R counted at the layer's scales.

    weight (O, I): what ``layer`` was made from; statistics: of the calibration inputs; max_token_norm: None takes the
    largest norm that statistics and held_out met; the rest as for ``risk_bound``. Holds O · I · 2^bits doubles.
    Rounding and the scale search take the nearest level of each weight, so theirs is the only code matrix within its
    own R and log_ball is 0, or counts ties; the column solver's is one of many. Raises ``Refused`` too for a
    max_token_norm below the tokens' root mean square norm, √(tr gram/n).
    """
    norm = _token_norm(max_token_norm, statistics, held_out)
    delta_w = (layer.dequantized.double() - weight.double()).detach()  # (O, I)
    distances = squared_distances(weight, layer, grid)  # (N, L)
    drift = float(delta_w.square().sum())
    return risk_bound(
        float(recon_loss(delta_w, statistics.gram.to(delta_w))),
        drift,
        n_tokens=statistics.n_tokens,
        max_token_norm=norm,
        log_class=log_all_codes(weight.numel(), grid.bits),
        log_ball=log_codes_within(distances, drift),
        held_out_loss=math.nan if held_out is None else float(recon_loss(delta_w, held_out.gram.to(delta_w))),
        held_out_tokens=0 if held_out is None else held_out.n_tokens,
        delta=delta,
    )


def sweep_risk(
    sweep: LayerSweep,
    weight: Tensor,
    grid: Grid,
    statistics: LayerStatistics,
    *,
    max_token_norm: float | None = None,
    held_out: LayerStatistics | None = None,
    delta: float = DELTA,
    count_ball: bool = False,
) -> RiskBound:
    """Theorem 1 at every point of a sweep, (n_gamma, n_lambda): both risks, their gap, R and the bound.

    Arguments are those the sweep was made with, and as for ``layer_risk``. ``count_ball`` solves each point again to
    count the code matrices within its R; without it |Q| stands in for |Q_R|, and log_ball equals log_class.
    """
    norm = _token_norm(max_token_norm, statistics, held_out)
    log_class = torch.full_like(sweep.drift, log_all_codes(weight.numel(), grid.bits))
    log_ball = log_class.clone()
    if count_ball:
        for i, j in torch.cartesian_prod(*(torch.arange(size) for size in sweep.drift.shape)).tolist():
            layer = sweep.dequantized(i, j)
            drift = float((layer.dequantized.double() - weight.double()).square().sum())
            log_ball[i, j] = log_codes_within(squared_distances(weight, layer, grid), drift)
    return risk_bound(
        sweep.recon_loss,
        sweep.drift,
        n_tokens=statistics.n_tokens,
        max_token_norm=norm,
        log_class=log_class,
        log_ball=log_ball,
        held_out_loss=sweep.held_out_loss,
        held_out_tokens=0 if held_out is None else held_out.n_tokens,
        delta=delta,
    )


def squared_distances(weight: Tensor, layer: QuantizedLayer, grid: Grid) -> Tensor:
    """(level - weight)² of every level that each weight could take at the layer's scales: (N, L), lowest code first.

    weight (O, I): what ``layer`` was made from. Levels are rounded to its dtype, as they would be stored.
    """
    working = torch.promote_types(weight.dtype, torch.float32)
    levels = []
    for code in range(grid.lowest, grid.highest + 1):
        level = layer.levels(torch.full_like(weight, code, dtype=working))  # (O, I)
        if layer.row_scale is not None:
            level = level * layer.row_scale.to(working).unsqueeze(-1)
        if layer.channel_scale is not None:
            level = level / layer.channel_scale.to(working)
        levels.append((level.to(weight.dtype).double() - weight.double()).square().flatten())  # (N,)
    return torch.stack(levels, dim=-1)


def log_codes_within(squared_distances: Tensor, squared_radius: float) -> float:
    """An upper bound on the logarithm of how many code vectors lie in a ball around the weights.

    squared_distances (N, L): (level - weight)² of each weight's levels; a code vector takes one level for each
    weight and counts if the sum of its squared distances is at most ``squared_radius``. Chernoff's bound:
    min over t ≥ 0 of t R² + Σ_i ln Σ_k exp(-t d²_ik). Every t gives an upper bound, t = 0 gives N ln L, and the
    function is convex, so the least is found by bisection of its slope. -inf where the ball is empty.
    """
    distances = squared_distances.double()
    nearest = distances.amin(dim=-1, keepdim=True)  # (N, 1)
    excess = distances - nearest  # (N, L)
    everything = len(excess) * math.log(excess.shape[-1])
    slack = squared_radius - float(nearest.sum())
    if slack < 0:
        return -math.inf
    unit = float(excess.mean())
    if unit == 0 or slack >= len(excess) * unit:  # already falling towards t = 0
        return everything
    if slack == 0:  # only nearest levels are left: more than one vector where a weight lies between two
        return float((excess == 0).sum(dim=-1).double().log().sum())

    def value_and_slope(t: float) -> tuple[float, float]:
        value, slope = t * slack, slack
        for part in excess.split(max(1, _CHUNK // excess.shape[-1])):
            weights = (-t * part).exp()  # (n, L), 1 at the nearest level
            total = weights.sum(dim=-1)
            value += float(total.log().sum())
            slope -= float(((weights * part).sum(dim=-1) / total).sum())
        return value, slope

    low, high = 0.0, 1 / unit
    best = everything
    for _ in range(200):
        value, slope = value_and_slope(high)
        best = min(best, value)
        if slope >= 0:
            break
        low, high = high, 2 * high
    for _ in range(16):
        middle = (low + high) / 2
        value, slope = value_and_slope(middle)
        best = min(best, value)
        low, high = (low, middle) if slope >= 0 else (middle, high)
    return max(best, 0.0)  # the nearest levels are one vector within


def _double(value: Tensor | float) -> Tensor:
    return value.detach().cpu().double() if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)


def _token_norm(given: float | None, statistics: LayerStatistics, held_out: LayerStatistics | None) -> float:
    """M_X as given, or the largest norm of a token of either text."""
    if given is None:
        norms = [text.max_norm for text in (statistics, held_out) if text is not None]
        if any(norm is None for norm in norms):
            raise Refused("the statistics do not say the largest norm of a token", "risk bound", "Give max_token_norm.")
        return max(float(norm) for norm in norms if norm is not None)
    _check_token_norm(given, statistics)
    return given


def _check_token_norm(max_token_norm: float, statistics: LayerStatistics) -> None:
    mean_square = float(statistics.gram.diagonal().double().sum()) / max(statistics.n_tokens, 1)
    if max_token_norm**2 < mean_square * (1 - 1e-3):
        raise Refused(
            f"tokens have a root-mean-square norm of {math.sqrt(mean_square):g}, M_X is {max_token_norm:g}",
            "risk bound",
            "Give the largest norm of a token that reached this layer.",
        )
