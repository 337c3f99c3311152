"""The command codes."""

from pathlib import Path
from typing import Annotated

import typer

from sarqc.settings import read_settings


def add_command(app: typer.Typer) -> None:
    """Add it to those of sarqc."""
    app.command()(codes)


def codes(
    study: Annotated[Path, typer.Argument(help="Folder of a study of a model that ships with the app.")],
    method: Annotated[str | None, typer.Option("--method", help="Name of a line; by default all.")] = None,
    bits: Annotated[int | None, typer.Option("--bits", help="Width of a line; by default all.")] = None,
    gamma: Annotated[float | None, typer.Option("--gamma", help="A value of γ; by default all.")] = None,
) -> None:
    """Compute and keep the codes of a study's points, with which pages and published sites run its model there."""
    from sarqc.extras.page_model.study_codes import keep_points
    from sarqc.study.document import Study

    for line in keep_points(Study.open(study), read_settings(), method=method, bits=bits, gamma=gamma):
        typer.echo(line, err=True)
