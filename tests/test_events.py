"""The closed set of event types."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from sarqc.events import SHARED_STAGES, Measured, from_json

ROOT = Path(__file__).resolve().parents[1]


def test_events_round_trip_and_strangers_are_errors() -> None:
    event = Measured("perplexity", "float", 5.5, None, {"window": 256})
    assert from_json(event.to_json()) == event
    with pytest.raises(KeyError):
        from_json({"type": "stranger"})
    with pytest.raises(TypeError):
        from_json(event.to_json() | {"more": 1})


def test_every_stage_has_words_on_pages() -> None:
    words = (ROOT / "assets/js/base/stage_words.js").read_text(encoding="utf-8")
    said = set(SHARED_STAGES)
    for path in (ROOT / "sarqc").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Stage":
                said |= {one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    assert len(said) > 15
    assert [text for text in sorted(said) if f'stored("{text}")' not in words] == []
