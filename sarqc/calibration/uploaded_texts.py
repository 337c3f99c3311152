"""Where uploaded texts are kept, under names made of their content."""

from __future__ import annotations

import re
from pathlib import Path

from sarqc.settings import Settings

UPLOADED = re.compile(r"text-[0-9a-f]{24}")


def text_name(digest: str) -> str:
    """The name of a text with a SHA-256 hash."""
    return f"text-{digest[:24]}"


def text_path(name: str, settings: Settings) -> Path:
    """The file of an uploaded text, there or not."""
    return settings.text_uploads_dir() / f"{name}.txt"
