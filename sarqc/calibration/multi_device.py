"""The linears of a block on several devices at once, with a process for each that only solves.

Under one prefix the linears of a block don't depend on each other, and each result depends on its linear alone, so the
device changes no bit. The model stays in the process that walks it: only statistics and weights travel, in shared
memory, and the results come back in the order of the linears.
"""

import multiprocessing
import os
import resource
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing.queues import SimpleQueue
from typing import Any, Self

import torch
import torch.multiprocessing

from sarqc.calibration.job import SolvedLayer
from sarqc.calibration.layer_batch import LayerBatch
from sarqc.errors import WorkerLost
from sarqc.events import PointDone
from sarqc.quantization.solving import Context

_AHEAD = 2  # tasks for each device: the next one is ready when one is done

Steps = list[SolvedLayer | PointDone]

# Of a process that solves.
_device: torch.device
_context: Context


class MultiDevice:
    """Processes that solve linears, one on each device; a context manager. They start with the first task.

    Args:
        devices: The devices.
        budget_bytes: Working memory of candidates that are solved at once, on each device, in bytes.
    """

    def __init__(self, devices: Sequence[torch.device], budget_bytes: int) -> None:
        self.devices = tuple(devices)
        self._budget_bytes = budget_bytes

    def __enter__(self) -> Self:
        # Each tensor on its way is an open file: as many as the host allows.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        threads = max(1, torch.get_num_threads() // len(self.devices))
        context = torch.multiprocessing.get_context("spawn")
        devices = context.SimpleQueue()
        for device in self.devices:
            devices.put(device)
        self._solvers = ProcessPoolExecutor(
            len(self.devices), context, _start_solver, (devices, threads, self._budget_bytes)
        )
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            for process in [*(self._solvers._processes or {}).values()]:
                process.terminate()
        self._solvers.shutdown(cancel_futures=True)

    def solved(self, batches: Iterable[LayerBatch]) -> Iterator[SolvedLayer | PointDone]:
        """Yield the results of each batch's ``LayerBatch.solved``, in order, with its linears shared among the devices.

        Raises:
            WorkerLost: If a process has ended.
        """
        waiting: deque[Future[Steps]] = deque()
        try:
            for batch in batches:
                for part in batch.to(torch.device("cpu")).split(len(self.devices)):
                    waiting.append(self._solvers.submit(_solve, part))
                    if len(waiting) >= _AHEAD * len(self.devices):
                        yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        except BrokenProcessPool as error:
            raise WorkerLost(
                "a process that solves linears has ended",
                ", ".join(map(str, self.devices)),
                "Continue the run: it goes on from the layers that are kept. If the host was out of memory, in "
                "/dev/shm too, set a smaller SARQC_SPAN.",
            ) from error
        finally:
            for future in waiting:
                future.cancel()


def _start_solver(devices: SimpleQueue[torch.device], threads: int, budget_bytes: int) -> None:
    """Make this process the solver of the next device."""
    global _device, _context
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the parent ends the run
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    torch.set_num_threads(threads)
    _device = devices.get()
    _context = Context.on(_device, budget_bytes)


def _solve(part: LayerBatch) -> Steps:
    return [_to_host(step) for step in part.to(_device).solved(_context)]


def _end_with_parent() -> None:
    """End this process with its parent, so that it does not outlive a parent that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _to_host(step: SolvedLayer | PointDone) -> SolvedLayer | PointDone:
    """Return a layer on the CPU, like one that was read from the store."""
    if isinstance(step, PointDone):
        return step
    fields = vars(step.quantized).items()
    parts: dict[str, Any] = {name: value.cpu() for name, value in fields if isinstance(value, torch.Tensor)}
    return replace(step, quantized=replace(step.quantized, **parts))
