"""From a request to a visitor, in each of the ways in which a host may let people in (``SARQC_ACCESS``)."""

from __future__ import annotations

import base64
import binascii
import hmac
from functools import lru_cache
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from sarqc.errors import NotSignedIn
from sarqc.jobs.links import Links
from sarqc.jobs.sessions import Sessions
from sarqc.settings import Settings
from sarqc.web.passwords import LoginThrottle, Passwords
from sarqc.web.profile import is_private
from sarqc.web.users import NAME, User, read_users
from sarqc.web.visitor import GUEST, Cookies, Role, Visitor, VisitorCookie, new_guest

LOCAL = "local"  # on this machine, without a cookie: programs

Known = tuple[str, Role]  # the name and the role of somebody who has proved who they are


class Identity:
    """Tells who asks."""

    def __init__(self, settings: Settings, cookies: Cookies, links: Links, sessions: Sessions) -> None:
        self._settings, self._cookies, self._links, self._sessions = settings, cookies, links, sessions
        self._operators = {name.strip() for name in settings.operators.split(",") if name.strip()}
        self._tries = LoginThrottle()
        self._passwords = Passwords(self._tries)

    async def of(self, headers: Headers, *, from_proxy: bool, address: str, where: str) -> Visitor | None:
        """The visitor behind a request; None for one who has to sign in first.

        ``from_proxy``: it comes by way of the reverse proxy that is trusted. Raises ``TooMany`` and ``Busy`` where too
        many tokens or passwords come, and ``NotSignedIn`` where the proxy gives several names.
        """
        if is_private(self._settings):
            said = self._cookies.of(headers) or VisitorCookie()
            return Visitor(said.owner or LOCAL, "operator", frozenset(said.links))
        stated = await self._stated(headers, address, where)
        return await run_in_threadpool(self._visitor, headers, stated, from_proxy)

    async def entered(self, name: str, password: str, address: str) -> tuple[str, str] | None:
        """The name and the proof for the cookie of somebody who signs in here; None where name, password or token is
        wrong. Raises as ``of``."""
        where = "sign in"
        if self._settings.access == "token" and self._is_right_token(password, address, where):
            owner = new_guest()
        elif self._settings.access == "users" and (user := await self._user(name, password, address, where)):
            owner = user.name
        else:
            return None
        return owner, await run_in_threadpool(self.proof, owner)

    async def _stated(self, headers: Headers, address: str, where: str) -> Known | None:
        """Who a program says that it is, in its Authorization header, where that is true."""
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        match self._settings.access, scheme.lower():
            case "token", "bearer":
                token = credentials.strip()
                if self._is_right_token(token, address, where):
                    return f"token-{proof_of(token)}", "runner"
            case "users", "basic":
                name, password = _basic(credentials)
                if user := await self._user(name, password, address, where):
                    return user.name, user.role
        return None

    def _is_right_token(self, text: str, address: str, where: str) -> bool:
        with self._tries.one(where, address) as judged:
            judged.is_right = hmac.compare_digest(text.encode(), self._token().encode())
        return judged.is_right

    async def _user(self, name: str, password: str, address: str, where: str) -> User | None:
        return await self._passwords.user(self.users(), name, password, address, where)

    def _visitor(self, headers: Headers, stated: Known | None, from_proxy: bool) -> Visitor | None:
        owner, secrets, proof = self._cookies.of(headers) or VisitorCookie()
        links = frozenset(secrets)
        known = stated or self._named_by_the_proxy(headers, from_proxy)
        if known is not None and owner and self._settings.access == "token":
            known = owner, known[1]  # a program that keeps its cookie keeps its name
        known = known or self._signed_in(owner, proof)
        if known is not None:
            return Visitor(*known, links, signed_in=True)
        guest = owner if owner.startswith(GUEST) else new_guest()
        if self._settings.strangers != "none":
            return Visitor(guest, self._settings.strangers, links)
        if self._links.behind(links):
            return Visitor(guest, "viewer", links)
        return None

    def _named_by_the_proxy(self, headers: Headers, from_proxy: bool) -> Known | None:
        if self._settings.access != "proxy" or not from_proxy:
            return None
        names = headers.getlist(self._settings.proxy_header)
        if len(names) > 1:  # the first may be what somebody sent who wants to be another
            raise NotSignedIn(
                f"the proxy gives {len(names)} names",
                self._settings.proxy_header,
                "Let the proxy put its own in the place of what comes from outside.",
            )
        if names and NAME.fullmatch(names[0]) and not names[0].startswith(GUEST):
            return names[0], self._role_of(names[0])
        return None

    def _signed_in(self, owner: str, proof: str) -> Known | None:
        """Somebody with the cookie of a person who has signed in, where all of it is still so."""
        person = self._person(owner) if owner and proof else None
        if person is None or not hmac.compare_digest(proof, self.proof(owner)):
            return None
        return owner, person[1]

    def proof(self, owner: str) -> str:
        """What the cookie of somebody carries who has signed in. Signing out makes it worthless, and so does another
        token, another password, or another role where another site signs people in."""
        secret, _ = self._person(owner) or ("", "")
        return proof_of(f"{self._sessions.number(owner)} {secret}") if secret else ""

    def _person(self, owner: str) -> tuple[str, Role] | None:
        """What was true of somebody who signed in here, and the role; None for those who can't have."""
        match self._settings.access:
            case "token":
                return self._token(), "runner"
            case "users":
                user = self.users().get(owner)
                return None if user is None else (user.digest, user.role)
            case "huggingface" if not owner.startswith(GUEST):
                role = self._role_of(owner)
                return f"huggingface {role}", role
        return None

    def _role_of(self, name: str) -> Role:
        """The role of somebody whom another site has signed in."""
        return "operator" if name in self._operators else "runner"

    def end(self, owner: str) -> None:
        """Signs somebody out everywhere."""
        self._sessions.end(owner)

    def _token(self) -> str:
        token = self._settings.access_token
        return token.get_secret_value() if token else ""

    def users(self) -> dict[str, User]:
        """The users of the file as it is now."""
        path = self._settings.users_file
        return {} if path is None else _users(path, path.stat().st_mtime_ns if path.is_file() else 0)


def proof_of(secret: str) -> str:
    """What tells one secret from another without giving it away."""
    return hmac.new(b"sarqc", secret.encode(), "sha256").hexdigest()[:24]


@lru_cache(maxsize=2)
def _users(path: Path, modified: int) -> dict[str, User]:
    return read_users(path)


def _basic(credentials: str) -> tuple[str, str]:
    """A name and a password from a header; empty ones, which are wrong, from one that is not as it must be."""
    try:
        name, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password
