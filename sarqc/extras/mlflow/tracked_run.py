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

from sarqc.extras.mlflow.reporting import State


class TrackedRun:
    """One run at MLflow. Calls come one after the other, from one thread, ``begin`` first and ``end`` last. Each may
    take long, and raises whatever MLflow raises.

    The experiment is the project, that of all runs of a batch, unless MLFLOW_EXPERIMENT_NAME names another.
    """

    def __init__(self, project: str, name: str, parameters: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        self.name = name
        self._project, self._parameters, self._tags = project, parameters, tags

    def begin(self) -> None:
        """Make the run known."""
        self._client = MlflowClient()
        experiment = self._experiment(MLFLOW_EXPERIMENT_NAME.get() or self._project)
        self._run = self._client.create_run(experiment, tags=dict(self._tags), run_name=self.name)
        parameters = [
            Param(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            for name, value in self._parameters.items()
            if value not in (None, [], {})
        ]
        self._client.log_batch(self._id, params=parameters)

    def tags(self, tags: Mapping[str, str]) -> None:
        """Add tags, or replace those of the same names."""
        self._client.log_batch(self._id, tags=[RunTag(name, text) for name, text in tags.items()])

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """Add metrics at a step."""
        now = int(1000 * time.time())
        self._client.log_batch(self._id, metrics=[Metric(name, value, now, step) for name, value in values.items()])

    def keep(self, paths: Sequence[Path], name: str) -> None:
        """Keep copies of files with the run, together under a name."""
        for path in paths:
            self._client.log_artifact(self._id, str(path), name)

    def end(self, state: State) -> None:
        """End the run."""
        self._client.set_terminated(self._id, state.upper())

    def where(self) -> str:
        """Return where people find the run."""
        info = self._run.info
        return f"{self._client.tracking_uri}, experiment {info.experiment_id}, run {info.run_id}"

    @property
    def _id(self) -> str:
        run_id: str = self._run.info.run_id
        return run_id

    def _experiment(self, name: str) -> str:
        """Return the id of an experiment, which is made where there is none."""
        if (experiment := self._client.get_experiment_by_name(name)) is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException:  # another process made it meanwhile
                if (experiment := self._client.get_experiment_by_name(name)) is None:
                    raise
        return str(experiment.experiment_id)
