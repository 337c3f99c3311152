"""Authentication by name (``SARQC_ACCESS``): the base, which knows nobody, and one token for everybody."""

import hmac
from dataclasses import dataclass
from html import escape

from starlette.datastructures import Headers

from sarqc.settings import Settings
from sarqc.web.throttle import LoginThrottle
from sarqc.web.visitor import Role, new_guest

Known = tuple[str, Role]  # name and role of an authenticated person

_FORM = """<form method="post" action="{root}/sign-in"><input type="hidden" name="to" value="{to}">{fields}
<button type="submit">Sign in</button></form>"""


@dataclass(frozen=True)
class Sender:
    """The sender of a request, still unverified."""

    headers: Headers
    from_proxy: bool  # through the trusted reverse proxy
    address: str
    where: str  # the request as an error names it
    owner: str = ""  # by the cookie


class Accounts:
    """Accounts of nobody: all visitors are strangers, and none has to sign in.

    ``throttle`` counts wrong tokens and passwords. Methods that judge one raise ``TooMany`` and ``Busy`` where too many
    come.
    """

    wrong = "Name or password is wrong."  # for those who are not let in

    def __init__(self, settings: Settings, throttle: LoginThrottle) -> None:
        self._root, self._throttle = settings.root(), throttle

    async def authenticate(self, sender: Sender) -> Known | None:
        """Return the name and role of a request's sender, where its credentials are right."""
        return None

    async def check_credentials(self, name: str, password: str, address: str, where: str) -> str:
        """Return the owner of a name and password entered at /sign-in; empty where they are wrong."""
        return ""

    def person(self, owner: str) -> tuple[str, Role] | None:
        """Return the secret that was true of somebody when they signed in here, and their role; None for those who
        can't have signed in."""
        return None

    def form(self, to: str) -> str:
        """Return the form for signing in, which leads to the address ``to``."""
        return f'<p>Nobody has to sign in here. </p><a class="way-in" href="{self._root}/">To the Lab</a>'

    def _form_with(self, fields: str, to: str) -> str:
        return _FORM.format(root=self._root, to=escape(to), fields=fields)


class OneToken(Accounts):
    """A secret of the host: whoever has it is a runner, under the name of their cookie."""

    wrong = "This is not the token of this host."

    def __init__(self, settings: Settings, throttle: LoginThrottle) -> None:
        super().__init__(settings, throttle)
        self._token = settings.access_token.get_secret_value() if settings.access_token else ""

    async def authenticate(self, sender: Sender) -> Known | None:
        scheme, _, credentials = sender.headers.get("authorization", "").partition(" ")
        token = credentials.strip()
        if scheme.lower() != "bearer" or not self._is_right(token, sender.address, sender.where):
            return None
        return sender.owner or f"token-{proof_of(token)}", "runner"  # a program that keeps its cookie keeps its name

    async def check_credentials(self, name: str, password: str, address: str, where: str) -> str:
        return new_guest() if self._is_right(password, address, where) else ""

    def _is_right(self, text: str, address: str, where: str) -> bool:
        with self._throttle.attempt(where, address) as judged:
            judged.is_right = hmac.compare_digest(text.encode(), self._token.encode())
        return judged.is_right

    def person(self, owner: str) -> tuple[str, Role] | None:
        return self._token, "runner"

    def form(self, to: str) -> str:
        return "<p>The operator of this host has its token.</p>" + self._form_with(password_field("Token", True), to)


def password_field(word: str, has_focus: bool = False) -> str:
    """Return a field for a password or a token, with the label ``word``."""
    focus = " autofocus" if has_focus else ""
    return (
        f'<label>{word} <input name="password" type="password" autocomplete="current-password" required{focus}></label>'
    )


def proof_of(secret: str) -> str:
    """Return a text that identifies a secret without revealing it."""
    return hmac.new(b"sarqc", secret.encode(), "sha256").hexdigest()[:24]
