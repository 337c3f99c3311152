"""What the loaders' scripts share: a job with checkpoints, and the weights of each as a file.

Run by the interpreters of environments that have an engine; it knows nothing of this repository.
"""

import importlib.metadata
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def decode_all(
    decoded: Callable[[str], Mapping[str, Any]], save: Callable[[Mapping[str, Any], str], None], packages: Sequence[str]
) -> None:
    """Has every checkpoint of the job decoded and its weights saved by name, and writes what went wrong instead."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with Path(job["answers"]).open("a", encoding="utf-8") as answers:

        def write(**line: object) -> None:
            answers.write(json.dumps(line) + "\n")
            answers.flush()

        write(versions={name: importlib.metadata.version(name) for name in packages})
        for one in job["checkpoints"]:
            try:
                weights = decoded(one["folder"])
                if not weights:
                    raise ValueError("no linear was taken as quantized")
                save(weights, one["target"])
                write(name=one["name"], linears=len(weights))
            except Exception as error:  # whatever a loader thinks of a file is its answer
                said = " ".join(str(error).split()) or type(error).__name__
                write(name=one["name"], error=f"{type(error).__name__}: {said}")
