"""The routes of a classroom around the core's app."""

from functools import partial

from fastapi import FastAPI

from sarqc.extras import Host
from sarqc.extras.classroom.lecture_api import crowd_of, lecture_router
from sarqc.extras.classroom.lectures import Lectures
from sarqc.extras.classroom.oembed import discovery, oembed_router


def install(app: FastAPI, host: Host) -> None:
    """Add routes, crowd and head of a classroom."""
    lectures = Lectures(host.supervisor.bell)
    host.crowds.append(crowd_of(lectures))
    host.heads.append(partial(discovery, host.settings))
    app.include_router(lecture_router(lectures, host.settings, host.supervisor.bell))
    app.include_router(oembed_router(host.settings, host.introductions))
    if host.with_pages:
        from sarqc.extras.classroom.join import join_router  # with which all of Gradio comes

        app.include_router(join_router(host.settings, lectures))
