"""The routes of a classroom around the core's app."""

from fastapi import FastAPI

from sarqc.extras import Host
from sarqc.extras.classroom.lecture_api import crowd_of, lecture_router
from sarqc.extras.classroom.lectures import Lectures


def install(app: FastAPI, host: Host) -> None:
    """Add routes and crowd of a classroom."""
    lectures = Lectures(host.supervisor.bell)
    host.crowds.append(crowd_of(lectures))
    app.include_router(lecture_router(lectures, host.settings, host.supervisor.bell))
    if host.pages:
        from sarqc.extras.classroom.join import join_router  # with which all of Gradio comes

        app.include_router(join_router(host.settings, lectures))
