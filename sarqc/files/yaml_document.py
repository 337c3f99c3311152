"""YAML and JSON files that people write: plain values, and nothing that expands a small file to a large one."""

import json
from pathlib import Path
from typing import Any

import yaml

from sarqc.errors import Refused
from sarqc.files.names import is_regular

MOST_BYTES = 1 << 20
MOST_LEVELS = 32


class _Loader(yaml.SafeLoader):
    """No aliases, by which a few lines can stand for billions of values; no dates, which JSON does not know."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the parent has it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    _levels = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not read; write the value out")
        if self._levels >= MOST_LEVELS:
            raise yaml.YAMLError(f"it has more than {MOST_LEVELS} levels")
        self._levels += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._levels -= 1


def read_yaml(path: Path, what: str) -> Any:
    """Return the content of a file as JSON could hold it; raise ``Refused``, which says ``what`` the file is."""
    try:
        if path.exists() and not is_regular(path):
            raise ValueError("it is not a regular file")
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
        document = yaml.load(path.read_text(encoding="utf-8"), _Loader)
        json.dumps(document, ensure_ascii=False).encode()
    except (OSError, ValueError, TypeError, OverflowError, RecursionError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise Refused(f"the {what} can't be read: {reason}", str(path), "Give a YAML or JSON file.") from None
    return document
