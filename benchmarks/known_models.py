"""Published models by their configurations, whose figures are from their pages on the Hub."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from sarqc.models.checkpoint import Checkpoint, promised_checkpoint

_FILE = Path(__file__).with_name("known_models.json")


def known_names() -> tuple[str, ...]:
    """Such as “llama2-7b”."""
    return tuple(_known())


def known_checkpoint(name: str) -> Checkpoint:
    """The shapes of a model; no file of it is there."""
    return promised_checkpoint(name, known_configuration(name))


def known_configuration(name: str) -> dict[str, Any]:
    """Its fields of ``config.json`` that say what it is made of."""
    return dict(_known()[name])


@lru_cache(maxsize=1)
def _known() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(_FILE.read_text())
    return found
