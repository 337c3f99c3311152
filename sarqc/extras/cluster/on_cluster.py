"""Runs done by a Ray cluster for a waiting process: a queue that ends with the process."""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Self

from sarqc.errors import Refused, WorkerLost, from_parts
from sarqc.events import Event, Interrupted, Saved, Warned, from_json
from sarqc.extras.cluster.ray_workers import RayWorkers
from sarqc.jobs.exports import checkpoint_folder
from sarqc.jobs.run import State
from sarqc.jobs.store import Store
from sarqc.jobs.supervisor import Supervisor
from sarqc.jobs.workers import EXECUTE, ProcessWorkers, log_path
from sarqc.recipe import Recipe
from sarqc.settings import Settings

ASKED_SECONDS = 0.1  # between two looks for events
_OWNER, _CLUSTER = "command line", "Ray cluster"


class OnCluster:
    """Recipes on the cluster of ``settings.ray_address``, all at once; a context, at whose end their workers end.

    Nothing is sent before the first events are asked for. A study goes where ``execute`` leaves it for the same recipe:
    it has the recipe's fingerprint as its name. ``workers`` and ``execute`` stand in for the cluster in tests.
    """

    def __init__(
        self,
        recipes: Sequence[Recipe],
        settings: Settings,
        *,
        workers: type[ProcessWorkers] = RayWorkers,
        execute: str = EXECUTE,
    ) -> None:
        self._recipes = {recipe.fingerprint(): recipe for recipe in recipes}
        # Nothing is deleted for its age or size, and the one process has no share.
        more: dict[str, object] = {"keep_days": None, "keep_export_days": None, "keep_gib": None}
        more |= {"max_queued": 2 * len(recipes), "export_gib": sys.maxsize >> 30}
        self._settings = settings.model_copy(update=more)
        self._workers = partial(workers, execute=execute, study_id=attrgetter("fingerprint"))
        self._stack = ExitStack()
        self._supervisor: Supervisor | None = None
        self._runs: dict[str, str] = {}  # ids by fingerprint

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def events(self, recipe: Recipe) -> Iterator[Event]:
        """Yield the events of a recipe's run, the last ``Finished``, and trouble of the cluster as ``Warned``.

        Raises the run's own error, and ``Refused`` where the cluster can't be reached.
        """
        supervisor = self._start()
        for event in self._follow(supervisor, self._runs[recipe.fingerprint()]):
            if isinstance(event, Saved):  # a worker reports no paths
                event = Saved(event.what, str(self._settings.studies_dir() / event.path))
            yield event

    def export(self, recipe: Recipe, checkpoint_format: str, folder: Path) -> Iterator[Event]:
        """Write the model of a finished run to a new folder. Yields and raises as ``events``."""
        supervisor = self._start()
        export, _ = supervisor.export(self._runs[recipe.fingerprint()], checkpoint_format, 0, _OWNER)
        for event in self._follow(supervisor, export.id):
            if isinstance(event, Warned) and event.where == _CLUSTER:  # the others were reported before
                yield event
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(checkpoint_folder(self._settings, export), folder)
        supervisor.delete(export.id)
        yield Saved("checkpoint", str(folder))

    def _start(self) -> Supervisor:
        """Return the supervisor, with all recipes in its queue."""
        if self._supervisor is None:
            self._settings.resolved_state_dir().mkdir(parents=True, exist_ok=True)
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="sarqc-runs-"))
            store = Store(Path(folder) / "runs.sqlite3")
            self._stack.callback(store.close)
            supervisor = Supervisor(store, self._settings, workers=self._workers)
            supervisor.start()
            self._stack.callback(supervisor.stop)
            runs = supervisor.submit_all([*self._recipes.values()], _OWNER, "batch", _OWNER)
            self._runs = {run.fingerprint: run.id for run in runs}
            self._supervisor = supervisor
        return self._supervisor

    def _follow(self, supervisor: Supervisor, run_id: str) -> Iterator[Event]:
        """Yield the events of a run until its end, over all its attempts."""
        store, seen, warned = supervisor.store, 0, None
        while True:
            run = store.get(run_id)  # before its events, of which none comes once it is at rest
            for stored in store.events(run_id, seen):
                seen = stored.seq
                event = from_json(stored.payload)
                yield Warned(event.what, _CLUSTER) if isinstance(event, Interrupted) else event
            if run.at_rest:
                break
            trouble = supervisor.trouble
            if trouble is not None and trouble != warned:
                yield Warned(trouble, _CLUSTER)
            warned = trouble
            time.sleep(ASKED_SECONDS)
        if run.state is not State.FINISHED:
            log = f"The log is {log_path(self._settings, run_id)}."
            if (error := run.error) is not None:
                raise from_parts(error["kind"], error["what"], error["where"], f"{error['remedy']} {log}")
            raise WorkerLost(f"the run was {run.state}", _CLUSTER, log)
        log_path(self._settings, run_id).unlink(missing_ok=True)


def check_cluster(settings: Settings) -> None:
    """Raise ``Refused`` where the settings name no cluster."""
    if not settings.ray_address:
        raise Refused("no Ray cluster is named", "SARQC_RAY_ADDRESS", "Set it to its HOST:PORT, or to auto.")
