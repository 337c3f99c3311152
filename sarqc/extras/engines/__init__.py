"""Recipes run by other engines: a recipe as a program for an engine, which this host knows by name alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sarqc.extras import Extra, Host

if TYPE_CHECKING:
    from fastapi import FastAPI


def _install(app: FastAPI, host: Host) -> None:
    from sarqc.extras.engines.programs import programs

    host.programs.append(programs)


EXTRA = Extra("engines", install=_install)
