"""The closed set of event types, and that the pages know the same set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sarqc.events import EVENT_TYPES, Measured, from_json

SCRIPT = Path(__file__).resolve().parent.parent / "assets" / "js" / "base" / "client.js"


def test_the_pages_know_every_type() -> None:
    listed = re.search(r"EVENT_TYPES = \[(.*?)\]", SCRIPT.read_text(encoding="utf-8"), re.S)
    assert listed is not None
    assert set(re.findall(r'"(\w+)"', listed[1])) == set(EVENT_TYPES)


def test_events_round_trip_and_strangers_are_errors() -> None:
    event = Measured("perplexity", "float", 5.5, None, {"window": 256})
    assert from_json(event.to_json()) == event
    with pytest.raises(KeyError):
        from_json({"type": "stranger"})
    with pytest.raises(TypeError):
        from_json(event.to_json() | {"more": 1})
