"""The pages: layout and words only. What they show comes from the REST interface, what it means from sarqc.figures."""

from __future__ import annotations

import gradio as gr

from pages import calibrate, lab, learn, runs
from pages.layout import mount_options
from sarqc.settings import Settings

__all__ = ["build", "mount_options"]


def build(settings: Settings) -> gr.Blocks:
    """All pages as one Blocks: the Lab at "/", and a route for each of the others.

    Mount it with ``gr.mount_gradio_app(app, build(settings), path="/", **mount_options())``.
    """
    with gr.Blocks(title="sarqc", fill_width=True, analytics_enabled=False) as demo:
        lab.build()
    with demo.route("Calibrate", "calibrate"):
        calibrate.build(settings)
    with demo.route("Runs", "runs"):
        runs.build()
    with demo.route("Learn", "learn"):
        learn.build(settings)
    return demo
