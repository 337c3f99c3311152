"""Commands of surveys: survey · gather."""

from pathlib import Path
from typing import Annotated

import typer

from sarqc.errors import Refused
from sarqc.settings import read_settings


def add_commands(app: typer.Typer) -> None:
    """Add the commands to those of sarqc."""
    for command in (survey, gather):
        app.command()(command)


def survey(
    file: Path,
    output: Annotated[Path, typer.Option("--output", help="Folder of the study; its name is the study's id.")],
) -> None:
    """Make a study over method × bits × λ × γ × calibration draws from a YAML file."""
    from sarqc.engine.plan import check_can_store, check_writable

    settings = read_settings()
    check_can_store(settings)
    check_writable(output)
    if output.is_dir() and any(output.iterdir()) and not (output / "study.json").is_file():
        raise Refused("the output folder holds something that is not a study", str(output), "Give a new folder.")
    from sarqc.extras.survey.conduct import conduct
    from sarqc.extras.survey.schema import Survey

    for line in conduct(Survey.from_file(file), settings, output):
        typer.echo(line, err=True)


def gather(
    runs: Annotated[Path, typer.Argument(help="Folder with the studies of the runs, at any depth.")],
    output: Annotated[Path, typer.Option("--output", help="New folder of the study; its name is the study's id.")],
) -> None:
    """Make one study of those that the runs of a batch left, for the Lab: draws, γ and λ side by side."""
    from sarqc.engine.plan import check_output_is_free
    from sarqc.extras.survey import gather as gathering

    check_output_is_free(output)
    studies = gathering.studies_below(runs)
    study = gathering.gather(studies, output)
    for line in study.lines:
        points = f"{len(line.draws)} draws × {len(line.gammas)} γ × {len(line.lams)} λ"
        typer.echo(f"{line.label}, {line.bits} bits: {points}", err=True)
    typer.echo(f"saved {output}, from {len(studies)} studies", err=True)
