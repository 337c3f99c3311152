"""Slow twin of learnable weight clipping: chains of torch operations, one group at a time, differentiated by autograd.

Nothing is shared with ``sarqc``. Everything is float64 unless a weight comes in another dtype.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Forward = Callable[[dict[str, Tensor], Tensor], Tensor]


def through(x: Tensor, value: Tensor) -> Tensor:
    """Exactly ``value``, with the gradient of ``x``."""
    return value.detach() + (x - x.detach())


def fake_group(
    values: Tensor, upper: Tensor, lower: Tensor, bits: int, kind: str, stored: torch.dtype | None = None
) -> Tensor:
    """One group of every row, quantized: values (O, K), logits (O, 1) -> (O, K). Roundings have the gradient 1."""
    high = torch.sigmoid(upper) * values.max(dim=1, keepdim=True).values
    low = torch.sigmoid(lower) * values.min(dim=1, keepdim=True).values
    if kind == "asymmetric":
        first, last = 0, 2**bits - 1
        high, low = torch.relu(high), -torch.relu(-low)
        scale = (high - low) / (2**bits - 1)
    elif kind == "affine":
        first, last = 0, 2**bits - 1
        scale = torch.relu(high - low) / (2**bits - 1)
    else:
        first, last = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        divisor = 2 ** (bits - 1) - 1 if kind == "symmetric" else (2**bits - 1) / 2
        scale = torch.maximum(abs(high), abs(low)) / divisor
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    if stored is not None:
        limits = torch.finfo(stored)
        scale = torch.clamp(scale, limits.smallest_normal * limits.eps, limits.max)
        scale = through(scale, scale.to(stored).to(scale.dtype))
    zero = torch.zeros_like(scale)
    if kind == "asymmetric":
        ratio = -low / scale
        zero = torch.clamp(through(ratio, ratio.round()), first, last)
    bias = low if kind == "affine" else torch.zeros_like(low)
    if stored is not None:
        limits = torch.finfo(stored)
        bias = torch.clamp(bias, limits.min, limits.max)
        bias = through(bias, bias.to(stored).to(bias.dtype))
    ratio = (values - bias) / scale
    codes = torch.clamp(through(ratio, ratio.round()) + zero, first, last)
    result = (codes - zero) * scale + bias
    return result if stored is None else through(result, result.to(stored).to(result.dtype))


def fake_weight(
    weight: Tensor, logits: Tensor, bits: int, kind: str, group_size: int | None, stored: torch.dtype | None = None
) -> Tensor:
    """A whole weight (O, I) from its logits (2, O, G), the upper ones first."""
    size = group_size or weight.shape[1]
    parts = []
    for group in range(weight.shape[1] // size):
        values = weight[:, group * size : (group + 1) * size]
        upper, lower = logits[0, :, group : group + 1], logits[1, :, group : group + 1]
        parts.append(fake_group(values, upper, lower, bits, kind, stored))
    return torch.cat(parts, dim=1)


def half_saliency(abs_mean: Tensor, weight: Tensor) -> Tensor:
    """(abs_mean_j / mean|W_·j|)^½, both floored at 1e-8 of their mean."""
    a = torch.stack([max(value, 1e-8 * abs_mean.mean()) for value in abs_mean])
    means = torch.stack([column.abs().mean() for column in weight.T])
    w = torch.stack([max(value, 1e-8 * means.mean()) for value in means])
    return torch.sqrt(a / w)


@dataclass
class Learned:
    """What plain OmniQuant ends with: after the last epoch, whatever came before."""

    recon: list[float]  # before the first step and after each epoch, over all sequences
    sar: list[float]
    objective: list[float]
    weights: dict[str, Tensor]


def omniquant(
    weights: dict[str, Tensor],
    saliencies: dict[str, Tensor] | None,
    bits: int,
    kind: str,
    group_size: int | None,
    forward: Forward,
    sequences: Sequence[Tensor],
    targets: Sequence[Tensor],
    *,
    epochs: int,
    lam: float,
    learning_rate: float = 1e-2,
    normalised: bool = True,
    stored: torch.dtype | None = None,
) -> Learned:
    """AdamW, sequence after sequence (T, D), on the mean squared error + λ Σ ‖ΔW diag(s)‖²; s = 1 for None."""
    logits = {}
    for name, weight in weights.items():
        groups = weight.shape[1] // (group_size or weight.shape[1])
        logits[name] = torch.full((2, weight.shape[0], groups), 4.0, dtype=weight.dtype, requires_grad=True)
    optimiser = torch.optim.AdamW(logits.values(), lr=learning_rate, weight_decay=0.0)

    def fake() -> dict[str, Tensor]:
        return {name: fake_weight(w, logits[name], bits, kind, group_size, stored) for name, w in weights.items()}

    def drift(quantized: dict[str, Tensor]) -> Tensor:
        terms = []
        for name, weight in weights.items():
            s = torch.ones_like(weight[0]) if saliencies is None else saliencies[name]
            terms.append((((quantized[name] - weight) @ torch.diag(s)) ** 2).sum())
        return torch.stack(terms).sum()

    def error(quantized: dict[str, Tensor], sequence: Tensor, target: Tensor) -> Tensor:
        return torch.nn.functional.mse_loss(forward(quantized, sequence.unsqueeze(0)), target.unsqueeze(0))

    learned = Learned([], [], [], {})
    units = [1.0, 1.0]

    def look() -> None:
        with torch.no_grad():
            quantized = fake()
            errors = [float(error(quantized, x, y)) for x, y in zip(sequences, targets, strict=True)]
            learned.recon.append(sum(errors) / len(errors))
            learned.sar.append(float(drift(quantized)))
            if normalised and len(learned.recon) == 1:
                units[:] = learned.recon[0], learned.sar[0]
            learned.objective.append(learned.recon[-1] / units[0] + lam * learned.sar[-1] / units[1])
            learned.weights = quantized

    look()
    for _ in range(epochs):
        for sequence, target in zip(sequences, targets, strict=True):
            optimiser.zero_grad()
            quantized = fake()
            loss = error(quantized, sequence, target) / units[0]
            if lam > 0:
                loss = loss + lam * drift(quantized) / units[1]
            loss.backward()
            optimiser.step()
        look()
    return learned
