"""Removal of this host's paths, and of secrets, from answers and logs."""

import re
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

_ABSOLUTE = re.compile(r"(?<![\w.:/<~-])(?:~|/)[\w.@+-]+(?:/[\w.@+ -]*[\w.@+-])+/?")


def without_paths(text: str, folders: Mapping[str, Path]) -> str:
    """Return a text in which folders of this host are named by what they are, and other absolute paths by their last
    part.

    ``folders``: those of the app by name, see ``Settings.folders``.
    """
    named = {str(path): f"<{name}>" for name, path in folders.items()} | {
        sysconfig.get_paths()["purelib"]: "<packages>",
        sysconfig.get_paths()["stdlib"]: "<python>",
        str(Path.home()): "<home>",
    }
    for path in sorted(named, key=len, reverse=True):
        if path != "/":
            text = text.replace(path, named[path])
    return _ABSOLUTE.sub(lambda match: f"<…>/{match.group().rstrip('/').rpartition('/')[2]}", text)


# Secrets by their context: each pattern leaves the context, and replaces the secret.
_HIDDEN = "…"
_SECRET_NAME = r"[\w.-]*(?:token|secret|passw(?:or)?d|api[_-]?key|credentials?|signature)"
_SECRETS = tuple(
    (re.compile(pattern), left)
    for pattern, left in (
        (r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/?#\"'<>]*@", rf"\1{_HIDDEN}@"),
        (
            r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key)(\W{1,4}?(?:b?[\"'])?\s*)(?![\s=:,\"'])[^\r\n\"']+",
            rf"\1\2{_HIDDEN}",
        ),
        (r"\b(Bearer|Basic)\s+(?=[\w.~+/=-]*[A-Z0-9=_])[\w.~+/=-]{6,}", rf"\1 {_HIDDEN}"),
        (rf"(?i)([?&;](?:{_SECRET_NAME}|key|code|state|sig|auth)=)[^&;\s#\"'<>]+", rf"\1{_HIDDEN}"),
        (rf"(?i)\b({_SECRET_NAME}[\"']?\s*[=:]\s*)([\"']).*?\2", rf"\1\2{_HIDDEN}\2"),
        (rf"(?i)\b({_SECRET_NAME}=)(?![\"'])[^&\s#,;)\]}}]+", rf"\1{_HIDDEN}"),
        (r"\bsarqc_(visitor|verifier)=[^;\s\"']+", rf"sarqc_\1={_HIDDEN}"),
        (r"(/(?:share|join|lectures)/)[\w-]{8,}", rf"\1{_HIDDEN}"),
        (r"\bhf_[A-Za-z0-9]{8,}", f"hf_{_HIDDEN}"),
    )
)
SHORTEST_SECRET = 8  # characters: shorter ones occur in texts by chance


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """Return a text without tokens, passwords, cookies and keys: those that are ``known``, and whatever stands where
    such things stand (in the address of a request, in a header, after the name of a secret)."""
    for secret in known:
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, _HIDDEN)
    for pattern, left in _SECRETS:
        text = pattern.sub(left, text)
    return text
