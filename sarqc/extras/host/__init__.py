"""A host for other people: accounts and sign-in, limits by address, metrics, and commands of its operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sarqc.extras import Extra

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


EXTRA = Extra("host", requires=("authlib", "limits", "prometheus_client"), commands=_add_commands, install=_install)
