"""A recipe taken elsewhere means the same there: each text is read or run by what it is written for."""

import json
import shlex
from typing import Any

import pytest
import typer
from hypothesis import given

from sarqc import __main__ as command_line
from sarqc.errors import Refused
from sarqc.recipe import OF_THE_OTHER_KIND, Recipe, expanded, read_document
from sarqc.recipe.texts import one_text
from sarqc.settings import Settings
from sarqc.study.document import Study
from tests.test_recipe import batches, recipes

ADDRESS = "http://127.0.0.1:7860"
LADDER = {"kind": "ladder", "model": "toy", "calibration": "a.txt", "test": "b.txt", "lambda": 0.2, "draws": 4}
TUNED = {"kind": "tune", "model": "toy", "calibration": "a.txt", "test": "b.txt", "sweep": [0, 0.5], "minutes": 3}


def words_of(command: str) -> list[str]:
    """The words of a command that goes over several lines."""
    return shlex.split(command.replace("\\\n", " "))


class Understood(Exception):
    """What a command would have run."""


def understood(command: str) -> Recipe:
    """The recipe that the command line makes of a pasted command."""

    def instead(recipe: Recipe, *_):
        raise Understood(recipe)

    python, dash_m, module, *arguments = words_of(command)
    assert [python, dash_m, module] == ["python", "-m", "sarqc"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_line, "_resolve", instead)
        with pytest.raises(Understood) as caught:
            typer.main.get_command(command_line.app).main(arguments, standalone_mode=False)
    return caught.value.args[0]


def recipe_of_request(text: str) -> tuple[str, str]:
    """Address and body of a request by curl."""
    words = words_of(text)
    assert words[:3] == ["curl", "-X", "POST"]
    assert words[4:6] == ["-H", "Content-Type: application/json"]
    assert words[6] == "-d"
    return words[3], words[7]


@pytest.mark.thorough
@given(recipes | batches)
def test_the_file_means_the_same_runs(tmp_path_factory, document):
    path = tmp_path_factory.mktemp("texts") / "recipe.yaml"
    path.write_text(one_text("yaml", document, ADDRESS))
    assert list(expanded(read_document(path)).values()) == list(expanded(document).values())


@pytest.mark.thorough
@given(recipes | batches)
def test_the_request_means_the_same_runs(document):
    address, body = recipe_of_request(one_text("rest", document, ADDRESS))
    assert address == f"{ADDRESS}/api/runs"
    assert list(expanded(json.loads(body)).values()) == list(expanded(document).values())


@pytest.mark.thorough
@given(recipes)
def test_the_command_means_the_same_run(document):
    assert understood(one_text("cli", document, ADDRESS)) == Recipe.parse(document)


@pytest.mark.thorough
@given(batches)
def test_a_batch_has_a_command_for_each_run(document):
    commands = one_text("cli", document, ADDRESS).splitlines()
    assert [understood(command) for command in commands] == list(expanded(document).values())


def test_a_batch_of_several_kinds_has_commands_of_each():
    commands = one_text("cli", TUNED | {"kind": ["run", "tune"]}, ADDRESS).splitlines()
    assert [command.split()[3] for command in commands] == ["quantize", "tune"]


@pytest.mark.parametrize(
    ("document", "idle"),  # the latter means nothing there, and has no flag
    [
        (TUNED, {"speed": True, "baseline": False}),
        (LADDER, {"gamma": 0.5, "epochs": 3, "tasks": ["piqa"], "range": "search"}),
    ],
    ids=["tune", "ladder"],
)
def test_tuning_and_a_ladder_have_commands_of_their_own(document, idle):
    command, kind = one_text("cli", document, ADDRESS), document["kind"]
    assert command.startswith(f"python -m sarqc {kind} ")
    assert "--method" not in command
    assert understood(command) == Recipe.parse(document)
    assert {"speed", "baseline"} <= {*OF_THE_OTHER_KIND["tune"]}
    assert understood(one_text("cli", document | idle, ADDRESS)) == Recipe.parse(document)
    for form in ("yaml", "rest", "python"):
        assert kind in one_text(form, document, ADDRESS)


def begun(document: dict[str, Any]) -> dict[str, Any]:
    """What a program has made before it runs anything."""
    names = {}
    exec(one_text("python", document, ADDRESS).split("\nfor ")[0], names)
    return names


@pytest.mark.thorough
@given(recipes | batches)
def test_the_program_has_the_same_recipes(document):
    assert list(begun(document)["recipes"].values()) == list(expanded(document).values())


@pytest.fixture
def small(random_llama, text_file):
    return {
        "model": str(random_llama), "bits": 3, "group_size": 16, "method": "rqc-gbs", "lambda": [0.1],
        "calibration": str(text_file), "samples": 2, "length": 32,
    }  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("lams", [0.1, [0, 0.1]])
def test_the_program_runs(small, lams, tmp_path, monkeypatch):
    monkeypatch.setenv("SARQC_STATE_DIR", str(tmp_path))
    document = small | {"lambda": lams}
    exec(one_text("python", document, ADDRESS), {})
    for recipe in expanded(document).values():
        study = Study.open(Settings().studies_dir() / recipe.fingerprint())
        assert study.recipe == recipe.to_json()


def test_a_form_that_there_is_not():
    with pytest.raises(Refused, match="yaml, cli, rest, python"):
        one_text("slurm", TUNED, ADDRESS)
