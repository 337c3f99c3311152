"""Names of lm-eval's single tasks, shipped as a file: its own index takes many seconds and much memory to build.

``python -m sarqc.evaluation.task_names`` writes the file anew from the installed lm-eval; a test compares the two.
"""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

FILE = Path(__file__).with_name("task_names.json.gz")


class TaskNames(TypedDict):
    """Content of the file."""

    lm_eval: str  # version
    tasks: list[str]
    unsafe: list[str]  # those that run the model's programs


@cache
def published_tasks() -> Mapping[str, bool]:
    """Return the single tasks by name, with True for those that run the model's programs in lm-eval."""
    names: TaskNames = json.loads(gzip.decompress(FILE.read_bytes()))
    return dict.fromkeys(names["tasks"], False) | dict.fromkeys(names["unsafe"], True)


def names_of(manager: Any) -> TaskNames:
    """Return the content of the file for lm-eval's ``TaskManager``."""
    import lm_eval
    from lm_eval.tasks._yaml_loader import load_yaml

    folder = Path(lm_eval.__file__).parent / "tasks"
    # A definition may include others of its topic: only where one says it at all is each read as a whole.
    topics = {
        path.relative_to(folder).parts[0]
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and b"unsafe_code" in path.read_bytes()
    }
    unsafe = []
    for name in manager.all_subtasks:
        path = manager.task_index[name].yaml_path
        is_candidate = path is not None and Path(path).relative_to(folder).parts[0] in topics
        if is_candidate and load_yaml(path, resolve_func=False).get("unsafe_code"):
            unsafe.append(name)
    return {"lm_eval": lm_eval.__version__, "tasks": sorted(manager.all_subtasks), "unsafe": sorted(unsafe)}


def main() -> None:
    """Write the file from the installed lm-eval."""
    from lm_eval.tasks import TaskManager

    text = json.dumps(names_of(TaskManager()), separators=(",", ":"))
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
