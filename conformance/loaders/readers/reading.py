"""What the readers' scripts share: a job comes as a file, and each answer is a line that is written at once.

Run by the interpreters of environments that have a reader; it knows nothing of this repository.
"""

import importlib.metadata
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

Continue = Callable[[str, list[int], int], list[int]]  # folder, prompt, new tokens -> token ids


def answer_all(continued: Continue, packages: Sequence[str]) -> None:
    """Has every checkpoint of the job continue its prompt, and writes the tokens, or what went wrong."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with Path(job["answers"]).open("a", encoding="utf-8") as answers:

        def write(**line: object) -> None:
            answers.write(json.dumps(line) + "\n")
            answers.flush()

        installed = {one.metadata["Name"].lower() for one in importlib.metadata.distributions()}
        write(versions={name: importlib.metadata.version(name) for name in packages if name in installed})
        for kind in job["kinds"]:
            write(begun=kind["name"])
            try:
                ids = continued(kind["folder"], kind["prompt"], job["tokens"])
                write(kind=kind["name"], ids=[int(one) for one in ids])
            except Exception as error:  # whatever a reader thinks of a file is its answer
                said = " ".join(str(error).split()) or type(error).__name__
                write(kind=kind["name"], error=f"{type(error).__name__}: {said}")


def greedy(model: object, prompt: list[int], count: int) -> list[int]:
    """The most probable token after all before it, ``count`` times, by a model of transformers."""
    import torch

    ids = list(prompt)
    with torch.no_grad():
        for _ in range(count):
            logits = model(torch.tensor([ids])).logits[0, -1]
            if not torch.isfinite(logits).all():
                raise ValueError("predictions are not finite")
            ids.append(int(logits.argmax()))
    return ids[len(prompt) :]
