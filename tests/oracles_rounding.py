"""Slow twin of learned rounding: chains of torch operations, one group at a time, differentiated by autograd.

Nothing is shared with ``sarqc``. Everything is float64.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.oracles_clipping import Learned, through

Forward = Callable[[dict[str, Tensor], Tensor], Tensor]


@dataclass
class Values:
    """What is learned of a linear: offsets (O, I), upper and lower factors (O, G)."""

    offsets: Tensor
    upper: Tensor
    lower: Tensor

    def all(self) -> list[Tensor]:
        return [self.offsets, self.upper, self.lower]


def plain_values(weight: Tensor, group_size: int | None) -> Values:
    """No offsets, whole ranges."""
    groups = (weight.shape[0], weight.shape[1] // (group_size or weight.shape[1]))
    return Values(torch.zeros_like(weight), torch.ones(groups).to(weight), torch.ones(groups).to(weight))


def fake_group(
    values: Tensor, offsets: Tensor, upper: Tensor, lower: Tensor, bits: int, kind: str, begun: Tensor | None = None
) -> Tensor:
    """One group of every row, quantized: values, offsets (O, K), factors (O, 1) -> (O, K).

    ``begun`` (O, K) is what is rounded, if not the values that the range is that of.
    """
    high, low = upper * values.max(dim=1, keepdim=True).values, lower * values.min(dim=1, keepdim=True).values
    first, last = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if kind in ("asymmetric", "affine"):
        first, last = 0, 2**bits - 1
    if kind == "affine":
        scale = torch.relu(high - low) / last
    elif kind == "asymmetric":
        high, low = torch.relu(high), -torch.relu(-low)
        scale = (high - low) / last
    else:
        scale = torch.maximum(abs(high), abs(low)) / (last if kind == "symmetric" else last + 0.5)
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero = torch.zeros_like(scale)
    if kind == "asymmetric":
        ratio = -low / scale
        zero = torch.clamp(through(ratio, ratio.round()), first, last)
    bias = low if kind == "affine" else torch.zeros_like(low)
    ratio = ((values if begun is None else begun) - bias) / scale + offsets
    return (torch.clamp(through(ratio, ratio.round()) + zero, first, last) - zero) * scale + bias


def fake_weight(
    weight: Tensor, learned: Values, bits: int, kind: str, group_size: int | None, begun: Tensor | None = None
) -> Tensor:
    """A whole weight (O, I)."""
    size, parts = group_size or weight.shape[1], []
    for group in range(weight.shape[1] // size):
        columns = slice(group * size, (group + 1) * size)
        upper, lower = learned.upper[:, group, None], learned.lower[:, group, None]
        own = None if begun is None else begun[:, columns]
        parts.append(fake_group(weight[:, columns], learned.offsets[:, columns], upper, lower, bits, kind, own))
    return torch.cat(parts, dim=1)


def signround(
    weights: dict[str, Tensor],
    saliencies: dict[str, Tensor],
    bits: int,
    kind: str,
    group_size: int | None,
    forward: Forward,
    sequences: Sequence[Tensor],
    targets: Sequence[Tensor],
    *,
    steps: int,
    lam: float,
    begun: dict[str, Tensor] | None = None,
    until: int | None = None,
) -> tuple[Learned, dict[str, Values]]:
    """SignSGD on the mean squared error of 8 sequences (T, D) at a time + λ Σ ‖ΔW diag(s)‖², both over their first
    values: where each epoch ended, and what was learned after the last step, or after ``until`` of them.

    ``begun``: what is rounded in place of the weights, by name.
    """
    learned = {name: plain_values(weight, group_size) for name, weight in weights.items()}
    for values in learned.values():
        for part in values.all():
            part.requires_grad_()
    told, units = Learned([], [], [], {}), [1.0, 1.0]

    def fake() -> dict[str, Tensor]:
        return {
            name: fake_weight(w, learned[name], bits, kind, group_size, None if begun is None else begun[name])
            for name, w in weights.items()
        }

    def drift(quantized: dict[str, Tensor]) -> Tensor:
        return sum((((quantized[name] - w) * saliencies[name]) ** 2).sum() for name, w in weights.items())

    def error(quantized: dict[str, Tensor], which: range) -> Tensor:
        made = [forward(quantized, sequences[i].unsqueeze(0)) - targets[i].unsqueeze(0) for i in which]
        return (torch.cat(made) ** 2).mean()

    def look() -> None:
        with torch.no_grad():
            told.weights = fake()
            told.recon.append(float(error(told.weights, range(len(sequences)))))
            told.sar.append(float(drift(told.weights)))
            if len(told.recon) == 1:
                units[:] = told.recon[0], told.sar[0]
            told.objective.append(told.recon[-1] / units[0] + lam * told.sar[-1] / units[1])

    look()
    starts = list(range(0, len(sequences), 8))
    for step in range(steps if until is None else until):
        start = starts[step % len(starts)]
        quantized = fake()
        loss = error(quantized, range(start, min(start + 8, len(sequences)))) / units[0]
        (loss + lam * drift(quantized) / units[1]).backward()
        rate = 1 / steps * (1 - step / steps)
        with torch.no_grad():
            for values in learned.values():
                for part, least, largest in zip(values.all(), (-0.5, 0.5, 0.5), (0.5, 1.0, 1.0), strict=True):
                    part -= rate * torch.sign(part.grad)
                    part.clamp_(least, largest)
                    part.grad = None
        if start == starts[-1] or step == steps - 1:
            look()
    return told, learned
