"""Files of uploaded texts, under names made of their content."""

from __future__ import annotations

import re
from pathlib import Path

from sarqc.settings import Settings

UPLOAD_ENDINGS = (".txt", ".jsonl")  # of plain texts, and of rows or chats of any kind of file
UPLOADED = re.compile(r"text-[0-9a-f]{24}")


def text_name(digest: str) -> str:
    """Return the name of a text from its SHA-256 hash."""
    return f"text-{digest[:24]}"


def text_path(name: str, settings: Settings) -> Path:
    """Return the file of an uploaded text, whether it exists or not."""
    plain, rows = (settings.text_uploads_dir() / f"{name}{ending}" for ending in UPLOAD_ENDINGS)
    return rows if rows.exists() else plain
