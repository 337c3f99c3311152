"""The closed set of event types."""

import pytest

from sarqc.events import Measured, from_json


def test_events_round_trip_and_strangers_are_errors():
    event = Measured("perplexity", "float", 5.5, None, {"window": 256})
    assert from_json(event.to_json()) == event
    with pytest.raises(KeyError):
        from_json({"type": "stranger"})
    with pytest.raises(TypeError):
        from_json(event.to_json() | {"more": 1})
