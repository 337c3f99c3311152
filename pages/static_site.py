"""Lab and Learn as documents that need no server: their parts are those of the pages, written where Gradio would insert
them.

Scripts, styles and the elements around the parts are the same, so that all of them work as in the app; what the page
asks of a server it finds in files (``assets/js/base/published.js``). The list of several studies is a document too.
"""

import json
from base64 import b64encode
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import gradio as gr

from pages import lab, layout, learn
from pages.resources import bundles
from sarqc.errors import Refused
from sarqc.settings import Settings
from sarqc.web.link_preview import Introduction, head_of
from sarqc.web.publish import (
    TOUR,
    Documents,
    SingleLayer,
    Site,
    StudyDocument,
    open_studies,
    write_archive,
    write_site,
)
from sarqc.web.static import THEME_SCRIPT, WORKER, assets_root, ground_style, join_styles

STYLES = "static"  # of assets/css, under those of the pages
# The first thing that a browser reads is that nothing comes from, or goes to, another host.
_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'none'; script-src 'self'"
)
_SCRIPT = f"""
import {{ scripts }} from "{layout.SCRIPTS}";
scripts["base/top_bar.js"].mount(document.querySelector(".bar"));
"""


def documents(settings: Settings, studies: Collection[str]) -> Documents:
    """Return the writers of the documents of a site with these studies, with Learn if it reads no others."""
    tour = learn.tour(settings)
    study, pretrained = tour["study"], tour["pretrained"]
    has_tour = {study["id"], pretrained["id"]} <= set(studies)
    site = _SiteDocuments(settings, has_tour)
    layer = SingleLayer(study["identity"], study["bits"], study["layer"])
    return Documents(
        site.study,
        site.listing,
        site.resources(),
        site.tour if has_tour else None,
        {study["id"]: [layer]} if has_tour else {},
    )


def write_own_archive(request: bytes) -> bytes:
    """Write the site of one study as a zip file, as ``sarqc.web.site_archives`` asks for it; return its size."""
    parameters = json.loads(request)
    settings = Settings(**parameters["settings"])
    studies = open_studies([parameters["study"]], settings)
    write = partial(write_site, studies, settings=settings, documents=partial(documents, settings))
    return b"%d" % write_archive(Path(parameters["path"]), write)


@dataclass(frozen=True)
class _SiteDocuments:
    """The documents of one site, with Learn or without."""

    settings: Settings
    has_tour: bool

    def resources(self) -> dict[str, str]:
        """Return scripts and styles by their names below the site: the very bundles of the app."""
        pages = (lab.PAGE, learn.PAGE) if self.has_tour else (lab.PAGE,)
        every = bundles(pages)
        names = (*(layout.module_of(page) for page in pages), layout.STYLE_SHEET, WORKER)
        return {f"{self._assets()}/{name}": every[name](self.settings.assets_dir) for name in names}

    def study(self, page: StudyDocument) -> str:
        """Write the Lab of a study."""
        assert lab.PAGE.skeleton is not None
        skeleton, begin = lab.PAGE.skeleton(page.sight), f'scripts["{lab.PAGE.asks}"].ask();'
        content, script = self._content(lab.PAGE, page.site, self.settings, skeleton, begin)
        studies = "" if page.is_alone else f'<a href="{page.root}">Studies</a>'
        return self._document(lab.PAGE, page.introduction, page.root, page.address, studies, content, script)

    def tour(self, site: Site, address: str) -> str:
        """Write Learn."""
        # Before its script the link to the Lab goes to the site's own page.
        settings = self.settings.model_copy(update={"root_path": ".."})
        content, script = self._content(learn.PAGE, site, settings)
        introduction = learn.PAGE.introduction(self.settings, {})
        return self._document(learn.PAGE, introduction, "../", address, '<a href="../">Studies</a>', content, script)

    def listing(self, introduction: Introduction, studies: Sequence[tuple[str, Introduction]], address: str) -> str:
        """Write the list of several studies, each with its folder."""
        cards = "".join(
            f'<li class="card"><a href="{escape(name)}/"><h2>{escape(study.title)}</h2>'
            f"<p>{escape(study.about)}</p></a></li>"
            for name, study in studies
        )
        # No files of a study: the scripts know from it that there is no server.
        data = _data(Site({"studies": [], "first": ""}, {}, {}))
        content = (
            f'{data}<main class="page" id="content"><h1>{escape(introduction.title)}</h1>'
            f'<ul class="studies">{cards}</ul></main>'
        )
        return self._document(lab.PAGE, introduction, "./", address, "", content, _SCRIPT)

    def _content(
        self, page: layout.Page, site: Site, settings: Settings, skeleton: str = "", begin: str = ""
    ) -> tuple[str, str]:
        """Return a page's elements, and the script that begins them."""
        mounts: list[str] = []
        parts = "".join(_render(child, mounts) for child in layout.elements(page, settings).children)
        begun = ", ".join(f"(element) => {js}" for js in mounts)
        script = f"""{_SCRIPT}{begin}
const mounts = [{begun}];
for (const element of document.querySelectorAll("[data-mount]")) mounts[element.dataset.mount](element);
"""
        before = f"{_data(site)}{skeleton}"
        content = f"""{before}<gradio-app><div class="gradio-container"><div class="main"><div class="wrap"><main
class="contain"><div class="column">{parts}</div></main></div></div></div></gradio-app>"""
        return content, script

    def _assets(self) -> str:
        return assets_root(self.settings.assets_dir, "").removeprefix("/")

    def _document(
        self,
        page: layout.Page,
        introduction: Introduction,
        root: str,
        address: str,
        links: str,
        content: str,
        script: str,
    ) -> str:
        assets_dir = self.settings.assets_dir
        if self.has_tour:
            links += f'<a href="{root}{TOUR}/">{learn.PAGE.title}</a>'
        module, styles = (f"{root}{self._assets()}/{name}" for name in (layout.module_of(page), layout.STYLE_SHEET))
        blocking, imports = THEME_SCRIPT + layout.EMBED_SCRIPT, json.dumps({"imports": {layout.SCRIPTS: module}})
        hashes = " ".join(f"'sha256-{_digest(text)}'" for text in (blocking, imports, script))
        site = urljoin(address, root).rstrip("/")  # relative where no address is known
        return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY} {hashes}">
{head_of(introduction, site, address.removeprefix(site))}
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{ground_style(assets_dir)}</style>
<script>{blocking}</script>
<script type="importmap">{imports}</script>
<link rel="modulepreload" href="{module}">
<link rel="icon" href="data:,">
</head>
<body>
<style>{join_styles(assets_dir, (STYLES,))}</style>
<link rel="stylesheet" href="{styles}">
<a class="skip" href="#content">To the content</a>
<header class="bar" data-control="bar">
  <a class="brand" href="{root}">sarqc</a><span class="tagline">what a little regularisation buys</span>
  <nav class="pages" aria-label="Pages">{links}</nav>
  <button type="button" class="theme" data-action="theme" data-testid="theme" aria-label="Light or dark">◐</button>
</header>
{content}
<script type="module">{script}</script>
</body>
</html>
"""


def _data(site: Site) -> str:
    """Return the data for the scripts."""
    text = json.dumps(site._asdict(), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="published">{text}</script>'


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def _render(component: Any, mounts: list[str]) -> str:
    """Return a component and all in it as Gradio's scripts write it; ``mounts`` gathers the scripts of elements."""
    classes = escape(" ".join(component.elem_classes))
    if isinstance(component, gr.HTML):
        markup, js = component.html_template, component.js_on_load
        if "${" in markup or "{{" in markup:
            raise Refused("a part has a value that only Gradio inserts", f"class {classes}", "Give the text itself.")
        if js and js not in mounts:
            mounts.append(js)
        mount = f' data-mount="{mounts.index(js)}"' if js else ""
        element = f'<div class="{classes}"{mount}>{markup}</div>'
        return f'<div class="block {classes}"><div class="html-container">{element}</div>\n</div>'
    identity = f' id="{escape(component.elem_id)}"' if component.elem_id else ""
    inner = "".join(_render(child, mounts) for child in component.children)
    return f'<div class="column {classes}"{identity}>{inner}</div>'
