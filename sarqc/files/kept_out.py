"""Paths of this host, kept out of what leaves it."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Mapping
from pathlib import Path

_ABSOLUTE = re.compile(r"(?<![\w.:/<~-])(?:~|/)[\w.@+-]+(?:/[\w.@+ -]*[\w.@+-])+/?")


def without_paths(text: str, folders: Mapping[str, Path]) -> str:
    """A text in which folders of this host are named by what they are, and other absolute paths by their last part.

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
    return _ABSOLUTE.sub(lambda found: f"<…>/{found.group().rstrip('/').rpartition('/')[2]}", text)
