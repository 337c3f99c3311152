"""What a run says on stderr while it goes: on a terminal a bar with the time left, elsewhere plain lines."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from sarqc.events import CandidateDone, EpochDone, Event, LayerDone, PointDone, Saved, Stage, Started, Warned


class Progress:
    """Tells the events of one run, each as it comes. ``close`` takes the bar away and says how many layers there were.

    On a terminal the layers have a bar with what is left of them; a file or a pipe gets one line for each stage.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._on_terminal = self._file.isatty()
        self._bar: Any = None
        self._layers = self._done = self._from_disk = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def tell(self, event: Event) -> None:
        match event:
            case Started():
                self._layers = len(event.layers)
            case LayerDone():
                self._done, self._from_disk = self._done + 1, self._from_disk + event.from_cache
                self._advance()
            case EpochDone() | PointDone():
                if self._on_terminal:
                    self._open_bar().set_description(words(event))
            case Stage():
                self.close()
                self._line(words(event))
            case CandidateDone() | Warned() | Saved():
                self._line(words(event))

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if self._done:
            known = f", {self._from_disk} of them from disk" if self._from_disk else ""
            self._line(f"{self._done} of {self._layers} layers{known}")
        self._done = self._from_disk = 0

    def _open_bar(self) -> Any:
        """The bar, made with the first layer: its clock shall not count the loading of the model."""
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(total=self._layers, unit="layer", file=self._file, dynamic_ncols=True, leave=False)
        return self._bar

    def _advance(self) -> None:
        if self._on_terminal:
            self._open_bar().update()

    def _line(self, text: str) -> None:
        if self._bar is not None:
            self._bar.write(text, file=self._file)
        else:
            print(text, file=self._file, flush=True)


def words(event: Event) -> str:
    """One event in words."""
    match event:
        case Stage():
            return f"{event.name}: {event.detail}" if event.detail else event.name
        case EpochDone():
            return f"block {event.block}, epoch {event.epoch} of {event.epochs}, objective {event.objective:.3g}"
        case PointDone():
            return f"{event.index + 1} of {event.total} λ solved"
        case CandidateDone():
            return f"λ = {event.lam:g}: perplexity {event.perplexity:.4g} on the sequences kept for judging"
        case Warned():
            return f"note: {event.what}" + (f" ({event.where})" if event.where else "")
        case Saved():
            return f"saved {event.what}: {event.path}"
    return event.type
