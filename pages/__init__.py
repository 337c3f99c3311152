"""The pages: layout and words only. What they show comes from the REST interface, what it means from sarqc.figures.

A page is one file with a ``PAGE``, and an entry in ``PAGES``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr
from gradio.blocks import BlockContext

from pages import calibrate, lab, layout, learn, runs
from pages.document import TITLE
from pages.form_of_recipe import Field
from sarqc.language import ENGLISH, LANGUAGES, speaking
from sarqc.settings import Settings

PAGES = (lab.PAGE, calibrate.PAGE, runs.PAGE, learn.PAGE)  # in the order of the bar


def build(settings: Settings) -> gr.Blocks:
    """All pages as one Blocks: the first at "/", and a route for each of the others.

    Mount it with ``gr.mount_gradio_app(app, build(settings), path="/", **mount_options())``.
    """
    first, *others = PAGES
    demo = gr.Blocks(title=TITLE, fill_width=True, analytics_enabled=False)
    with demo:
        layout.heading(first)
        first.build(settings)
    for page in others:
        with demo.route(page.title, page.path.removeprefix("/")):
            layout.heading(page)
            page.build(settings)
    return demo


def translations(settings: Settings) -> dict[str, dict[str, str]]:
    """Return what the pages' elements say in other languages, by language and by the same in English."""

    def texts(code: str) -> list[str]:
        with speaking(code):
            columns = [layout.elements(page, settings) for page in PAGES]
        return [text for column in columns for text in _texts(column)]

    with gr.Blocks(analytics_enabled=False):  # without an app around them fields can't be made
        said = {code: texts(code) for code in LANGUAGES}
    english = said.pop(ENGLISH)
    return {code: dict(zip(english, others, strict=True)) for code, others in said.items()}


def _texts(column: BlockContext) -> Iterator[str]:
    """The markup of every part below a column, and the words of every field, in order."""
    for child in column.children:
        if isinstance(child, gr.HTML):
            yield child.html_template
        elif isinstance(child, BlockContext):
            yield from _texts(child)
        elif isinstance(child, Field):
            yield str(child.label)
            yield str(child.info)
            yield from (str(title) for title, _ in getattr(child, "choices", ()))


def mount_options() -> dict[str, Any]:
    """Keyword arguments for ``gr.mount_gradio_app``: our theme, none of Gradio's own furniture."""
    return layout.mount_options()
