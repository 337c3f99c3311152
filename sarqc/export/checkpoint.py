"""The quantized model as files that others load."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sarqc.models.loading import LoadedModel


def save_plain(loaded: LoadedModel, folder: Path) -> None:
    """Writes the model with its dequantized weights as an ordinary checkpoint, in the dtype it came in.

    Quantized weights are representable in that dtype, so what is loaded again has exactly the evaluated weights. The
    folder appears whole or not at all.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=folder.parent, prefix=f".{folder.name}-", ignore_cleanup_errors=True
    ) as partial:
        loaded.model.to(loaded.storage_dtype)
        try:
            loaded.model.save_pretrained(partial)
        finally:
            loaded.model.to(loaded.compute_dtype)
        loaded.tokenizer.save_pretrained(partial)
        if folder.is_dir():
            folder.rmdir()  # an empty one; a full one was refused in the plan
        os.chmod(partial, 0o755)
        os.rename(partial, folder)  # nothing is left to clean up then
