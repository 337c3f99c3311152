"""A recipe or a batch as text for use elsewhere: file, command, request, program, and launch scripts of a batch.

A batch can also be written as a shell script, and as a job array of SLURM. Every text holds only the differences from
the defaults (``sarqc.recipe.without_defaults``) and means the same runs.
"""

import itertools
import json
import math
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any, NamedTuple, TypedDict

import yaml

from sarqc.errors import Refused
from sarqc.quantization.methods import entry_of
from sarqc.recipe.batch import axes, without_defaults
from sarqc.recipe.fields import public_name
from sarqc.recipe.rules import fields_without_flag

Document = dict[str, Any]

VERBS = {"run": "quantize", "tune": "tune", "ladder": "ladder"}  # the command for each kind of recipe
BATCH_FILE = "batch.yaml"


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
        for name, form in _forms_of(brief).items()
    ]


def one_text(name: str, document: Document, address: str) -> str:
    """Return one text by its name in ``FORMS`` or ``BATCH_FORMS``. Raises ``Refused`` where the document does not have
    it.
    """
    brief = _abridge(document)
    forms = _forms_of(brief)
    if name not in forms:
        raise Refused(f"it can't be written as “{name}”", "as", f"It can as {', '.join(forms)}.")
    return forms[name].write(brief, address)


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


def _command(document: Document, address: str) -> str:
    return _join_lines(_head(document), *(" ".join(map(shlex.quote, words)) for words in _flags(document)))


def _command_of_a_batch(document: Document, address: str) -> str:
    return f"# A flag takes no list: save the YAML as {BATCH_FILE}.\npython -m sarqc run {BATCH_FILE}\n"


def _request(document: Document, address: str) -> str:
    body = json.dumps(document, ensure_ascii=False)
    return _join_lines(
        f"curl -X POST {shlex.quote(address + '/api/runs')}",
        "-H 'Content-Type: application/json'",
        f"-d {shlex.quote(body)}",
    )


def _program(document: Document, address: str) -> str:
    return f"""\
from sarqc import Recipe, execute
from sarqc.settings import read_settings

settings = read_settings()
recipe = Recipe.parse({_document(document)})
for event in execute(recipe, settings, study_dir=settings.studies_dir(), study_id=recipe.fingerprint()):
    print(event)
"""


def _program_of_a_batch(document: Document, address: str) -> str:
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


def _shell_script(document: Document, address: str) -> str:
    arrays, command, count = _launch(document)
    first = next(iter(axes(document)))
    return f"""\
#!/usr/bin/env bash
# {count} runs, one after the other: bash runs.sh
# Only some of them, by their numbers from 0: bash runs.sh 0 {count - 1}
# Started again, it goes on from the layers that are finished.
set -euo pipefail

{arrays}

for i in ${{@:-${{!{first}[@]}}}}; do
  echo "run $i" >&2
{textwrap.indent(command, "  ")}
done
"""


def _job_array(document: Document, address: str) -> str:
    arrays, command, count = _launch(document)
    return f"""\
#!/usr/bin/env bash
#SBATCH --job-name={_job_name(document)}
#SBATCH --array=0-{count - 1}
#SBATCH --gres=gpu:1
#SBATCH --output=%x-%a.log
#SBATCH --open-mode=append
#SBATCH --requeue
# {count} runs, one for each index. Fit the lines above to the cluster: it may ask for --time, --mem or --partition.
# Submitted again, each run goes on from the layers that are finished,
# if SARQC_STATE_DIR is a folder that all nodes see.
set -euo pipefail

{arrays}

i=$SLURM_ARRAY_TASK_ID
{command}
"""


def _job_name(document: Document) -> str:
    model = document["model"]
    return re.sub(r"[^a-z0-9-]+", "-", PurePath(model).name.lower()).strip("-") if isinstance(model, str) else "sarqc"


def _launch(document: Document) -> tuple[str, str, int]:
    """Return arrays of the shell with one flag of each run; the command of run number i; the number of runs."""
    varied = axes(document)
    fixed = {name: value for name, value in document.items() if name not in varied}
    points = list(itertools.product(*varied.values()))
    arrays, words = [], []
    for name, values in zip(varied, zip(*points, strict=True), strict=True):
        flags = [_flag(name, value) for value in values]
        arrays.append(f"{name}=({' '.join(shlex.quote(flag) for flag in flags)})")
        # A value that is left open has no flag, and a quoted empty word would be one.
        words.append(f'"${{{name}[i]}}"' if all(flags) else f'${{{name}[i]:+"${{{name}[i]}}"}}')
    flags = [" ".join(map(shlex.quote, parts)) for parts in _flags(fixed)]
    return "\n".join(arrays), _join_lines(_head(document), *flags, *words).rstrip("\n"), len(points)


def _flag(name: str, value: Any) -> str:
    """Return a flag with its value as one word; empty for a value that is left open."""
    return "=".join(word for words in _flags({name: value}) for word in words)


def _head(document: Document) -> str:
    return f"python -m sarqc {VERBS[document.get('kind', 'run')]}"


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
    "cli": Form("CLI", "run.sh", _command),
    "rest": Form("REST", "request.sh", _request),
    "python": Form("Python", "run.py", _program),
}
BATCH_FORMS = {
    "yaml": Form("YAML", BATCH_FILE, _yaml),
    "cli": Form("CLI", "batch.sh", _command_of_a_batch),
    "rest": Form("REST", "request.sh", _request),
    "python": Form("Python", "batch.py", _program_of_a_batch),
    "shell": Form("Shell", "runs.sh", _shell_script),
    "slurm": Form("SLURM", "runs.slurm", _job_array),
}
LAUNCH_FORMS = ("shell", "slurm")  # which run one command with flags of its own for each run


def _forms_of(document: Document) -> dict[str, Form]:
    varied = axes(document)
    if not varied:
        return FORMS
    same_command = "kind" not in varied
    return {name: form for name, form in BATCH_FORMS.items() if same_command or name not in LAUNCH_FORMS}
