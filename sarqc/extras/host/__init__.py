"""A host for other people: accounts and sign-in, limits by address, metrics, and commands of its operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sarqc.extras import Extra
from sarqc.extras.host.settings import HostSettings, check

if TYPE_CHECKING:
    import typer
    from fastapi import FastAPI

    from sarqc.extras import Host


def _add_commands(app: typer.Typer) -> None:
    from sarqc.extras.host.commands import add_commands

    add_commands(app)


def _install(app: FastAPI, host: Host) -> None:
    from sarqc.extras.host.install import install

    install(app, host)


def _server(host: Host, open_files: int) -> dict[str, Any]:
    from sarqc.extras.host.limits import connection_class

    settings = host.settings
    return {"http": connection_class(settings.of(HostSettings), open_files, host.crowds, settings.root())}


EXTRA = Extra(
    "host",
    requires=("authlib", "limits", "prometheus_client"),
    settings=HostSettings,
    check=check,
    commands=_add_commands,
    install=_install,
    server=_server,
)
