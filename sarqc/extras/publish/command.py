"""The command publish."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sarqc.plain import mib
from sarqc.settings import SITE, read_settings


def add_command(app: typer.Typer) -> None:
    """Add it to those of sarqc."""
    app.command()(publish)


def publish(
    studies: Annotated[
        list[str], typer.Argument(metavar="STUDY…", help="Folders of studies, or ids of studies of this host.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", help="Folder of the site: new, or an earlier site. A name with .zip at its end: one new file."
        ),
    ],
    detail: Annotated[
        str, typer.Option(help="Lines with views of single layers and draws: opening, every or none.")
    ] = "opening",
    address: Annotated[
        str,
        typer.Option(
            help="Address that the site will have, such as https://example.org/lab; previews of links "
            "by some other sites need it."
        ),
    ] = "",
    space: Annotated[bool, typer.Option("--space", help="Add what a static Space of Hugging Face needs.")] = False,
    processes: Annotated[
        int,
        typer.Option(
            min=0, help="Processes that make views, each with a study in memory; 0: as many as cores, up to 4."
        ),
    ] = 0,
) -> None:
    """Write the Lab of studies as a folder of files, which any web server serves below any path without Python."""
    from sarqc.extras.publish import sites

    settings, chosen = read_settings(), sites.detail_named(detail)
    is_archive = output.suffix == ".zip"
    (sites.check_archive if is_archive else sites.check_output)(output)
    named = sites.open_studies(studies, settings)
    for name, study in named.items():
        typer.echo(f"{name}: {sites.plan_site(study, chosen).words}", err=True)
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    sys.path.insert(0, str(SITE))  # pages/ stands there
    from sarqc.extras.publish.site_documents import missing_for_tour

    if missing := missing_for_tour(settings, named):
        typer.echo(f"Learn is left out: it also shows {' and '.join(missing)}", err=True)
    write = partial(
        sites.write_site,
        named,
        settings=settings,
        detail=chosen,
        address=address,
        processes=processes or min(4, len(os.sched_getaffinity(0))),
        space=space,
    )
    size = sites.write_archive(output, write) if is_archive else write(output)
    typer.echo(f"saved {output}: {mib(size)}", err=True)
