"""The linears of a block on several devices at once: a process for each, which solves and does nothing else.

Under one prefix the linears of a block don't depend on each other, and each result is that of its linear alone, so that
where it is solved changes no bit. The model stays in the process that walks it: only statistics and weights travel, in
shared memory, and what was solved comes back in the order of the linears.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.queues import SimpleQueue
from typing import Any, Self

import torch
import torch.multiprocessing

from sarqc.calibration.job import SolvedLayer
from sarqc.calibration.together import Together
from sarqc.errors import WorkerLost
from sarqc.events import PointDone
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.quantization.solving import Context

_AHEAD = 2  # tasks for each device: the next one is there when one is done

Told = list[SolvedLayer | PointDone]


class Spread:
    """Processes that solve linears, one on each of these devices; a context. They start with the first task.

    ``budget_bytes``: of candidates that are solved at once, on each device.
    """

    def __init__(self, devices: Sequence[torch.device], budget_bytes: int) -> None:
        self.devices = tuple(devices)
        self._budget_bytes = budget_bytes

    def __enter__(self) -> Self:
        _allow_files()
        context = torch.multiprocessing.get_context("spawn")
        devices = context.SimpleQueue()
        for device in self.devices:
            devices.put(device)
        threads = max(1, torch.get_num_threads() // len(self.devices))
        self._pool = ProcessPoolExecutor(
            len(self.devices), context, initializer=_begin, initargs=(devices, threads, self._budget_bytes)
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(wait=error[0] is None, cancel_futures=True)

    def solved(self, batches: Iterable[Together]) -> Iterator[SolvedLayer | PointDone]:
        """What each batch's ``Together.solved`` yields, in order, its linears shared out among the devices.

        Raises ``WorkerLost`` where a process has ended.
        """
        waiting: deque[Future[Told]] = deque()
        try:
            for batch in batches:
                for part in batch.on(torch.device("cpu")).in_parts(len(self.devices)):
                    waiting.append(self._pool.submit(_solved, part))
                    if len(waiting) >= _AHEAD * len(self.devices):
                        yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        except BrokenProcessPool:
            raise WorkerLost(
                "a process that solves linears has ended",
                f"one of {', '.join(map(str, self.devices))}",
                "Continue the run: it goes on from the layers that are kept. If the host was out of memory, in "
                "/dev/shm too, set a smaller SARQC_SPAN.",
            ) from None
        finally:
            for future in waiting:
                future.cancel()


_context: Context | None = None  # of this process, where it is one that solves
_device = torch.device("cpu")


def _begin(devices: SimpleQueue[torch.device], threads: int, budget_bytes: int) -> None:
    global _context, _device
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: who began the run ends it
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    torch.set_num_threads(threads)
    _device = devices.get()
    _context = Context.on(_device, budget_bytes)


def _end_with_parent() -> None:
    """No process stays behind one that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _solved(batch: Together) -> Told:
    assert _context is not None
    return [_on_the_host(step) for step in batch.on(_device).solved(_context)]


def _on_the_host(step: SolvedLayer | PointDone) -> SolvedLayer | PointDone:
    if isinstance(step, PointDone):
        return step
    return SolvedLayer(step.info, _as_kept(step.quantized), step.curve, step.seconds, step.from_cache)


def _as_kept(layer: QuantizedLayer) -> QuantizedLayer:
    """On the CPU, as a layer that was read from the store."""
    parts: dict[str, Any] = {
        name: value.cpu() for name, value in vars(layer).items() if isinstance(value, torch.Tensor)
    }
    return QuantizedLayer(**{**vars(layer), **parts})


def _allow_files() -> None:
    """Each tensor on its way is an open file: as many as the host allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
