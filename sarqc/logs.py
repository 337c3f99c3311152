"""Log lines with time, level, and the run and the person that they are about; without secrets.

A line is cleaned when it is written, with all its contents: arguments, exceptions, addresses.
"""

import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from pydantic import SecretStr

from sarqc.files.kept_out import without_secrets
from sarqc.settings import Settings

SECRET_ENDINGS = ("_TOKEN", "_SECRET", "_PASSWORD", "_KEY")  # of names of variables of the environment

_about: ContextVar[dict[str, str]] = ContextVar("sarqc_log_about", default={})  # noqa: B039  # never changed in place


@contextmanager
def about(**names: str) -> Iterator[None]:
    """Mark the log lines of a context as being about a ``run`` or ``owner``."""
    token = _about.set(_about.get() | names)
    try:
        yield
    finally:
        _about.reset(token)


def configure(settings: Settings) -> None:
    """Send all log lines of this process to standard error, as the settings say."""
    handler = logging.StreamHandler()
    make = JsonLines if settings.log_format == "json" else TextLines
    handler.setFormatter(make(known_secrets(settings)))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each request to the Hub


def known_secrets(settings: Settings) -> frozenset[str]:
    """Return the secrets that this process was given: those of the settings, and environment variables named so."""
    values = (getattr(settings, name) for name in type(settings).model_fields)
    secrets = {value.get_secret_value() for value in values if isinstance(value, SecretStr)}
    return frozenset(secrets | {value for name, value in os.environ.items() if name.upper().endswith(SECRET_ENDINGS)})


class _Lines(logging.Formatter):
    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = frozenset(secrets)

    def parts(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the parts of a line. ``fields`` of a record (see ``logging``'s ``extra``) stand beside its words."""
        names = {name: getattr(record, name, None) or _about.get().get(name) for name in ("run", "owner")}
        trace = self.formatException(record.exc_info) if record.exc_info else record.exc_text
        return {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            **{name: value for name, value in names.items() if value},
            "message": self._clean(record.getMessage()),
            **getattr(record, "fields", {}),
            **({"exception": self._clean(trace)} if trace else {}),
        }

    def _clean(self, text: str) -> str:
        return without_secrets(text, self._secrets)


class TextLines(_Lines):
    """``2026-01-01T00:00:00.000Z INFO sarqc.jobs.supervisor [run 01J…, ann]: words``. A message is one line; the
    trace of an exception follows in lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        parts = self.parts(record)
        names = [f"run {parts['run']}"] if "run" in parts else []
        names += [_one_line(parts["owner"])] if "owner" in parts else []
        labels = f" [{', '.join(names)}]" if names else ""
        line = f"{parts['time']} {parts['level']} {parts['logger']}{labels}: {_one_line(parts['message'])}"
        return f"{line}\n{parts['exception']}" if "exception" in parts else line


class JsonLines(_Lines):
    """The same as one JSON object in a line, for programs that gather logs."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.parts(record), ensure_ascii=False, default=str)


def _one_line(text: str) -> str:
    """Return a text that can't begin a line of its own: characters that move the cursor are escaped as in Python."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
