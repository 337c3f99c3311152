"""Files of a site made from a study: apart, so that processes that make nothing else load little."""

import gzip
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from sarqc.extras.publish.slices import Slice, files_of
from sarqc.study.document import Study

LEVEL = 5  # of gzip: level 6 takes a third more time for 3 % fewer bytes


def packed(document: Any) -> bytes:
    """Return a document as compressed JSON, and bytes compressed."""
    raw = document if isinstance(document, bytes) else orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return gzip.compress(raw, LEVEL, mtime=0)


def write_piece(work: tuple[Path, Path, Slice]) -> None:
    """Write the files of a piece of a study. ``work``: folder of the study, folder of the files, and the piece."""
    folder, place, piece = work
    for name, document in files_of(_opened(folder), piece):
        path = place / (f"{name}.gz" if isinstance(document, bytes) else f"{name}.json.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed(document))


_opened = lru_cache(maxsize=2)(Study.open)
