"""A recipe or a batch as text for use elsewhere: file, commands, request and program.

Every text holds only the differences from the defaults (``sarqc.recipe.without_defaults``) and means the same runs.
"""

import itertools
import json
import math
import shlex
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypedDict

import yaml

from sarqc.errors import Refused
from sarqc.quantization.methods import entry_of
from sarqc.recipe.batch import axes, without_defaults
from sarqc.recipe.fields import public_name
from sarqc.recipe.rules import fields_without_flag

Document = dict[str, Any]

VERBS = {"run": "quantize", "tune": "tune", "ladder": "ladder"}  # the command for each kind of recipe


class RecipeText(TypedDict):
    """One text: its name and title, what it would be called as a file, and itself."""

    name: str
    title: str
    file: str
    text: str


class ProgramText(RecipeText):
    """A program, or in its place, with an empty text, why there is none: an error as ``SarqcError.to_json`` says it."""

    trouble: dict[str, Any] | None


def texts(document: Document, address: str) -> list[RecipeText]:
    """Return all texts of a recipe, or of a batch, which has lists instead of single values.

    ``address``: of the app, such as http://127.0.0.1:7860. Raises ``Refused`` where the document is not a recipe.
    """
    brief = _abridge(document)
    return [
        RecipeText(name=name, title=form.title, file=form.file, text=form.write(brief, address))
        for name, form in FORMS.items()
    ]


def one_text(name: str, document: Document, address: str) -> str:
    """Return one text by its name in ``FORMS``.

    Raises:
        Refused: For another name, or if the document is not a recipe.
    """
    if name not in FORMS:
        raise Refused(f"it can't be written as “{name}”", "as", f"It can as {', '.join(FORMS)}.")
    return FORMS[name].write(_abridge(document), address)


def _abridge(document: Document) -> Document:
    return {
        name: _shorten(_use_descriptive_names(value) if name == "method" else value)
        for name, value in without_defaults(document).items()
    }


def _use_descriptive_names(value: Any) -> Any:
    """Return the descriptive names of methods, if there are any."""
    if isinstance(value, list):
        return [_use_descriptive_names(item) for item in value]
    entry = entry_of(value)
    return entry.also or value if entry else value


def _shorten(value: Any) -> Any:
    """Return numbers as people write them: 1 and not 1.0."""
    if isinstance(value, list):
        return [_shorten(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and value < 1e6 else value


def _yaml(document: Document, address: str) -> str:
    # Lists stand in one line each, and no text is broken.
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(
    list, lambda dumper, values: dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=True)
)


def _commands(document: Document, address: str) -> str:
    """Return the command of each run; those of a batch have a line each, which a job of an array can take."""
    varied = axes(document)
    if not varied:
        return _join_lines(*_words(document))
    runs = (document | dict(zip(varied, values, strict=True)) for values in itertools.product(*varied.values()))
    return "".join(f"{' '.join(_words(run))}\n" for run in runs)


def _request(document: Document, address: str) -> str:
    body = json.dumps(document, ensure_ascii=False)
    return _join_lines(
        f"curl -X POST {shlex.quote(address + '/api/runs')}",
        "-H 'Content-Type: application/json'",
        f"-d {shlex.quote(body)}",
    )


def _program(document: Document, address: str) -> str:
    return f"""\
from sarqc import execute
from sarqc.recipe import expanded
from sarqc.settings import read_settings

settings = read_settings()
recipes = expanded({_document(document)})
for name, recipe in recipes.items():
    for event in execute(recipe, settings, study_dir=settings.studies_dir(), study_id=recipe.fingerprint()):
        print(name, event)
"""


def _words(document: Document) -> Iterator[str]:
    """Yield the parts of a command: its name, and each flag with its value."""
    yield f"python -m sarqc {VERBS[document.get('kind', 'run')]}"
    yield from map(shlex.join, _flags(document))


def _flags(document: Document) -> Iterator[tuple[str, ...]]:
    """Yield the words of each flag. The kind is the command's name, which has no flags for what means nothing to it."""
    idle = {public_name(field) for field in fields_without_flag(document.get("kind", "run"))}
    for name, value in document.items():
        flag = name.replace("_", "-")
        if name in idle or value is None:
            continue
        if isinstance(value, bool):
            yield (f"--{flag}" if value else f"--no-{flag}",)
        elif isinstance(value, list) and value and isinstance(value[0], str):  # a text may hold any separator
            yield from ((f"--{flag}", item) for item in value)
        else:
            yield f"--{flag}", ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _join_lines(*parts: str) -> str:
    return " \\\n  ".join(parts) + "\n"


def _document(document: Document) -> str:
    return "{\n" + "".join(f'    "{name}": {_literal(value)},\n' for name, value in document.items()) + "}"


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


class Form(NamedTuple):
    """A text form of a document that ``without_defaults`` returned, for an app at an address."""

    title: str
    file: str
    write: Callable[[Document, str], str]


FORMS = {
    "yaml": Form("YAML", "recipe.yaml", _yaml),
    "cli": Form("CLI", "run.sh", _commands),
    "rest": Form("REST", "request.sh", _request),
    "python": Form("Python", "run.py", _program),
}
