"""Teaching: lectures whose phones guess at λ, and cards of the Lab in frames of other sites."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sarqc.extras import Extra, Host

if TYPE_CHECKING:
    from fastapi import FastAPI


def _install(app: FastAPI, host: Host) -> None:
    from sarqc.extras.classroom.lecture_api import crowd_of, lecture_router
    from sarqc.extras.classroom.lectures import Lectures
    from sarqc.extras.classroom.oembed import discovery, oembed_router

    lectures = Lectures(host.supervisor.bell)
    host.crowds.append(crowd_of(lectures))
    app.include_router(lecture_router(lectures, host.settings, host.supervisor.bell))
    app.include_router(oembed_router(host.settings, host.introductions))
    host.heads.append(partial(discovery, host.settings))
    if host.with_pages:
        from sarqc.extras.classroom.join import join_router

        app.include_router(join_router(host.settings, lectures))


EXTRA = Extra("classroom", requires=("segno",), install=_install)
