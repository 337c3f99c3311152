"""Weights of a checkpoint: read from memory-mapped safetensors files on demand, and written."""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from sarqc.errors import Refused
from sarqc.models.checkpoint import FLOATS, TOGETHER, Checkpoint
from sarqc.models.decoder import DerivedFamily
from sarqc.models.linears import is_fused_parameter, slices_of
from sarqc.models.promised import check_tensor
from sarqc.models.tensor_files import INDEX, SINGLE

SHARD_BYTES = 4 << 30  # a model larger than this is written as several files


class TensorReader:
    """Tensors by their names in the files, read on demand.

    Args:
        places: File of each tensor.
    """

    def __init__(self, places: Mapping[str, Path]) -> None:
        self._places = places
        self._open = ExitStack()
        self._files: dict[Path, Any] = {}

    def read(self, name: str) -> Tensor:
        """Return a tensor on the CPU, in its stored dtype.

        Raises:
            KeyError: If there is no such tensor.
        """
        path = self._places[name]
        if path not in self._files:
            self._files[path] = self._open.enter_context(safetensors.safe_open(path, "pt"))
        tensor: Tensor = self._files[path].get_tensor(name)
        return tensor

    def close(self) -> None:
        """Close the files; the next ``read`` opens its file again."""
        self._files.clear()
        self._open.close()


class WeightFiles(TensorReader):
    """Weights of a checkpoint, read and filled into its model."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint.files)
        self._checkpoint = checkpoint
        self._finite: set[str] = set()  # names of tensors that were checked

    def fill(self, model: nn.Module, path: str, device: torch.device, dtype: torch.dtype) -> None:
        """Fill the parameters of the module at a path with copies of the values in the files, then close the files.

        Pages read from an open file count as memory of this process.

        Raises:
            Refused: For a tensor that is missing, of another shape, or holds NaN or infinity.
        """
        module = model.get_submodule(path)
        if self._checkpoint.decoder is not None:
            self._fill_stored(model, [f"{path}.{name}" for name in module.state_dict()], device, dtype)
            return
        for name, parameter in list(module.named_parameters()):
            whole = f"{path}.{name}" if path else name
            shape = tuple(parameter.shape)
            if is_fused_parameter(module, name):
                value = torch.empty(shape, device=device, dtype=dtype)
                for of_expert, rows in zip(slices_of(whole, shape[0]), value, strict=True):
                    height = shape[1] // len(of_expert)
                    for part, target in zip(of_expert, rows.split(height), strict=True):
                        target.copy_(self._checked(f"{part}.weight", tuple(target.shape)))
                        self._check_finite(f"{part}.weight", target)
            else:
                value = self._checked(whole, shape).to(device, dtype, copy=True)  # not the file's own memory
                self._check_finite(whole, value)
            put(module, name, value)
        self.close()

    def fill_outside(self, model: nn.Module, blocks: str, device: torch.device, dtype: torch.dtype) -> None:
        """Fill all of a derived model but its blocks."""
        decoder = self._checkpoint.decoder
        assert decoder is not None
        tied = f"{decoder.head}.weight" if self._checkpoint.tied else None
        names = [name for name in model.state_dict() if not name.startswith(f"{blocks}.") and name != tied]
        self._fill_stored(model, names, device, dtype)

    def _fill_stored(self, model: nn.Module, names: list[str], device: torch.device, dtype: torch.dtype) -> None:
        """Fill parameters and stored buffers of a derived model from the tensors that are views of them."""
        family = self._checkpoint.family
        ties: dict[str, str] = getattr(model, "all_tied_weights_keys", {})
        assert isinstance(family, DerivedFamily)
        decoder = family.decoder
        for name in names:
            path, _, last = name.rpartition(".")
            holder, stored = model.get_submodule(path), decoder.tensors_of.get(name)
            own: Tensor = getattr(holder, last)
            if not stored and name in ties:
                continue
            if not stored:
                raise Refused(
                    f"{name} is not among the tensors of its checkpoints", self._checkpoint.name, "Use another model."
                )
            kind = dtype if own.is_floating_point() else own.dtype
            value = torch.empty(own.shape, device=device, dtype=kind)
            for tensor_name in stored:
                tensor, there = decoder.stored[tensor_name], family.tensor_in_file(tensor_name)
                target = value.as_strided(tensor.shape, tensor.stride or value.stride(), tensor.offset)
                target.copy_(self.read(there))
                self._check_finite(there, target)
            if isinstance(own, nn.Parameter):
                put(holder, last, value)
            else:
                holder.register_buffer(last, value)
        self.close()

    def _checked(self, path: str, shape: tuple[int, ...]) -> Tensor:
        name = self._checkpoint.family.in_file(path)
        stored, where = self._checkpoint.stored(name), self._checkpoint.name
        check_tensor(name, shape, stored, FLOATS, "config.json", where, TOGETHER)
        return self.read(name)

    def _check_finite(self, path: str, value: Tensor) -> None:
        """Refuse NaN and infinity in a tensor, found at its extremes, the first time that it is filled in."""
        name = self._checkpoint.family.in_file(path)
        if name in self._finite:
            return
        if value.numel() and not bool(torch.isfinite(torch.stack(value.aminmax())).all()):
            count = int((~torch.isfinite(value)).sum())
            raise Refused(
                f"{name} has NaN or infinity among its values ({count} of {value.numel()})",
                self._checkpoint.name,
                "Download the checkpoint again; if it was saved like this, give one from before its training diverged.",
            )
        self._finite.add(name)


def put(module: nn.Module, name: str, value: Tensor) -> None:
    """Set a tensor as the parameter of that name, in place of any former one."""
    parent, _, last = name.rpartition(".")
    module.get_submodule(parent).register_parameter(last, nn.Parameter(value, requires_grad=False))


def write_weights(folder: Path, tensors: Iterable[tuple[str, Tensor]], shard_bytes: int = SHARD_BYTES) -> None:
    """Write tensors by name as safetensors files with the usual names: one file, or several and their index."""
    shards: list[list[str]] = []
    shard: dict[str, Tensor] = {}
    total = size = 0

    def flush() -> None:
        path = folder / f"{len(shards)}.partial"
        safetensors.torch.save_file(shard, path, metadata={"format": "pt"})
        shards.append(list(shard))
        shard.clear()

    for name, tensor in tensors:
        if shard and size + tensor.nbytes > shard_bytes:
            flush()
            size = 0
        shard[name] = tensor.contiguous().clone() if tensor.storage_offset() or not tensor.is_contiguous() else tensor
        size, total = size + tensor.nbytes, total + tensor.nbytes
    flush()
    files = [f"model-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    if len(shards) == 1:
        files = [SINGLE]
    else:
        weight_map = {name: file for file, names in zip(files, shards, strict=True) for name in names}
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    for number, file in enumerate(files):
        os.rename(folder / f"{number}.partial", folder / file)
