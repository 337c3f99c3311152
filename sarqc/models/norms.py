"""The norms of a model: vectors that multiply what they normalise."""

from __future__ import annotations

from torch import nn

from sarqc.models.loading import LoadedModel


def norms_of(loaded: LoadedModel) -> list[str]:
    """Return the norms with weights that are tensors of their own in the checkpoint, by their full paths.

    A class whose name ends in “Norm” is one; its weights are a vector (D,). No number is needed, so that blocks may be
    streamed.
    """
    checkpoint, family = loaded.checkpoint, loaded.family
    return [
        path
        for path, module in loaded.model.named_modules()
        if _is_norm(module) and family.in_file(f"{path}.weight") in checkpoint.dtypes
    ]


def _is_norm(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return type(module).__name__.lower().endswith("norm") and isinstance(weight, nn.Parameter) and weight.ndim == 1
