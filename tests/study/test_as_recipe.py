"""A line of a study as the run that it asks for."""

import pytest

from sarqc import Recipe, execute
from sarqc.settings import Settings
from sarqc.study.as_recipe import as_recipe
from sarqc.study.document import Study

SHIPPED = sorted(path.parent for path in Settings().assets_dir.glob("studies/*/study.json"))


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
def test_every_line_of_a_shipped_study_can_be_run(folder):
    study = Study.open(folder)
    for line in study.lines:
        said = as_recipe(study, line)
        recipe = Recipe.parse(said["recipe"] | {"lambda": said["lams"][-1]} if said["lams"] else said["recipe"])
        assert (recipe.model, recipe.bits, recipe.grid, recipe.method) == (
            study.model.name, line.bits, line.grid, line.method,
        )  # fmt: skip
        assert recipe.group_size == line.group_size
        calibration, test = (study.protocol[name] for name in ("calibration", "test"))
        assert recipe.calibration == calibration.get("text", calibration["corpus"])
        assert recipe.calibration.replace("-", "").isalnum()  # a name, and not words about a text
        assert (recipe.samples, recipe.length) == (
            study.protocol["calibration"]["samples"], study.protocol["calibration"]["length"],
        )  # fmt: skip
        assert (recipe.test, recipe.window) == (test.get("text", test["corpus"]), test["window"])
        assert (recipe.sampling, recipe.seed) == ("random", line.draws[0])
        assert {name: getattr(recipe, name) for name in line.fitting} == line.fitting
        assert bool(recipe.candidates()) == bool(line.selected)
        assert recipe.ignored() == []
        has_several = any(f"{len(line.draws)} calibration draws" in words for words in said["left"])
        assert has_several == (len(line.draws) > 1)
        assert recipe.test_tokens == study.protocol["test"].get("only_the_first_tokens")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "more",
    [
        {"lambda": 0.3, "gamma": 0.5, "group_size": None, "range": "search"},
        {"lambda": "auto", "gamma": 0.5, "validation_share": 0.5},
        {"lambda": 0.3, "gamma": "auto"},
        {"lambda": "auto", "gamma": "auto"},
        {"method": "rqc-gs", "lambda": "auto", "test": "tiny-llama-test", "test_tokens": 200, "baseline": False},
        {"method": "gptaq", "shift_strength": 0.5},
        {"method": "rqc-gbs", "lambda": 0.3, "first_order": 0.2},
        {"method": "rtn"},
    ],
)
def test_a_run_comes_back(more, random_llama, text_file, fresh_settings, tmp_path):
    recipe = Recipe.parse(
        {"model": str(random_llama), "bits": 2, "group_size": 16, "calibration": str(text_file), "samples": 3,
         "length": 32, "seed": 5, "sampling": "random"} | more
    )  # fmt: skip
    for _ in execute(recipe, fresh_settings, study_dir=tmp_path, study_id="one"):
        pass
    study = Study.open(tmp_path / "one")
    line = study.lines[0]
    said = as_recipe(study, line)
    at = line.chosen or (0, 0)
    point = {"lambda": said["lams"][at[1] :], "gamma": said["gammas"][at[0] :]}
    found = Recipe.parse(said["recipe"] | {name: values[0] for name, values in point.items() if values})
    assert found == recipe
    assert said["left"] == []


def test_what_no_recipe_can_say_is_said(tmp_path):
    study = Study.open(SHIPPED[0])
    line = study.lines[0]
    own = {"model": "toy", "calibration": "a", "layer": "model.layers.0.q", "sweep": [0, 1], "inputs_from": "float"}
    said = as_recipe(study.model_copy(update={"recipe": own, "prefix": "float"}), line)
    assert {"layer", "sweep", "inputs_from"}.isdisjoint(said["recipe"])
    words = " ".join(said["left"])
    assert "model.layers.0.q" in words
    assert "curve over λ" in words
    assert "inputs from the float model" in words
    nothing = as_recipe(study.model_copy(update={"recipe": None, "protocol": {}}), line)
    assert nothing["recipe"] is None
    assert nothing["left"] == ["No run can be made of this line: “calibration” is missing."]
