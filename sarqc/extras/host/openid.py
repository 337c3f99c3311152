"""Signing in at Hugging Face, or at another provider of OpenID Connect."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from itsdangerous import BadSignature

from sarqc.errors import SarqcError, Unreachable
from sarqc.extras import Host
from sarqc.extras.host.accounts import is_person_name
from sarqc.extras.host.settings import HostSettings
from sarqc.settings import Settings
from sarqc.web.accounts import proof_of
from sarqc.web.responses import ApiRoute
from sarqc.web.sign_in import inside

if TYPE_CHECKING:
    from authlib.integrations.httpx_client import AsyncOAuth2Client

STATE_SECONDS = 600  # for the way to another site and back


def openid_router(host: Host) -> APIRouter:
    """Return the routes on the way to the provider and back."""
    router = APIRouter(include_in_schema=False, route_class=ApiRoute)
    settings, own, cookies, sign_in = host.settings, host.settings.of(HostSettings), host.identity.cookies, host.sign_in

    @router.get("/sign-in/huggingface")
    def redirect_to_provider(request: Request, to: str = "/") -> Response:
        client, verifier = _client(settings, own, request), secrets.token_urlsafe(48)
        state = cookies.sign({"to": inside(to), "verifier": proof_of(verifier)})
        address, _ = client.create_authorization_url(
            f"{own.openid_provider_url}/oauth/authorize", state=state, code_verifier=verifier
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
    async def finish_sign_in(request: Request, state: str = "", code: str = "") -> Response:
        verifier = request.cookies.get("sarqc_verifier", "")
        try:
            signed = cookies.signed(state, STATE_SECONDS)
        except BadSignature:
            signed = {}
        if not verifier or signed.get("verifier") != proof_of(verifier):
            problem = "Signing in took too long, or was begun elsewhere. Try again."
            return sign_in.form(request, "/", problem, 403)
        try:
            name = await _name_at_provider(settings, own, request, code, verifier)
        except SarqcError as error:
            return sign_in.form(request, "/", str(error), error.http_status)
        return await sign_in.welcome(request, str(signed["to"]), name)

    return router


def _client(settings: Settings, own: HostSettings, request: Request) -> AsyncOAuth2Client:
    from authlib.integrations.httpx_client import AsyncOAuth2Client

    names = [name.strip() for name in settings.hosts.split(",") if name.strip() and name.strip() != "*"]
    base = f"https://{names[0]}" if names and request.url.hostname in names else str(request.base_url)
    secret, back = own.oauth_client_secret, f"{base.rstrip('/')}{settings.root()}/sign-in/callback"
    return AsyncOAuth2Client(
        own.oauth_client_id,
        secret.get_secret_value() if secret else None,
        scope="openid profile",
        redirect_uri=back,
        code_challenge_method="S256",
        timeout=settings.hub_timeout,
    )


async def _name_at_provider(settings: Settings, own: HostSettings, request: Request, code: str, verifier: str) -> str:
    """Return the name of the person behind a code. Raise ``Unreachable`` where the provider does not say it."""
    import httpx
    from authlib.common.errors import AuthlibBaseError

    provider = own.openid_provider_url
    try:
        async with _client(settings, own, request) as client:
            await client.fetch_token(f"{provider}/oauth/token", code=code, code_verifier=verifier)
            answer = await client.get(f"{provider}/oauth/userinfo")
            name = str(answer.raise_for_status().json().get("preferred_username", ""))
    except (AuthlibBaseError, httpx.HTTPError, ValueError) as error:
        raise Unreachable(
            f"Hugging Face did not sign you in ({type(error).__name__})", "sign in", "Try again."
        ) from None
    if not is_person_name(name):
        raise Unreachable("Hugging Face gave no name that can be used here", "sign in", "Ask the operator.")
    return name
