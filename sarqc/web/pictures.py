"""Pictures of what links show, as PNG: drawn when somebody asks, one at a time, and the last of them kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock

import resvg_py

from sarqc.figures.card import FAMILY
from sarqc.web.planning import Planning

KEPT = 64  # pictures, of some 100 KB each
AT_ONCE, WAITING = 1, 16
FACES = ("Inter_400Regular.ttf", "Inter_600SemiBold.ttf")


class Pictures:
    """Draws SVG documents with the typefaces that come with the app, and none of the host's."""

    def __init__(self, assets: Path) -> None:
        self._faces = [str(assets / "vendor" / "inter" / name) for name in FACES]
        self._kept: dict[object, bytes] = {}  # the last used one last
        self._lock, self._drawing = Lock(), Planning("pictures are being drawn or wait", AT_ONCE, WAITING)

    async def png(self, content: object, svg: Callable[[], str]) -> bytes:
        """The picture of ``content``, which is equal for equal pictures; ``svg`` makes its document.

        Raises ``Busy`` where too many wait already.
        """
        kept = self._known(content)
        return kept if kept is not None else await self._drawing.run(lambda: self._drawn(content, svg))

    def _drawn(self, content: object, svg: Callable[[], str]) -> bytes:
        if (kept := self._known(content)) is not None:  # drawn while this one waited
            return kept
        made = bytes(
            resvg_py.svg_to_bytes(
                svg_string=svg(), font_files=self._faces, skip_system_fonts=True, font_family=FAMILY,
                sans_serif_family=FAMILY,
            )
        )  # fmt: skip
        with self._lock:
            self._kept[content] = made
            for oldest in list(self._kept)[:-KEPT]:
                del self._kept[oldest]
        return made

    def _known(self, content: object) -> bytes | None:
        with self._lock:
            if (kept := self._kept.pop(content, None)) is not None:
                self._kept[content] = kept
            return kept
