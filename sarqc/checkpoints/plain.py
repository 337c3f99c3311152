"""The quantized model as files for other programs: a folder that appears whole or not at all.

The files are the float checkpoint again, tensor by tensor under its own names and dtypes, with other values where
something was quantized or took up a scale. One block at a time is needed in memory.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import Tensor

from sarqc.files.modes import usual_mode
from sarqc.models.loading import STORED, LoadedModel
from sarqc.models.tokenizing import text_files
from sarqc.models.weight_files import write_weights

NOTHING: Mapping[str, str] = MappingProxyType({})


def save_plain(loaded: LoadedModel, folder: Path, beside: Mapping[str, str] = NOTHING) -> None:
    """Write the model with its dequantized weights as an ordinary checkpoint, in the original dtype.

    Quantized weights are representable in that dtype, so a model loaded from it has exactly the evaluated weights.
    See ``codes.Writer`` for the arguments.
    """
    with new_checkpoint(loaded, folder, beside) as partial:
        write_weights(partial, stored_tensors(loaded))


def stored_tensors(loaded: LoadedModel) -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor of the checkpoint under its name there, on the CPU, with its present value."""
    checkpoint = loaded.checkpoint
    inside: set[str] = set()
    for index, block in enumerate(loaded.blocks()):
        with loaded.at(block):
            for name, value in loaded.stored_tensors(index):
                inside.add(name)
                yield name, value.detach().to("cpu", STORED[checkpoint.dtypes[name]])
    for name in checkpoint.shapes:
        if name not in inside:
            yield name, loaded.stored_outside(name)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder beside a new one, which it becomes at the end of the context; after an error it is gone.

    Everybody may read its content, as far as the process allows.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-", ignore_cleanup_errors=True) as made:
        partial = Path(made)
        yield partial
        if folder.is_dir():
            folder.rmdir()  # an empty one; a full one was refused before
        for path in (partial, *partial.rglob("*")):
            path.chmod(usual_mode(0o755 if path.is_dir() else 0o644))
        os.rename(partial, folder)  # nothing is left to clean up then


@contextmanager
def new_checkpoint(
    loaded: LoadedModel, folder: Path, beside: Mapping[str, str], config: dict[str, Any] | None = None
) -> Iterator[Path]:
    """Create a folder for the weights, and complete it to a checkpoint at the end of the context.

    After an error nothing is left of it.

    Args:
        loaded: The quantized model.
        folder: Final folder; it appears at the end.
        beside: Further files, as texts by name.
        config: Entries of config.json beside those of the original.
    """
    with whole_folder(folder) as partial:
        yield partial
        # Without the pointer to code in the original's folder, which is not in this one.
        described = {name: value for name, value in loaded.checkpoint.config.items() if name != "auto_map"}
        if not loaded.checkpoint.tied and "tie_word_embeddings" in described:
            described["tie_word_embeddings"] = False  # not every reader looks whether the two stored ones differ
        text = json.dumps(described | (config or {}), indent=2, sort_keys=True) + "\n"
        (partial / "config.json").write_text(text, encoding="utf-8")
        for path in text_files(loaded.checkpoint.folder):  # as they are, so that they give the tokens of the run
            target = partial / path.relative_to(loaded.checkpoint.folder)
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)
        for name, text in beside.items():
            (partial / name).write_text(text, encoding="utf-8")
