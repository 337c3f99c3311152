"""Reports of a run to MLflow, in a thread that no run waits for."""

from __future__ import annotations

import importlib.metadata
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import sarqc
from sarqc.errors import SarqcError
from sarqc.events import Event, Saved, Started, Warned
from sarqc.extras.mlflow.numbers import numbers_of
from sarqc.files.kept_out import without_secrets
from sarqc.recipe import Recipe, method_title

if TYPE_CHECKING:
    from sarqc.extras.mlflow.tracked_run import TrackedRun

PLACE = "--report mlflow"
PATIENCE = 120.0  # seconds that the end waits for one answer of MLflow
_ASKED_SECONDS = 0.05
_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")  # that a number depends on
State = Literal["finished", "failed", "killed"]
_FILES = {"study": "*", "checkpoint": "README.md"}  # files to keep, by kind of artefact


def report(project: str, recipe: Recipe, say: Callable[[Event], None], name: str = "") -> Report:
    """Return a report of the run of a recipe; without a name it is called by its model, method and width."""
    from sarqc.extras.mlflow.tracked_run import TrackedRun

    name = name or f"{Path(recipe.model).name}, {recipe.method}, {recipe.bits} bits"
    tags = {"model": recipe.model, "method": method_title(recipe.method), "kind": recipe.kind}
    versions = {f"version.{library}": importlib.metadata.version(library) for library in _LIBRARIES}
    tags |= {"recipe": recipe.fingerprint(), "version.sarqc": sarqc.__version__} | versions
    return Report(TrackedRun(project, name, recipe.to_json(), tags), say)


class Report:
    """Reports one run. A context that gives the function which passes on an event: the run begins with it, and ends
    with it in the state that follows from the error that ended it.

    Errors of MLflow, and silence for ``PATIENCE`` at the end, cost the run nothing: ``say`` gets one warning, and
    reporting stops. On success ``say`` gets the place of the run.
    """

    def __init__(self, tracked: TrackedRun, say: Callable[[Event], None]) -> None:
        self._tracked, self._say = tracked, say
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._saved: list[Saved] = []
        self._trouble = ""
        self._has_warned = False
        self._asked = time.monotonic()  # when the unanswered call began
        self._thread = threading.Thread(target=self._work, name="report", daemon=True)

    def __enter__(self) -> Callable[[Event], None]:
        self._ask(self._tracked.begin)
        self._thread.start()
        return self._tell

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        state: State = "finished" if error is None else "failed" if isinstance(error, Exception) else "killed"
        if state == "failed":
            words = str(error) if isinstance(error, SarqcError) else f"{type(error).__name__}: {error}"
            self._ask(self._tracked.tags, {"error": without_secrets(words)})
        for saved in self._saved:  # whole at the end
            self._ask(self._tracked.keep, sorted(Path(saved.path).glob(_FILES[saved.what])), saved.what)
        self._ask(self._tracked.end, state)
        self._calls.put(None)
        self._wait()
        self._tell_trouble()
        if not self._trouble and state == "finished":
            self._say(Saved("report", without_secrets(self._tracked.where())))

    def _tell(self, event: Event) -> None:
        if isinstance(event, Saved) and event.what in _FILES:
            self._saved.append(event)
        self._ask(self._pass_on, event)
        self._tell_trouble()

    def _pass_on(self, event: Event) -> None:
        """Report an event in the thread, which can't delay the run."""
        for values, step in numbers_of(event):
            if values:
                self._tracked.numbers(values, step)
        if isinstance(event, Started):
            self._tracked.tags({"device": event.device})

    def _ask(self, call: Callable[..., None], *arguments: Any) -> None:
        if not self._trouble:
            self._calls.put(partial(call, *arguments))

    def _work(self) -> None:
        for call in iter(self._calls.get, None):
            self._asked = time.monotonic()
            try:
                call()
            except Exception as error:  # whatever a tracker's library raises: the run goes on
                self._trouble = without_secrets(f"{type(error).__name__}: {error}")
                return

    def _wait(self) -> None:
        """Wait until everything is reported, or MLflow has not answered for too long."""
        began = time.monotonic()
        while self._thread.is_alive():
            if time.monotonic() - max(began, self._asked) > PATIENCE:
                self._trouble = f"no answer for {PATIENCE:g} seconds"
                return
            self._thread.join(_ASKED_SECONDS)

    def _tell_trouble(self) -> None:
        if self._trouble and not self._has_warned:
            self._has_warned = True
            self._say(Warned(f"what follows of “{self._tracked.name}” is not reported: {self._trouble}", PLACE))
