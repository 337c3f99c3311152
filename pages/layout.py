"""Parts of every page: the top bar, the head of the document, and the theme that Gradio's own fields take."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from sarqc.settings import Settings
from sarqc.web.link_preview import ABOUT, FirstSight, Introduction
from sarqc.web.static import THEME_SCRIPT, assets_root, ground_style

# Styles that every page needs, before and behind the pages' own.
FIRST, LAST = ("base",), ("access", "link", "touch", "print")
EVERYWHERE = ("base/link.js", "base/top_bar.js")  # modules of every page; the first one hides what a link hides
STYLE_SHEET = "pages.css"
SCRIPTS = "page-scripts"  # of the page's module in its import map


@dataclass(frozen=True)
class Page:
    """A page: its address, its content, and the files that the browser needs for it.

    ``scripts`` are the modules of assets/js that its elements ask for, ``styles`` the files of assets/css that it adds.
    """

    title: str  # in the bar
    path: str
    build: Callable[[Settings], None]  # lays it out, within the current Blocks
    heading: str  # its purpose, in its tab and its links
    scripts: tuple[str, ...]
    about: str = ABOUT
    styles: tuple[str, ...] = ()
    asks: str = ""  # a module whose ``ask`` sends the page's first requests while Gradio is still starting
    # Markup that stands where its elements will be, until its script takes it away, made of what they will show.
    skeleton: Callable[[FirstSight | None], str] | None = None
    heading_of: Callable[[Settings, Mapping[str, str]], str | None] | None = None  # of one address, by its parameters

    def introduction(self, settings: Settings, query: Mapping[str, str]) -> Introduction:
        """Return the page's introduction at an address."""
        heading = (self.heading_of and self.heading_of(settings, query)) or self.heading
        return Introduction(heading, heading, self.about)


def styles_of(pages: Sequence[Page]) -> list[str]:
    """Return the styles of all pages, by name; later ones refine earlier ones."""
    return list(dict.fromkeys([*FIRST, *(name for page in pages for name in page.styles), *LAST]))


# The effect of base/link.js on a page in a frame, before the first paint.
EMBED_SCRIPT = """(() => {
  const embed = new URLSearchParams(location.search).get("embed");
  if (["0", "", null].includes(embed)) return;
  document.documentElement.dataset.embed = "";
  if (embed !== "1") document.documentElement.dataset.card = embed;
})();"""


def _assets(settings: Settings) -> str:
    return assets_root(settings.assets_dir, settings.root())


def module_of(page: Page | None) -> str:
    """Return the file name of a page's module; None is the page for an address without one."""
    return f"{page.title.lower() if page else 'no_page'}.js"


def head(settings: Settings, nonce: str, page: Page | None = None) -> str:
    """Return the head of every page's document: all but the styles, see ``top_bar``, and their ground.

    Gradio puts our scripts in only when it has itself started. The module of the page is announced here, to be there by
    then, and an import map gives it the name that elements ask for. ``nonce``: of the answer, see
    ``sarqc.web.middleware``.
    """
    assets = _assets(settings)
    module = f"{assets}/{module_of(page)}"
    imports = json.dumps({"imports": {SCRIPTS: module}})
    framing = '<meta name="cards-in-frames">\n' if settings.embed_ancestors else ""  # for *Share*
    return f"""{framing}<style>{ground_style(settings.assets_dir)}</style>
<script nonce="{nonce}">{THEME_SCRIPT + EMBED_SCRIPT}</script>
<script type="importmap" nonce="{nonce}">{imports}</script>
<link rel="modulepreload" href="{module}">
<link rel="preload" as="style" href="{assets}/{STYLE_SHEET}">
<link rel="icon" href="data:,">"""


def entries_of(page: Page | None) -> tuple[str, ...]:
    """Return the modules that a page asks for; None is the page for an address without one."""
    return (*EVERYWHERE, *(page.scripts if page else ()))


def script(name: str) -> str:
    """Return the expression for a module of assets/js, as a promise, for what Gradio runs in the browser.

    ``name`` is below ``js/``, of a script of the page or one that these import.
    """
    return f"import('{SCRIPTS}').then(({{ scripts }}) => scripts['{name}'])"


def mounted(name: str) -> str:
    """Return the script that Gradio runs once an element exists: the ``mount`` of a module."""
    return f"{script(name)}.then((module) => module.mount(element))"


def published_by_the_paper(settings: Settings) -> dict[str, Any]:
    """Return the numbers of the paper that pages show beside their own: “results” and “speed”."""
    published: dict[str, Any] = json.loads((settings.assets_dir / "published.json").read_text(encoding="utf-8"))
    return published


def top_bar(current: Page | None, pages: Sequence[Page], settings: Settings, nonce: str) -> str:
    """Return the bar above a page, as markup for the beginning of its body, after a keyboard link to the content below
    it; ``current``: the page that is marked, ``nonce``: of the answer.

    The styles come first of all, and nothing is painted without them. In the body they are behind those that Gradio
    puts into the head whenever it likes, and so refine them.
    """
    root = settings.root()
    links = "".join(
        f'<a href="{root}{escape(page.path)}"{" aria-current=page" if page is current else ""}>{escape(page.title)}</a>'
        for page in pages
    )
    ask = f'\nscripts["{current.asks}"].ask();' if current and current.asks else ""
    return f"""
<link rel="stylesheet" href="{_assets(settings)}/{STYLE_SHEET}">
<a class="skip" href="#content">To the content</a>
<header class="bar" data-control="bar">
  <a class="brand" href="{root}/">sarqc</a><span class="tagline">what a little regularisation buys</span>
  <nav class="pages" aria-label="Pages">{links}</nav>
  <span class="visitor" data-part="visitor"></span>
  <button type="button" class="theme" data-action="theme" data-testid="theme" aria-label="Light or dark">◐</button>
</header>
<script type="module" nonce="{nonce}">
import {{ scripts }} from "{SCRIPTS}";
scripts["base/top_bar.js"].mount(document.querySelector(".bar"));{ask}
</script>
"""


def heading(page: Page) -> gr.HTML:
    """Lay out the page's one heading of the first level, for screen readers."""
    return part(f'<h1 class="visually-hidden">{escape(page.heading)}</h1>', classes="slot-heading")


def elements(page: Page, settings: Settings) -> gr.Column:
    """Return the elements of a page without an app around them, which Blocks would make in half a second."""
    column = gr.Column()
    with column:
        heading(page)
        page.build(settings)
    return column


def part(markup: str, *, script: str = "", classes: str = "") -> gr.HTML:
    """Lay out our own markup; ``script`` is a module of assets/js whose ``mount`` is called with the element."""
    return gr.HTML(
        html_template=markup,
        js_on_load=mounted(script) if script else None,
        apply_default_css=False,
        elem_classes=["slot", *classes.split()],
    )


def theme() -> gr.themes.Base:
    """Return Gradio's fields in our type and colours; the page itself is styled by assets/css."""
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
    parameters = inspect.signature(base.set).parameters
    dark = {f"{name}_dark": value for name, value in both.items() if f"{name}_dark" in parameters}
    return base.set(**both, **dark)


def mount_options() -> dict[str, Any]:
    """Return keyword arguments for ``gr.mount_gradio_app``: our theme, none of Gradio's own furniture."""
    return {
        "theme": theme(),
        "footer_links": [],
        "run_history": False,
        "show_error": False,
        "enable_monitoring": False,
        "ssr_mode": False,
        "pwa": False,
    }
