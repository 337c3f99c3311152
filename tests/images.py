"""Dockerfiles as data: instructions in their order, and the files that a build gets to see."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Instruction:
    """A line of a Dockerfile, with what it is continued by."""

    name: str
    text: str

    def words(self) -> list[str]:
        """The command of a line in its JSON form. Raises ``ValueError`` for one in another form."""
        command: list[str] = json.loads(self.text[self.text.index("[") :])
        return command


def instructions(path: Path) -> list[Instruction]:
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(" ", 1)) for line in joined.splitlines() if line.strip()]


def environment(steps: list[Instruction]) -> dict[str, str]:
    """What ``ENV`` sets, quotes taken off."""
    found: dict[str, str] = {}
    for step in steps:
        if step.name == "ENV":
            found |= {
                name: bare or quoted for name, quoted, bare in re.findall(r'(\w+)=(?:"([^"]*)"|(\S+))', step.text)
            }
    return found


def context(root: Path = ROOT) -> Iterator[Path]:
    """What ``COPY . .`` takes of the top level."""
    left_out = set((root / ".dockerignore").read_text().split())
    for path in sorted(root.iterdir()):
        if path.name not in left_out and path.name != ".venv" and not path.name.startswith("."):
            yield path
