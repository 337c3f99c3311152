"""What a page will need, told to the browser before it has read the page.

Gradio puts our scripts in only when it has itself started, and each module is found by reading the one before it. A
``Link`` header names them all with the answer, so that they are there when they are asked for.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from importlib import metadata
from pathlib import Path

from pages.layout import STYLES
from sarqc.web.static import assets_root

_IMPORT = re.compile(r'(?:^|;)(?:import|export)\b[^;]*?from\s*"(\.{1,2}/[\w./-]+\.js)"(?=;)', re.MULTILINE)
# Path of a page → the modules that its elements ask for, and whether it draws.
NEEDS: dict[str, tuple[tuple[str, ...], bool]] = {
    "/": (("base/theme.js", "base/link.js", "charts/plot_host.js", "lab/lab_page.js"), True),
    "/calibrate": (("base/theme.js", "base/link.js", "calibrate/calibrate_page.js"), True),
    "/runs": (("base/theme.js", "base/link.js", "runs/runs_page.js", "runs/studies_list.js"), True),
    "/learn": (("base/theme.js", "base/link.js", "learn/learn_page.js"), False),
}


def modules(folder: Path, entries: tuple[str, ...]) -> list[str]:
    """Names of the scripts below ``folder`` that these ones import, directly or not, and these themselves."""
    found: list[str] = []
    waiting = list(entries)
    while waiting:
        name = waiting.pop(0)
        if name not in found and (folder / name).is_file():
            found.append(name)
            imported = _IMPORT.findall((folder / name).read_text(encoding="utf-8"))
            waiting += [posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for path in imported]
    return found


@cache
def link_header(path: str, folder: Path) -> str:
    """Value of the ``Link`` header for the page at ``path``, empty for a path that is no page of ours; ``folder`` is
    that of the assets."""
    if path not in NEEDS:
        return ""
    entries, draws = NEEDS[path]
    root = assets_root(folder)
    links = [f"<{root}/css/{name}.css>; rel=preload; as=style" for name in STYLES]
    scripts = modules(folder, tuple(f"js/{name}" for name in entries))
    links += [f"<{root}/{name}>; rel=modulepreload" for name in scripts]
    if draws:
        links.insert(0, f"</assets/plotly.min.js?v={metadata.version('plotly')}>; rel=preload; as=script")
    return ", ".join(links)
