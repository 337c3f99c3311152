"""The page of a phone in a lecture: one document without Gradio that holds its styles and its script, so that a hall of
phones asks for one file each. Script: assets/js/lecture/join_page.js.
"""

import json
from functools import lru_cache
from html import escape
from pathlib import Path

from fastapi import APIRouter, Request, Response

from pages.learn import plain_words, tour
from pages.scripts import bundled
from sarqc.errors import NotFound
from sarqc.extras.classroom.lectures import Lectures
from sarqc.settings import Settings
from sarqc.web.middleware import nonce_of
from sarqc.web.responses import ApiRoute, CachedBody, body_response
from sarqc.web.static import THEME_SCRIPT, content_version, join_styles

ENTRY = "lecture/join_page.js"
LAB_STOP = {
    "title": "The sweet spot",
    "ask": "Drag the ring to the λ with the lowest perplexity.",
}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title} – sarqc</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<link rel="icon" href="data:,">
<style>{styles}</style>
<script nonce="{nonce}">{theme}</script>
</head>
<body>
<main class="join card" data-address="{address}" data-stops="{stops}">{content}</main>
{script}
</body>
</html>"""
_PARTS = (
    '<div data-part="question"></div><div class="join-axis" data-part="axis" hidden></div><div data-part="below"></div>'
)
_OVER = "This lecture does not exist or is over. Scan the code on the screen again."
_SCRIPT = """<script type="module" nonce="{nonce}">{text}
scripts["{entry}"].mount(document.querySelector("main"));
</script>"""


def join_router(settings: Settings, lectures: Lectures) -> APIRouter:
    """Return the route ``/join/{code}``."""
    router = APIRouter(include_in_schema=False, route_class=ApiRoute)
    assets = settings.assets_dir

    @router.api_route("/join/{code}", methods=["GET", "HEAD"])
    def join(request: Request, code: str) -> Response:
        """Return the page of a phone; the code alone opens it."""
        nonce = nonce_of(request.scope)
        try:
            lectures.of(code)
        except NotFound:
            content, script, status = f"<h1>sarqc</h1><p>{_OVER}</p>", "", 404
        else:
            text = _script(assets, content_version(assets))
            content, script, status = _PARTS, _SCRIPT.format(nonce=nonce, text=text, entry=ENTRY), 200
        page = _PAGE.format(
            styles=join_styles(assets, ("base", "join")),
            nonce=nonce,
            theme=THEME_SCRIPT,
            content=content,
            script=script,
            stops=escape(_stops(settings)),
            title="Guess along",
            address=escape(f"{settings.root()}/api/join/{code}"),
        )
        answer = body_response(request, CachedBody(page.encode()), "text/html; charset=utf-8", cache="no-store")
        answer.headers["Referrer-Policy"] = "no-referrer"
        answer.status_code = status
        return answer

    return router


def _stops(settings: Settings) -> str:
    """Return title and question of the stops by name, as JSON."""
    stops = {
        step["name"]: {"title": step["title"], "ask": plain_words(step["ask"])} for step in tour(settings)["steps"]
    }
    stops["lab"] = LAB_STOP
    return json.dumps(stops, ensure_ascii=False)


@lru_cache(maxsize=2)
def _script(assets: Path, version: str) -> str:
    """Return the script of the page as text of an element, which only “</” would end."""
    return bundled(assets, (ENTRY,)).replace("</script", "<\\/script")
