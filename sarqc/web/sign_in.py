"""Signing in and out, and following a share link: small pages of their own, beside Gradio's."""

from collections.abc import Sequence
from html import escape
from typing import Annotated
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Form, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from sarqc.errors import Busy, NotFound, TooMany
from sarqc.settings import Settings
from sarqc.web.access import visitor_of
from sarqc.web.identity import Identity
from sarqc.web.link_preview import Introduction, Introductions, head_of, query_of
from sarqc.web.middleware import nonce_of
from sarqc.web.responses import ApiRoute, refuse_other_sites
from sarqc.web.static import SIGN_IN, THEME_SCRIPT, assets_root
from sarqc.web.visitor import LINKS_AT_MOST, Visitor, VisitorCookie, new_guest

Field = Annotated[str, Form(max_length=512)]

# The picture is what every study shows: an error that falls and rises again with λ, and the band of the best values.
_PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{{metas}}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">{{further}}
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{{assets}}/{SIGN_IN}">
<script nonce="{{nonce}}">{THEME_SCRIPT.replace("{", "{{").replace("}", "}}")}</script>
</head>
<body>
<main class="sign-in">
<header><span class="brand">sarqc</span> <span class="tagline">what a little regularisation buys</span></header>
<svg viewBox="0 0 360 120" aria-hidden="true">
<rect x="148" width="72" height="108"/>
<path class="axis" d="M8 108H352"/>
<path class="curve" d="M12 20C60 26 90 92 184 92C250 92 290 70 348 34"/>
<circle cx="184" cy="92" r="5"/>
</svg>
<section class="card"><h1>{{title}}</h1>{{problem}}{{body}}</section>
</main>
</body>
</html>"""


class SignIn:
    """The pages on which somebody signs in or follows a link."""

    def __init__(self, settings: Settings, identity: Identity, introductions: Introductions) -> None:
        self._assets, self._root = settings.assets_dir, settings.root()
        self._identity, self._introductions = identity, introductions

    def page(
        self,
        request: Request,
        title: str,
        body: str,
        problem: str = "",
        status: int = 200,
        introduction: Introduction | None = None,
        further: str = "",
    ) -> HTMLResponse:
        """Return a page with a problem above its body; ``further`` elements go to its head."""
        text = _PAGE.format(
            title=escape(title),
            problem=f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else "",
            body=body,
            assets=assets_root(self._assets, self._root),
            metas=head_of(
                introduction or Introduction(title), self._introductions.own(request.scope), request.url.path
            ),
            further=further,
            nonce=nonce_of(request.scope),
        )
        return HTMLResponse(text, status, headers={"Cache-Control": "no-store"})

    def form(self, request: Request, to: str, problem: str = "", status: int = 200) -> HTMLResponse:
        """Return the page for signing in, which leads to the address ``to``."""
        return self.page(request, "Sign in", self._identity.accounts.form(to), problem, status)

    async def welcome(self, request: Request, to: str, owner: str) -> Response:
        """Return the answer that signs a person in and leads to ``to``."""
        proof = await run_in_threadpool(self._identity.proof, owner)
        answer = RedirectResponse(inside(to), 303)
        self.set_cookie(request, answer, owner, self.cookie(request).links, proof)
        return answer

    def cookie(self, request: Request) -> VisitorCookie:
        """Return the cookie of a request, empty where there is none."""
        return self._identity.cookies.of(request.headers) or VisitorCookie()

    def set_cookie(
        self, request: Request, answer: Response, owner: str, links: Sequence[str] = (), proof: str = ""
    ) -> None:
        """Give a browser another cookie."""
        header = self._identity.cookies.header(request.url.scheme, owner, frozenset(links), proof)
        answer.headers.append("set-cookie", header)


def sign_in_router(settings: Settings, identity: Identity, introductions: Introductions, sign_in: SignIn) -> APIRouter:
    """Return the routes ``/sign-in``, ``/sign-out`` and ``/share/{secret}``."""
    router = APIRouter(include_in_schema=False, route_class=ApiRoute)
    root = settings.root()

    @router.get("/sign-in")
    def ask(request: Request, to: str = "/") -> Response:
        return sign_in.form(request, inside(to))

    @router.post("/sign-in")
    async def check(request: Request, password: Field = "", name: Field = "", to: Field = "/") -> Response:
        refuse_other_sites(request)
        address = request.client.host if request.client else ""
        try:
            owner = await identity.accounts.check_credentials(name, password, address, "sign in")
        except (TooMany, Busy) as error:
            return sign_in.form(request, inside(to), str(error), error.http_status)
        if owner:
            return await sign_in.welcome(request, to, owner)
        return sign_in.form(request, inside(to), identity.accounts.wrong, 403)

    @router.post("/sign-out")
    def sign_out(request: Request) -> Response:
        refuse_other_sites(request)
        who = visitor_of(request)
        if who.signed_in:  # guests have no session to end
            identity.sessions.end(who.owner)
        answer = RedirectResponse("/", 303)
        sign_in.set_cookie(request, answer, new_guest())
        return answer

    @router.api_route("/share/{secret}", methods=["GET", "HEAD"])
    def follow(request: Request, secret: str) -> Response:
        """Open what a share link shows, and introduce it; the browser keeps the link, so that the page can ask for
        its parts. Further parameters are handed on to the page."""
        try:
            link = identity.links.opened(secret)
        except NotFound as error:
            title = f"{error.what}.".capitalize()
            return sign_in.page(request, "This link", f"<p>{escape(error.remedy)}</p>", title, 404)
        query = {name: value for name, value in query_of(request.url.query).items() if name not in ("study", "run")}
        path, name = ("/calibrate", "run") if link.kind == "run" else ("/", "study")
        target = escape(f"{root}{path}?{urlencode({name: link.target} | query)}")
        # The preview shows what the link alone allows.
        introduction = introductions.of_link(Visitor(new_guest(), "viewer", frozenset([secret])), link, query)
        onward = f'<meta http-equiv="refresh" content="0; url={target}">'
        body = f'<p>{escape(introduction.name)}</p><a class="way-in" href="{target}">Open it</a>'
        answer = sign_in.page(request, "A shared link", body, introduction=introduction, further=onward)
        answer.headers["Referrer-Policy"] = "no-referrer"
        owner, others, proof = sign_in.cookie(request)
        links = [secret, *[other for other in others if other != secret][: LINKS_AT_MOST - 1]]
        sign_in.set_cookie(request, answer, owner or new_guest(), links, proof)
        return answer

    return router


def inside(to: str) -> str:
    """Return an address within this app; the first page for any other."""
    parts = urlsplit(to)
    is_inside = to.startswith("/") and not to.startswith(("//", "/\\")) and not parts.netloc and to.isprintable()
    return to if is_inside else "/"
