"""From a request to a visitor, in each of the ways in which a host may let people in (``SARQC_ACCESS``)."""

from __future__ import annotations

import base64
import binascii
import hmac
from functools import lru_cache
from pathlib import Path

from starlette.datastructures import Headers

from sarqc.jobs.links import Links
from sarqc.settings import Settings
from sarqc.web.profile import is_private
from sarqc.web.users import NAME, User, read_users, user_of
from sarqc.web.visitor import GUEST, Cookies, Role, Visitor, new_guest

LOCAL = "local"  # whoever is on this machine and keeps no cookie: programs


class Identity:
    """Tells who asks."""

    def __init__(self, settings: Settings, cookies: Cookies, links: Links) -> None:
        self._settings, self._cookies, self._links = settings, cookies, links
        self._operators = {name.strip() for name in settings.operators.split(",") if name.strip()}

    def of(self, headers: Headers, *, from_proxy: bool) -> Visitor | None:
        """The visitor behind a request; None for one who has to sign in first.

        ``from_proxy``: it comes by way of the reverse proxy that is trusted.
        """
        said = self._cookies.of(headers) or {}
        owner, links = str(said.get("owner", "")), frozenset(map(str, said.get("links", ())))
        if is_private(self._settings):
            return Visitor(owner or LOCAL, "operator", links)
        signed_in = self._signed_in(headers, owner, str(said.get("proof", "")), from_proxy)
        if signed_in is not None:
            return Visitor(*signed_in, links, signed_in=True)
        guest = owner if owner.startswith(GUEST) else new_guest()
        if self._settings.strangers != "none":
            return Visitor(guest, self._settings.strangers, links)
        if self._links.behind(links):
            return Visitor(guest, "viewer", links)
        return None

    def _signed_in(self, headers: Headers, owner: str, proof: str, from_proxy: bool) -> tuple[str, Role] | None:
        settings = self._settings
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        match settings.access:
            case "token":
                if scheme.lower() == "bearer" and self.is_token(credentials.strip()):
                    return owner or f"token-{proof_of(credentials.strip())}", "runner"
                if owner and hmac.compare_digest(proof, self.token_proof()):
                    return owner, "runner"
            case "users":
                users = self.users()
                if scheme.lower() == "basic" and (known := _basic(users, credentials)):
                    return known.name, known.role
                if owner in users and hmac.compare_digest(proof, proof_of(users[owner].digest)):
                    return owner, users[owner].role
            case "proxy":
                name = headers.get(settings.proxy_header, "")
                if from_proxy and NAME.fullmatch(name) and not name.startswith(GUEST):
                    return name, self.role_of(name)
            case "huggingface":
                if owner and proof == "huggingface" and not owner.startswith(GUEST):
                    return owner, self.role_of(owner)
        return None

    def role_of(self, name: str) -> Role:
        """The role of somebody whom another site has signed in."""
        return "operator" if name in self._operators else "runner"

    def is_token(self, text: str) -> bool:
        """Whether a text is the token of this host."""
        token = self._settings.access_token
        return token is not None and hmac.compare_digest(text.encode(), token.get_secret_value().encode())

    def token_proof(self) -> str:
        """What a cookie carries of somebody who knew the token: another token makes it worthless."""
        token = self._settings.access_token
        return proof_of(token.get_secret_value() if token else "")

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


def _basic(users: dict[str, User], credentials: str) -> User | None:
    try:
        name, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return user_of(users, name, password)
