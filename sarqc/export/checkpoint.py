"""The quantized model as files that others load: a folder that appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from sarqc.models.loading import LoadedModel


def save_plain(loaded: LoadedModel, folder: Path, card: str = "") -> None:
    """Writes the model with its dequantized weights as an ordinary checkpoint, in the dtype it came in.

    Quantized weights are representable in that dtype, so what is loaded again has exactly the evaluated weights. The
    folder appears whole or not at all; ``card`` becomes its README.md.
    """
    with new_checkpoint(loaded, folder, card) as partial:
        loaded.model.save_pretrained(partial)


@contextmanager
def new_checkpoint(loaded: LoadedModel, folder: Path, card: str) -> Iterator[Path]:
    """A folder to write the model to, whose parameters are in the checkpoint's own dtype meanwhile.

    Afterwards it gets the tokenizer and the card, and its name; what was written is gone after an error.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=folder.parent, prefix=f".{folder.name}-", ignore_cleanup_errors=True
    ) as partial:
        _cast(loaded, loaded.storage_dtype)
        try:
            yield Path(partial)
        finally:
            _cast(loaded, loaded.compute_dtype)
        loaded.tokenizer.save_pretrained(partial)
        if card:
            (Path(partial) / "README.md").write_text(card, encoding="utf-8")
        if folder.is_dir():
            folder.rmdir()  # an empty one; a full one was refused in the plan
        for path in Path(partial).iterdir():
            path.chmod(0o644)  # some writers make files that only their owner may read
        os.chmod(partial, 0o755)
        os.rename(partial, folder)  # nothing is left to clean up then


def _cast(loaded: LoadedModel, dtype: torch.dtype) -> None:
    """Parameters only: buffers such as rotary frequencies are not stored and would not survive a narrower dtype."""
    for parameter in loaded.model.parameters():
        parameter.data = parameter.data.to(dtype)
