"""What the makers' scripts share: a job as a file, and the calibration tokens that their users would take.

Run by the interpreters of environments that have an engine; it knows nothing of this repository.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch  # not every engine has it


def job() -> dict[str, Any]:
    """``model`` and ``target``, folders; ``text``, a file; ``samples`` and ``length``; the engine's ``settings``."""
    return json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))


def rows(given: dict[str, Any], tokenizer: Any) -> torch.Tensor:
    """The first windows of the text: (samples, length)."""
    ids = tokenizer(Path(given["text"]).read_text(encoding="utf-8"), return_tensors="pt")["input_ids"][0]
    windows = ids[: len(ids) // given["length"] * given["length"]].reshape(-1, given["length"])
    return windows[: given["samples"]]
