"""A damaged checkpoint is refused with a sentence, in a plan, before any work; it hides no other."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from sarqc import Recipe
from sarqc.engine.plan import plan
from sarqc.errors import Refused
from sarqc.models.catalogue import offered
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import load
from sarqc.settings import Settings
from tests.models.damaged import LLAMA, MOE, config, document, linked

CASES = [("tiny-llama", name, damage) for name, damage in LLAMA.items()]
CASES += [("tiny-moe", name, damage) for name, damage in MOE.items()]
every_damage = pytest.mark.parametrize(
    ("model", "damage"), [pytest.param(model, damage, id=name) for model, name, damage in CASES]
)
SOME = CASES[::10]


def recipe_of(folder: Path, text: Path) -> dict[str, object]:
    return {
        "model": str(folder), "method": "rtn", "group_size": 32, "calibration": str(text), "samples": 2, "length": 32,
    }  # fmt: skip


@pytest.fixture(scope="module")
def models(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Undamaged copies of the embedded models, on the file system on which the damaged ones are linked."""
    folder = tmp_path_factory.mktemp("whole")
    for name in ("tiny-llama", "tiny-moe"):
        shutil.copytree(settings.assets_dir / "models" / name, folder / name)
    return folder


@pytest.mark.parametrize("model", ["tiny-llama", "tiny-moe"])
def test_an_undamaged_copy_is_planned(models, tmp_path, text_file, fresh_settings, model):
    copy = linked(models / model, tmp_path / "copy")
    assert plan(Recipe.parse(recipe_of(copy, text_file)), fresh_settings).layers


@pytest.mark.thorough
@every_damage
def test_a_damaged_one_is_refused(models, tmp_path, text_file, fresh_settings, model, damage):
    copy = linked(models / model, tmp_path / "copy")
    damage(copy)
    with pytest.raises(Refused) as refused:
        plan(Recipe.parse(recipe_of(copy, text_file)), fresh_settings)
    error = refused.value
    assert error.what
    assert error.where
    assert error.remedy
    assert len(str(error).replace(str(copy), "")) < 1000
    assert "\n" not in str(error)
    json.dumps(error.to_json(), ensure_ascii=False).encode()


@pytest.fixture(scope="module")
def all_of_them(models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a folder with some damaged models and a good one among them, by the names of what is wrong."""
    root = tmp_path_factory.mktemp("offered")
    folders = {}
    for number, (model, name, damage) in enumerate(SOME):
        folders[name] = linked(models / model, root / f"damaged-{number}")
        damage(folders[name])
    return folders | {"none": linked(models / "tiny-llama", root / "whole")}


def test_damaged_ones_hide_no_other(all_of_them, settings):
    assert len(all_of_them) > 12
    good = all_of_them["none"]
    here = settings.model_copy(update={"model_dirs": str(good.parent)})
    names = [entry.name for entry in offered(here) if entry.where == "local"]
    assert good.name in names
    # What is wrong with a tokenizer is said when the model is named.
    assert {name for name, folder in all_of_them.items() if folder.name in names} - {"none"} <= {
        name for _, name, _ in SOME if name.startswith("tokenizer")
    }


@pytest.mark.parametrize(
    "damage",
    [config(initializer_range="x"), config(attention_dropout={}), config(use_cache=[]), config(dtype="float17"),
     document("tokenizer_config.json", extra_special_tokens=5)],
)  # fmt: skip
def test_what_only_transformers_reads_is_refused_at_the_load(models, tmp_path, damage):
    copy = linked(models / "tiny-llama", tmp_path / "copy")
    damage(copy)
    checkpoint = read_checkpoint(copy, "somebody/llama")
    with pytest.raises(Refused) as refused:
        load(checkpoint, torch.device("cpu"))
    assert refused.value.where == "somebody/llama"
    assert refused.value.remedy
    assert str(tmp_path) not in str(refused.value)
