"""Requests by the schema that the app serves, right and wrong in one place, against one app in one profile."""

import random
from pathlib import Path
from typing import Any

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis.strategies import one_of
from schemathesis import GenerationMode

from conformance.torture.answers import ERROR_500, Judge
from conformance.torture.figures import Figures
from conformance.torture.served import PUBLIC, Served
from tests.jobs.conftest import until

RECIPE = {"model": "tiny-llama", "method": "rtn", "calibration": "tiny-llama-calibration", "samples": 2, "length": 64}
PROFILES: dict[str, dict[str, Any]] = {"private": {}, "public": PUBLIC}
KNOWN = {"study_id": "tiny-llama", "figure": "hero"}  # so that some requests get behind the first question


def play(folder: Path, profile: str, figures: Figures, number: int, seed: int, *, with_pages: bool) -> None:
    """``number`` requests, and after them the app still works."""
    app = Served(
        folder / profile, "conformance.torture.no_work:execute", with_pages=with_pages, **PROFILES[profile]
    ).wait()
    try:
        judge = Judge(app, figures)
        run_id = app.post("/api/runs", RECIPE).json()["id"]
        until(lambda: app.get(f"/api/runs/{run_id}")["state"] == "finished", seconds=60)
        _ask(judge, run_id, number, seed)
        app.get("/api/health")
        said = app.log.read_text()
        # A client that breaks its connection off in a request: the server's own protocol says so where it answers.
        if said.count("Traceback") > said.count("h11._util.LocalProtocolError"):
            figures.complain(ERROR_500, f"a traceback in the log: …{said[said.index('Traceback') :][:3000]}")
    finally:
        app.end()


def _ask(judge: Judge, run_id: str, count: int, seed: int) -> None:
    """``count`` requests over all routes; the judge counts complaints and does not raise."""
    if not count:
        return
    schema = schemathesis.openapi.from_dict(judge.app.get("/api/openapi.json"))
    operations = [result.ok() for result in schema.get_all_operations()]
    known, dice = KNOWN | {"run_id": run_id}, random.Random(seed)
    undisturbed = hypothesis.settings(
        max_examples=-(-count // len(operations)), database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip

    def use(case: Any) -> None:
        if case.path_parameters and dice.random() < 0.5:
            case.path_parameters = {**case.path_parameters, **{n: known[n] for n in case.path_parameters if n in known}}
        given = case.as_transport_kwargs(base_url=judge.app.address)
        judge.send(requests.Request(**given))

    for number, operation in enumerate(operations):
        cases = one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))
        hypothesis.seed(seed + number)(undisturbed(hypothesis.given(cases)(use)))()
