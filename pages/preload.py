"""What a page will need, told to the browser before it has read the page.

Gradio puts our scripts in only when it has itself started, and each module is found by reading the one before it. A
``Link`` header names them all with the answer, so that they are there when they are asked for.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from importlib import metadata
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pages import PAGES
from pages.layout import styles_of
from sarqc.web.static import assets_root

_IMPORT = re.compile(r'(?:^|;)(?:import|export)\b[^;]*?from\s*"(\.{1,2}/[\w./-]+\.js)"(?=;)', re.MULTILINE)
EVERYWHERE = ("base/top_bar.js", "base/link.js")  # modules that every page asks for


def modules(folder: Path, entries: tuple[str, ...]) -> list[str]:
    """Names of the scripts below ``folder`` that these ones import, directly or not, and these themselves."""
    found: list[str] = []
    waiting = list(entries)
    while waiting:
        name = waiting.pop(0)
        if name not in found and (folder / name).is_file():
            found.append(name)
            imported = _IMPORT.findall((folder / name).read_text(encoding="utf-8"))
            waiting += [posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for path in imported]
    return found


@cache
def link_header(path: str, folder: Path) -> str:
    """Value of the ``Link`` header for the page at ``path``, empty for a path that is no page of ours; ``folder`` is
    that of the assets."""
    page = next((page for page in PAGES if page.path == path), None)
    if page is None:
        return ""
    root = assets_root(folder)
    links = [f"<{root}/css/{name}.css>; rel=preload; as=style" for name in styles_of(PAGES)]
    scripts = modules(folder, tuple(f"js/{name}" for name in (*EVERYWHERE, *page.scripts)))
    links += [f"<{root}/{name}>; rel=modulepreload" for name in scripts]
    if page.draws:
        links.insert(0, f"</assets/plotly.min.js?v={metadata.version('plotly')}>; rel=preload; as=script")
    return ", ".join(links)


class Preload:
    """Names what a page needs in the headers of its answer, so that browsers fetch it while Gradio is starting.

    The page itself is compressed; nothing else is here, since streams and parts of files must stay as they are.
    """

    def __init__(self, app: ASGIApp, assets: Path) -> None:
        self.app, self.packed, self.assets = app, GZipMiddleware(app), assets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].rstrip("/") or "/" if scope["type"] == "http" else ""
        links = link_header(path, self.assets)

        async def send_with_links(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                MutableHeaders(scope=message).append("Link", links)
            await send(message)

        if links:
            await self.packed(scope, receive, send_with_links)
        else:
            await self.app(scope, receive, send)
