"""Cards of the Lab in frames of other sites: which documents these sites may show.

A site that shows a page in a frame can lay things over it and lead clicks astray. So other sites may show a document
only if nothing in it acts for a person: the Lab with a single card (``embed=CARD``), asked for without our cookie and
not by somebody who has signed in. Such an answer sets no cookie either. Everything else, the sign-in page above all,
keeps ``SARQC_FRAME_ANCESTORS``.
"""

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from sarqc.settings import Settings
from sarqc.web.link_preview import query_of
from sarqc.web.page_names import CARDS
from sarqc.web.visitor import COOKIE


def card_of(scope: Scope) -> str:
    """Return the card that a document shows alone; an empty name for every other document."""
    if scope["type"] != "http" or scope["path"] != "/":
        return ""
    card = query_of(scope["query_string"].decode("latin-1")).get("embed", "")
    return card if card in CARDS else ""


def is_framed_card(scope: Scope, settings: Settings) -> bool:
    """Return whether other sites may show a document, as far as its address says."""
    return bool(settings.embed_ancestors and card_of(scope))


def frame_ancestors(scope: Scope, settings: Settings) -> str:
    """Return the sites that may show the answer to a request in a frame, as in a content security policy."""
    has_cookie = COOKIE in cookie_parser(Headers(scope=scope).get("cookie", ""))
    if is_framed_card(scope, settings) and not has_cookie and not scope["state"]["visitor"].signed_in:
        return settings.embed_ancestors
    return settings.frame_ancestors
