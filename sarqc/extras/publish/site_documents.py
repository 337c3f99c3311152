"""Lab and Learn as documents that need no server: their parts are those of the pages, written where Gradio would insert
them.

Scripts, styles and the elements around the parts are the same, so that all of them work as in the app; what the page
asks of a server it finds in files (``assets/js/base/published.js``). The list of several studies is a document too.
"""

import json
import shutil
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import gradio as gr

from pages import lab, layout, learn
from pages.resources import bundles
from sarqc.errors import Refused
from sarqc.extras.publish.sites import TOUR
from sarqc.extras.publish.slices import Contents
from sarqc.figures.view import default_line
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.study.facts import line_facts
from sarqc.study.library import summary_of
from sarqc.web.link_preview import Introduction, head_of, introduction_of, point_of, sight_of
from sarqc.web.static import PICTURE, THEME_SCRIPT, WORKER, assets_root, ground_style, join_styles

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


def missing_for_tour(settings: Settings, studies: Iterable[str]) -> list[str]:
    """Return the names of the studies that Learn shows and a site lacks."""
    tour = learn.tour(settings)
    return sorted({tour["study"]["id"], tour["pretrained"]["id"]}.difference(studies))


class SiteDocuments:
    """The documents of a site with some studies, and with Learn if it reads no others.

    ``address``: absolute, of the site; empty where it is not known. Each document has a ``place`` in the site, which is
    a folder with “/” at its end, or empty for the site's own.
    """

    def __init__(self, settings: Settings, studies: Mapping[str, Study], address: str) -> None:
        self._settings, self._studies, self._address = settings, studies, address and f"{address}/"
        self._shown = learn.tour(settings)["study"]
        self._has_tour = not missing_for_tour(settings, studies)
        self._assets = assets_root(settings.assets_dir, "").removeprefix("/")
        # As the REST interface lists them.
        self._listed = [{**summary_of(study, name, "shipped"), "is_mine": False} for name, study in studies.items()]

    def tour_layer(self, name: str) -> tuple[int, int] | None:
        """Return the positions of a line and of one layer of a study that Learn shows by itself; None for no such."""
        shown = self._shown
        if not self._has_tour or name != shown["id"]:
            return None
        study = self._studies[name]
        line = study.line(shown["identity"], shown["bits"])
        return study.lines.index(line), [layer.name for layer in study.layers].index(shown["layer"])

    def write(self, made: Path, listed: Mapping[str, Contents]) -> None:
        """Write all documents, with their scripts and styles: the very bundles of the app."""
        introductions = {name: self._write_study(made, name, listed[name]) for name in self._studies}
        if len(introductions) > 1:
            self._write_listing(made, introductions)
        pages = [lab.PAGE]
        if self._has_tour:
            pages.append(learn.PAGE)
            self._write_tour(made)
        every = bundles(pages)
        folder = made / self._assets
        folder.mkdir(parents=True)
        for name in (*map(layout.module_of, pages), layout.STYLE_SHEET, WORKER):
            (folder / name).write_text(every[name](self._settings.assets_dir), encoding="utf-8")
        shutil.copyfile(self._settings.assets_dir / PICTURE, made / PICTURE)

    def _write_study(self, made: Path, name: str, listed: Contents) -> Introduction:
        """Write the Lab of a study, of a single one at the site's own place too."""
        assert lab.PAGE.skeleton is not None
        study, is_alone = self._studies[name], len(self._studies) == 1
        line = default_line(study, None, None)
        facts = line_facts(study, method=line.name, bits=line.bits, layer=0 if len(study.layers) == 1 else None)
        at = point_of(facts, {})
        introduction, skeleton = introduction_of(facts, at), lab.PAGE.skeleton(sight_of(facts, at, banded=True))
        links, begin = "" if is_alone else '<a href="../">Studies</a>', f'scripts["{lab.PAGE.asks}"].ask();'
        for place in (f"{name}/", "") if is_alone else (f"{name}/",):
            before = self._data(place, name, {name: listed}) + skeleton
            content, script = _content(lab.PAGE, self._settings, before, begin)
            self._write(made, place, lab.PAGE, introduction, links, content, script)
        return introduction

    def _write_tour(self, made: Path) -> None:
        place = f"{TOUR}/"
        # Before its script the link to the Lab goes to the site's own page.
        settings = self._settings.model_copy(update={"root_path": ".."})
        content, script = _content(learn.PAGE, settings, self._data(place, "", {}))
        introduction = learn.PAGE.introduction(self._settings, {})
        self._write(made, place, learn.PAGE, introduction, '<a href="../">Studies</a>', content, script)

    def _write_listing(self, made: Path, studies: Mapping[str, Introduction]) -> None:
        """Write the list of several studies, each with its folder."""
        introduction = Introduction("Studies")
        cards = "".join(
            f'<li class="card"><a href="{escape(name)}/"><h2>{escape(study.title)}</h2>'
            f"<p>{escape(study.about)}</p></a></li>"
            for name, study in studies.items()
        )
        # No files of a study: the scripts know from it that there is no server.
        data = _element({"listing": {"studies": [], "first": ""}, "folders": {}, "contents": {}})
        content = (
            f'{data}<main class="page" id="content"><h1>{escape(introduction.title)}</h1>'
            f'<ul class="studies">{cards}</ul></main>'
        )
        self._write(made, "", lab.PAGE, introduction, "", content, _SCRIPT)

    def _data(self, place: str, first: str, listed: Mapping[str, Contents]) -> str:
        """Return the data of a document for its scripts, see ``assets/js/base/published.js``."""
        up = "../" if place else ""
        folders = {name: "./" if place == f"{name}/" else f"{up}{name}/" for name in self._studies}
        listing = {"studies": self._listed, "damaged": [], "first": first}
        return _element({"listing": listing, "folders": folders, "contents": listed})

    def _write(
        self,
        made: Path,
        place: str,
        page: layout.Page,
        introduction: Introduction,
        links: str,
        content: str,
        script: str,
    ) -> None:
        assets_dir, root, address = self._settings.assets_dir, "../" if place else "./", self._address
        address = address and address + place
        if self._has_tour:
            links += f'<a href="{root}{TOUR}/">{learn.PAGE.title}</a>'
        module, styles = (f"{root}{self._assets}/{name}" for name in (layout.module_of(page), layout.STYLE_SHEET))
        blocking, imports = THEME_SCRIPT + layout.EMBED_SCRIPT, json.dumps({"imports": {layout.SCRIPTS: module}})
        hashes = " ".join(f"'sha256-{_digest(text)}'" for text in (blocking, imports, script))
        site = urljoin(address, root).rstrip("/")  # relative where no address is known
        text = f"""<!doctype html>
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
        (made / place).mkdir(exist_ok=True)
        (made / place / "index.html").write_text(text, encoding="utf-8")


def _content(page: layout.Page, settings: Settings, before: str, begin: str = "") -> tuple[str, str]:
    """Return a page's elements, and the script that begins them."""
    mounts: list[str] = []
    parts = "".join(_render(child, mounts) for child in layout.elements(page, settings).children)
    begun = ", ".join(f"(element) => {js}" for js in mounts)
    script = f"""{_SCRIPT}{begin}
const mounts = [{begun}];
for (const element of document.querySelectorAll("[data-mount]")) mounts[element.dataset.mount](element);
"""
    content = f"""{before}<gradio-app><div class="gradio-container"><div class="main"><div class="wrap"><main
class="contain"><div class="column">{parts}</div></main></div></div></div></gradio-app>"""
    return content, script


def _element(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
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
