"""Accounts of people: of a users file, of a reverse proxy, and of Hugging Face."""

import base64
import binascii
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from sarqc.errors import NotSignedIn
from sarqc.extras.host.passwords import Passwords
from sarqc.extras.host.settings import HostSettings
from sarqc.extras.host.users import NAME, User, read_users
from sarqc.settings import Settings
from sarqc.web.accounts import Accounts, Known, Sender, password_field
from sarqc.web.throttle import LoginThrottle
from sarqc.web.visitor import GUEST, Role

_NAME = '<label>Name <input name="name" autocomplete="username" required autofocus></label>'


class UsersFile(Accounts):
    """The users of a file, with passwords."""

    def __init__(self, settings: Settings, throttle: LoginThrottle) -> None:
        super().__init__(settings, throttle)
        self._path, self._passwords = settings.of(HostSettings).users_file, Passwords(throttle)

    async def authenticate(self, sender: Sender) -> Known | None:
        scheme, _, credentials = sender.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        user = await self._passwords.user(self._users(), *_basic(credentials), sender.address, sender.where)
        return (user.name, user.role) if user else None

    async def check_credentials(self, name: str, password: str, address: str, where: str) -> str:
        user = await self._passwords.user(self._users(), name, password, address, where)
        return user.name if user else ""

    def person(self, owner: str) -> tuple[str, Role] | None:
        user = self._users().get(owner)
        return (user.digest, user.role) if user else None

    def form(self, to: str) -> str:
        return self._form_with(_NAME + password_field("Password"), to)

    def _users(self) -> dict[str, User]:
        """Return the users of the file as it is now."""
        path = self._path
        return {} if path is None else _read(path, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=2)
def _read(path: Path, modified: int) -> dict[str, User]:
    return read_users(path)


def _basic(credentials: str) -> tuple[str, str]:
    """Return a name and a password from a header; empty ones, which are wrong, from a malformed one."""
    try:
        name, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


class _ExternalAccounts(Accounts):
    """People whom another site has signed in; the settings name operators among them."""

    def __init__(self, settings: Settings, throttle: LoginThrottle) -> None:
        super().__init__(settings, throttle)
        self._own = settings.of(HostSettings)
        self._operators = {name.strip() for name in self._own.operators.split(",") if name.strip()}

    def _role_of(self, name: str) -> Role:
        return "operator" if name in self._operators else "runner"


class BehindProxy(_ExternalAccounts):
    """People whom a reverse proxy names in a header."""

    async def authenticate(self, sender: Sender) -> Known | None:
        if not sender.from_proxy:
            return None
        names = sender.headers.getlist(self._own.proxy_header)
        if len(names) > 1:  # the first may be forged by the sender
            raise NotSignedIn(
                f"the proxy gives {len(names)} names",
                self._own.proxy_header,
                "Let the proxy put its own in the place of what comes from outside.",
            )
        return (names[0], self._role_of(names[0])) if names and is_person_name(names[0]) else None

    def form(self, to: str) -> str:
        return "<p>The site in front of this app signs people in. Open this app by way of it.</p>"


class HuggingFace(_ExternalAccounts):
    """People with an account at Hugging Face, or at another provider of OpenID Connect."""

    def person(self, owner: str) -> tuple[str, Role] | None:
        role = self._role_of(owner)
        return None if owner.startswith(GUEST) else (f"huggingface {role}", role)

    def form(self, to: str) -> str:
        address = f"{self._root}/sign-in/huggingface?to={quote(to)}"
        return f'<a class="way-in" href="{address}">Sign in with Hugging Face</a>'


ACCOUNTS: dict[str, type[Accounts]] = {"users": UsersFile, "proxy": BehindProxy, "huggingface": HuggingFace}


def is_person_name(name: str) -> bool:
    """Return whether a name from another site can be used here."""
    return NAME.fullmatch(name) is not None and not name.startswith(GUEST)
