"""Stands in for ``execute`` where requests are tried and not runs: whatever the recipe says, it is done at once."""

from collections.abc import Iterator

from sarqc.events import Event, Finished, LayerDone, Started
from sarqc.recipe import Recipe
from sarqc.settings import Settings


def execute(recipe: Recipe, settings: Settings, **_: object) -> Iterator[Event]:
    """One layer."""
    yield Started("none", settings.device, [{"name": "layer", "block": 0, "module": "q_proj", "shape": [4, 4]}], 0.0)
    yield LayerDone("layer", 0, 1, {}, 0.0, False)
    yield Finished({}, 0.0)
