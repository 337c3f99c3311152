"""One document for form, flags, REST and files: it round-trips, and wrong ones are refused in plain words."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sarqc.engine.keys import tuning_key
from sarqc.errors import Refused
from sarqc.quantization.methods import METHODS, ColumnSolver, ScaleSearch, method
from sarqc.recipe import FORMER_NAMES, Recipe, deprecations, expanded, without_defaults
from sarqc.recipe.texts import one_text
from tests.quantization.test_early_stopping import EARLY

LEAST = {"model": "tiny-llama", "calibration": "tiny-llama-calibration"}

BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
LINE = st.characters(exclude_characters=f"\0{BREAKS}", exclude_categories=["Cs"])

recipes = st.fixed_dictionaries(
    {"model": st.just("tiny-llama"), "calibration": st.just("text.txt")},
    optional={
        "bits": st.integers(2, 4), "grid": st.sampled_from(["symmetric", "full_range", "asymmetric", "affine"]),
        "group_size": st.sampled_from([None, 32, 128]), "method": st.sampled_from(sorted(METHODS)),
        "lambda": st.floats(0, 10), "gamma": st.floats(0, 1), "sweep": st.lists(st.floats(0, 2), max_size=4),
        "tasks": st.lists(st.sampled_from(["piqa", "boolq"]), max_size=2), "test": st.none() | st.just("text.txt"),
        "seed": st.integers(0, 2**31), "baseline": st.booleans(), "block_fraction": st.none() | st.floats(0.1, 1),
        "prompts": st.lists(st.text(LINE).filter(str.strip), max_size=2),
    },
)  # fmt: skip
batches = st.builds(
    lambda document, lists: document | lists,
    recipes,
    st.fixed_dictionaries(
        {"lambda": st.lists(st.none() | st.floats(0, 10), min_size=1, max_size=3, unique=True)},
        optional={
            "bits": st.just([2, 4]),
            "group_size": st.just(["per_channel", 64]),
            "baseline": st.just([False, True]),
            "model": st.just(["it's one", "other"]),
        },
    ),
)


def parts_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [schema, schema.get("items", {}), *schema.get("anyOf", ())]


NUMBERS = {
    name: "items" in schema
    for name, schema in Recipe.model_json_schema()["properties"].items()
    if any(part.get("type") in ("integer", "number") for part in parts_of(schema))
}


HUGE = {"digits": 10**4299, "whole": 10**308, "float": 1e308, "text of digits": "9" * 4299, "text": "1e308"}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("kind", HUGE)
@pytest.mark.parametrize(
    "more", [{"method": "signround"}, {"method": "omniquant"}, {"kind": "ladder"}, {"effort": "best"}]
)
def test_every_number_has_a_bound(name, kind, more):
    document = LEAST | {"test": "text.txt"} | more
    with pytest.raises(Refused) as caught:
        Recipe.parse(document | {name: [HUGE[kind]] if NUMBERS[name] else HUGE[kind]})
    words = str(caught.value)
    assert caught.value.field == name
    assert " or less" in words or " less than " in words or " number" in words
    assert "e+" not in words.partition(": it must")[2]
    assert len(words) < 500


def test_all_numbers_of_a_recipe_were_asked_for():
    assert {"steps", "epochs", "samples", "minutes", "lambda", "sweep", "blocks", "seed", "window"} <= NUMBERS.keys()


@given(recipes)
def test_round_trips(document):
    recipe = Recipe.parse(document)
    assert Recipe.parse(recipe.to_json()) == recipe
    left_open = {name: value for name, value in recipe.to_json().items() if value is not None}
    assert Recipe.parse(left_open) == recipe
    assert recipe.fingerprint() == Recipe.parse(recipe.to_json()).fingerprint()


@pytest.mark.thorough
@given(recipes)
def test_round_trips_through_a_file(tmp_path_factory, document):
    recipe = Recipe.parse(document)
    path = tmp_path_factory.mktemp("recipes") / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe.to_json()))
    assert Recipe.from_file(path) == recipe


@given(recipes)
def test_what_differs_from_the_defaults_is_the_same_recipe(document):
    recipe = Recipe.parse(document)
    said = recipe.differences()
    assert Recipe.parse(said) == recipe
    assert without_defaults(document) == said
    defaults = Recipe.parse(LEAST).to_json()
    assert {name for name, value in said.items() if value == defaults[name]} <= {"model", "calibration"}


@given(batches)
def test_a_batch_without_its_defaults_is_the_same_batch(document):
    said = without_defaults(document)
    assert list(expanded(said).values()) == list(expanded(document).values())
    assert set(said) <= set(document)


def test_a_batch_may_vary_a_field_by_its_name_in_python_and_what_documents_leave_out():
    assert without_defaults(LEAST | {"lam": [0, 0.5], "bits": 3}) == LEAST | {"lambda": [0, 0.5]}
    later = {"method": "gptq", "refit": [0, 2]}
    assert without_defaults(LEAST | later) == LEAST | later
    assert [recipe.refit for recipe in expanded(without_defaults(LEAST | later)).values()] == [0, 2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bits": 1}, "bits"),
        ({"bits": 5}, "bits"),
        ({"bits": "three"}, "bits"),
        ({"lambda": float("nan")}, "lambda"),
        ({"lambda": float("inf")}, "lambda"),
        ({"lambda": -0.1}, "lambda"),
        ({"gamma": 1.5}, "gamma"),
        ({"gamma": float("nan")}, "gamma"),
        ({"group_size": 0.5}, "group_size"),
        ({"group_size": -1}, "group_size"),
        ({"group_size": False}, "group_size"),
        ({"grid": "ternary"}, "grid"),
        ({"method": "magic"}, "magic"),
        ({"samples": 0}, "samples"),
        ({"length": 1}, "length"),
        ({"sweep": [0.1, -1]}, "sweep"),
        ({"lamda": 1}, "lamda"),
        ({"model": ""}, "model"),
        ({"inputs_from": "both"}, "inputs_from"),
    ],
)
def test_wrong_ones_are_refused_by_name(change, words):
    with pytest.raises(Refused) as caught:
        Recipe.parse(LEAST | change)
    assert words in f"{caught.value.what} {caught.value.where}"
    assert caught.value.remedy


def test_what_is_missing_is_named():
    with pytest.raises(Refused, match="calibration"):
        Recipe.parse({"model": "tiny-llama"})


def test_methods_get_what_they_know():
    recipe = Recipe.parse(LEAST | {"method": "gptq", "lambda": 0.7, "gamma": 0.2})
    assert recipe.to_method() == method("gptq")
    assert len(recipe.ignored()) == 2
    solver = ColumnSolver(lam=0.7, gamma=0.1, saliency="saliency")
    assert Recipe.parse(LEAST | {"method": "sarqc-gbs", "lambda": 0.7}).to_method() == solver
    search = ScaleSearch(include_identity=False)
    assert Recipe.parse(LEAST | {"method": "awq", "include_identity": False}).to_method() == search


def test_lists_may_be_written_with_commas():
    recipe = Recipe.parse(LEAST | {"tasks": "piqa, boolq", "sweep": "0, 0.1"})
    assert recipe.tasks == ("piqa", "boolq")
    assert recipe.sweep == (0.0, 0.1)


def test_prompts_keep_their_commas_and_stand_on_lines():
    lines = ("Once, upon a time", " indented, “quoted”", "42")
    assert Recipe.parse(LEAST | {"prompts": "\r\n".join(["", *lines, "  ", ""])}).prompts == lines
    recipe = Recipe.parse(LEAST | {"prompts": list(lines)})
    assert recipe.prompts == lines
    assert Recipe.parse(recipe.to_json()) == recipe
    assert len(expanded(recipe.to_json())) == 1  # a list of prompts is one run
    for wrong in ("two\nlines", "  ", "a\rb"):
        with pytest.raises(Refused, match="one line"):
            Recipe.parse(LEAST | {"prompts": [wrong]})


@pytest.mark.parametrize("content", ["", "- a\n- b\n", "bits: [", "\x00"])
def test_a_file_that_is_no_recipe(tmp_path, content):
    path = tmp_path / "recipe.yaml"
    path.write_text(content)
    with pytest.raises(Refused, match=r"recipe\.yaml"):
        Recipe.from_file(path)


@pytest.mark.parametrize("name", [name for name, entry in METHODS.items() if "cross" in entry.make.needs])
def test_a_correction_of_the_prefix_needs_a_quantized_prefix(name):
    Recipe.parse(LEAST | {"method": name})
    with pytest.raises(Refused, match=name) as refused:
        Recipe.parse(LEAST | {"method": name, "inputs_from": "float"})
    assert refused.value.where == "recipe, inputs_from"
    assert "quantized" in refused.value.remedy


def test_lists_expand_to_all_combinations():
    document = {**LEAST, "method": "sarqc-gbs", "lambda": [0, 0.1, "auto"], "bits": [2, 3], "tasks": ["a", "b"]}
    recipes = expanded(document)
    assert list(recipes) == [
        "lambda=0,bits=2", "lambda=0,bits=3", "lambda=0.1,bits=2", "lambda=0.1,bits=3", "lambda=auto,bits=2",
        "lambda=auto,bits=3",
    ]  # fmt: skip
    assert [(one.lam, one.bits) for one in recipes.values()] == [
        (0, 2), (0, 3), (0.1, 2), (0.1, 3), ("auto", 2), ("auto", 3),
    ]  # fmt: skip
    assert all(one.tasks == ("a", "b") for one in recipes.values())
    assert expanded(LEAST) == {"": Recipe.parse(LEAST)}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"bits": []}, "empty"),
        ({"bits": [2, 2]}, "twice"),
        ({"bits": [2, 9]}, "9"),
        ({"calibration": ["a/x", "b/x"]}, "called"),
    ],
)
def test_a_batch_that_is_none_is_refused(change, word):
    with pytest.raises(Refused, match=word):
        expanded(LEAST | change)


def test_what_a_method_does_not_read_is_said():
    """Also of options: what is at its default says nothing, what was given and is not read is a note in the plan."""
    gptq = Recipe.parse({**LEAST, "method": "gptq", "mode": "foldable", "epochs": 3, "channel_fraction": 0.5})
    assert [words.split(" = ")[0] for words in gptq.ignored()] == ["Channel fraction", "Scale search mode", "Epochs"]
    asked = {"lambda": "auto", "channel_fraction": 0.5, "validation_share": 0.5}
    assert Recipe.parse({**LEAST, "method": "sarqc-gbs", **asked}).ignored() == []
    by_model = Recipe.parse({**LEAST, "method": "sarqc-gs", **asked}).ignored()
    assert [words.split(" = ")[0] for words in by_model] == ["Channel fraction"]
    assert Recipe.parse({**LEAST, "method": "rtn", "lambda": 0.3}).ignored() == ["λ = 0.3 has no effect on rtn"]


def test_the_sequences_kept_for_judging_are_those_that_the_page_announces():
    """The golden file is read by the test of the page's own count too."""
    golden = json.loads((Path(__file__).parent / "golden" / "rules.json").read_text())
    for row in golden["validation_samples"]:
        recipe = Recipe.parse({**LEAST, "samples": row["samples"], "validation_share": row["share"]})
        assert recipe.validation_samples() == row["kept"], row


@pytest.mark.parametrize(
    "wrong",
    [
        {"test": "\ud800"},
        {"model": "tiny-llama\ud800"},
        {"method": "\udfff"},
        {"grid": "\ud800"},
        {"lambda": "\ud800"},
        {"layer": "\ud800"},
        {"tasks": ["\ud800"]},
        {"prompts": ["Once\ud800"]},
        {"prompts": "Once\ud800"},
        {"\ud800": 1},
        {"model": "tiny\0llama"},
        {"calibration": "text\0"},
        {"prompts": ["Once\0"]},
        *({name: "x" * 1025} for name in ("model", "revision", "method", "calibration", "test", "layer", "tasks")),
        {"prompts": ["a"] * 33},
        {"prompts": "a\n" * 8001},
        {"prompts": ["a" * 8001]},
        {"tasks": ["arc_easy"] * 65},
        {"sweep": [0.1] * 257},
        {"grid": "x" * 5000},
        {"x" * 5000: 1},
    ],
)
def test_text_that_is_none_or_too_long_is_refused_in_a_short_sentence(wrong):
    with pytest.raises(Refused) as refused:
        Recipe.parse(LEAST | wrong)
    said = json.dumps(refused.value.to_json(), ensure_ascii=False).encode()
    assert len(said) < 2000


@pytest.mark.parametrize(
    "name", ["model", "revision", "quantized_checkpoint", "method", "calibration", "test", "layer", "tasks"]
)
def test_a_name_has_no_line_break(name):
    """A script would take what follows as another word, or put blanks into it."""
    for end in BREAKS:
        for value in (f"a{end}b", f"a{end}", f"{end}a"):
            with pytest.raises(Refused) as refused:
                Recipe.parse(LEAST | {name: [value] if name == "tasks" else value})
            assert (refused.value.field, refused.value.where) == (name, f"recipe, {name}")
            assert "line break" in refused.value.what
            assert refused.value.remedy
    for end in BREAKS:
        with pytest.raises(Refused, match="not one line"):
            Recipe.parse(LEAST | {"prompts": [f"Once{end}upon a time"]})


def test_the_longest_texts_are_taken():
    longest = {"model": "m" * 1024, "calibration": "c" * 1024, "prompts": ["a" * 8000] * 32}
    assert len(Recipe.parse(longest).prompts) == 32


@pytest.mark.parametrize(
    ("said", "what", "fix"),
    [
        ({"lambda": -1}, "λ (lambda) is −1: it must be 0 or more, or “auto”", {"lambda": 0}),
        ({"lambda": "abc"}, "λ (lambda) is 'abc': it must be a number, or “auto”", None),
        ({"bits": 9}, "bits is 9: it must be 4 or less", {"bits": 4}),
        ({"group_size": "abc"}, "group size is 'abc': it must be a whole number", None),
        ({"sweep": [-1]}, "λ curve (sweep) is −1: it must be 0 or more", None),
        ({"samples": 1, "lambda": "auto"}, "there is only one", {"samples": 2}),
    ],
)
def test_a_refusal_names_its_field_and_what_would_mend_it(said, what, fix):
    with pytest.raises(Refused) as refused:
        Recipe.parse({"model": "m", "calibration": "c", **said})
    error = refused.value
    assert what in error.what
    assert error.field == next(iter(said))
    assert [one.values for one in error.fixes] == ([] if fix is None else [fix])
    for one in error.fixes:
        Recipe.parse({"model": "m", "calibration": "c", **said, **one.values})


FORMER = {"opened": "theirs", "share": 0.5, "starved": "damped", "only": "model.layers.0.mlp.up_proj"}


@pytest.mark.parametrize(("former", "value"), FORMER.items())
def test_former_names_mean_the_same(former, value):
    method = {"method": "as-found"} if former == "opened" else {}
    name = FORMER_NAMES[former]
    recipe = Recipe.parse(LEAST | method | {former: value})
    assert recipe == Recipe.parse(LEAST | method | {name: value})
    assert name in recipe.differences()
    assert former not in recipe.to_json()
    assert [*expanded(LEAST | method | {former: [value]}).values()] == [recipe]
    [sentence] = deprecations({former: value})
    assert sentence == f"“{former}” is now “{name}”; the former name is accepted until version 1.1"
    with pytest.raises(Refused, match=f"{name} is given twice, also under its former name {former}"):
        Recipe.parse(LEAST | method | {former: value, name: value})


def test_a_method_has_a_telling_name_where_the_papers_does_not_say_what_it_is():
    for name, entry in METHODS.items():
        assert bool(entry.also) == name.startswith(("rqc-", "sarqc-")), name
        if entry.also:
            recipe = Recipe.parse(LEAST | {"method": entry.also})
            assert recipe == Recipe.parse(LEAST | {"method": name})
            assert method(entry.also) == method(name) == recipe.to_method()
            assert f"method: {entry.also}" in one_text("yaml", recipe.to_json(), "") or name == "sarqc-gbs"
    assert METHODS.keys().isdisjoint(entry.also for entry in METHODS.values())
    with pytest.raises(Refused, match="unknown method"):
        Recipe.parse(LEAST | {"method": "gptq+more"}).to_method()


LATER = LEAST | {"method": "sarqc-gbs", "lambda": 0.1, "from_block": 20, "then_lambda": 0.3}


@pytest.mark.parametrize(
    ("change", "words", "field"),
    [
        ({"from_block": None}, "then_lambda is given without the block", "from_block"),
        ({"then_lambda": None}, "nothing changes at block 20", "from_block"),
        ({"then_lambda": 0.1}, "nothing changes at block 20: the values are those", "from_block"),
        ({"kind": "tune", "lambda": None, "test": "t"}, "tuning finds one λ", "from_block"),
        ({"layer": "model.layers.0.mlp.down_proj"}, "a single layer is quantized", "from_block"),
        ({"lambda": "auto"}, "“auto” chooses λ and γ", "from_block"),
        ({"sweep": [0, 1]}, "a λ curve is drawn", "from_block"),
        ({"quantized_checkpoint": "q"}, "the codes of a quantized checkpoint are solved at one λ", "from_block"),
        ({"method": "rtn", "lambda": None}, "rtn has no λ", "then_lambda"),
        ({"method": "rqc-gbs", "then_lambda": None, "then_gamma": 0.5}, "rqc-gbs has no γ", "then_gamma"),
        ({"from_block": 0}, "1 or more", "from_block"),
        ({"then_lambda": -1}, "0 or more", "then_lambda"),
        ({"then_lambda": "auto"}, "a number", "then_lambda"),
        ({"then_gamma": 2}, "1 or less", "then_gamma"),
    ],
)
def test_values_from_a_block_on_are_refused_where_they_mean_nothing(change, words, field):
    with pytest.raises(Refused, match=words) as caught:
        Recipe.parse(LATER | change)
    assert caught.value.field == field
    for fix in caught.value.fixes:  # each mends it
        Recipe.parse({name: value for name, value in (LATER | change | fix.values).items() if value is not None})


def test_values_from_a_block_on_make_one_further_method():
    recipe = Recipe.parse(LATER | {"then_gamma": 1.0})
    assert recipe.later_method() == method("sarqc-gbs", lam=0.3, gamma=1.0)
    assert recipe.to_method() == method("sarqc-gbs", lam=0.1)
    assert Recipe.parse(LEAST).later_method() is None
    assert Recipe.parse(recipe.to_json()) == recipe
    assert list(expanded(LATER | {"then_lambda": [0.2, 0.3]})) == ["then_lambda=0.2", "then_lambda=0.3"]


def test_a_recipe_without_them_is_the_document_that_it_was():
    """Its fingerprint is the name of studies on many hosts."""

    def of(**fields):
        return Recipe.parse(LEAST | {"begin": "none"} | fields).fingerprint()

    for same in ({}, {"refit": 0}, {"distill": 0}, {"rotate": "none"}, {"first_order": 0}):
        assert of(**same) == "47c1da7842f0a301"
    for other in ({"refit": 1}, {"rotate": "r1"}, {"first_order": 0.2}):
        assert of(**other) != "47c1da7842f0a301"
    distilled = {"held_out_samples": 2, "distill": 1}
    assert of(**distilled) != of(held_out_samples=2)
    given = {"distill_by": "model", "distill_codes": False, "distill_norms": False, "distill_lambda": None}
    assert of(**distilled, **given) == of(**distilled)
    newer = {"from_block", "then_lambda", "then_gamma", "include", "refit", "rotate", "first_order", *EARLY}
    assert not (newer | {"distill"} | {*given}) & set(Recipe.parse(LEAST).to_json())
    learned = LEAST | {"method": "sarqc-signround", "lambda": 0.1, "warm_start": "gptq", "range": "search"}
    assert Recipe.parse(learned).fingerprint() == "abd748bdbb00d06e"
    assert Recipe.parse(learned | dict.fromkeys(EARLY, "none")).fingerprint() == "abd748bdbb00d06e"
    assert Recipe.parse(LEAST | {"method": "signround", "refine": 3}).fingerprint() == "d2fdb9b20eb365c9"


def test_options_of_learned_rounding_without_effect_are_named_and_change_nothing():
    document = LEAST | {"method": "signround", "range": "search"}
    plain = Recipe.parse(document)
    recipe = Recipe.parse(document | {"refine": 3})
    words = "Refinement = 3 has no effect on signround, which refines the codes of warm start"
    assert [line.startswith(words) for line in recipe.ignored()] == [True]
    assert recipe.to_method() == plain.to_method()
    assert recipe.baseline_method() == plain.baseline_method()
    used = {"refine": 3, "warm_start": "column_solver", "held_out_samples": 2, **EARLY}
    recipe = Recipe.parse(document | used)
    assert recipe.ignored() == []
    assert recipe.to_method() == method("signround", range="search", refine=3, warm_start="column_solver", **EARLY)
    assert recipe.baseline_method() == method("gptq", range="search", refine=3)
    assert Recipe.parse(recipe.to_json()) == recipe


def test_the_start_of_learned_rounding_is_the_solver_of_the_recipe():
    fitting = {"range": "search", "order": "activation", "refine": 2}
    warm = {"warm_start": "column_solver"} | fitting
    penalised = method("sarqc-signround", lam=0.1, **warm).starting_solver()
    assert penalised == method("sarqc-gbs", lam=0.1, gamma=0.5, static_groups=True, **fitting)
    undamped = method("signround", **warm).starting_solver()
    assert undamped == method("gptq", static_groups=True, **fitting)
    assert method("signround").starting_solver() is None


def test_methods_without_later_choices_have_the_keys_that_they_had():
    """Kept layers and measurements are found by them."""
    points = [method("gptq", refine=2), method("rtn"), method("awq", range="search")]
    assert tuning_key("errors", ["a"], None, points) == "8f95f277b0d8eaab3c25c6eebdf4be38"
    points[0] = method("gptq", refine=2, refit=1)
    assert tuning_key("errors", ["a"], None, points) != "8f95f277b0d8eaab3c25c6eebdf4be38"


def test_a_distillation_is_judged_on_held_out_samples():
    with pytest.raises(Refused, match="held-out sequences") as caught:
        Recipe.parse(LEAST | {"distill": 5, "samples": 6})
    first, second = (Recipe.parse(LEAST | {"distill": 5, "samples": 6} | fix.values) for fix in caught.value.fixes)
    assert (first.distills, first.held_out_samples) == (True, 3)
    assert not second.distills


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "awq"}, "Distillation of scales = 5 has no effect on awq"),
        ({"method": "omniquant"}, "Distillation of scales = 5 has no effect on omniquant"),
        ({"kind": "tune", "test": "t"}, "Distillation of scales has no effect on tuning"),
        ({"kind": "ladder", "test": "t"}, "Distillation of scales has no effect on a ladder"),
        ({"layer": "model.layers.0.mlp.up_proj"}, "Distillation of scales has no effect on a single layer"),
        ({"distill": 0, "distill_codes": True}, "Distillation of codes has no effect without distillation"),
        ({"distill": 0, "distill_norms": True}, "Distillation of norms has no effect without distillation"),
        ({"distill_lambda": 0, "method": "awq"}, "λ of distillation = 0.0 has no effect on awq"),
    ],
)
def test_a_distillation_without_effect_is_noted(change, words):
    recipe = Recipe.parse(LEAST | {"distill": 5} | change)
    assert not recipe.distills
    assert words in recipe.ignored()


@pytest.mark.parametrize("kind", ["tune", "ladder"])
def test_models_are_compared_without_a_rotation(kind):
    document = LEAST | {"kind": kind, "test": "t"}
    with pytest.raises(Refused, match="works on the model as it is") as caught:
        Recipe.parse(document | {"rotate": "r1"})
    assert Recipe.parse(document | caught.value.fixes[0].values) == Recipe.parse(document)


def test_gptq_with_distilled_scales_has_a_baseline():
    recipe = Recipe.parse(LEAST | {"method": "gptq", "test": "t", "held_out_samples": 2})
    assert recipe.why_no_baseline()
    assert not recipe.model_copy(update={"distill": 3}).why_no_baseline()


def test_scales_of_a_quantized_checkpoint_are_not_refitted():
    opened = LEAST | {"quantized_checkpoint": "q", "method": "gptq", "samples": 4}
    assert Recipe.parse(opened).to_method() == method("gptq")
    with pytest.raises(Refused, match="its scales stay") as caught:
        Recipe.parse(opened | {"refit": 2})
    for change in ({"distill": 2}, {"distill_codes": True}, {"distill_norms": True}, {"distill_lambda": 0.1}):
        with pytest.raises(Refused, match="its scales stay"):
            Recipe.parse(opened | change)
    with pytest.raises(Refused, match="those of its own basis"):
        Recipe.parse(opened | {"rotate": "r1"})
    assert Recipe.parse(opened | {"refit": 2} | caught.value.fixes[0].values) == Recipe.parse(opened)
