"""Visitors: a name given or checked by the server, a role, and what share links have opened.

A name is never a claim of a request. A browser has it in a cookie that is signed with a secret of this host.
"""

import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Literal, NamedTuple

from itsdangerous import BadSignature, SignatureExpired, URLSafeTimedSerializer
from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from sarqc.errors import Forbidden, Refused, disk_error
from sarqc.files.names import is_regular
from sarqc.files.settled import settle
from sarqc.settings import Settings

Role = Literal["viewer", "runner", "operator"]
COOKIE = "sarqc_visitor"
COOKIE_SECONDS = 90 * 24 * 3600
SECRET_BYTES = 32
STATE = "state"  # signed on the way to another site: not a cookie
LINKS_AT_MOST = 16  # share links that one browser remembers
_ANOTHER = "Put back the file of a backup, or remove it: with a new one everybody has to sign in again."
GUEST = "guest-"  # prefix of generated names; people can't have such a name


@dataclass(frozen=True)
class Visitor:
    """The authenticated sender of a request."""

    owner: str  # of runs, studies and texts
    role: Role
    links: frozenset[str] = frozenset()  # secrets of share links that were followed
    signed_in: bool = False

    def require_runner(self, where: str) -> None:
        """Raise ``Forbidden`` for a viewer."""
        if self.role == "viewer":
            remedy = "Ask the operator of this host."
            remedy = remedy if self.signed_in else "Sign in, or ask the operator of this host."
            raise Forbidden("a viewer may not do this, a runner may", where, remedy)


def new_guest() -> str:
    """Return a name for a browser without one."""
    return GUEST + secrets.token_hex(5)


class VisitorCookie(NamedTuple):
    """Contents of a cookie: a name, the secrets of share links, and the proof of a person who has signed in."""

    owner: str = ""
    links: tuple[str, ...] = ()
    proof: str = ""


class Cookies:
    """Signs and reads the cookie. The secret is a file in the state folder, made at the first start."""

    def __init__(self, settings: Settings) -> None:
        self._serializer = URLSafeTimedSerializer(_secret(settings.resolved_state_dir() / "secret"), salt="visitor")
        self._framed = "http" in settings.frame_ancestors  # the pages live in a frame of another site

    def header(self, scheme: str, owner: str, links: frozenset[str] = frozenset(), proof: str = "") -> str:
        """Return the ``Set-Cookie`` header. ``proof``: of a person who has signed in, see ``Identity``."""
        cookie: SimpleCookie = SimpleCookie()
        cookie[COOKIE] = self._serializer.dumps({"owner": owner, "links": sorted(links), "proof": proof})
        morsel = cookie[COOKIE]
        morsel["path"], morsel["httponly"], morsel["max-age"] = "/", True, COOKIE_SECONDS
        morsel["samesite"] = "None" if self._framed else "Lax"
        morsel["secure"] = scheme == "https" or self._framed
        return morsel.OutputString() + ("; Partitioned" if self._framed else "")

    def sign(self, document: dict[str, Any]) -> str:
        """Return a document, signed by this host."""
        return self._serializer.dumps(document, salt=STATE)

    def signed(self, text: str, seconds: int) -> dict[str, Any]:
        """Return a signed document that is not older than that. Raise ``itsdangerous.BadSignature``."""
        return self._load(text, seconds, STATE)

    def _load(self, text: str, seconds: int, salt: str | None = None) -> dict[str, Any]:
        """Return a signed document that is not older than that; after now counts as now, since clocks go back."""
        document: dict[str, Any]
        document, signed = self._serializer.loads(text, return_timestamp=True, salt=salt)
        if time.time() - signed.timestamp() > seconds:
            raise SignatureExpired("it was signed too long ago", date_signed=signed)
        return document

    def of(self, headers: Headers) -> VisitorCookie | None:
        """Return the contents of a request's cookie; None without one, or for one that is old or not signed by this
        host."""
        with suppress(BadSignature):
            if value := cookie_parser(headers.get("cookie", "")).get(COOKIE):
                document = self._load(value, COOKIE_SECONDS)
                links = tuple(map(str, document.get("links", ())))
                return VisitorCookie(str(document.get("owner", "")), links, str(document.get("proof", "")))
        return None


def _secret(path: Path) -> bytes:
    """Return the secret of this host, which is made where there is none. Raise ``Refused`` for one that was cut off."""
    try:
        if not os.path.lexists(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{path.name}.partial")
            partial.unlink(missing_ok=True)
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(SECRET_BYTES))
            settle(partial)
            partial.rename(path)
            settle(path.parent)
        if not is_regular(path) or path.stat().st_size != SECRET_BYTES:
            raise Refused(f"the secret that signs cookies has not {SECRET_BYTES} bytes", str(path), _ANOTHER)
        return path.read_bytes()
    except OSError as error:
        what = f"the secret that signs cookies can't be used: {error.strerror}"
        raise disk_error(error) or Refused(what, str(path), _ANOTHER) from None
