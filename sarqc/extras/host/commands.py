"""Commands of an operator: user · backup · restore · audit · doctor."""

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from sarqc import extras
from sarqc.errors import Refused
from sarqc.extras.host.settings import HostSettings
from sarqc.extras.host.users import role_named, write_user
from sarqc.plain import gib
from sarqc.settings import read_settings
from sarqc.terminal import AsJson, print_json


def add_commands(app: typer.Typer) -> None:
    """Add the commands to those of sarqc."""
    for command in (user, backup, restore, audit, doctor):
        app.command()(command)


def user(
    name: str,
    role: Annotated[str, typer.Option(help="viewer, runner or operator.")] = "runner",
    file: Annotated[Path | None, typer.Option(help="The users file; SARQC_USERS_FILE by default.")] = None,
    sign_out: Annotated[
        bool, typer.Option("--sign-out", help="Sign the user out everywhere instead, even while the app runs.")
    ] = False,
) -> None:
    """Add a user of the web app, or give one another password and role. The password is asked for."""
    from sarqc.extras.host.beside import end_sessions

    if sign_out:
        end_sessions(read_settings(), name)
        typer.echo(f"{name} is signed out everywhere.")
        return
    path = file or read_settings().of(HostSettings).users_file
    if path is None:
        raise Refused("no users file", "SARQC_USERS_FILE", "Set it, or give --file.")
    chosen = role_named(role)
    write_user(path.expanduser(), name, chosen, typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    typer.echo(f"{name} has the role of {chosen}.")


def backup(
    target: Annotated[Path, typer.Argument(help="A new folder, or a new file whose name ends with .tar.")],
    without: Annotated[
        list[str] | None, typer.Option(help="Leave out artefacts, statistics, exports, logs or texts.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy the state of this host, also while the app runs: database, studies, finished layers, exports, uploads."""
    from sarqc.extras.host.backup import back_up

    os.umask(0o077)
    made = back_up(read_settings(), target, without or ())
    if as_json:
        print_json({name: value for name, value in vars(made).items() if name != "files"})
    typer.echo(f"saved {target}: {made.runs} runs, {len(made.files)} files, {gib(made.bytes)}", err=True)


def restore(
    source: Path,
    replace: Annotated[
        bool, typer.Option("--replace", help="Move aside the contents of a state folder that is not empty.")
    ] = False,
) -> None:
    """Put a backup into the state folder of a host whose app does not run. Runs that were under way go on."""
    from sarqc.extras.host.backup import restore as put_back

    os.umask(0o077)
    restored, aside = put_back(read_settings(), source, replace=replace)
    typer.echo(f"restored {restored.runs} runs, {gib(restored.bytes)}, as of {restored.created}", err=True)
    if aside is not None:
        typer.echo(f"what was there is in {aside}; remove it when all is well", err=True)


def audit(
    days: Annotated[float | None, typer.Option(help="Only the last days.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Print who deleted, cancelled, exported, uploaded and shared what, and when; also while the app runs."""
    from sarqc.extras.host.beside import read_audit
    from sarqc.jobs.run import iso_time

    since = 0.0 if days is None else time.time() - 86_400 * days
    for entry in read_audit(read_settings(), since):
        line = json.dumps(entry.to_json(), ensure_ascii=False) if as_json else f"{iso_time(entry.at)} {entry.words()}"
        typer.echo(line)


def doctor() -> None:
    """Say what this host has, and whether its device computes what it should: on a GPU, some minutes of trials.

    The exit code is 1 where something is wrong.
    """
    from sarqc.models.catalogue import embedded_models

    settings = read_settings()
    kinds = [settings, *(settings.of(extra.settings) for extra in extras.installed() if extra.settings)]
    values = {f"SARQC_{name.upper()}": value for kind in kinds for name, value in kind.model_dump().items()}
    values["embedded models"] = ", ".join(embedded_models(settings)) or "none"
    width = max(map(len, values)) + 2
    for name, value in values.items():
        typer.echo(f"{name:<{width}}{value}")
    from sarqc.extras.host.doctor import examine

    wrong = 0
    with tempfile.TemporaryDirectory(prefix="sarqc-doctor-") as folder:
        isolated = settings.model_copy(update={"state_dir": Path(folder), "storage": "", "check_device": False})
        for finding in examine(isolated, settings):
            typer.echo(f"{'ok   ' if finding.is_sound else 'WRONG'} {finding.words}")
            wrong += not finding.is_sound
    if wrong:
        raise typer.Exit(1)
