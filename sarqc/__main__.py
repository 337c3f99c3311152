"""Command line: quantize (flags) · inspect · repair · tune · ladder · run (a recipe file) · recipe · plan · verify ·
survey · gather · doctor · serve · publish · user · backup · restore · audit.

Exit codes: 0 done, 2 refused before any work, 1 failed (verify: something differs), 130 interrupted. Progress and
words go to stderr; with --json stdout is exactly one JSON object.
"""

from __future__ import annotations

import inspect
import os
import runpy
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin

import typer
from typer.core import TyperGroup

from sarqc import __version__, extras
from sarqc.documents import LayerReportDocument, NamedReport, PrintedRun
from sarqc.errors import Refused, SarqcError
from sarqc.events import Event, Finished, Saved
from sarqc.quantization.methods import AS_FOUND
from sarqc.recipe import (
    FORMER_NAMES,
    NOT_ASKED_OF_OPENED,
    OF_THE_FILE,
    Recipe,
    deprecations,
    expanded,
    fields_without_flag,
    idle_fields,
    public_name,
    read_document,
    separator,
    shell_help,
)
from sarqc.recipe.texts import one_text
from sarqc.settings import Settings, read_settings
from sarqc.terminal import (
    AsJson,
    ProgressBar,
    print_json,
    print_summary,
    waiting_for_room,
)

if TYPE_CHECKING:
    from sarqc.checkpoints.formats import ExportFormat
    from sarqc.engine.plan import Job, Prepared

Tracker = Callable[..., AbstractContextManager[Callable[[Event], None]]]  # see ``Extra.report``, of a project


class _Commands(TyperGroup):
    """The commands. An error of the user is printed in its three parts and ends the process with 2, a failure of the
    work with 1."""

    def invoke(self, ctx: Any) -> Any:
        as_json = "--json" in ctx.args
        try:
            return super().invoke(ctx)
        except SarqcError as error:
            refusal = error
        except BrokenPipeError:
            raise  # the reader closed the pipe: typer ends the process
        except OSError as error:
            where = str(error.filename) if error.filename is not None else "command line"
            remedy = "Check the path, the rights and the room on the disk."
            refusal = Refused(error.strerror or str(error), where, remedy)
        except RecursionError:
            refusal = Refused("the argument is nested too deeply", "command line", "Write it with fewer levels.")
        except KeyboardInterrupt:
            typer.echo("sarqc: interrupted; finished layers are kept, the same command continues from them", err=True)
            raise SystemExit(130) from None
        if as_json:
            print_json({"error": refusal.to_json()})
        typer.echo(f"sarqc: {refusal}", err=True)
        raise SystemExit(refusal.exit_code)


app = typer.Typer(cls=_Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"sarqc {__version__}")
        raise typer.Exit


@app.callback(help=__doc__)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


Output = Annotated[
    Path | None, typer.Option("--output", help="New folder for the quantized model and a copy of the study.")
]
CheckpointFormat = Annotated[
    str,
    typer.Option(
        "--format",
        help="How --output stores the model: plain (dequantized weights), packed (compressed-tensors), gptq or mlx. "
        "A repaired checkpoint keeps its own format.",
    ),
]
ReportTo = Annotated[
    str | None,
    typer.Option("--report", help="Also report to an experiment tracker: mlflow, an extra of sarqc."),
]


def _recipe_command(
    name: str,
    help: str,
    run: Any,
    purpose: str | None = None,
    *,
    always: Mapping[str, str] = MappingProxyType({}),
    without: Collection[str] = (),
    opens: bool = False,
) -> None:
    """Add a command with one flag for each field of a recipe, beside the parameters of ``run`` after the first.

    With ``purpose`` for recipes of that kind, without the fields that mean nothing to it, nor those of ``without``;
    ``always``: values of fields that it has by itself. One that ``opens`` a checkpoint takes that as its argument, and
    the model that was quantized as --original.
    """
    parameters = []

    def add(name: str, annotation: Any, **default: Any) -> None:
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, keyword, annotation=annotation, **default))

    without = {*without, *always, *(() if purpose is None else fields_without_flag(purpose))}
    names = [field for field in Recipe.model_fields if field not in without]
    for field in names:
        info = Recipe.model_fields[field]
        if opens and field == "quantized_checkpoint":
            argument = typer.Argument(metavar="FOLDER", help="Folder of the quantized checkpoint, or its name.")
            add(field, Annotated[str, argument])
            continue
        flag = "--original" if opens and field == "model" else "--" + public_name(field).replace("_", "-")
        default = info.default if not info.is_required() else None
        is_flag = info.annotation is bool
        option = typer.Option(
            *([f"{flag}/--no-{flag[2:]}"] if is_flag else [flag]),
            help=shell_help(info),
            show_default=str(default) if default not in (None, ()) else False,
        )
        # Text: the recipe itself reads and judges values. A list's flag may also be given once for each entry.
        kind = bool | None if is_flag else list[str] | None if get_origin(info.annotation) is tuple else str | None
        add(field, Annotated[kind, option], default=None)
    flags = {field for field in names if not (opens and field == "quantized_checkpoint")}
    former_names = [former for former, name in FORMER_NAMES.items() if name in flags]
    for former in former_names:
        add(former, Annotated[str | None, typer.Option(f"--{former}", hidden=True)], default=None)
    for own in [*inspect.signature(run, eval_str=True).parameters.values()][1:]:
        add(own.name, own.annotation, default=own.default)

    def command(**values: Any) -> None:
        chosen = {field: values.pop(field) for field in names}
        former = {name: value for name in former_names if (value := values.pop(name)) is not None}
        _print_deprecations(former)
        document = (
            ({} if purpose is None else {"kind": purpose})
            | dict(always)
            | {
                public_name(field): separator(field).join(value) if isinstance(value, list) else _value(field, value)
                for field, value in chosen.items()
                if value not in (None, [])
            }
            | {name: _value(FORMER_NAMES[name], value) for name, value in former.items()}
        )
        run(Recipe.parse(document), **values)

    signed: Any = command  # typer reads a command's flags from its signature
    signed.__signature__ = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command(name, help=help)(command)


def _read(path: Path) -> dict[str, Any]:
    """Read the document of a recipe or a batch, and print its former names on stderr. Raises ``Refused``."""
    document = read_document(path)
    _print_deprecations(document)
    return document


def _print_deprecations(document: dict[str, Any]) -> None:
    for sentence in deprecations(document):
        typer.echo(f"sarqc: {sentence}", err=True)


def _value(field: str, text: Any) -> Any:
    """Return a number for a field that is not text, and anything else as written; pydantic checks both."""
    annotation = Recipe.model_fields[field].annotation
    kinds = [getattr(kind, "__origin__", kind) for kind in get_args(annotation) or (annotation,)]
    if not isinstance(text, str) or str in kinds:
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _quantize(
    recipe: Recipe,
    output: Output = None,
    checkpoint_format: CheckpointFormat = "plain",
    report: ReportTo = None,
    as_json: AsJson = False,
) -> None:
    tracker = _tracker(report)
    summary = _execute(_resolve(recipe, output), output, checkpoint_format, tracker)
    if as_json:
        print_json(summary)
    else:
        print_summary(summary)


def _tracker(report: str | None, project: str = "sarqc") -> Tracker | None:
    """Return what reports the runs of a project; None for nothing. Raise ``Refused`` for a tracker that is not here."""
    if report is None:
        return None
    if report != "mlflow":
        raise Refused(f"unknown tracker “{report}”", "--report", "There is mlflow.")
    return partial(extras.required("mlflow", "--report mlflow").report, project)


def _resolve(recipe: Recipe, output: Path | None) -> Job:
    """Resolve a recipe after a check that its results can be stored: refusals come before torch is loaded."""
    from sarqc.engine.plan import check_can_store, check_output_is_free, resolve

    settings = read_settings()
    check_can_store(settings)
    if output is not None:
        check_output_is_free(output)
    return resolve(recipe, settings)


def _execute(
    job: Job,
    output: Path | None,
    checkpoint_format: str,
    tracker: Tracker | None = None,
    name: str = "",
) -> PrintedRun:
    """Run a job. Its study goes to the studies of this host, where the page finds it, and a copy to ``output``.

    ``name``: of the run among those of a batch.
    """
    from sarqc.checkpoints.formats import check_export

    settings, recipe, prepared = read_settings(), job.recipe, job.prepared
    linears = () if prepared is None else prepared.checkpoint.layers
    makes_model = recipe.kind == "run" and (recipe.quantized_checkpoint is None or recipe.repairs)
    export_format = _format_of(recipe, checkpoint_format)
    known_format = check_export(recipe, export_format, linears) if makes_model else "plain"
    if output is not None and recipe.kind == "ladder":
        raise Refused("a ladder leaves no study and no model", "--output", "Leave --output out.")
    if output is None and export_format not in ("plain", "as-found"):
        raise Refused(
            "no folder was given for the model", f"format {checkpoint_format}", "Add --output with a new one."
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite end, like Ctrl-C
    from sarqc.study.document import Study

    folder = settings.studies_dir() / recipe.fingerprint()
    model = output / "model" if output and makes_model else None
    with ProgressBar() as progress:
        with ExitStack() as stack:
            hear: list[Callable[[Event], None]] = [progress.tell]
            if tracker is not None:
                hear.append(stack.enter_context(tracker(recipe, progress.tell, name)))
            for event in _events(recipe, prepared, folder, model, known_format, settings):
                for tell in hear:
                    tell(event)
                if isinstance(event, Finished):
                    finished = event
        if output is not None:
            shutil.copytree(folder, output / ".study")
            (output / ".study").rename(output / "study")  # whole or not at all
            progress.tell(Saved("study", str(output / "study")))
    reports = {} if recipe.kind == "ladder" else Study.open(folder).layer_reports
    layers = [NamedReport(name=name, report=cast(LayerReportDocument, report)) for name, report in reports.items()]
    return PrintedRun(**finished.summary, layers=layers, seconds=round(finished.seconds, 2))


def _format_of(recipe: Recipe, checkpoint_format: str) -> str:
    return "as-found" if recipe.quantized_checkpoint is not None and checkpoint_format == "plain" else checkpoint_format


def _events(
    recipe: Recipe,
    prepared: Prepared | None,
    folder: Path,
    model: Path | None,
    checkpoint_format: ExportFormat,
    settings: Settings,
) -> Iterator[Event]:
    """Yield the events of a run; its study goes to ``folder``, its model to ``model``."""
    from sarqc.engine.execute import execute

    begin = partial(
        execute,
        recipe,
        settings,
        prepared=prepared,
        study_dir=folder.parent,
        study_id=folder.name,
        checkpoint_dir=model,
        checkpoint_format=checkpoint_format,
    )
    if model is None:
        yield from waiting_for_room(begin, settings.resolved_state_dir())
    else:  # whose files may be what fills the disk
        yield from begin()


_recipe_command("quantize", "Quantize a model with one method: one flag for each field of a recipe.", _quantize, "run")


def _inspect(recipe: Recipe, output: Output = None, report: ReportTo = None, as_json: AsJson = False) -> None:
    _quantize(recipe, output, report=report, as_json=as_json)


# What a quantized checkpoint leaves no choice of.
_OPENED_ALONE = {*NOT_ASKED_OF_OPENED} - {*OF_THE_FILE}  # the latter may be given, to be compared
_recipe_command(
    "inspect",
    "Measure a checkpoint that others quantized beside its float original: layer by layer on a text, and as a whole.",
    _inspect,
    "run",
    always={"method": AS_FOUND},
    without=_OPENED_ALONE | idle_fields(AS_FOUND, auto=False) | {"effort"},
    opens=True,
)
_recipe_command(
    "repair",
    "Solve the codes of such a checkpoint again on the scales that it has; --output writes its files with them.",
    _inspect,
    "run",
    without=_OPENED_ALONE,
    opens=True,
)


def _compare(recipe: Recipe, report: ReportTo = None, as_json: AsJson = False) -> None:
    _quantize(recipe, report=report, as_json=as_json)


_recipe_command(
    "tune", "Find the λ that a model wants: candidates compared draw by draw, within a budget.", _compare, "tune"
)
_recipe_command(
    "ladder",
    "Measure what each step is worth on a model, from rounding to nearest to refined codes, draw by draw.",
    _compare,
    "ladder",
)


def _plan(recipe: Recipe, as_json: AsJson = False) -> None:
    from sarqc.checkpoints.formats import Answer, describe_answers
    from sarqc.engine.plan import plan

    planned = plan(recipe, read_settings()).model_dump(mode="json")
    if as_json:
        print_json(planned)
        return
    formats = planned.pop("formats")
    for name, value in planned.items():
        typer.echo(f"{name.replace('_', ' '):<22}{value}")
    for entry in formats:
        readers = (
            describe_answers([Answer(**answer) for answer in entry["readers"]]) if entry["possible"] else "impossible"
        )
        typer.echo(f"{'format ' + entry['format']:<22}{readers}. {entry['note']}.")


_recipe_command("plan", "Check a recipe against this host and print what it will cost; nothing is run.", _plan)


@app.command()
def run(
    recipe: Path,
    output: Output = None,
    checkpoint_format: CheckpointFormat = "plain",
    report: ReportTo = None,
    as_json: AsJson = False,
) -> None:
    """Run a recipe from a YAML or JSON file; lists in it (lambda: [0, 0.1]) make one run for each combination."""
    recipes = expanded(_read(recipe))
    if len(recipes) == 1:
        _quantize(next(iter(recipes.values())), output, checkpoint_format, report, as_json)
        return
    tracker = _tracker(report, recipe.stem)
    recipes = _check_all(recipes, output, checkpoint_format)
    summaries = {}
    for number, (name, single) in enumerate(recipes.items(), 1):
        typer.echo(f"run {number} of {len(recipes)}: {name}", err=True)
        folder = None if output is None else output / name
        summaries[name] = _execute(_resolve(single, folder), folder, checkpoint_format, tracker, name)
        if not as_json:
            typer.echo(name)
            print_summary(summaries[name])
    if as_json:
        print_json({"runs": summaries})


@app.command()
def recipe(
    file: Annotated[Path, typer.Argument(help="A recipe or a batch as a file, or the folder of a run or its study.")],
    form: Annotated[
        str,
        typer.Option("--as", help="yaml, cli, rest or python; cli of a batch has a line for each run."),
    ] = "yaml",
    engine: Annotated[
        str | None,
        typer.Option("--for", help="A program for another engine: llmcompressor or gptqmodel."),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="App URL for --as rest; by default that of SARQC_HOST and SARQC_PORT.")
    ] = None,
) -> None:
    """Print a recipe or a batch as a text to take elsewhere, with only what differs from the defaults; with --for as
    the program with which another engine does the same."""
    from sarqc.study.as_recipe import of_run

    study, line, document = of_run(file) if file.is_dir() else (None, None, _read(file))
    if engine is not None:
        text = extras.required("engines", "--for").program(engine, document, study, line)
    else:
        settings = read_settings()
        text = one_text(form, document, address or f"http://{settings.host}:{settings.port}")
    typer.echo(text, nl=False)


def _check_all(recipes: dict[str, Recipe], output: Path | None, checkpoint_format: str) -> dict[str, Recipe]:
    """Return the resolved recipes of a batch; refuse all of it before its first run if any of its runs can't work."""
    from sarqc.checkpoints.formats import check_export
    from sarqc.engine.plan import check_output_is_free, resolve

    if output is not None:
        check_output_is_free(output)
    resolved = {}
    for name, recipe in recipes.items():
        try:
            if output is not None and recipe.kind == "run" and (recipe.quantized_checkpoint is None or recipe.repairs):
                check_export(recipe, _format_of(recipe, checkpoint_format))
            resolved[name] = resolve(recipe, read_settings()).recipe
        except SarqcError as error:
            raise error.at(name) from None
    return resolved


@app.command()
def serve() -> None:
    """Open the web app, at the address that SARQC_HOST and SARQC_PORT say (http://127.0.0.1:7860)."""
    from sarqc.settings import SITE

    sys.path.insert(0, str(SITE))  # app.py and pages/ stand there
    try:
        runpy.run_path(str(SITE / "app.py"), run_name="__main__")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


for _extra in extras.installed():
    if _extra.commands is not None:
        _extra.commands(app)


def main() -> None:
    """Run the command line."""
    # Threads that spin while they wait starve each other on a busy host: measured ten times slower with two processes
    # on two cores. It must be set before torch loads its thread pool.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # as nvidia-smi counts, of which plans ask memory
    app()


if __name__ == "__main__":
    main()
