"""A recipe of each kind of run, and its events reduced to what repeats: types, and numbers that no clock decides."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.engine.execute import execute
from sarqc.events import Event
from sarqc.extras.survey.conduct import conduct
from sarqc.extras.survey.schema import Survey
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.document import Study

# Advanced comes by the clock; memory and times differ between hosts.
_BY_THE_CLOCK = {"advanced", "dry_run"}
_OF_THE_HOST = {"seconds", "minutes", "peak_bytes", "device_bytes", "phases", "plan", "bytes", "size"}
_RUN = {
    "bits": 2, "group_size": 16, "method": "sarqc-gbs", "lambda": 0.3, "gamma": 0.5, "samples": 4, "length": 32,
    "held_out_samples": 2, "window": 32, "test_tokens": 640, "baseline": False,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "run": {
        "baseline": True,
        "tasks": ["tiny-llama-continuations"],
        "task_limit": 8,
        "prompts": ["Once"],
        "new_tokens": 4,
    },
    "run of one layer": {"layer": "model.layers.1.self_attn.q_proj", "sweep": [0, 0.1, 1]},
    "auto by layer": {"lambda": "auto", "gamma": "auto"},
    "auto by model": {"lambda": "auto", "method": "sarqc-omniquant", "epochs": 1},
    "learned rounding": {"method": "signround", "lambda": 0.1, "gamma": None, "steps": 4},
    "rotated": {"rotate": "r1"},
    "distilled": {"grid": "affine", "distill": 2},
    "distilled by block": {"grid": "affine", "distill": 2, "distill_by": "block"},
    "tuning": {"kind": "tune", "lambda": None, "gamma": None, "sweep": [0.01, 0.1, 1], "draws": 3},
    "ladder": {"kind": "ladder", "method": None, "lambda": None, "gamma": None, "draws": 2},
    "repair": {
        "quantized_checkpoint": "rounded",
        "bits": None,
        "group_size": None,
        "gamma": None,
        "method": "rqc-gbs",
        "lambda": 0.05,
        "task_limit": 8,
        "new_tokens": 4,
    },
    "as found": {
        "quantized_checkpoint": "rounded",
        "bits": None,
        "group_size": None,
        "method": "as-found",
        "lambda": None,
        "gamma": None,
    },
    "fitted": {"grid": "affine", "range": "search", "order": "activation", "refine": 1, "refit": 1},
    "shifted": {"method": "sarqc-gptaq"},
    "foldable": {"method": "sarqc-gs", "mode": "foldable", "gamma": None},
    "learned clipping": {"method": "sarqc-omniquant", "gamma": None, "epochs": 1},
    "another λ from a block on": {"from_block": 2, "then_lambda": 0.1},
}


def documents(model: Path, text: Path, opened: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return the recipes of ``KINDS``; ``opened`` is a checkpoint that ``make_rounded`` wrote."""
    texts = {"model": str(model), "calibration": str(text), "test": str(text)}
    whole = {kind: {**_RUN, **texts, **changes} for kind, changes in KINDS.items()}
    for document in whole.values():
        if "quantized_checkpoint" in document:
            document["quantized_checkpoint"] = str(opened)
    return {kind: {name: value for name, value in row.items() if value is not None} for kind, row in whole.items()}


def make_rounded(model: Path, text: Path, settings: Settings, folder: Path) -> Path:
    """Write the model rounded to nearest in compressed-tensors' format."""
    document = documents(model, text)["run of one layer"] | {"method": "rtn", "grid": "full_range"}
    left = {name: value for name, value in document.items() if name not in ("layer", "sweep", "lambda", "gamma")}
    events_of(left, settings, checkpoint_dir=folder, checkpoint_format="packed")
    return folder


def survey_of(model: Path, text: Path) -> Survey:
    """Return a survey of two lines and two draws."""
    lines = [{"method": "rtn", "bits": 2}, {"method": "sarqc-gbs", "bits": 2, "lambda": [0.0, 0.3], "gamma": [0.5]}]
    return Survey.model_validate(
        {
            "title": "small", "model": str(model), "grid": "asymmetric", "group_size": 16, "calibration": str(text),
            "samples": 4, "length": 32, "draws": [4, 7], "held_out": str(text), "held_out_samples": 2,
            "test": str(text), "window": 64, "lines": lines,
        }
    )  # fmt: skip


def events_of(document: dict[str, Any], settings: Settings, **outputs: Any) -> list[Event]:
    """Return the events of a run."""
    return list(execute(Recipe.parse(document), settings, **outputs))


def survey_numbers(survey: Survey, settings: Settings, folder: Path) -> np.ndarray:
    """Return all arrays of a survey's study in one, by their names."""
    list(conduct(survey, settings, folder))
    study = Study.open(folder)
    arrays = [study.array(line, name).ravel() for line in study.lines for name in sorted({*line.arrays} - {"seconds"})]
    return np.concatenate([array.astype(float) for array in arrays])


def types_in(events: list[Event]) -> dict[str, int]:
    """Return how often each type of event comes; with a step ahead of a block's layers, their order is the host's."""
    return dict(sorted(Counter(event.type for event in events if event.type not in _BY_THE_CLOCK).items()))


def numbers_in(events: list[Event]) -> np.ndarray:
    """Return all numbers of events that repeat, by type, in the order of their names."""
    repeated = sorted((event for event in events if event.type not in _BY_THE_CLOCK), key=lambda event: event.type)
    return np.array([number for event in repeated for number in _numbers(event.to_json())])


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, Mapping):
        for name in sorted(value):
            if name not in _OF_THE_HOST:
                yield from _numbers(value[name])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield float(value)
