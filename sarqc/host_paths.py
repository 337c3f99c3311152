"""Paths of this host, kept out of what leaves it."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

from sarqc.settings import SITE, Settings

_ABSOLUTE = re.compile(r"(?<![\w.:/<~-])(?:~|/)[\w.@+-]+(?:/[\w.@+ -]*[\w.@+-])+/?")


def without_paths(text: str, settings: Settings) -> str:
    """A text in which folders of this host are named by what they are, and other absolute paths by their last part."""
    named = {
        str(settings.resolved_state_dir()): "<state>",
        str(settings.assets_dir.resolve()): "<assets>",
        sysconfig.get_paths()["purelib"]: "<packages>",
        sysconfig.get_paths()["stdlib"]: "<python>",
        str(SITE): "<sarqc>",
        str(Path.home()): "<home>",
    }
    for path in sorted(named, key=len, reverse=True):
        if path != "/":
            text = text.replace(path, named[path])
    return _ABSOLUTE.sub(lambda found: f"<…>/{found.group().rstrip('/').rpartition('/')[2]}", text)
