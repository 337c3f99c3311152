"""A family of methods that the package has never heard of: its dataclass, its solver and a row are all it takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from sarqc.engine.execute import execute
from sarqc.engine.plan import plan
from sarqc.errors import Refused
from sarqc.events import Finished, LayerDone
from sarqc.quantization.grid import Grid, dequantize_groups, round_to_grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import METHODS, Candidates, Method, MethodEntry, Unit, method
from sarqc.quantization.solve import quantize_layer, sweep_layer
from sarqc.quantization.solving import Context, LayerJob, Solved
from sarqc.recipe import Recipe
from sarqc.study.document import Study
from tests import oracles


@dataclass(frozen=True)
class Shrunk(Method):
    """Rounds W/(1 + λ) to nearest, on whatever unit it is told to."""

    solver: ClassVar[str] = __name__
    reported: ClassVar[tuple[str, ...]] = ("lam",)

    lam: float = 0.25
    on: Unit = "layer"

    @classmethod
    def options(cls) -> tuple[str, ...]:
        return ()  # a row of ``METHODS`` sets the unit, not a recipe

    @property
    def unit(self) -> Unit:
        return self.on

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"block"}) if self.on == "block" else frozenset()


def solve(jobs: Sequence[LayerJob], context: Context) -> Iterator[Solved]:
    for number, job in enumerate(jobs):
        for index, point in enumerate(job.points_of(Shrunk)):
            layer = job.layer
            parts = round_to_grid(layer.weight / (1 + point.lam), layer.grid, layer.storage)
            stored = dequantize_groups(*parts, layer.grid.is_affine).to(layer.storage)
            yield Solved(number, index, layer.quantized(*parts, stored, chosen=point.settled()))


@pytest.fixture(params=["layer", "group", "block"])
def unit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Unit:
    """What the method “shrunk” works on, while it has a row."""
    auto = Candidates("layer", (0.0, 0.5)) if request.param == "layer" else None
    entry = MethodEntry("Shrunk weights", Shrunk(on=request.param), ("lam",), "rtn", auto=auto)
    monkeypatch.setitem(METHODS, "shrunk", entry)
    return request.param


@pytest.fixture
def document(random_llama: Path, text_file: Path) -> dict[str, object]:
    return {
        "model": str(random_llama), "bits": 3, "group_size": 16, "method": "shrunk", "inputs_from": "float",
        "calibration": str(text_file), "samples": 4, "length": 32, "test": str(text_file), "window": 64,
        "test_tokens": 200, "baseline": False,
    }  # fmt: skip


@pytest.mark.thorough
def test_a_recipe_takes_it_from_plan_to_study(document, unit, fresh_settings, tmp_path):
    recipe = Recipe.parse(document | {"lambda": 0.25, "sweep": [0.0, 1.0]})
    assert recipe.to_method() == Shrunk(on=unit)
    planned = plan(recipe, fresh_settings)
    assert planned.memory_bytes > 0
    assert planned.minutes > 0
    events = list(execute(recipe, fresh_settings, study_dir=tmp_path, study_id="one"))
    assert isinstance(events[-1], Finished)
    layers = [event for event in events if isinstance(event, LayerDone)]
    rounded = execute(Recipe.parse(document | {"method": "rtn"}), fresh_settings)
    nearest = [event for event in rounded if isinstance(event, LayerDone)]
    assert len(layers) == len(nearest) == 21
    for layer, plain in zip(layers, nearest, strict=True):
        assert layer.report["chosen"] == {"method": "Shrunk", "lam": 0.25}
        assert layer.report["drift"] > plain.report["drift"]
    line = Study.open(tmp_path / "one").line("shrunk", 3)
    assert (line.title, line.lams, line.chosen) == ("Shrunk weights", (0.0, 0.25, 1.0), (0, 1))


@pytest.mark.thorough
def test_every_unit_gives_the_same_weights(document, fresh_settings, monkeypatch):
    drifts = []
    for unit in ("layer", "group", "block"):
        monkeypatch.setitem(METHODS, "shrunk", MethodEntry("Shrunk weights", Shrunk(on=unit), ("lam",), "rtn"))
        events = execute(Recipe.parse(document), fresh_settings)
        drifts.append({event.name: event.report["drift"] for event in events if isinstance(event, LayerDone)})
    assert drifts[0] == drifts[1] == drifts[2]


@pytest.mark.parametrize("unit", ["layer"], indirect=True)
def test_auto_chooses_among_its_candidates(document, unit, fresh_settings):
    events = execute(Recipe.parse(document | {"lambda": "auto"}), fresh_settings)
    chosen = {event.report["chosen"]["lam"] for event in events if isinstance(event, LayerDone)}
    assert chosen == {0.0}  # shrinking only loses


def test_a_single_layer_and_its_sweep(unit):
    weight = torch.from_numpy(oracles.uneven_weight(1, 6, 32))
    statistics = LayerStatistics.from_inputs(torch.from_numpy(oracles.correlated_inputs(2, 64, 32)))
    grid, chosen = Grid(3, 16, "asymmetric"), method("shrunk", lam=0.5)
    if unit == "block":
        with pytest.raises(Refused, match="block"):
            quantize_layer(weight, statistics, grid, chosen)
        return
    expected = oracles.round_to_nearest(weight.numpy() / 1.5, 3, 16, "asymmetric")
    assert np.array_equal(quantize_layer(weight, statistics, grid, chosen).codes.numpy(), expected.codes)
    sweep = sweep_layer(weight, statistics, grid, chosen, lams=(0.0, 0.5, 4.0))
    assert (sweep.drift[0, 1:] > sweep.drift[0, :-1]).all()
    assert sweep.dequantized(0, 1).report.chosen == {"method": "Shrunk", "lam": 0.5}


def test_without_its_row_it_is_unknown(document):
    with pytest.raises(Refused, match="shrunk"):
        Recipe.parse(document)
