"""The document around a page: Gradio's, with our head in place of its own, and before its application our bar and a
stand-in for the page until that is there. Of Gradio's own routes there is what these documents load.

Gradio's document introduces itself as Gradio, and its elements come when its scripts have started; a preview reads
neither scripts nor what comes later, and a reader need not wait for the bar.
"""

import json
import re
from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pages.layout import Page, head, top_bar
from sarqc.settings import Settings
from sarqc.web.embed import frame_ancestors
from sarqc.web.link_preview import Introductions, document_title, head_of, query_of
from sarqc.web.middleware import HttpMiddleware, content_security_policy, intercept, is_page, nonce_of

TITLE = "sarqc"  # of the Blocks; in each document its own takes the place
# Tags that introduce Gradio, and the base of relative addresses, which would send “#content” to another page.
_GRADIO_TAGS = re.compile(r'<(?:meta\s+(?:property="og:|name="twitter:)|link rel="manifest"|base )[^>]*>\s*')
_SCRIPT, _APP = "<script", "<gradio-app"
LOADED = ("/assets/", "/static/", "/theme.css")  # Gradio's files that the documents load: scripts, styles, fonts
_CHARSET = '<meta charset="utf-8" />'
_NOTHING = Response(status_code=404)  # which ``OneShape`` words


class Document(HttpMiddleware):
    """A wrapper of Gradio's app: pages get their own head, bar and policy; the files that they load pass through, and
    nothing else is there."""

    def __init__(
        self,
        app: ASGIApp,
        pages: tuple[Page, ...],
        settings: Settings,
        introductions: Introductions,
        more_head: str = "",
    ) -> None:
        super().__init__(app)
        self._settings, self._introductions, self._more_head = settings, introductions, more_head
        self._pages = {page.path: page for page in pages}

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].rstrip("/") or "/"
        if path not in self._pages or scope["method"] not in ("GET", "HEAD"):
            is_there = path in self._pages or scope["path"].startswith(LOADED)
            await (self.app if is_there else _NOTHING)(scope, receive, send)
            return

        async def with_ours(start: Message, body: bytes) -> None:
            made = await run_in_threadpool(self._with_ours, body.decode("utf-8"), scope, path)
            headers, framed = MutableHeaders(scope=start), frame_ancestors(scope, self._settings)
            headers["content-length"] = str(len(made))
            headers["content-security-policy"] = content_security_policy(nonce_of(scope), framed, evaluates=True)
            await send(start)
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else made})

        await intercept(self.app, scope, receive, send, which=_is_shown, instead=with_ours)

    def _with_ours(self, text: str, scope: Scope, path: str) -> bytes:
        page, search, nonce = self._pages[path], scope["query_string"].decode("latin-1"), nonce_of(scope)
        query = query_of(search)
        introduction = self._introductions.of(
            scope["state"]["visitor"], path, query, page.introduction(self._settings, query)
        )
        address = path + (f"?{search}" if search else "")
        pages = tuple(self._pages.values())
        meta_tags = head_of(introduction, self._introductions.own(scope), address) + self._more_head
        ours = "\n".join([_CHARSET, meta_tags, head(self._settings, nonce, page), ""])
        text = text.replace(_SCRIPT, f'{_SCRIPT} nonce="{nonce}"')  # of Gradio's, while nothing else is in it
        text = _GRADIO_TAGS.sub("", text).replace(_CHARSET, ours, 1)
        before = top_bar(page, pages, self._settings, nonce)
        if page.skeleton is not None:
            before += page.skeleton(self._introductions.first_sight(scope["state"]["visitor"], query))
        text = text.replace(_APP, before + _APP, 1)
        # Gradio's scripts put the title that they are told over the document's own.
        title = json.dumps(document_title(introduction)).replace("<", "\\u003c").replace("&", "\\u0026")
        return text.replace(f'"title":"{TITLE}"', f'"title":{title}', 1).encode()


def _is_shown(start: Message) -> bool:
    return start["status"] == 200 and is_page(start)


class Packed:
    """A compressor of pages; nothing else is compressed here, since streams and parts of files must stay unchanged."""

    def __init__(self, app: ASGIApp, pages: Sequence[Page]) -> None:
        self.app, self._packed = app, GZipMiddleware(app)
        self._paths = {page.path for page in pages}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].rstrip("/") or "/" if scope["type"] == "http" else ""
        await (self._packed if path in self._paths else self.app)(scope, receive, send)
