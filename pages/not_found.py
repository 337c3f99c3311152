"""The answer for an unknown address: the bar, the address, and links to the pages."""

from html import escape

from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from pages.layout import Page, head, top_bar
from sarqc.settings import Settings
from sarqc.web.link_preview import Introduction, head_of
from sarqc.web.middleware import nonce_of


def not_found(scope: Scope, own: str, pages: tuple[Page, ...], settings: Settings) -> Response:
    """Return the page, with status 404. ``own``: see ``Introductions.own``."""
    path = scope["path"]
    title = "Page not found"
    words = "The address may have been cut or mistyped. These pages are here:"
    if path.startswith("/runs/"):
        words = "A run has the address /calibrate?run=…; <em>Runs</em> lists them all. These pages are here:"
    ways = "".join(
        (f'<li><a href="{settings.root()}{escape(page.path)}">{escape(page.title)}</a> {escape(page.heading)}</li>')
        for page in pages
    )
    nonce = nonce_of(scope)
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{head_of(Introduction(title), own, "/")}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
{head(settings, nonce)}
</head>
<body>
{top_bar(None, pages, settings, nonce)}
<main class="page missing" id="content">
<section class="card">
<h1>{title}</h1>
<p>Nothing is at <code>{escape(path[:200])}</code>. {words}</p>
<ul>{ways}</ul>
</section>
</main>
</body>
</html>"""
    return HTMLResponse(text, 404, headers={"Cache-Control": "no-store"})
