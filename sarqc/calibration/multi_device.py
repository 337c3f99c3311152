"""The linears of a block on several devices at once, with a process for each that only solves.

Under one prefix the linears of a block don't depend on each other, and each result is that of its linear alone, so that
the device changes no bit. The model stays in the process that walks it: only statistics and weights travel, in shared
memory, and the results come back in the order of the linears.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Self

import torch
import torch.multiprocessing

from sarqc.calibration.job import SolvedLayer
from sarqc.calibration.layer_batch import LayerBatch
from sarqc.errors import WorkerLost
from sarqc.events import PointDone
from sarqc.quantization.solving import Context

_AHEAD = 2  # tasks for each device: the next one is there when one is done

Told = list[SolvedLayer | PointDone]


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
        _allow_files()
        threads = max(1, torch.get_num_threads() // len(self.devices))
        self._solvers = [_Solver(device, threads, self._budget_bytes) for device in self.devices]
        self._idle: SimpleQueue[_Solver] = SimpleQueue()
        for solver in self._solvers:
            self._idle.put(solver)
        self._asking = ThreadPoolExecutor(len(self.devices), "spread")
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            for solver in self._solvers:
                solver.terminate()
        self._asking.shutdown(cancel_futures=True)
        for solver in self._solvers:
            solver.close()

    def solved(self, batches: Iterable[LayerBatch]) -> Iterator[SolvedLayer | PointDone]:
        """Yield the results of each batch's ``LayerBatch.solved``, in order, with its linears shared among the devices.

        Raises:
            WorkerLost: If a process has ended.
        """
        waiting: deque[Future[Told]] = deque()
        try:
            for batch in batches:
                for part in batch.on(torch.device("cpu")).in_parts(len(self.devices)):
                    waiting.append(self._asking.submit(self._solved, part))
                    if len(waiting) >= _AHEAD * len(self.devices):
                        yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _solved(self, part: LayerBatch) -> Told:
        solver = self._idle.get()
        try:
            return solver.solved(part)
        finally:
            self._idle.put(solver)


class _Solver:
    """A process on ``device``, with a pipe of its own: whatever moment it ends at, the pipe ends with it."""

    def __init__(self, device: torch.device, threads: int, budget_bytes: int) -> None:
        self.device = device
        context = torch.multiprocessing.get_context("spawn")
        self._pipe, self._its_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._its_end, device, threads, budget_bytes))

    def solved(self, part: LayerBatch) -> Told:
        try:
            if self._process.ident is None:
                self._process.start()
                self._its_end.close()
            self._pipe.send(part)
            answer: Told | Exception = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise WorkerLost(
                "a process that solves linears has ended",
                str(self.device),
                "Continue the run: it goes on from the layers that are kept. If the host was out of memory, in "
                "/dev/shm too, set a smaller SARQC_SPAN.",
            ) from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def terminate(self) -> None:
        if self._process.ident is not None:
            self._process.terminate()

    def close(self) -> None:
        self._its_end.close()
        self._pipe.close()
        if self._process.ident is not None:
            self._process.join()


def _serve(pipe: Connection, device: torch.device, threads: int, budget_bytes: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: who began the run ends it
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    torch.set_num_threads(threads)
    context = Context.on(device, budget_bytes)
    with suppress(EOFError):
        while True:
            part: LayerBatch = pipe.recv()
            there = part.on(device)
            answer: Told | Exception
            try:
                answer = [_on_the_host(step) for step in there.solved(context)]
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = error
            pipe.send(answer)


def _end_with_parent() -> None:
    """Ends this process with its parent, so that none is left behind a parent that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _on_the_host(step: SolvedLayer | PointDone) -> SolvedLayer | PointDone:
    """A layer on the CPU, like one that was read from the store."""
    if isinstance(step, PointDone):
        return step
    fields = vars(step.quantized).items()
    parts: dict[str, Any] = {name: value.cpu() for name, value in fields if isinstance(value, torch.Tensor)}
    return replace(step, quantized=replace(step.quantized, **parts))


def _allow_files() -> None:
    """Each tensor on its way is an open file: as many as the host allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
