"""The trackers of experiments, and reports of a run to one of them, in a thread that no run waits for."""

import importlib.metadata
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import sarqc
from sarqc.errors import Refused, SarqcError
from sarqc.events import Event, Saved, Started, Warned
from sarqc.extras.trackers.numbers import numbers_of, points_of
from sarqc.files.kept_out import without_secrets
from sarqc.recipe import Recipe, method_title
from sarqc.study.document import Study

PATIENCE = 120.0  # seconds that the end waits for one answer of a tracker
_ASKED_SECONDS = 0.05
_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")  # that a number depends on
State = Literal["finished", "failed", "killed"]
_FILES = {"study": "*", "checkpoint": "README.md"}  # files to keep, by kind of artefact


@dataclass(frozen=True)
class TrackedRun:
    """A run as described to a tracker at its beginning."""

    project: str  # of all runs of a batch or survey: MLflow's experiment, trackio's project
    name: str
    parameters: Mapping[str, Any]  # plain data; None: not given
    tags: Mapping[str, str]


class Tracker(Protocol):
    """One run at a tracker. Calls come one after the other, from one thread. Each may take long, and raises whatever
    the tracker's library raises.
    """

    def begin(self, run: TrackedRun) -> None:
        """Make the run known. The first call, once."""

    def tags(self, tags: Mapping[str, str]) -> None:
        """Add tags, or replace those of the same names."""

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """Add metrics at a step."""

    def keep(self, paths: Sequence[Path], name: str) -> None:
        """Keep copies of files with the run, together under a name."""

    def end(self, state: State) -> None:
        """End the run. The last call, once."""

    def where(self) -> str:
        """Return where people find the run."""


class Report:
    """Reports one run to a tracker. A context: the run begins with it, and ends with it in the state that follows from
    the error that ended it.

    Errors of the tracker, and silence for ``PATIENCE`` at the end, cost the run nothing: ``say`` gets one warning, and
    reporting stops. ``place`` is where the tracker was asked for. On success ``say`` gets the place of the run.
    """

    def __init__(self, tracker: Tracker, run: TrackedRun, say: Callable[[Event], None], place: str) -> None:
        self._tracker, self._run, self._say, self._place = tracker, run, say, place
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._saved: list[Saved] = []
        self._trouble = ""
        self._has_warned = False
        self._asked = time.monotonic()  # when the unanswered call began
        self._thread = threading.Thread(target=self._work, name="report", daemon=True)

    def __enter__(self) -> Self:
        self._ask(self._tracker.begin, self._run)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        state: State = "finished" if error is None else "failed" if isinstance(error, Exception) else "killed"
        if state == "failed":
            words = str(error) if isinstance(error, SarqcError) else f"{type(error).__name__}: {error}"
            self._ask(self._tracker.tags, {"error": without_secrets(words)})
        for saved in self._saved:  # a run in a cluster has them here at its end
            self._ask(self._tracker.keep, sorted(Path(saved.path).glob(_FILES[saved.what])), saved.what)
        self._ask(self._tracker.end, state)
        self._calls.put(None)
        self._wait()
        self._tell_trouble()
        if not self._trouble and state == "finished":
            self._say(Saved("report", without_secrets(self._tracker.where())))

    def tell(self, event: Event) -> None:
        """Pass on an event."""
        if isinstance(event, Saved) and event.what in _FILES:
            self._saved.append(event)
        self._ask(self._pass_on, event)
        self._tell_trouble()

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """Pass on metrics."""
        self._ask(self._tracker.numbers, values, step)

    def _pass_on(self, event: Event) -> None:
        """Report an event in the thread, which can't delay the run."""
        for values, step in numbers_of(event):
            if values:
                self._tracker.numbers(values, step)
        if isinstance(event, Started):
            self._tracker.tags({"device": event.device})

    def _ask(self, call: Callable[..., None], *arguments: object) -> None:
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
        """Wait until everything is reported, or the tracker has not answered for too long."""
        began = time.monotonic()
        while self._thread.is_alive():
            if time.monotonic() - max(began, self._asked) > PATIENCE:
                self._trouble = f"no answer for {PATIENCE:g} seconds"
                return
            self._thread.join(_ASKED_SECONDS)

    def _tell_trouble(self) -> None:
        if self._trouble and not self._has_warned:
            self._has_warned = True
            self._say(Warned(f"what follows of “{self._run.name}” is not reported: {self._trouble}", self._place))


@dataclass(frozen=True)
class Destination:
    """Where runs are reported to: to which tracker, as it was asked for, and to which of its projects."""

    make: Callable[[], Tracker]
    place: str
    project: str

    def run(self, recipe: Recipe, say: Callable[[Event], None], name: str = "") -> Report:
        """Return a report of the run of a recipe; without a name it is called by its model, method and width."""
        called = name or f"{Path(recipe.model).name}, {recipe.method}, {recipe.bits} bits"
        tags = {"model": recipe.model, "method": method_title(recipe.method), "kind": recipe.kind}
        return self._report(called, recipe.to_json(), tags | {"recipe": recipe.fingerprint()}, say)

    @contextmanager
    def survey(self, document: Mapping[str, Any], folder: Path, say: Callable[[Event], None]) -> Iterator[None]:
        """Report a run while a survey is made, and after it one for each line of its study, with its points as steps.

        ``document``: what the survey's file says, ``folder``: where its study will be.
        """
        with self._report(document["title"], document, {"model": document["model"], "kind": "survey"}, say) as report:
            yield
            report.tell(Saved("study", str(folder)))
        study = Study.open(folder)
        for line in study.lines:
            parameters = {"method": line.method, "bits": line.bits, "grid": line.grid, "group_size": line.group_size}
            tags = {"model": study.model.name, "method": line.label, "kind": "line", "survey": study.title}
            with self._report(f"{line.label}, {line.bits} bits", parameters | line.fitting, tags, say) as report:
                for values, step in points_of(study, line):
                    report.numbers(values, step)

    def _report(
        self, name: str, parameters: Mapping[str, Any], tags: Mapping[str, str], say: Callable[[Event], None]
    ) -> Report:
        versions = {f"version.{name}": importlib.metadata.version(name) for name in _LIBRARIES}
        tags = {**tags, "version.sarqc": sarqc.__version__, **versions}
        return Report(self.make(), TrackedRun(self.project, name, parameters, tags), say, self.place)


TRACKERS = {"mlflow": "MlflowRun", "trackio": "TrackioRun"}  # by the library, which a module of ours is called by too


def destination(name: str, asked_by: str, project: str) -> Destination:
    """Return where a tracker of this name keeps a project; its library is loaded.

    Raises ``Refused`` for ``asked_by``, the flag that names it.
    """
    if name not in TRACKERS:
        raise Refused(f"unknown tracker “{name}”", asked_by, f"There are {', '.join(TRACKERS)}.")
    place = f"{asked_by} {name}"
    if importlib.util.find_spec(name) is None:
        raise Refused(f"{name} is not installed here", place, f"pip install 'sarqc[{name}]'")
    try:
        make: Callable[[], Tracker] = getattr(importlib.import_module(f"{__package__}.{name}"), TRACKERS[name])
    except ImportError as error:
        raise Refused(f"{name} can't be loaded: {error}", place, f"pip install 'sarqc[{name}]'") from None
    return Destination(make, place, project)
