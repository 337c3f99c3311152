"""Files of ours that the pages load: a module of scripts for each page, and one style sheet for all of them."""

from collections.abc import Sequence
from functools import partial

from pages.layout import STYLE_SHEET, Page, entries_of, module_of, styles_of
from pages.scripts import bundled
from sarqc.web.static import WORKER, Bundle, join_styles

WORKER_ENTRIES = ("model/worker.js",)  # what the worker runs


def bundles(pages: Sequence[Page]) -> dict[str, Bundle]:
    """Return the bundles of the pages by file name, made from the assets folder."""
    entries = {module_of(page): entries_of(page) for page in (None, *pages)}
    scripts: dict[str, Bundle] = {name: partial(bundled, entries=names) for name, names in entries.items()}
    scripts[WORKER] = partial(bundled, entries=WORKER_ENTRIES)
    return {**scripts, STYLE_SHEET: partial(join_styles, names=styles_of(pages))}
