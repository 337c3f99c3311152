"""Verification of a study or an exported model by its stamp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sarqc.extras import Extra

if TYPE_CHECKING:
    import typer


def _add_commands(app: typer.Typer) -> None:
    from sarqc.extras.verify.command import verify

    app.command()(verify)


EXTRA = Extra("verify", commands=_add_commands)
