"""Programs for other engines: what a recipe means there, the same tokens, and why something can't be said.

That the engines do with them what is said here is tested in environments of their own: ``make test-engines``.
"""

import ast
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import yaml

from sarqc.calibration.corpora import draw_sequences, text_of
from sarqc.engine.execute import execute
from sarqc.errors import Refused
from sarqc.extras.engines.engine_request import request_for
from sarqc.extras.engines.program import token_lines
from sarqc.extras.engines.programs import ENGINES, program_for, programs
from sarqc.models.checkpoint import read_checkpoint
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.as_recipe import of_run
from sarqc.study.document import Study
from tests.test_command_line import sarqc

PLAIN = {
    "model": "org/model", "bits": 4, "group_size": 128, "method": "rqc-gbs", "lambda": 0.25, "calibration": "text.txt",
    "samples": 4, "length": 16,
}  # fmt: skip
# What each engine takes as it is.
TAKEN = {
    "llmcompressor": {"grid": "full_range", "static_groups": True},
    "gptqmodel": {"grid": "asymmetric", "static_groups": True},
}


def assigned(program: str) -> dict[str, Any]:
    """The arguments by name of all calls of a program, and its constants, where they are plain values."""
    found = {}
    for node in ast.walk(ast.parse(program)):
        pairs = [(one.arg, one.value) for one in node.keywords] if isinstance(node, ast.Call) else []
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            pairs = [(node.targets[0].id, node.value)]
        for name, value in pairs:
            try:
                found[name] = ast.literal_eval(value)
            except ValueError:
                continue
    return found


def imported(program: str) -> list[str]:
    return [one.name for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Import) for one in node.names]


def modifiers(program: str) -> list[dict[str, Any]]:
    """What the recipe in a program for llm-compressor says of each of its modifiers."""
    (stage,) = yaml.safe_load(assigned(program)["RECIPE"]).values()
    assert all(name.endswith("_modifiers") for name in stage)  # or llm-compressor passes them over
    return [group["GPTQModifier"] for group in stage.values()]


def test_saliency_is_a_solver_of_ours_in_gptqmodel():
    document = PLAIN | TAKEN["gptqmodel"] | {"method": "sarqc-gbs", "gamma": 0.5, "lambda": 2}
    program = program_for("gptqmodel", document)
    (withs,) = (node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.With))
    call = withs.items[0].context_expr
    assert [ast.literal_eval(value) for value in call.args] == [2.0, 0.5]
    assert "quantize" in ast.unparse(withs.body[0])
    assert assigned(program)["damp_percent"] == 1e-6


def test_saliency_is_a_modifier_of_ours():
    program = program_for("llmcompressor", PLAIN | TAKEN["llmcompressor"] | {"method": "sarqc-gbs", "gamma": 0.5})
    ((group,),) = (stage.values() for stage in yaml.safe_load(assigned(program)["RECIPE"]).values())
    said = group["SARQCModifier"]
    assert (said["lam"], said["gamma"], said["actorder"]) == (0.25, 0.5, None)
    assert "dampening_frac" not in said  # the penalty is instead of it
    assert "sarqc.extras.engines.llmcompressor" in imported(program)


@pytest.mark.parametrize("engine", TAKEN)
@pytest.mark.parametrize("lam", [0.25, 0.0125])
def test_lambda_is_the_damping_of_each_engine(engine, lam):
    program = program_for(engine, PLAIN | TAKEN[engine] | {"lambda": lam})
    said = modifiers(program)[0]["dampening_frac"] if engine == "llmcompressor" else assigned(program)["damp_percent"]
    assert said == lam


def test_the_recipe_of_llmcompressor():
    program = program_for("llmcompressor", PLAIN | TAKEN["llmcompressor"])
    (modifier,) = modifiers(program)
    assert modifier["actorder"] is None
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128}
    assert modifier["config_groups"] == {"group_0": {"targets": ["Linear"], "weights": weights}}
    assert modifier["ignore"] == ["lm_head"]
    assert assigned(program)["propagate_error"] is True
    other = PLAIN | {
        "grid": "asymmetric", "group_size": "per_channel", "order": "activation", "blocks": [0, 2],
        "inputs_from": "float", "bits": 3, "method": "gptq", "lambda": None,
    }  # fmt: skip
    program = program_for("llmcompressor", other)
    (modifier,) = modifiers(program)
    assert (modifier["actorder"], modifier["dampening_frac"]) == ("static", 0.01)
    weights = {"num_bits": 3, "type": "int", "symmetric": False, "strategy": "channel"}
    assert modifier["config_groups"]["group_0"]["weights"] == weights
    assert assigned(program)["propagate_error"] is False
    outside = re.compile(modifier["ignore"][1].removeprefix("re:"))
    for path in (
        "model.layers.{}.mlp.down_proj",
        "transformer.h.{}.attn.c_attn",
        "model.layers.{}.mlp.experts.1.up_proj",
    ):
        names = [path.format(block) for block in (0, 1, 2, 20)]
        assert [bool(outside.match(name)) for name in names] == [False, True, False, True]


def test_the_settings_of_gptqmodel():
    said = assigned(program_for("gptqmodel", PLAIN | TAKEN["gptqmodel"] | {"revision": "abc"}))
    wanted_here = {
        "bits": 4, "group_size": 128, "sym": False, "desc_act": False, "act_group_aware": False, "static_groups": True,
        "true_sequential": False, "fallback": None, "REVISION": "abc",
    }  # fmt: skip
    assert wanted_here.items() <= said.items()
    assert "dynamic" not in said
    said = assigned(program_for("gptqmodel", PLAIN | {"grid": "full_range", "order": "activation", "blocks": [1]}))
    assert (said["sym"], said["desc_act"], said["static_groups"]) == (True, True, True)
    ((pattern, values),) = said["dynamic"].items()
    assert values == {}
    skips = re.compile(pattern.removeprefix("-:"))
    assert [bool(skips.match(f"model.layers.{block}.mlp.up_proj")) for block in (1, 2, 11)] == [False, True, True]


def trouble_with(engine: str, document: dict[str, Any]) -> str:
    """Why there is no program; empty where there is one."""
    said = next(one["trouble"] for one in programs(document) if one["name"] == engine)
    return "" if said is None else str(said["what"])


@pytest.mark.parametrize(
    ("engine", "change", "field"),
    [
        (None, {"kind": "tune", "lambda": None, "test": "t.txt"}, ""),
        (None, {"method": "awq", "lambda": None}, "method"),
        (None, {"method": "gptaq", "lambda": None}, "method"),
        (None, {"method": "signround", "lambda": None}, "method"),
        (None, {"range": "search"}, "range"),
        (None, {"range": "joint"}, "range"),
        (None, {"refine": 2}, "refine"),
        (None, {"refit": 2}, "refit"),
        (None, {"first_order": 0.2}, "first_order"),
        (None, {"distill": 5, "held_out_samples": 4}, "distill"),
        (None, {"rotate": "r1"}, "rotate"),
        (None, {"layer": "model.layers.0.mlp.up_proj"}, "layer"),
        (None, {"block_fraction": 0.5}, "block_fraction"),
        (None, {"indivisible": "per_channel"}, "indivisible"),
        (None, {"lambda": "auto"}, ""),
        (None, {"expert_damping": "damped"}, ""),
        (None, {"lambda": [0.1, 0.2]}, ""),
        ("llmcompressor", {"static_groups": False}, "static_groups"),
        ("llmcompressor", {"grid": "symmetric"}, "grid"),
        ("gptqmodel", {"grid": "affine"}, "grid"),
        ("gptqmodel", {"static_groups": False, "group_size": 64}, "static_groups"),
        ("gptqmodel", {"inputs_from": "float"}, "inputs_from"),
        ("gptqmodel", {"lambda": 1}, "lambda"),
        ("gptqmodel", {"lambda": 0}, "lambda"),
    ],
)
def test_what_means_something_else_is_refused(engine, change, field):
    for name in ENGINES if engine is None else [engine]:
        document = PLAIN | TAKEN.get(name, {}) | change
        with pytest.raises(Refused) as caught:
            program_for(name, document)
        refusal = caught.value
        assert refusal.what
        assert refusal.where
        assert refusal.remedy
        assert refusal.field == field
        for fix in refusal.fixes:  # mends what it is about: at the most another refusal is left
            assert trouble_with(name, document | fix.values) != refusal.what


def test_all_steps_of_an_effort_are_left_out_at_once():
    best = {"range": "joint", "refine": 3, "refit": 3, "distill": 5, "held_out_samples": 4, "order": "activation"}
    with pytest.raises(
        Refused, match=r"searched for.*refined.*fitted to the codes.*tuned by the predictions"
    ) as caught:
        program_for("gptqmodel", PLAIN | TAKEN["gptqmodel"] | best)
    assert caught.value.remedy == "Set range to minmax, refine to 0, refit to 0, distill to 0."
    (fix,) = caught.value.fixes
    assert program_for("gptqmodel", PLAIN | TAKEN["gptqmodel"] | best | fix.values)


def test_all_engines_are_answered_for():
    said = {one["name"]: one for one in programs(PLAIN | TAKEN["gptqmodel"])}
    assert said.keys() == ENGINES.keys()
    for one in said.values():
        assert bool(one["text"]) != bool(one["trouble"])
    assert said["gptqmodel"]["text"]
    refused = next(one for one in programs(PLAIN | {"grid": "symmetric"}) if one["name"] == "gptqmodel")
    assert refused["trouble"]["fixes"][0]["values"] == {"grid": "full_range"}
    with pytest.raises(Refused, match="llmcompressor"):
        program_for("awq", PLAIN)


def test_names_are_strings_of_a_program_and_no_code():
    with pytest.raises(Refused, match="line break"):
        program_for("gptqmodel", PLAIN | TAKEN["gptqmodel"] | {"model": "a\nimport os"})
    hostile = 'a""" + __import__("os").name + """'
    document = PLAIN | {"model": hostile, "calibration": "\\" + hostile, "revision": hostile}
    for engine, taken in TAKEN.items():
        program = program_for(engine, document | taken)
        assert "os" not in imported(program)
        assert not [node for node in ast.walk(ast.parse(program)) if getattr(node, "id", "") == "__import__"]
        assert assigned(program)["MODEL"] == hostile


@pytest.mark.thorough
@pytest.mark.parametrize("more", [{}, {"sampling": "random", "seed": 3, "held_out_samples": 2}, {"test": "same"}])
def test_the_tokens_are_those_of_the_run(more, tiny_llama, text_file, settings):
    from transformers import AutoTokenizer

    more = {"test": str(text_file)} if more.get("test") else more
    recipe = Recipe.parse(PLAIN | {"calibration": str(text_file), "samples": 3, "length": 32} | more)
    text = text_of(str(text_file), read_checkpoint(tiny_llama, "tiny-llama"), settings)
    text = replace(text, ids=text.ids[: len(text.ids) // 2]) if recipe.test else text
    drawn = draw_sequences(
        text, samples=3, length=32, held_out_samples=recipe.held_out_samples, sampling=recipe.sampling,
        seed=recipe.seed,
    )  # fmt: skip
    lines = token_lines(recipe)
    names = {"tokenizer": AutoTokenizer.from_pretrained(tiny_llama, local_files_only=True)}
    exec("\n".join([*lines.imports, lines.body]), names)
    np.testing.assert_array_equal(names["tokens"], drawn.calibration)


def test_texts_of_the_hub_are_named_with_what_is_read_of_them():
    whole, first = (token_lines(Recipe.parse(PLAIN | {"calibration": name})).body for name in ("wikitext2", "c4"))
    assert 'load_dataset("Salesforce/wikitext", "wikitext-2-raw-v1", split="train")' in whole
    assert 'islice(load_dataset("allenai/c4", "en", split="train", streaming=True), 2000)' in first


@pytest.fixture(scope="module")
def by_layer(random_llama, text_file, tmp_path_factory):
    """What a run left that chose λ for each linear."""
    recipe = Recipe.parse(
        PLAIN | {
            "model": str(random_llama), "calibration": str(text_file), "group_size": 16, "grid": "full_range",
            "static_groups": True, "lambda": "auto", "bits": 2, "samples": 6,
        }
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("runs")
    for _ in execute(recipe, Settings(), study_dir=folder, study_id="one"):
        pass
    return Study.open(folder / "one")


@pytest.mark.thorough
def test_lambda_by_linear(by_layer):
    _, line, document = of_run(by_layer.folder)
    chosen = {name: report["chosen"]["lam"] for name, report in by_layer.layer_reports.items()}
    assert len(set(chosen.values())) > 1
    said = {}
    for modifier in modifiers(program_for("llmcompressor", document, by_layer, line)):
        targets = modifier["config_groups"]["group_0"]["targets"]
        said |= dict.fromkeys(targets, modifier["dampening_frac"])
    assert said == chosen
    settings = assigned(program_for("gptqmodel", document, by_layer, line))
    for name, lam in chosen.items():
        dynamic = [one["damp_percent"] for pattern, one in settings["dynamic"].items() if re.match(pattern, name)]
        assert (dynamic or [settings["damp_percent"]]) == [lam]


def test_names_of_layers_are_paths(by_layer):
    first, *others = by_layer.layers
    hostile = by_layer.model_copy(update={"layers": (first.model_copy(update={"name": 'a"""'}), *others)})
    hostile._folder = by_layer.folder
    with pytest.raises(Refused, match="path of a module"):
        request_for(Recipe.parse(by_layer.recipe), hostile, hostile.lines[0])


def test_the_command(by_layer, tmp_path):
    done = sarqc("recipe", str(by_layer.folder), "--for", "llmcompressor")
    assert done.returncode == 0, done.stderr
    _, line, document = of_run(by_layer.folder)
    assert done.stdout == program_for("llmcompressor", document, by_layer, line)
    path = tmp_path / "recipe.json"
    document = PLAIN | TAKEN["gptqmodel"]
    path.write_text(json.dumps(document))
    assert sarqc("recipe", str(path), "--for", "gptqmodel").stdout == program_for("gptqmodel", document)
    refused = sarqc("recipe", str(path), "--for", "mlx")
    assert refused.returncode == 2
    assert "no programs are written for “mlx”" in refused.stderr
    assert yaml.safe_load(sarqc("recipe", str(by_layer.folder)).stdout)["lambda"] == "auto"


def test_a_study_of_several_runs_has_no_single_recipe():
    with pytest.raises(Refused, match="one run"):
        of_run(Settings().assets_dir / "studies" / "tiny-llama")
