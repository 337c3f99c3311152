"""Blocks with their weights in memory only during use: from the checkpoint's files, or with changes."""

import os
import shutil
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn

from sarqc.files.scratch import scratch_folder
from sarqc.models.weight_files import WeightFiles, put


class Streaming:
    """Loader of a block's weights when the block is called, or for as long as it is held with ``at``.

    Changed blocks are stored in a folder of their own under ``scratch``, which is removed with this object; remains of
    dead processes are removed.
    """

    def __init__(
        self,
        model: nn.Module,
        blocks: str,
        files: WeightFiles,
        device: torch.device,
        dtype: torch.dtype,
        scratch: Path,
    ) -> None:
        self._files, self._model, self._device, self._dtype = files, model, device, dtype
        self._paths = {block: f"{blocks}.{index}" for index, block in enumerate(model.get_submodule(blocks).children())}
        self._held: set[nn.Module] = set()
        self._changed: dict[nn.Module, Path] = {}
        self._folder = scratch_folder(scratch, "blocks")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        for block in self._paths:
            block.forward = partial(_call_held, weakref.ref(self), block, type(block).forward)

    @contextmanager
    def at(self, block: nn.Module, *, changes: bool = False) -> Iterator[None]:
        """Hold the weights of a block in memory within this context; ``changes`` keeps their values at its end."""
        if block in self._held:  # the outer context loads and removes them
            yield
            return
        if block in self._changed:
            for name, tensor in safetensors.torch.load_file(self._changed[block]).items():
                put(block, name, tensor.to(self._device))
        else:
            self._files.fill(self._model, self._paths[block], self._device, self._dtype)
        self._held.add(block)
        try:
            yield
            if changes:
                self._keep(block)
        finally:
            self._held.remove(block)
            for name, parameter in list(block.named_parameters()):
                put(block, name, torch.empty_like(parameter, device="meta"))

    def forget_changes(self) -> None:
        """Restore the weights of the checkpoint in every block."""
        for path in self._changed.values():
            path.unlink()
        self._changed.clear()

    def _keep(self, block: nn.Module) -> None:
        path = self._folder / f"{self._paths[block]}.safetensors"
        tensors = {name: parameter.detach().cpu().contiguous() for name, parameter in block.named_parameters()}
        partial_path = path.with_suffix(".partial")
        safetensors.torch.save_file(tensors, partial_path)
        os.replace(partial_path, path)
        self._changed[block] = path


def _call_held(
    streaming: weakref.ref[Streaming], block: nn.Module, forward: Callable[..., Any], *given: Any, **named: Any
) -> Any:
    """Run a block's forward pass, with its weights."""
    alive = streaming()
    assert alive is not None  # a walk holds the model and its streaming
    with alive.at(block):
        return forward(block, *given, **named)
