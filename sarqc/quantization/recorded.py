"""Operations on a GPU, recorded for tensors of certain shapes and then started as one: a CUDA graph.

Starting an operation takes the processor some ten microseconds, whatever the operation does. The columns of one linear
are thousands of operations, and most are done before the next is started.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

Results = tuple[Tensor, ...]
Tensors = Mapping[str, Tensor]
Function = Callable[..., Results]
Replay = Callable[[Tensors], Results]  # a recording of a function, for other tensors of the same shapes


@dataclass
class _Seen:
    """A function with its settings and the shapes of its tensors, after the first time."""

    replay: Replay | None = None
    is_plain: bool = False  # for good


class Recorder:
    """Recorder of functions that are called again with the same settings and shapes.

    A function is recorded the second time. A recording has inputs of its own, which together stay within
    ``most_bytes``, and works in memory of its own, about as much again. All of it is freed with this object. Functions
    must not request a value from the device.

    Args:
        most_bytes: Memory for the inputs of all recordings, in bytes.
        record: Function that makes a recording.

    Attributes:
        failed: True if a recording could not be made, or gave other bits than the function.
    """

    def __init__(self, most_bytes: int, record: Callable[[Function, Tensors, Mapping[str, Hashable]], Replay]) -> None:
        self._room, self._record = most_bytes, record
        self._seen: dict[Hashable, _Seen] = {}
        self.failed = False

    @classmethod
    def on(cls, device: torch.device, most_bytes: int) -> Recorder | None:
        """Return a recorder for a device; None for a device without graphs."""
        return cls(most_bytes, recorded) if device.type == "cuda" else None

    def __call__(self, function: Function, tensors: Tensors, **settings: Hashable) -> Results:
        """Return the result of the function for these tensors and settings, bit for bit."""
        shapes = tuple((name, tuple(part.shape), part.dtype) for name, part in tensors.items())
        seen = self._seen.get(key := (function, shapes, tuple(settings.items())))
        if seen is None or seen.is_plain:
            self._seen.setdefault(key, _Seen())
            return function(**tensors, **settings)
        if seen.replay is not None:
            return seen.replay(tensors)
        plain = function(**tensors, **settings)
        size = sum(part.nbytes for part in tensors.values())
        seen.is_plain = size > self._room
        if not seen.is_plain:
            try:
                replay = self._record(function, tensors, settings)
                same = all(map(torch.equal, plain, replay(tensors)))
            except torch.OutOfMemoryError:
                seen.is_plain = True
                return plain
            except RuntimeError:  # of CUDA, for whatever it cannot record
                same = False
            if same:
                seen.replay, self._room = replay, self._room - size
            else:
                seen.is_plain = self.failed = True
        return plain


def started(function: Function, tensors: Tensors, **settings: Hashable) -> Results:
    """Call a function without a recorder: every operation is started by itself."""
    return function(**tensors, **settings)


def recorded(function: Function, tensors: Tensors, settings: Mapping[str, Hashable]) -> Replay:
    """Return a CUDA graph of the function for tensors of these shapes."""
    own = {name: part.clone() for name, part in tensors.items()}
    current, aside = torch.cuda.current_stream(), torch.cuda.Stream()
    aside.wait_stream(current)
    with torch.cuda.stream(aside):
        function(**own, **settings)  # libraries make their work space at the first call on a stream
    current.wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    # Layers are copied to the host in another thread meanwhile, which is not a part of the recording.
    with torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"):
        results = function(**own, **settings)

    def replay(given: Tensors) -> Results:
        for name, part in given.items():
            own[name].copy_(part)
        graph.replay()
        return tuple(result.clone() for result in results)  # the next replay writes over these

    return replay
