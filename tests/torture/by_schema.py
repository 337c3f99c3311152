"""Requests by the schema that the app serves: right ones, and ones that are wrong in one place."""

import random
from typing import Any

import requests
import schemathesis
from hypothesis.strategies import one_of
from schemathesis import GenerationMode

from tests.torture.answers import Judge
from tests.torture.drawing import draw

KNOWN = {"study_id": "tiny-llama", "figure": "hero"}  # so that some requests get behind the first question


def ask(judge: Judge, run_id: str, count: int, seed: int) -> None:
    """``count`` requests over all routes."""
    schema = schemathesis.openapi.from_dict(judge.app.get("/api/openapi.json"))
    operations = [result.ok() for result in schema.get_all_operations()]
    known, dice = KNOWN | {"run_id": run_id}, random.Random(seed)
    each = -(-count // len(operations))

    def use(case: Any) -> None:
        if case.path_parameters and dice.random() < 0.5:
            case.path_parameters = {**case.path_parameters, **{n: known[n] for n in case.path_parameters if n in known}}
        given = case.as_transport_kwargs(base_url=judge.app.address)
        judge.send(requests.Request(**given))

    for number, operation in enumerate(operations):
        modes = [operation.as_strategy(generation_mode=mode) for mode in GenerationMode]
        draw(one_of(*modes), each, seed + number, use)
