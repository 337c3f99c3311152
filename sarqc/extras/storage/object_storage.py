"""Object storage as a place for files, S3-compatible or whatever else fsspec reads.

A library for each kind (s3fs for S3) finds credentials where that kind usually has them, and retries failures for a
while. None is imported before there is an address.
"""

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from sarqc.errors import Refused, SarqcError, Unreachable
from sarqc.files.places import MARK, Folder, StoredFile

WHERE = "SARQC_STORAGE"
MOST_BYTES = 700  # of an address: names of S3 have 1024 at most, and names below it some hundred
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^@?#\s]+")
_CHANGED = ("LastModified", "last_modified", "updated", "mtime", "created")  # as S3, Azure, Google and memory call it
_TAKEN = (409, 412)  # statuses of HTTP: the object exists, or another process is making it


class ObjectStorage(Folder):
    """Objects below an address such as s3://bucket/prefix; its methods are those of a folder.

    Of an object it is known when it was written, not when it was used last. ``mark`` asks if the storage answers.

    Raises:
        Refused: For an address that can't be one, or if the library for it is missing.
        Unreachable: By methods, if the storage does not answer.
    """

    pause_seconds = 2.0  # each question is a request that is paid for

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        if not _ADDRESS.fullmatch(self.address) or self.address.startswith(("file:", "local:", "memory:")):
            hidden = re.sub(r"//[^/]*@", "//…@", address)
            remedy = "Give one like s3://bucket/prefix, without a name and secret in it; or the path of a folder."
            raise Refused(f"“{hidden}” is not an address of object storage", WHERE, remedy)
        if (problem := _problem(self.address)) is not None:
            remedy = "Give one like s3://bucket/prefix, whose parts are plain names."
            raise Refused(f"“{self.address[:100]}” is not an address of object storage: {problem}", WHERE, remedy)
        import fsspec

        try:
            self._files, self._prefix = fsspec.url_to_fs(self.address, use_listings_cache=False)
        except ImportError as error:
            remedy = "Install it with sarqc: pip install 'sarqc[storage]' has that for S3."
            raise Refused(f"the library for {self.address} is not installed here: {error}", WHERE, remedy) from None
        except ValueError as error:
            raise Refused(f"{self.address}: {error}", WHERE, "Give one like s3://bucket/prefix.") from None

    def read(self, name: str) -> bytes | None:
        with self._answering(), suppress(FileNotFoundError):
            content: bytes = self._files.cat_file(self._path(name))
            return content
        return None

    def write(self, name: str, *parts: bytes) -> None:
        with self._answering():
            self._files.pipe_file(self._path(name), b"".join(parts))

    def make(self, name: str, content: bytes = b"") -> bool:
        with self._answering():
            try:
                self._files.pipe_file(self._path(name), content, mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                if _status(error) in _TAKEN:
                    return False
                raise
        return True

    def touch(self, name: str) -> bool:
        return self.changed(name) is not None

    def renew(self, name: str) -> None:
        self.write(name)

    def changed(self, name: str) -> float | None:
        with self._answering(), suppress(FileNotFoundError):
            return _changed(self._files.info(self._path(name)))
        return None

    def remove(self, name: str) -> None:
        with self._answering(), suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def entries(self) -> Iterator[StoredFile]:
        with self._answering():
            objects: dict[str, dict[str, Any]] = self._files.find(self._prefix, detail=True)
        for path, info in objects.items():
            yield StoredFile(path.removeprefix(self._path("")), info["size"], _changed(info))

    def remove_partial(self, older_than: float) -> int:
        return 0  # objects are never partial

    def mark(self) -> str:
        trial = f".sarqc-trial-{secrets.token_hex(8)}"
        self.make(MARK, secrets.token_hex(16).encode())
        self.write(trial)
        self.remove(trial)
        mark = self.read(MARK)
        if mark is None:
            raise self._unusable("what was written can't be read")
        return mark.decode()

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Turn any error of the library into one for people."""
        try:
            yield
        except SarqcError:
            raise
        except Exception as error:  # each library has errors of its own
            raise self._unusable(f"{type(error).__name__}: {str(error)[:300]}") from error

    def _unusable(self, why: str) -> Unreachable:
        return Unreachable(
            f"{self.address} can't be used: {why}",
            WHERE,
            "See that the bucket is there, that it can be reached from this host (AWS_ENDPOINT_URL where it is not "
            "Amazon's), and that this host has credentials that may list, read, write and delete.",
        )


def _problem(address: str) -> str | None:
    """Return what is wrong with the names in an address, whose parts every server has to understand as we do."""
    parts = address.partition("://")[2].split("/")
    if not all(parts):
        return "a part of it is empty"
    for part in parts:
        if unquote(part) in (".", "..") or "\\" in unquote(part) or "/" in unquote(part):
            return "a part of it leads elsewhere"
        if not unquote(part).isprintable():
            return "a character in it can't be printed"
    if len(address.encode()) > MOST_BYTES:
        return f"it has more than {MOST_BYTES} bytes"
    return None


def _changed(info: Mapping[str, Any]) -> float:
    """Return when an object was written, in seconds since 1970."""
    written = next(info[name] for name in _CHANGED if info.get(name))
    if isinstance(written, str):
        written = datetime.fromisoformat(written)
    return written.timestamp() if isinstance(written, datetime) else float(written)


def _status(error: OSError) -> int | None:
    """Return the HTTP status behind an error of S3."""
    response = getattr(error.__cause__, "response", {})
    status: int | None = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status
