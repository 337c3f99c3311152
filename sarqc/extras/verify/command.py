"""The command verify."""

import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sarqc.errors import Refused
from sarqc.recipe import deprecations
from sarqc.settings import read_settings
from sarqc.terminal import AsJson, print_json

_VERDICTS = {  # with exit codes
    "equal": ("It is what its stamp says.", 0),
    "different": ("It is not what its stamp says.", 1),
    "unchecked": ("Nothing that was looked at differs, but not all could be looked at.", 2),
}


def add_command(app: typer.Typer) -> None:
    """Add it to those of sarqc."""
    app.command()(verify)


def verify(
    folder: Annotated[Path, typer.Argument(help="A study, or an exported model.")],
    layers: Annotated[str, typer.Option(help="Number of linears to solve again, or all.")] = "3",
    seed: Annotated[
        int | None, typer.Option(help="Random seed of the choice of layers; a new one each time by default.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The float model, if its name differs on this host.")] = None,
    calibration: Annotated[
        str | None, typer.Option(help="The calibration text, if its name differs on this host.")
    ] = None,
    quantized_checkpoint: Annotated[
        str | None,
        typer.Option(help="The quantized checkpoint, if its name differs on this host."),
    ] = None,
    opened: Annotated[str | None, typer.Option(hidden=True, help="Its former name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare a study or an exported model with its stamp, and solve some of its linears again.

    The exit code is 1 where something differs, 2 where something could not be checked.
    """
    for sentence in deprecations({} if opened is None else {"opened": opened}):
        typer.echo(f"sarqc: {sentence}", err=True)
    from sarqc.extras.verify.checks import VerificationRequest, stamp_in, verdict
    from sarqc.extras.verify.checks import verify as checks_of

    if layers != "all" and (not layers.isdigit() or int(layers) == 0):
        raise Refused(f"{layers!r} is not a number of linears", "--layers", "Give a number from 1, or all.")
    count = None if layers == "all" else int(layers)
    chosen = secrets.randbelow(2**32) if seed is None else seed
    results = []
    request = VerificationRequest(count, chosen, model, calibration, quantized_checkpoint or opened)
    for check in checks_of(folder, read_settings(), request):
        results.append(check)
        if not as_json:
            typer.echo(f"{check.outcome:<11}{check.what}: {check.words}")
    outcome, digest = verdict(results), stamp_in(folder)[1].digest
    sentence, code = _VERDICTS[outcome]
    if as_json:
        checks = [asdict(check) for check in results]
        print_json({"outcome": outcome, "stamp": digest, "seed": chosen, "checks": checks})
    else:
        typer.echo(sentence)
    raise typer.Exit(code)
