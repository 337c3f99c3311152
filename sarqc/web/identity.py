"""From a request to a visitor: by its credentials, by its cookie, or as a stranger."""

import hmac
from dataclasses import replace

from starlette.concurrency import run_in_threadpool

from sarqc.jobs.links import Links
from sarqc.jobs.sessions import Sessions
from sarqc.settings import Settings
from sarqc.web.accounts import Accounts, Known, OneToken, Sender, proof_of
from sarqc.web.profile import is_private
from sarqc.web.throttle import LoginThrottle
from sarqc.web.visitor import GUEST, Cookies, Visitor, VisitorCookie, new_guest

LOCAL = "local"  # on this machine, without a cookie: programs


class Identity:
    """Identifies visitors. ``accounts`` are those of ``SARQC_ACCESS``; the core has one token alone."""

    def __init__(self, settings: Settings, cookies: Cookies, links: Links, sessions: Sessions) -> None:
        self._settings, self.cookies, self.links, self.sessions = settings, cookies, links, sessions
        self.throttle = LoginThrottle()
        self.accounts = (OneToken if settings.access == "token" else Accounts)(settings, self.throttle)

    async def of(self, sender: Sender) -> Visitor | None:
        """Return the visitor behind a request; None for one who has to sign in first.

        Raise ``TooMany`` and ``Busy`` where too many tokens or passwords come, and ``NotSignedIn`` where the proxy
        gives several names.
        """
        cookie = self.cookies.of(sender.headers) or VisitorCookie()
        if is_private(self._settings):
            return Visitor(cookie.owner or LOCAL, "operator", frozenset(cookie.links))
        stated = await self.accounts.authenticate(replace(sender, owner=cookie.owner))
        return await run_in_threadpool(self._visitor, cookie, stated)

    def _visitor(self, cookie: VisitorCookie, stated: Known | None) -> Visitor | None:
        owner, links = cookie.owner, frozenset(cookie.links)
        known = stated or self._signed_in(owner, cookie.proof)
        if known is not None:
            return Visitor(*known, links, signed_in=True)
        guest = owner if owner.startswith(GUEST) else new_guest()
        if self._settings.strangers != "none":
            return Visitor(guest, self._settings.strangers, links)
        if self.links.behind(links):
            return Visitor(guest, "viewer", links)
        return None

    def _signed_in(self, owner: str, proof: str) -> Known | None:
        """Return the person of a cookie from signing in, where it is still valid."""
        person = self.accounts.person(owner) if owner and proof else None
        if person is None or not hmac.compare_digest(proof, self.proof(owner)):
            return None
        return owner, person[1]

    def proof(self, owner: str) -> str:
        """Return the text that proves a signed-in person's cookie. Signing out invalidates it, and so does another
        token, another password, or another role where another site signs people in."""
        secret, _ = self.accounts.person(owner) or ("", "")
        return proof_of(f"{self.sessions.number(owner)} {secret}") if secret else ""
