"""When a run may step aside: between layers, where all that it has done is kept, and once it has paid for its start.

A run that steps aside loads its model again later, and walks through the blocks that are solved. It does so only after
as much time went into new work as into that, so that it comes to an end however many previews come.
"""

import time
from collections.abc import Callable, Sequence

from sarqc.documents import LayerEntry
from sarqc.events import CandidateDone, Event, LadderStanding, LayerDone, Stage, Started, TuningStanding


class Boundaries:
    """Told of the events of a run, it knows the moments at which the run may step aside.

    ``unit``: what the method solves at once, as ``Method.unit``; ``start_seconds`` went into the start before the first
    event. ``clock`` counts seconds and never goes back.
    """

    def __init__(self, unit: str, start_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._unit, self._clock = unit, clock
        self._layers: Sequence[LayerEntry] = ()
        self._is_fetching = False  # which is done once
        self._is_new = False  # work that was not found on disk has begun
        self._start, self._work, self._told = start_seconds, 0.0, clock()

    def is_one(self, event: Event) -> bool:
        """Return whether the run may step aside after this event. Called for each event, in order."""
        now = self._clock()
        taken, self._told = now - self._told, now
        if not self._layers or (isinstance(event, LayerDone) and not self._is_new):
            self._start += taken * (not self._is_fetching)  # up to the first layer that was not on disk
        else:
            self._work += taken
        match event:
            case Stage():
                self._is_fetching = event.name in ("downloading", "unpacking")
            case Started():
                self._layers = event.layers
            case LayerDone():
                self._is_new |= not event.from_cache
        return self._keeps_all(event) and self._work >= self._start

    def _keeps_all(self, event: Event) -> bool:
        """Return whether nothing that was done by this event will be done again: linears that are solved together count
        once all of them are kept. Measurements have no such moment, because what is measured so far is lost with the
        rest.
        """
        if isinstance(event, CandidateDone | TuningStanding | LadderStanding):
            return True
        if not isinstance(event, LayerDone) or event.from_cache:
            return False
        this, *rest = self._layers[event.index : event.index + 2]
        if not rest or rest[0]["block"] != this["block"]:
            return True
        return self._unit == "layer" and None in (this.get("expert"), rest[0].get("expert"))
