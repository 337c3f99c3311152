"""Who asks: a name that the server gives or has checked, a role, and what share links have opened.

A name is never what a request claims. A browser keeps it in a cookie that is signed with a secret of this host.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Literal, NamedTuple

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from sarqc.errors import Forbidden
from sarqc.settings import Settings

Role = Literal["viewer", "runner", "operator"]
COOKIE = "sarqc_visitor"
COOKIE_SECONDS = 90 * 24 * 3600
STATE = "state"  # what is signed on the way to another site is not a cookie
LINKS_AT_MOST = 16  # share links that one browser remembers
GUEST = "guest-"  # what names begin with that nobody has chosen; people can't have such a name


@dataclass(frozen=True)
class Visitor:
    """Who asks, as far as the server knows."""

    owner: str  # what runs, studies and texts are kept under
    role: Role
    links: frozenset[str] = frozenset()  # secrets of share links that were followed
    signed_in: bool = False

    def require_runner(self, where: str) -> None:
        """Raises ``Forbidden`` for a viewer."""
        if self.role == "viewer":
            remedy = "Ask the operator of this host."
            remedy = remedy if self.signed_in else "Sign in, or ask the operator of this host."
            raise Forbidden("a viewer may not do this, a runner may", where, remedy)


def new_guest() -> str:
    """A name for a browser that has none."""
    return GUEST + secrets.token_hex(5)


class VisitorCookie(NamedTuple):
    """What a cookie says: a name, the secrets of share links, and the proof of somebody who has signed in."""

    owner: str = ""
    links: tuple[str, ...] = ()
    proof: str = ""


class Cookies:
    """Signs and reads the cookie. The secret is a file in the state folder, made at the first start."""

    def __init__(self, settings: Settings) -> None:
        self._serializer = URLSafeTimedSerializer(_secret(settings.resolved_state_dir() / "secret"), salt="visitor")
        self._framed = "http" in settings.frame_ancestors  # the pages live in a frame of another site

    def header(self, scheme: str, owner: str, links: frozenset[str] = frozenset(), proof: str = "") -> str:
        """The ``Set-Cookie`` header. ``proof``: what must still be true of a person who has signed in."""
        cookie: SimpleCookie = SimpleCookie()
        cookie[COOKIE] = self._serializer.dumps({"owner": owner, "links": sorted(links), "proof": proof})
        morsel = cookie[COOKIE]
        morsel["path"], morsel["httponly"], morsel["max-age"] = "/", True, COOKIE_SECONDS
        morsel["samesite"] = "None" if self._framed else "Lax"
        morsel["secure"] = scheme == "https" or self._framed
        return morsel.OutputString() + ("; Partitioned" if self._framed else "")

    def sign(self, document: dict[str, Any]) -> str:
        """A document that only this host can have written."""
        return self._serializer.dumps(document, salt=STATE)

    def signed(self, text: str, seconds: int) -> dict[str, Any]:
        """What ``sign`` was given, not longer ago than that. Raises ``itsdangerous.BadSignature``."""
        document: dict[str, Any] = self._serializer.loads(text, max_age=seconds, salt=STATE)
        return document

    def of(self, headers: Headers) -> VisitorCookie | None:
        """What the cookie of a request says; None for none, an old one, or one that this host has not signed."""
        with suppress(BadSignature):
            if value := cookie_parser(headers.get("cookie", "")).get(COOKIE):
                said = self._serializer.loads(value, max_age=COOKIE_SECONDS)
                links = tuple(map(str, said.get("links", ())))
                return VisitorCookie(str(said.get("owner", "")), links, str(said.get("proof", "")))
        return None


def _secret(path: Path) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
    return path.read_bytes()
