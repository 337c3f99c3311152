"""Common parts of the formats with integer codes: tensors of files by name, layers among them, numbers in 32-bit words.

Axes: O out_features, I in_features, G groups of a row; R rows of numbers, C numbers of a row, P words of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sarqc.checkpoints.plain import NOTHING, new_checkpoint, stored_tensors
from sarqc.errors import Refused
from sarqc.files.names import read_object
from sarqc.models.host_copies import on_host
from sarqc.models.loading import LoadedModel
from sarqc.models.tensor_files import read_tensors
from sarqc.models.weight_files import TensorReader, write_weights
from sarqc.quantization.grid import Grid, dequantize_groups
from sarqc.quantization.quantized_layer import QuantizedLayer

_ROWS_AT_ONCE = 1024
_AGAIN = "Write or download the checkpoint again."
Contents = tuple[dict[str, Any], Iterator[tuple[str, Tensor]]]  # entries of config.json, and all tensors by name


class CheckpointReader(TensorReader):
    """Tensors of a folder by name, and its configuration; a context manager that closes the files.

    Attributes:
        config: Content of config.json.

    Raises:
        Refused: If a file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.config: dict[str, Any] = read_object(folder / "config.json", folder.name, remedy=_AGAIN)
        super().__init__({name: entry.file for name, entry in read_tensors(folder, folder.name).items()})

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def path_of(self, name: str) -> Path:
        """Return the file that contains a tensor."""
        return self._places[name]

    @property
    def names(self) -> list[str]:
        """Names of all tensors."""
        return list(self._places)

    def __enter__(self) -> CheckpointReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Coded(NamedTuple):
    """A quantized linear as unsigned numbers.

    Its levels are (codes - zero_points) · scales, or scales · codes + biases.
    """

    name: str  # of the linear in the checkpoint, without “.weight”
    codes: Tensor  # (O, I) uint8
    zero_points: Tensor  # (O, G) uint8; 2^(bits-1) of a grid without them, zeros where there are biases
    scales: Tensor  # (O, G) in the dtype of the weight
    biases: Tensor | None  # (O, G) in the dtype of the weight
    grid: Grid


class Levels(NamedTuple):
    """Stored numbers of a linear: unsigned codes with scales and offsets.

    The levels are (codes - offsets) · scales, or scales · codes + offsets if it ``is_affine``.
    """

    codes: Tensor  # (O, I) uint8
    scales: Tensor  # (O, G)
    offsets: Tensor  # (O, G): integers, or biases
    is_affine: bool = False

    def weight(self, dtype: torch.dtype) -> Tensor:
        """Return the weight (O, I): one product in working precision, rounded once to ``dtype``."""
        work = torch.promote_types(self.scales.dtype, torch.float32)
        codes, scales, offsets = (part.to(work) for part in self[:3])
        return dequantize_groups(codes, scales, offsets, self.is_affine).to(dtype)


@dataclass(frozen=True)
class Writer:
    """Writer of a format with codes, called with a quantized model.

    The folder appears whole or not at all.
    """

    contents: Callable[[LoadedModel, Mapping[str, QuantizedLayer], Mapping[str, Grid]], Contents]

    def __call__(
        self,
        loaded: LoadedModel,
        layers: Mapping[str, QuantizedLayer],
        grids: Mapping[str, Grid],
        folder: Path,
        beside: Mapping[str, str] = NOTHING,
    ) -> None:
        """Write the model with codes in place of the quantized weights.

        Args:
            loaded: The quantized model.
            layers: Quantized layers by name, with the weights of the model.
            grids: Grids of the layers by name.
            folder: New folder.
            beside: Further files, as texts by name.

        Raises:
            Refused: For a model that the format can't carry.
        """
        config, tensors = self.contents(loaded, layers, grids)
        with new_checkpoint(loaded, folder, beside, config) as partial:
            write_weights(partial, tensors)


def tensors_and_codes(
    loaded: LoadedModel, layers: Mapping[str, QuantizedLayer], grids: Mapping[str, Grid]
) -> Iterator[tuple[str, Tensor | Coded]]:
    """Yield every tensor of the checkpoint under its name there, on the CPU, with codes in place of quantized weights.

    Quantized weights that are not tensors of their own there stay values.

    Raises:
        Refused: If the codes do not make the weight of the model.
    """
    in_file = {f"{loaded.family.in_file(name)}.weight": name for name in layers_with_codes(loaded, layers)}
    for stored, tensor in stored_tensors(loaded):
        if stored not in in_file:
            yield stored, tensor
            continue
        name = in_file[stored]
        layer, grid = layers[name], grids[name]
        if not torch.equal(tensor, layer.stored().to(tensor.device, tensor.dtype)):
            what = "its codes and scales alone are not the model's weight"
            raise Refused(what, name, "Use mode foldable, or the format plain.")
        yield stored, coded(stored.removesuffix(".weight"), layer, grid, tensor.dtype)


def coded(name: str, layer: QuantizedLayer, grid: Grid, dtype: torch.dtype) -> Coded:
    """Return a layer's numbers in the numbering of files, on the CPU, with scales and biases in ``dtype``."""
    return Coded(
        name,
        _unsigned(layer.codes, grid.lowest),
        _unsigned(layer.zero_points, 0 if grid.is_affine else grid.lowest),
        layer.scales.to("cpu", dtype),
        None if layer.biases is None else layer.biases.to("cpu", dtype),
        grid,
    )


def layers_with_codes(loaded: LoadedModel, layers: Mapping[str, QuantizedLayer]) -> list[str]:
    """Return the quantized layers that are tensors of their own in checkpoints, by name."""
    parts = {info.name for info in loaded.checkpoint.layers if not info.has_own_tensor}
    return [name for name in layers if name not in parts]


def refuse_biases(layers: Mapping[str, QuantizedLayer], grids: Mapping[str, Grid]) -> None:
    """Refuse grids with biases, for a format that has no place for them."""
    for name in layers:
        if grids[name].is_affine:
            what = "its grid has biases, for which the format has no place"
            raise Refused(what, name, "Use another grid, or the format mlx.")


def encoded_tensors(
    encode: Callable[[Coded], Iterator[tuple[str, Tensor]]],
    loaded: LoadedModel,
    layers: Mapping[str, QuantizedLayer],
    grids: Mapping[str, Grid],
) -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor of the checkpoint, with those of ``encode`` for a quantized linear."""
    for stored, content in tensors_and_codes(loaded, layers, grids):
        if isinstance(content, Coded):
            yield from encode(content)
        else:
            yield stored, content


def levels_of(layer: QuantizedLayer, grid: Grid) -> Levels:
    """Return a layer's numbers in the numbering of files, on the CPU."""
    offsets = _unsigned(layer.zero_points, grid.lowest) if layer.biases is None else layer.biases.cpu()
    return Levels(_unsigned(layer.codes, grid.lowest), layer.scales.cpu(), offsets, layer.biases is not None)


def _unsigned(numbers: Tensor, lowest: int) -> Tensor:
    return (on_host(numbers).to(torch.int16) - lowest).to(torch.uint8)


def float_linears(loaded: LoadedModel) -> list[str]:
    """Return the linears and routers without codes, by their names in checkpoints, unread ones included."""
    quantized, family = {layer.name for layer in loaded.checkpoint.layers if layer.has_own_tensor}, loaded.family
    linears = [name for name, module in loaded.model.named_modules() if isinstance(module, nn.Linear)]
    experts = [info.name for info in loaded.checkpoint.linears]
    routers = [
        f"{family.blocks}.{i}.{family.router}" for i in range(len(loaded.blocks())) if loaded.checkpoint.experts(i)
    ]
    names = [family.in_file(name) for name in dict.fromkeys([*linears, *experts, *routers]) if name not in quantized]
    unread = (name for name in loaded.checkpoint.unread if len(loaded.checkpoint.shapes[name]) == 2)
    return names + [name.removesuffix(".weight") for name in unread if name.endswith(".weight")]


def pack_bits(numbers: Tensor, bits: int) -> Tensor:
    """Return words (R, P) int32 with unsigned numbers (R, C) uint8 as one string of bits a row, lowest first.

    A number may lie across two words, and only the end of a row is padded.
    """
    width = numbers.shape[-1] * bits
    packed = []
    for rows in numbers.split(_ROWS_AT_ONCE):
        every_bit = np.unpackbits(rows.numpy()[..., None], axis=-1, count=bits, bitorder="little")  # (R, C, bits)
        row_bits = np.pad(every_bit.reshape(len(rows), width), ((0, 0), (0, -width % 32)))
        words = np.packbits(row_bits, axis=-1, bitorder="little").view("<i4")  # (R, P)
        packed.append(torch.from_numpy(words.astype(np.int32)))
    return torch.cat(packed)


def unpack_bits(words: Tensor, bits: int, count: int) -> Tensor:
    """Return the first numbers (R, count) uint8 of each row that ``pack_bits`` has packed into words (R, P) int32."""
    unpacked = []
    for rows in words.contiguous().split(_ROWS_AT_ONCE):
        in_bytes = np.ascontiguousarray(rows.numpy().astype("<i4")).view(np.uint8)  # (R, 4P)
        if 8 % bits == 0:  # no number lies across two bytes
            shifts = np.arange(0, 8, bits, dtype=np.uint8)
            whole = (in_bytes[..., None] >> shifts & (1 << bits) - 1).reshape(len(rows), -1)
            unpacked.append(torch.from_numpy(np.ascontiguousarray(whole[:, :count])))
            continue
        row_bits = np.unpackbits(in_bytes, axis=-1, count=count * bits, bitorder="little")
        numbers = np.packbits(row_bits.reshape(len(rows), count, bits), axis=-1, bitorder="little")[..., 0]
        unpacked.append(torch.from_numpy(numbers))
    return torch.cat(unpacked)
