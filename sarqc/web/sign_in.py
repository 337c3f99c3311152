"""Signing in and out, and following a share link: small pages of their own, beside Gradio's."""

from __future__ import annotations

import secrets
from html import escape
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlencode, urlsplit

from fastapi import APIRouter, Form, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from itsdangerous import BadSignature

from sarqc.errors import Busy, NotFound, SarqcError, TooMany, Unreachable
from sarqc.jobs.links import Links
from sarqc.settings import Settings
from sarqc.web.access import visitor_of
from sarqc.web.identity import Identity, proof_of
from sarqc.web.link_preview import Introduction, Introductions, head_of, query_of
from sarqc.web.middleware import nonce_of
from sarqc.web.responses import ApiRoute, refuse_other_sites
from sarqc.web.static import SIGN_IN, THEME_SCRIPT, assets_root
from sarqc.web.users import NAME
from sarqc.web.visitor import GUEST, LINKS_AT_MOST, Cookies, Visitor, VisitorCookie, new_guest

if TYPE_CHECKING:
    from authlib.integrations.httpx_client import AsyncOAuth2Client

STATE_SECONDS = 600  # for the way to another site and back

Field = Annotated[str, Form(max_length=512)]

# The picture is what every study shows: an error that falls and rises again with λ, and the band of the best values.
_PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{{told}}
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
<section class="card"><h1>{{title}}</h1>{{said}}{{body}}</section>
</main>
</body>
</html>"""
_FORM = """<form method="post" action="{root}/sign-in"><input type="hidden" name="to" value="{to}">{fields}
<button type="submit">Sign in</button></form>"""
_NAME = '<label>Name <input name="name" autocomplete="username" required autofocus></label>'
_PASSWORD = (
    '<label>{word} <input name="password" type="password" autocomplete="current-password" required{focus}></label>'
)
_TOKEN_WORDS = "<p>The operator of this host has its token.</p>"


def sign_in_router(
    settings: Settings,
    identity: Identity,
    cookies: Cookies,
    links: Links,
    introductions: Introductions,
) -> APIRouter:
    """The routes ``/sign-in``, ``/sign-out`` and ``/share/{secret}``."""
    router = APIRouter(include_in_schema=False, route_class=ApiRoute)
    root = settings.root()

    def page(
        request: Request,
        title: str,
        body: str,
        said: str = "",
        status: int = 200,
        told: Introduction | None = None,
        further: str = "",
    ) -> HTMLResponse:
        words = f'<p class="problem" role="alert">{escape(said)}</p>' if said else ""
        head = head_of(told or Introduction(title), introductions.own(request.scope), request.url.path)
        text = _PAGE.format(
            title=escape(title),
            said=words,
            body=body,
            assets=assets_root(settings.assets_dir, root),
            told=head,
            further=further,
            nonce=nonce_of(request.scope),
        )
        return HTMLResponse(text, status, headers={"Cache-Control": "no-store"})

    def form(request: Request, to: str, said: str = "", status: int = 200) -> HTMLResponse:
        match settings.access:
            case "token":
                fields = _PASSWORD.format(word="Token", focus=" autofocus")
                body = _TOKEN_WORDS + _FORM.format(root=root, to=escape(to), fields=fields)
            case "users":
                fields = _NAME + _PASSWORD.format(word="Password", focus="")
                body = _FORM.format(root=root, to=escape(to), fields=fields)
            case "huggingface":
                body = (
                    f'<a class="way-in" href="{root}/sign-in/huggingface?to={quote(to)}">Sign in with Hugging Face</a>'
                )
            case "proxy":
                body = "<p>The site in front of this app signs people in. Open this app by way of it.</p>"
            case _:
                body = f'<p>Nobody has to sign in here. </p><a class="way-in" href="{root}/">To the Lab</a>'
        return page(request, "Sign in", body, said, status)

    def welcome(request: Request, to: str, owner: str, proof: str) -> Response:
        said = cookies.of(request.headers) or VisitorCookie()
        answer = RedirectResponse(_inside(to), 303)
        cookie = cookies.header(request.url.scheme, owner, frozenset(said.links), proof)
        answer.headers.append("set-cookie", cookie)
        return answer

    @router.get("/sign-in")
    def ask(request: Request, to: str = "/") -> Response:
        return form(request, _inside(to))

    @router.post("/sign-in")
    async def check(request: Request, password: Field = "", name: Field = "", to: Field = "/") -> Response:
        refuse_other_sites(request)
        address = request.client.host if request.client else ""
        try:
            entered = await identity.entered(name, password, address)
        except (TooMany, Busy) as error:
            return form(request, _inside(to), str(error), error.http_status)
        if entered is not None:
            return welcome(request, to, *entered)
        wrong = "This is not the token of this host." if settings.access == "token" else "Name or password is wrong."
        return form(request, _inside(to), wrong, 403)

    @router.get("/sign-in/huggingface")
    def leave(request: Request, to: str = "/") -> Response:
        client, verifier = _client(settings, request), secrets.token_urlsafe(48)
        state = cookies.sign({"to": _inside(to), "verifier": proof_of(verifier)})
        address, _ = client.create_authorization_url(
            f"{settings.openid_provider_url}/oauth/authorize", state=state, code_verifier=verifier
        )
        answer = RedirectResponse(address, 303)
        answer.set_cookie(
            "sarqc_verifier",
            verifier,
            max_age=STATE_SECONDS,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return answer

    @router.get("/sign-in/callback")
    async def come_back(request: Request, state: str = "", code: str = "") -> Response:
        verifier = request.cookies.get("sarqc_verifier", "")
        try:
            said = cookies.signed(state, STATE_SECONDS)
        except BadSignature:
            said = {}
        if not verifier or said.get("verifier") != proof_of(verifier):
            return form(request, "/", "Signing in took too long, or was begun elsewhere. Try again.", 403)
        try:
            name = await _name_at_provider(settings, request, code, verifier)
        except SarqcError as error:
            return form(request, "/", str(error), error.http_status)
        return welcome(request, str(said["to"]), name, await run_in_threadpool(identity.proof, name))

    @router.post("/sign-out")
    def sign_out(request: Request) -> Response:
        refuse_other_sites(request)
        who = visitor_of(request)
        if who.signed_in:  # nothing is known of guests that could be ended
            identity.end(who.owner)
        answer = RedirectResponse("/", 303)
        answer.headers.append("set-cookie", cookies.header(request.url.scheme, new_guest()))
        return answer

    @router.api_route("/share/{secret}", methods=["GET", "HEAD"])
    def follow(request: Request, secret: str) -> Response:
        """Opens what a share link shows, and introduces it; the browser keeps the link, so that the page can ask for
        its parts. Further parameters are handed on to the page."""
        try:
            link = links.opened(secret)
        except NotFound as error:
            title = f"{error.what}.".capitalize()
            return page(request, "This link", f"<p>{escape(error.remedy)}</p>", title, 404)
        query = {name: value for name, value in query_of(request.url.query).items() if name not in ("study", "run")}
        path, name = ("/calibrate", "run") if link.kind == "run" else ("/", "study")
        target = escape(f"{root}{path}?{urlencode({name: link.target} | query)}")
        # The preview shows what somebody may see who has the link and nothing else.
        told = introductions.of_link(Visitor(new_guest(), "viewer", frozenset([secret])), link, query)
        onward = f'<meta http-equiv="refresh" content="0; url={target}">'
        body = f'<p>{escape(told.name)}</p><a class="way-in" href="{target}">Open it</a>'
        answer = page(request, "A shared link", body, told=told, further=onward)
        answer.headers["Referrer-Policy"] = "no-referrer"
        owner, others, proof = cookies.of(request.headers) or VisitorCookie()
        kept = [one for one in others if one != secret][: LINKS_AT_MOST - 1]
        cookie = cookies.header(request.url.scheme, owner or new_guest(), frozenset([secret, *kept]), proof)
        answer.headers.append("set-cookie", cookie)
        return answer

    return router


def _inside(to: str) -> str:
    """An address within this app; the first page for any other."""
    parts = urlsplit(to)
    is_inside = to.startswith("/") and not to.startswith(("//", "/\\")) and not parts.netloc and to.isprintable()
    return to if is_inside else "/"


def _client(settings: Settings, request: Request) -> AsyncOAuth2Client:
    from authlib.integrations.httpx_client import AsyncOAuth2Client

    names = [name.strip() for name in settings.hosts.split(",") if name.strip() and name.strip() != "*"]
    base = f"https://{names[0]}" if names and request.url.hostname in names else str(request.base_url)
    secret, back = settings.oauth_client_secret, f"{base.rstrip('/')}{settings.root()}/sign-in/callback"
    return AsyncOAuth2Client(
        settings.oauth_client_id,
        secret.get_secret_value() if secret else None,
        scope="openid profile",
        redirect_uri=back,
        code_challenge_method="S256",
        timeout=settings.hub_timeout,
    )


async def _name_at_provider(settings: Settings, request: Request, code: str, verifier: str) -> str:
    """The name of the person behind a code. Raises ``Unreachable`` where the provider does not say it."""
    import httpx
    from authlib.common.errors import AuthlibBaseError

    provider = settings.openid_provider_url
    try:
        async with _client(settings, request) as client:
            await client.fetch_token(f"{provider}/oauth/token", code=code, code_verifier=verifier)
            answer = await client.get(f"{provider}/oauth/userinfo")
            name = str(answer.raise_for_status().json().get("preferred_username", ""))
    except (AuthlibBaseError, httpx.HTTPError, ValueError) as error:
        raise Unreachable(
            f"Hugging Face did not sign you in ({type(error).__name__})", "sign in", "Try again."
        ) from None
    if not NAME.fullmatch(name) or name.startswith(GUEST):
        raise Unreachable("Hugging Face gave no name that can be used here", "sign in", "Ask the operator.")
    return name
