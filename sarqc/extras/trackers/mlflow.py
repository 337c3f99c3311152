"""A run at MLflow: in its default store, or where MLFLOW_TRACKING_URI says."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when it is imported; nothing leaves the host unasked
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")  # stdout is for the command's output

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.environment_variables import MLFLOW_EXPERIMENT_NAME
from mlflow.exceptions import MlflowException

from sarqc.extras.trackers.reporting import State, TrackedRun

_STATUS: dict[State, str] = {"finished": "FINISHED", "failed": "FAILED", "killed": "KILLED"}


class MlflowRun:
    """See ``Tracker``. The experiment is the run's project, unless MLFLOW_EXPERIMENT_NAME names another."""

    def begin(self, run: TrackedRun) -> None:
        self._client = MlflowClient()
        experiment = self._experiment(MLFLOW_EXPERIMENT_NAME.get() or run.project)
        self._run = self._client.create_run(experiment, tags=dict(run.tags), run_name=run.name)
        parameters = [
            Param(name, _text(value)) for name, value in run.parameters.items() if value not in (None, [], {})
        ]
        self._client.log_batch(self._id, params=parameters)

    def tags(self, tags: Mapping[str, str]) -> None:
        self._client.log_batch(self._id, tags=[RunTag(name, text) for name, text in tags.items()])

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        now = int(1000 * time.time())
        self._client.log_batch(self._id, metrics=[Metric(name, value, now, step) for name, value in values.items()])

    def keep(self, paths: Sequence[Path], name: str) -> None:
        for path in paths:
            self._client.log_artifact(self._id, str(path), name)

    def end(self, state: State) -> None:
        self._client.set_terminated(self._id, _STATUS[state])

    def where(self) -> str:
        info = self._run.info
        return f"{self._client.tracking_uri}, experiment {info.experiment_id}, run {info.run_id}"

    @property
    def _id(self) -> str:
        run_id: str = self._run.info.run_id
        return run_id

    def _experiment(self, name: str) -> str:
        """Return the id of an experiment, which is made where there is none."""
        if (experiment := self._client.get_experiment_by_name(name)) is not None:
            return str(experiment.experiment_id)
        try:
            return str(self._client.create_experiment(name))
        except MlflowException:  # another process made it meanwhile
            experiment = self._client.get_experiment_by_name(name)
            if experiment is None:
                raise
            return str(experiment.experiment_id)


def _text(value: Any) -> str:
    """Return a parameter as text, as it is there."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
