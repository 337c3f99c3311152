"""The input of the float model's head on a test text, in files, so that quantized models are measured beside it later.

Axes: N windows, T tokens of a window, D hidden size.
"""

import itertools
import json

import safetensors.torch
import torch
from torch import Tensor

from sarqc.files.artefacts import ArtefactStore, chain_key

_TENSORS, _INDEX = ".safetensors", ".json"


class StatesGone(Exception):
    """The stored states of the float model are gone or incomplete."""


class KeptStates:
    """States (N, T, D) in the dtype that the model computes in. One part of them is in memory at a time.

    Each batch that is added is a file; a list of their sizes, written at last, makes them whole.
    """

    def __init__(self, store: ArtefactStore, key: str) -> None:
        self._store, self._key = store, key
        self._sizes: list[int] = []  # windows of each part, while they are written
        self._parts: list[tuple[str, int, int]] = []  # key, first window and end of each, once they are read
        self._last: tuple[str, Tensor] = ("", torch.empty(0))  # the part that was read last

    def is_complete(self) -> bool:
        """Return True if all parts are there; they count as used. Damage shows when they are read."""
        self._parts = self._list_parts()
        return bool(self._parts) and all(self._store.touch(key, _TENSORS) for key, _, _ in self._parts)

    def add(self, states: Tensor) -> None:
        """Store the next windows (n, T, D), which are on the CPU."""
        first = sum(self._sizes)
        key = self._part(first, first + len(states))
        self._store.write(key, _TENSORS, safetensors.torch.save({"states": states.contiguous()}))
        self._sizes.append(len(states))

    def finish(self) -> None:
        """Note that all windows were added."""
        self._store.write(self._key, _INDEX, json.dumps(self._sizes).encode())

    def __getitem__(self, windows: slice) -> Tensor:
        """Return the windows (n, T, D) of a slice with both ends. Raises ``StatesGone``."""
        self._parts = self._parts or self._list_parts()
        pieces = [
            self._read(key)[max(windows.start - first, 0) : windows.stop - first]
            for key, first, end in self._parts
            if first < windows.stop and end > windows.start
        ]
        if not pieces:
            raise StatesGone
        return torch.cat(pieces) if len(pieces) > 1 else pieces[0]

    def _part(self, first: int, end: int) -> str:
        """Return the key of a part. It names both ends: batches are smaller where less memory is free."""
        return chain_key(self._key, first, end)

    def _list_parts(self) -> list[tuple[str, int, int]]:
        """Return the stored parts; none if they are incomplete."""
        payload = self._store.read(self._key, _INDEX)
        ends = [0, *itertools.accumulate([] if payload is None else json.loads(payload))]
        return [(self._part(first, end), first, end) for first, end in itertools.pairwise(ends)]

    def _read(self, key: str) -> Tensor:
        if self._last[0] != key:
            self._last = ("", torch.empty(0))  # before the next is in memory
            payload = self._store.read(key, _TENSORS)
            if payload is None:
                raise StatesGone
            self._last = key, safetensors.torch.load(payload)["states"]
        return self._last[1]
