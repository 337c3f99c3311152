"""A run at trackio: in its folder on this host, or where TRACKIO_SPACE_ID or TRACKIO_SERVER_URL says."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trackio
from trackio import Artifact, Run, utils

from sarqc.extras.trackers.reporting import State, TrackedRun


def _print_to_stderr(*words: object, **named: Any) -> None:
    print(*words, **{**named, "file": sys.stderr})


for _module in (trackio, trackio.run, utils):  # stdout is for the command's output
    vars(_module)["print"] = _print_to_stderr


class _LocalRun(Run):
    """A run that asks nobody who is logged in at the Hub."""

    def _get_username(self) -> None:
        return None


class TrackioRun:
    """See ``Tracker``. Tags are values of the run's configuration; those that come later, and its state, are a row."""

    def begin(self, run: TrackedRun) -> None:
        tags = {f"tag.{name}": text for name, text in run.tags.items()}
        given = {name: value for name, value in {**run.parameters, **tags}.items() if value is not None}
        if utils.resolve_space_id_and_server_url(None, None) == (None, None):
            self._run = _LocalRun(None, run.project, None, name=run.name, config=given)
        else:
            off = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
            self._run = trackio.init(run.project, name=run.name, config=given, **off)

    def tags(self, tags: Mapping[str, str]) -> None:
        self._run.log(dict(tags), step=0)

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def keep(self, paths: Sequence[Path], name: str) -> None:
        artefact = Artifact(name, type=name)
        for path in paths:
            artefact.add_file(path)
        self._run.log_artifact(artefact)

    def end(self, state: State) -> None:
        self._run.log({"run/status": state}, step=0)
        self._run.finish()

    def where(self) -> str:
        return f"{self._run.url or utils.TRACKIO_DIR}, project {self._run.project}, run {self._run.name}"
