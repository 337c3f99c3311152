"""What every page shares: the top bar, the head of the document, and the theme that Gradio's own fields take."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import metadata
from typing import Any

import gradio as gr

from sarqc.settings import Settings
from sarqc.web.link_preview import ABOUT, FirstSight, Introduction
from sarqc.web.static import THEME_SCRIPT, assets_root, ground_style

FIRST, LAST = (
    ("base",),
    ("access", "link", "touch", "print"),
)  # styles that every page needs, before and behind the pages' own


@dataclass(frozen=True)
class Page:
    """A page: where it is, what is on it, and what the browser needs for it.

    ``scripts`` are the modules of assets/js that its elements ask for, ``styles`` the files of assets/css that it adds.
    """

    title: str  # in the bar
    path: str
    build: Callable[[Settings], None]  # lays it out, within the Blocks of the moment
    heading: str  # what it is for, as its tab and its links say it
    scripts: tuple[str, ...]
    about: str = ABOUT
    styles: tuple[str, ...] = ()
    # Markup that stands where its elements will be, until its script takes it away, made of what they will show.
    skeleton: Callable[[FirstSight | None], str] | None = None
    heading_of: Callable[[Settings, Mapping[str, str]], str | None] | None = None  # of one address, by its parameters

    def introduction(self, settings: Settings, query: Mapping[str, str]) -> Introduction:
        """What the page says of itself at an address."""
        heading = (self.heading_of and self.heading_of(settings, query)) or self.heading
        return Introduction(heading, heading, self.about)


def styles_of(pages: Sequence[Page]) -> list[str]:
    """The styles of all pages, by name; later ones refine earlier ones."""
    return list(dict.fromkeys([*FIRST, *(name for page in pages for name in page.styles), *LAST]))


_HEAD = """<meta name="plotly" content="{plotly}">
<meta name="assets" content="{assets}">
<style>{ground}</style>
<script nonce="{nonce}">{at_once}</script>
<script type="module" src="{assets}/js/base/link.js"></script>
<link rel="icon" href="data:,">"""
_EMBED_SCRIPT = (
    'if (new URLSearchParams(location.search).get("embed") === "1") document.documentElement.dataset.embed = "";'
)

_BAR = """
{styles}
<a class="skip" href="#content">To the content</a>
<header class="bar" data-control="bar">
  <a class="brand" href="{root}/">sarqc</a><span class="tagline">what a little regularisation buys</span>
  <nav class="pages" aria-label="Pages">{links}</nav>
  <span class="visitor" data-part="visitor"></span>
  <button type="button" class="theme" data-action="theme" data-testid="theme" aria-label="Light or dark">◐</button>
</header>
<script type="module" nonce="{nonce}">
import {{ mount }} from "{assets}/js/base/top_bar.js";
mount(document.querySelector(".bar"));
</script>
"""


def _assets(settings: Settings) -> str:
    return assets_root(settings.assets_dir, settings.root())


def style_links(pages: Sequence[Page], relation: str, settings: Settings) -> str:
    """Links to the styles of all pages, in their order; ``relation``: the attributes that say what for."""
    assets = _assets(settings)
    return "".join(f'<link {relation} href="{assets}/css/{name}.css">' for name in styles_of(pages))


def head(settings: Settings, nonce: str) -> str:
    """What every page has in the head of its document: all but the styles, see ``top_bar``, and their ground.
    ``nonce``: of the answer, see ``sarqc.web.middleware``."""
    return _HEAD.format(
        plotly=metadata.version("plotly"),
        assets=_assets(settings),
        ground=ground_style(settings.assets_dir),
        at_once=THEME_SCRIPT + _EMBED_SCRIPT,
        nonce=nonce,
    )


def script(name: str) -> str:
    """The expression for a module of assets/js, as a promise, for what Gradio runs in the browser. Each is asked for by
    one address only: another would be another module, with a state of its own."""
    return f"import('{_assets(Settings())}/js/{name}')"


def mounted(name: str) -> str:
    """What Gradio runs when an element is there: the ``mount`` of a module."""
    return f"{script(name)}.then((module) => module.mount(element))"


def published_by_the_paper(settings: Settings) -> dict[str, Any]:
    """Numbers of the paper that pages show beside their own: “results” and “speed”."""
    published: dict[str, Any] = json.loads((settings.assets_dir / "published.json").read_text(encoding="utf-8"))
    return published


def top_bar(current: str, pages: Sequence[Page], settings: Settings, nonce: str) -> str:
    """The bar above a page, as markup for the beginning of its body; ``current``: the path of the page that is marked,
    ``nonce``: of the answer. Before it comes a link for the keyboard, to what is below it.

    The styles come first of all, and nothing is painted without them. In the body they are behind those that Gradio
    puts into the head whenever it likes, and so refine them.
    """
    root = settings.root()
    marks = {current: " aria-current=page"}
    links = "".join(
        f'<a href="{root}{escape(page.path)}"{marks.get(page.path, "")}>{escape(page.title)}</a>' for page in pages
    )
    styles = style_links(pages, 'rel="stylesheet"', settings)
    return _BAR.format(links=links, assets=_assets(settings), root=root, styles=styles, nonce=nonce)


def heading(page: Page) -> gr.HTML:
    """The page's one heading of the first level, for those who hear it."""
    return part(f'<h1 class="visually-hidden">{escape(page.heading)}</h1>', classes="slot-heading")


def part(markup: str, *, script: str = "", classes: str = "") -> gr.HTML:
    """A piece of our own markup; ``script`` is a module of assets/js whose ``mount`` is called with the element."""
    return gr.HTML(
        html_template=markup,
        js_on_load=mounted(script) if script else None,
        apply_default_css=False,
        elem_classes=["slot", *classes.split()],
    )


def theme() -> gr.themes.Base:
    """Gradio's fields in our type and colours; the page itself is styled by assets/css."""
    system = ["system-ui", "-apple-system", "Segoe UI", "DejaVu Sans", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "Menlo", "DejaVu Sans Mono", "monospace"]
    base = gr.themes.Base(
        font=system, font_mono=mono, text_size=gr.themes.sizes.text_md, radius_size=gr.themes.sizes.radius_md
    )
    both = {
        "body_background_fill": "var(--ground)",
        "body_text_color": "var(--ink)",
        "body_text_color_subdued": "var(--ink-2)",
        "background_fill_primary": "var(--surface)",
        "background_fill_secondary": "var(--ground)",
        "border_color_primary": "var(--line)",
        "border_color_accent": "var(--accent)",
        "block_background_fill": "transparent",
        "block_border_width": "0px",
        "block_shadow": "none",
        "block_label_text_color": "var(--ink)",
        "block_title_text_color": "var(--ink)",
        "block_info_text_color": "var(--ink-2)",
        "input_background_fill": "var(--surface)",
        "input_border_color": "var(--line-2)",
        "input_border_color_focus": "var(--accent)",
        "input_placeholder_color": "var(--ink-3)",
        "input_border_width": "1px",
        "input_shadow": "none",
        "input_shadow_focus": "0 0 0 2px var(--accent-soft)",
        "checkbox_background_color_selected": "var(--accent)",
        "checkbox_border_color_selected": "var(--accent)",
        "color_accent": "var(--accent)",
        "color_accent_soft": "var(--accent-soft)",
        "link_text_color": "var(--accent-ink)",
        "link_text_color_hover": "var(--accent-ink)",
        "button_secondary_background_fill": "var(--surface)",
        "button_secondary_border_color": "var(--line-2)",
        "button_secondary_text_color": "var(--ink)",
    }
    # The colours are variables that know the theme themselves, so light and dark take the same.
    known = inspect.signature(base.set).parameters
    dark = {f"{name}_dark": value for name, value in both.items() if f"{name}_dark" in known}
    return base.set(**both, **dark)


def mount_options() -> dict[str, Any]:
    """Keyword arguments for ``gr.mount_gradio_app``: our theme, none of Gradio's own furniture."""
    return {
        "theme": theme(),
        "footer_links": [],
        "run_history": False,
        "show_error": False,
        "enable_monitoring": False,
        "ssr_mode": False,
        "pwa": False,
    }
