"""What is stored is read again for all that it depends on and nothing else: recipe fields, model files."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sarqc.events import Event, LayerDone
from sarqc.extras.survey.conduct import conduct
from sarqc.recipe.fields import RecipeFields
from sarqc.settings import Settings
from tests.golden.run_events import KINDS, documents, events_of, make_rounded, numbers_in, survey_of

# Another value of each field, beside those of the run; a field that is of no use there has a run of its own.
LAYERS: dict[str, dict[str, Any]] = {
    "bits": {"bits": 3},
    "grid": {"grid": "full_range"},
    "group_size": {"group_size": 8},
    "blocks": {"blocks": [0]},
    "block_fraction": {"block_fraction": 0.5},
    "exclude": {"exclude": ["*.q_proj"]},
    "method": {"method": "gptq", "lambda": None, "gamma": None},
    "lambda": {"lambda": 1.0},
    "gamma": {"gamma": 0.1},
    "shift_strength": {"method": "sarqc-gptaq", "shift_strength": 0.5},
    "from_block": {"from_block": 1, "then_lambda": 1.0},
    "then_lambda": {"from_block": 1, "then_lambda": 2.0},
    "then_gamma": {"from_block": 1, "then_gamma": 0.1},
    "validation_share": {"lambda": "auto", "gamma": "auto", "validation_share": 0.5},
    "mode": {"method": "sarqc-gs", "gamma": None, "mode": "foldable"},
    "include_identity": {"method": "sarqc-gs", "gamma": None, "include_identity": True},
    "epochs": {"method": "sarqc-omniquant", "gamma": None, "epochs": 1},
    "stopping": {"method": "sarqc-omniquant", "gamma": None, "epochs": 2, "stopping": "none"},
    "normalise": {"method": "sarqc-omniquant", "gamma": None, "epochs": 1, "normalise": "none"},
    "channel_fraction": {"method": "sarqc-gs", "gamma": None, "channel_fraction": 0.5},
    "steps": {"method": "signround", "gamma": None, "steps": 3},
    "warm_start": {"method": "signround", "gamma": None, "steps": 3, "warm_start": "gptq"},
    "static_groups": {"static_groups": True},
    "range": {"range": "search"},
    "order": {"order": "activation"},
    "refine": {"refine": 1},
    "refit": {"refit": 1},
    "first_order": {"first_order": 0.5},
    "samples": {"samples": 3},
    "length": {"length": 24},
    "sampling": {"sampling": "random"},
    "held_out_samples": {"held_out_samples": 1},
    "inputs_from": {"inputs_from": "float"},
    "seed": {"sampling": "random", "seed": 1},
    "distill": {"grid": "affine", "distill": 1},
    "distill_by": {"grid": "affine", "distill": 1, "distill_by": "block"},
    "distill_codes": {"grid": "affine", "distill": 1, "distill_codes": True},
    "distill_norms": {"grid": "affine", "distill": 1, "distill_norms": True},
    "distill_lambda": {"grid": "affine", "distill": 1, "distill_lambda": 1.0},
    "rotate": {"rotate": "r1"},
}
# These change what is measured, and no layer is solved again.
MEASURES: dict[str, dict[str, Any]] = {
    "window": {"window": 16},
    "test_tokens": {"test_tokens": 320},
    "tasks": {"tasks": []},
    "task_limit": {"task_limit": 5},
    "prompts": {"prompts": ["Twice"]},
    "new_tokens": {"new_tokens": 3},
}
# Places and names that other tests change, models of their own kind, and what decides where and how long, not what.
ELSEWHERE = {
    "model", "revision", "quantized_checkpoint", "kind", "indivisible", "include", "effort", "calibration", "begin",
    "test", "baseline", "speed", "layer", "sweep", "minutes", "draws", "band", "expert_damping",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(random_llama: Path, text_file: Path) -> dict[str, Any]:
    return documents(random_llama, text_file)["run"] | {"baseline": False}


def changed(run: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (run | changes).items() if value is not None}


@pytest.fixture(scope="module")
def filled(run: dict[str, Any], settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A host with what the run stores, and that of the runs that others are a step away from."""
    host = settings.model_copy(update={"state_dir": tmp_path_factory.mktemp("filled")})
    for changes in (
        {}, {"lambda": "auto", "gamma": "auto"}, {"method": "sarqc-gs", "gamma": None}, {"sampling": "random"},
        {"method": "sarqc-omniquant", "gamma": None, "epochs": 2}, {"method": "signround", "gamma": None, "steps": 4},
        {"method": "sarqc-gptaq"}, {"grid": "affine", "distill": 2}, {"from_block": 1, "then_lambda": 0.1},
    ):  # fmt: skip
        events_of(changed(run, changes), host)
    return host


def test_every_field_is_changed_here():
    names = {field.alias or name for name, field in RecipeFields.model_fields.items()}
    assert names == {*LAYERS, *MEASURES, *ELSEWHERE}


@pytest.mark.thorough
@pytest.mark.parametrize("field", [*LAYERS, *MEASURES])
def test_a_changed_recipe_gets_its_own_numbers(field, run, filled, fresh_settings):
    document = changed(run, (LAYERS | MEASURES)[field])
    events = events_of(document, filled)
    np.testing.assert_array_equal(results_in(events), results_in(events_of(document, fresh_settings)))
    if field in MEASURES:
        assert all(event.from_cache for event in events if isinstance(event, LayerDone))


def results_in(events: list[Event]) -> np.ndarray:
    """Return the numbers of a run's results, wherever they come from."""
    results = [event for event in events if event.type in ("measured", "diverged", "texts_compared")]
    layers = [replace(event, from_cache=False) for event in events if isinstance(event, LayerDone)]
    return numbers_in([*results, *layers])


def stored(settings: Settings) -> set[str]:
    """Return the names of all stored values of a host."""
    roots = (settings.artefacts_root(), settings.statistics_root())
    return {path.name for root in roots for path in Path(root).rglob("*") if path.is_file()}


def edited(folder: Path, target: Path, name: str, values: dict[str, Any]) -> Path:
    """Return a copy of a model with other values in one of its files."""
    shutil.copytree(folder, target)
    document = json.loads((target / name).read_text(encoding="utf-8")) if (target / name).exists() else {}
    (target / name).write_text(json.dumps(document | values), encoding="utf-8")
    return target


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_run_reads_anything_of_another_configuration(kind, random_llama, text_file, settings, tmp_path):
    def work(model: Path, host: Settings) -> None:
        opened = None
        if "quantized_checkpoint" in KINDS[kind]:
            opened = make_rounded(model, text_file, host, tmp_path / f"rounded-{model.name}")
        events_of(documents(model, text_file, opened)[kind], host)

    assert_apart(random_llama, settings, tmp_path, work)


def test_nothing_of_another_configuration_is_read(random_llama, text_file, settings, tmp_path):
    def work(model: Path, host: Settings) -> None:
        events_of(documents(model, text_file)["run"], host)
        list(conduct(survey_of(model, text_file), host, host.studies_dir() / "survey"))

    assert_apart(random_llama, settings, tmp_path, work)


def assert_apart(model: Path, settings: Settings, folder: Path, work: Callable[[Path, Settings], object]) -> None:
    """Compare what is stored of two configurations that compute the same: a value that forgets them has one name."""
    names = []
    for each in (model, edited(model, folder / "other", "config.json", {"initializer_range": 0.5})):
        host = settings.model_copy(update={"state_dir": folder / f"state-{each.name}"})
        work(each, host)
        names.append(stored(host))
    assert names[0]
    assert not names[0] & names[1]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("tokenizer_config.json", {"model_max_length": 99}),
        pytest.param("generation_config.json", {"eos_token_id": 1}, marks=pytest.mark.thorough),
    ],
)
def test_another_tokenizer_with_the_same_tokens_solves_no_layer_again(name, values, run, filled, tmp_path):
    before = stored(filled)
    model = edited(Path(run["model"]), tmp_path / "other", name, values)
    events = events_of(run | {"model": str(model)}, filled)
    assert all(event.from_cache for event in events if isinstance(event, LayerDone))
    measured = {Path(path).name for path in stored(filled) - before}
    assert len(measured) == 5, measured
