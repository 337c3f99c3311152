"""Content-keyed files: finished layers and measurements, so that nothing is computed twice and nothing is lost.

A key is a chain: it hashes everything that determines a result, including the key of what came before it.
"""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import xxhash

from sarqc.files.claims import Claims
from sarqc.files.places import StoredFile, place_at

log = logging.getLogger(__name__)

_DIGEST_BYTES = 16
PARTIAL_SECONDS = 3600.0  # no write takes so long; a younger file may belong to another process


def chain_key(*parts: Any) -> str:
    """Return 32 hex digits of a SHA-256 over the parts: bytes as they are, everything else as canonical JSON."""
    digest = hashlib.sha256()
    for part in parts:
        payload = bytes(part) if isinstance(part, bytes | memoryview) else json.dumps(part, sort_keys=True).encode()
        digest.update(len(payload).to_bytes(8, "little"))
        digest.update(payload)
    return digest.hexdigest()[:32]


class ArtefactStore:
    """Immutable files ``<key[:2]>/<key><suffix>`` below a folder or an address, each written whole or not at all.

    The file's last bytes are a hash of what precedes them, so a damaged file is recognised, removed and made again.
    ``trim`` removes what was not used for longest; object storage does not remember use, and there it is what was
    written first. Files found damaged are logged, and named in ``damaged`` until that is said. ``crew``: how many
    processes do the same work on it, each a share, see ``Claims``. Raises as ``place_at``; its methods raise
    ``Unreachable`` where object storage does not answer.
    """

    def __init__(self, root: Path | str, crew: int = 1) -> None:
        self._place = place_at(root)
        self.claims = Claims(self._place, crew)
        self.damaged: list[str] = []

    def has(self, key: str, suffix: str) -> bool:
        """Return whether there is an undamaged file; reading it is the only way to know."""
        return self.read(key, suffix) is not None

    def touch(self, key: str, suffix: str) -> bool:
        """Return whether there is a file, of which nothing is read; it counts as used."""
        return self._place.touch(_name(key, suffix))

    def read(self, key: str, suffix: str) -> bytes | None:
        """Return the payload, or None where there is none or it is damaged (then it is removed)."""
        name = _name(key, suffix)
        content = self._place.read(name)
        if content is None:
            return None
        payload, checksum = memoryview(content)[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
        if xxhash.xxh3_128_digest(payload) != checksum:
            self._place.remove(name)
            log.warning("checksum mismatch of a kept file, which is removed and made again: %s", name)
            self.damaged.append(name)
            return None
        return bytes(payload)

    def write(self, key: str, suffix: str, payload: bytes) -> None:
        """Store a payload under a key; atomic, and harmless when two processes write the same."""
        self._place.write(_name(key, suffix), payload, xxhash.xxh3_128_digest(payload))

    def remove_partial(self, older_than: float = PARTIAL_SECONDS) -> int:
        """Remove what was being written when its process was killed; return the number of files."""
        return self._place.remove_partial(older_than)

    def oldest(self) -> list[StoredFile]:
        """Return all files, those unused for longest first."""
        return sorted(self._place.entries(), key=lambda entry: entry.changed)

    def trim(self, quota_bytes: int) -> int:
        """Remove the files unused for longest until the rest fits in the quota; return the bytes removed."""
        entries = self.oldest()
        excess = sum(entry.size for entry in entries) - quota_bytes
        removed = 0
        for entry in entries:
            if removed >= excess:
                break
            self._place.remove(entry.name)
            removed += entry.size
        return removed


def _name(key: str, suffix: str) -> str:
    return f"{key[:2]}/{key}{suffix}"
