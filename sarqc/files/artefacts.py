"""Content-keyed files: finished layers and measurements, so that nothing is computed twice and nothing is lost.

A key is a chain: it hashes everything that determines a result, including the key of what came before it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import xxhash

from sarqc.files.claims import Claims

_DIGEST_BYTES = 16
PARTIAL_SECONDS = 3600.0  # nobody writes a file for so long; a younger one may belong to another process


def chain_key(*parts: Any) -> str:
    """32 hex digits of a SHA-256 over the parts: bytes as they are, everything else as canonical JSON."""
    digest = hashlib.sha256()
    for part in parts:
        payload = bytes(part) if isinstance(part, bytes | memoryview) else json.dumps(part, sort_keys=True).encode()
        digest.update(len(payload).to_bytes(8, "little"))
        digest.update(payload)
    return digest.hexdigest()[:32]


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class ArtefactStore:
    """A folder of immutable files ``<key[:2]>/<key><suffix>``, each written whole or not at all.

    The file's last bytes are a hash of what precedes them, so a file damaged on disk is recognised, removed and made
    again. Use counts as a touch: ``trim`` removes what was not used for longest. ``crew``: how many processes do the
    same work on it, each a share, see ``Claims``.
    """

    def __init__(self, root: Path, crew: int = 1) -> None:
        self.root, self.claims = root, Claims(root, crew)

    def path(self, key: str, suffix: str) -> Path:
        return self.root / key[:2] / f"{key}{suffix}"

    def has(self, key: str, suffix: str) -> bool:
        """Whether there is an undamaged file; reading it is the only way to know."""
        return self.read(key, suffix) is not None

    def touch(self, key: str, suffix: str) -> bool:
        """Whether there is a file, of which nothing is read; it counts as used."""
        try:
            os.utime(self.path(key, suffix))
        except FileNotFoundError:
            return False
        return True

    def read(self, key: str, suffix: str) -> bytes | None:
        """The payload, or None where there is none or it is damaged (then it is removed)."""
        path = self.path(key, suffix)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        payload, checksum = memoryview(content)[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
        if xxhash.xxh3_128_digest(payload) != checksum:
            path.unlink(missing_ok=True)
            return None
        os.utime(path)
        return bytes(payload)

    def write(self, key: str, suffix: str, payload: bytes) -> Path:
        """Stores a payload under a key; atomic, and harmless when two processes write the same.

        Nothing waits for the disk, which takes longer than a GPU for a layer. After a loss of power a file may lack its
        end: it is damaged then, and made again.
        """
        path = self.path(key, suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Named before it is made, so that an interrupt at any moment leaves nothing whose name is not known.
        partial = path.with_name(f".partial-{secrets.token_hex(8)}")
        try:
            with open(partial, "xb", opener=_for_the_owner) as file:
                file.write(payload)
                file.write(xxhash.xxh3_128_digest(payload))
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return path

    def remove_partial(self, older_than: float = PARTIAL_SECONDS) -> int:
        """Removes what was being written when its process was killed; returns the number of files."""
        removed = 0
        for file in self.root.glob("*/.partial-*"):
            with suppress(FileNotFoundError):  # finished meanwhile
                if time.time() - file.stat().st_mtime > older_than:
                    file.unlink()
                    removed += 1
        return removed

    def oldest(self) -> list[tuple[os.stat_result, Path]]:
        """All files, those unused for longest first."""
        files = [(file.stat(), file) for file in self.root.glob("*/*") if file.is_file()]
        return sorted(files, key=lambda entry: entry[0].st_mtime)

    def trim(self, quota_bytes: int) -> int:
        """Removes the files unused for longest until the rest fits in the quota; returns the bytes removed."""
        files = self.oldest()
        excess = sum(stat.st_size for stat, _ in files) - quota_bytes
        removed = 0
        for stat, file in files:
            if removed >= excess:
                break
            file.unlink(missing_ok=True)
            removed += stat.st_size
        return removed
