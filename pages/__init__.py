"""The pages: layout and words only. Their data comes from the REST interface, its meaning from sarqc.figures.

A page is one file with a ``PAGE``, and an entry in ``PAGES``.
"""

import gradio as gr

from pages import calibrate, lab, layout, learn, runs
from pages.document import TITLE
from sarqc.settings import Settings

PAGES = (lab.PAGE, calibrate.PAGE, runs.PAGE, learn.PAGE)  # in the order of the bar


class _Pages(gr.Blocks):
    """All pages. Their elements call scripts of the browser alone, and no request may write to Gradio: its queue,
    which looks for work a thousand times a second, is not started."""

    def run_startup_events(self) -> None:
        self.is_running = True


def build(settings: Settings) -> gr.Blocks:
    """Return all pages as one Blocks: the first at "/", and a route for each of the others.

    Mount it with ``gr.mount_gradio_app(app, build(settings), path="/", **layout.mount_options())``.
    """
    first, *others = PAGES
    demo = _Pages(title=TITLE, fill_width=True, analytics_enabled=False)
    with demo:
        layout.heading(first)
        first.build(settings)
    for page in others:
        with demo.route(page.title, page.path.removeprefix("/")):
            layout.heading(page)
            page.build(settings)
    return demo
