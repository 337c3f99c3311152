"""Runs of recipes, and what they said."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sarqc.engine.execute import execute
from sarqc.events import Event, Finished, LayerDone
from sarqc.recipe import Recipe
from sarqc.settings import Settings


def run(asked: dict[str, Any] | Recipe, settings: Settings, **output: Any) -> list[Event]:
    return list(execute(asked if isinstance(asked, Recipe) else Recipe.parse(asked), settings, **output))


def summary_of(events: list[Event]) -> Any:
    assert isinstance(events[-1], Finished)
    return events[-1].summary


def of_type(events: list[Event], kind: type) -> list:
    return [event for event in events if isinstance(event, kind)]


def reports_of(events: list[Event]) -> dict[str, Any]:
    return {event.name: event.report for event in of_type(events, LayerDone)}


def perplexity(
    folder: Path, text: Path, dtype: torch.dtype = torch.float64, window: int = 64, tokens: int = 15 * 64
) -> float:
    """Of what transformers loads, on whole windows of the second half of a text that calibration has too."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    ids = AutoTokenizer.from_pretrained(folder)(text.read_text())["input_ids"]
    windows = torch.tensor(ids[len(ids) // 2 :][:tokens]).reshape(-1, 1, window)
    with torch.no_grad():
        return float(np.exp(np.mean([float(model(part, labels=part).loss) for part in windows])))
