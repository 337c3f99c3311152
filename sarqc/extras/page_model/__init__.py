"""Codes of a study's further points, with which pages run its model: a run itself keeps those of its own point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sarqc.extras import Extra

if TYPE_CHECKING:
    import typer


def _add_commands(app: typer.Typer) -> None:
    from sarqc.extras.page_model.command import codes

    app.command()(codes)


EXTRA = Extra("page_model", commands=_add_commands)
