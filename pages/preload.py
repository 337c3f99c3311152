"""What a page will need, told to the browser at the beginning of the page.

Gradio puts our scripts in only when it has itself started, and each module is found by reading the one before it. Links
in the head name them all, so that they are there when they are asked for. They are not in a header of the answer:
proxies refuse headers of more than a few thousand bytes, nginx of 4,096 as it comes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from pages.layout import Page
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
def preloads(page: Page, folder: Path, root: str) -> str:
    """Markup for the head of a page; ``folder`` is that of the assets, ``root`` that of the site. Styles
    are not in it."""
    assets = assets_root(folder, root)
    scripts = modules(folder, tuple(f"js/{name}" for name in (*EVERYWHERE, *page.scripts)))
    links = [f'<link rel="modulepreload" fetchpriority="low" href="{assets}/{name}">' for name in scripts]
    return "".join(links)


class Packed:
    """Compresses the pages; nothing else is compressed here, since streams and parts of files must stay as they are."""

    def __init__(self, app: ASGIApp, pages: Sequence[Page]) -> None:
        self.app, self._packed = app, GZipMiddleware(app)
        self._paths = {page.path for page in pages}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].rstrip("/") or "/" if scope["type"] == "http" else ""
        await (self._packed if path in self._paths else self.app)(scope, receive, send)
