"""A rotated model beside the original: their logits on real tokens.

Both compute in float32 at least, with one block in memory at a time, and the rotated weights are not rounded to their
dtype: only rounding errors of the computation remain.
"""

from pathlib import Path

import torch
from torch import Tensor

from sarqc.errors import Fix, Refused
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.loading import LoadedModel, load
from sarqc.models.rotated_files import RotatedFiles
from sarqc.models.rotation import RotatedCheckpoint
from sarqc.models.weight_files import WeightFiles

TOKENS = 64  # at most
TOLERANCE = 1e-4  # of the largest logit


def logits_on(loaded: LoadedModel, tokens: Tensor) -> Tensor:
    """Return the logits (1, T, V) of tokens (1, T), on the CPU in float64."""
    with torch.no_grad():
        return loaded.logits(loaded.head_input(tokens.to(loaded.device))).cpu().double()


def difference(logits: Tensor, original: Tensor) -> float:
    """Return the largest difference of logits, relative to the largest magnitude of the original's; NaN for NaN."""
    return float((logits - original).abs().max() / original.abs().max().clamp(min=1e-6))


def checked_logits(
    checkpoint: RotatedCheckpoint, tokens: Tensor, device: torch.device, scratch: Path
) -> tuple[Tensor, float]:
    """Compare a rotated model with the original on tokens (1, T), with a folder for blocks.

    Returns:
        The original's logits (1, T, V) in float64, and the rotated model's distance from them.

    Raises:
        Refused: If that is more than ``TOLERANCE``.
    """

    def logits(of: Checkpoint, files: WeightFiles) -> Tensor:
        return logits_on(load(of, device, scratch=scratch, holding=[torch.float32], files=files), tokens)

    original = logits(checkpoint.original, WeightFiles(checkpoint.original))
    apart = difference(logits(checkpoint, RotatedFiles(checkpoint, is_rounded=False)), original)
    if not apart <= TOLERANCE:
        raise Refused(
            f"rotated, the model gives other logits: they differ by up to {apart:.2g} of the largest on "
            f"{tokens.shape[1]} tokens of the calibration text, and {TOLERANCE:g} is allowed",
            checkpoint.name,
            "Set rotate to none: something in this model reads its residual stream otherwise than through an RMS norm.",
        ).about("rotate", Fix("Leave the rotation out", {"rotate": "none"}))
    return original, apart
