"""A checkpoint that another tool has quantized, beside its float original.

It is read linear by linear, and written again with other codes.

Axes: O out_features, I in_features, G groups of a row, W 32-bit words.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from sarqc.checkpoints.codes import CheckpointReader, Levels, pack_bits, unpack_bits
from sarqc.checkpoints.compressed_tensors import levels_in_packed
from sarqc.checkpoints.gptq import levels_in_gptq
from sarqc.checkpoints.layout import CheckpointLayout, QuantizedFormat, describe
from sarqc.checkpoints.mlx import levels_in_mlx
from sarqc.checkpoints.plain import whole_folder
from sarqc.checkpoints.stored_linear import AGAIN, TOGETHER, StoredLinear
from sarqc.errors import Conflict, Refused
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.families import LayerInfo
from sarqc.models.tensor_files import byte_ranges
from sarqc.quantization.grid import Grid
from sarqc.quantization.quantized_layer import loaded_weight

SPREAD = "its groups are not contiguous, so each column is a group by itself with its own scale"
# AWQ's kernels take the eight numbers of a word in this order of columns.
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_AWQ_BACK = tuple(AWQ_ORDER.index(column) for column in range(8))


@dataclass(frozen=True)
class LinearCodes:
    """A linear as it is stored, in the numbering of ``Grid``.

    Its levels are (codes - zero_points) · scales, or scales · codes + biases. Scales may be negative.

    Attributes:
        codes: (O, I) int8, uint8 at 8 bits from 0 on.
        scales: (O, G), in the dtype stored there.
        zero_points: (O, G) int16, zeros where there are biases.
        biases: (O, G), of the affine grid alone.
        weight: (O, I), the weight that the format's own loader makes, in its dtype, bit for bit: one product, rounded
            once; MLX rounds it again with the bias.
        flag: An unusual property in words; empty if there is none.
    """

    codes: Tensor
    scales: Tensor
    zero_points: Tensor
    biases: Tensor | None
    weight: Tensor
    flag: str = ""


class QuantizedCheckpoint:
    """A folder with a quantized model; configuration and headers are read at once, and the rest on demand.

    A linear whose groups are not contiguous (activation order) has groups of one channel, each with the scale of its
    group.

    Args:
        described: Layout of the folder.
        checkpoint: The float original.

    Attributes:
        folder: The folder.
        made_by: Program that made it, from config.json; empty if not given.
        format: Its format.
        layers: The linears of the original that have codes, in its order.
        grids: Grids by the names of the linears.
    """

    def __init__(self, described: CheckpointLayout, checkpoint: Checkpoint) -> None:
        self._described, self._family = described, checkpoint.family
        self.folder, self.made_by = described.folder, described.made_by
        self.format: QuantizedFormat = described.format
        self.layers: tuple[LayerInfo, ...] = described.layers
        places = {info.name: self._place(info) for info in self.layers}
        self.grids = {name: Grid(place.bits, place.group_size, place.kind) for name, place in places.items()}

    @classmethod
    def open(cls, folder: Path, checkpoint: Checkpoint) -> QuantizedCheckpoint:
        """Open a folder beside its float original.

        Raises:
            Refused: If the folder is damaged, of another model, or of a kind that is not read here.
        """
        return cls(describe(folder, checkpoint), checkpoint)

    @cached_property
    def _files(self) -> CheckpointReader:
        return CheckpointReader(self.folder)

    def _place(self, info: LayerInfo) -> StoredLinear:
        return self._described.places[self._family.in_file(info.name)]

    def read(self, info: LayerInfo) -> LinearCodes:
        """Return the codes of one of ``layers``.

        Raises:
            Refused: If they contradict config.json.
        """
        place, grid = self._place(info), self.grids[info.name]
        levels = levels_of(place, self._files)
        shift = 0 if grid.is_affine else grid.lowest
        if place.kind == "full_range" and (levels.offsets != -shift).any():
            what, remedy = "its grid is said to be symmetric, and it has other zero points", TOGETHER
            if place.less_one and (levels.offsets == 1 - shift).all():
                what += ": those of the convention gptq_v2"
                remedy = (
                    "If a program of that convention has made it, set checkpoint_format to gptq_v2 in its config.json."
                )
            raise Refused(what, f"{self.folder.name}: {info.name}", remedy)
        if not torch.isfinite(levels.scales).all():
            raise Refused("it has scales that are not finite", f"{self.folder.name}: {info.name}", AGAIN)
        codes = levels.codes.to(torch.int16) + grid.lowest
        zero_points = torch.zeros_like(levels.scales) if levels.is_affine else levels.offsets.to(torch.int16) + shift
        return LinearCodes(
            codes.to(torch.uint8 if grid.highest > 127 else torch.int8).contiguous(),
            levels.scales.contiguous(),
            zero_points.to(torch.int16).contiguous(),
            levels.offsets.contiguous() if levels.is_affine else None,
            loaded_weight(*levels[:3], is_affine=levels.is_affine),
            SPREAD if place.is_spread else "",
        )

    def tensor(self, name: str) -> Tensor:
        """Return any tensor by its name in the original's files, in its loader's dtype, dequantized if it has codes.

        Raises:
            KeyError: If there is no such tensor, such as a head that is the embedding.
        """
        place = self._described.places.get(name.removesuffix(".weight"))
        if place is not None and name.endswith(".weight"):
            levels = levels_of(place, self._files)
            return loaded_weight(*levels[:3], is_affine=levels.is_affine)
        there, expert = self._described.floats[name]
        tensor = self._files.read(there)
        return tensor if expert is None else tensor[expert]

    def write_with(self, codes: Mapping[str, Tensor], folder: Path) -> None:
        """Write the same files with other codes.

        Every byte but those of the codes stays as it is; a linear without an entry keeps its own codes. The folder
        appears whole or not at all.

        Args:
            codes: (O, I) by names of ``layers``, in the numbering of ``Grid``.
            folder: New folder.

        Raises:
            Conflict: If the folder exists already.
            Refused: For a linear without codes, or codes that the grid does not have.
        """
        if folder.exists():
            raise Conflict("the name is already taken", folder.name, "Choose another name.")
        by_name = {info.name: info for info in self.layers}
        for name in codes:
            if name not in by_name:
                raise Refused("it has no codes there", f"{self.folder.name}: {name}", "Leave it out.")
        with whole_folder(folder) as partial:
            shutil.copytree(self.folder, partial, copy_function=shutil.copyfile, dirs_exist_ok=True)
            ranges: dict[Path, dict[str, tuple[int, int]]] = {}
            for name, numbers in codes.items():
                place = self._place(by_name[name])
                stored = encode_codes(place, self._unsigned(by_name[name], numbers))
                path = partial / self._files.path_of(place.tensors[0]).name
                if path not in ranges:
                    ranges[path] = byte_ranges(path)
                begin, end = ranges[path][place.tensors[0]]
                begin += 0 if place.expert is None else place.expert * stored.nbytes
                if begin + stored.nbytes > end:
                    raise AssertionError(f"{name}: {stored.nbytes} bytes do not fit")
                with path.open("r+b") as file:
                    file.seek(begin)
                    file.write(stored.numpy().tobytes())

    def _unsigned(self, info: LayerInfo, codes: Tensor) -> Tensor:
        grid = self.grids[info.name]
        if tuple(codes.shape) != info.shape or codes.is_floating_point():
            what = f"codes are {codes.dtype} of {tuple(codes.shape)}, and the linear is {info.shape}"
            raise Refused(what, info.name, "Give one integer for each weight.")
        if int(codes.min()) < grid.lowest or int(codes.max()) > grid.highest:
            raise Refused("a code is outside the grid", info.name, f"Give {grid.lowest} to {grid.highest}.")
        return (codes.to("cpu", torch.int16) - grid.lowest).to(torch.uint8)


def levels_of(place: StoredLinear, files: CheckpointReader) -> Levels:
    """Return the stored numbers of a linear.

    If its groups are not contiguous and equal, scales and offsets are given for every channel: (O, I).
    """
    module, bits, width = place.module, place.bits, place.shape[1]
    if place.layout == "packed":
        levels = levels_in_packed(files, module, bits, width)
    elif place.layout == "gptq":
        levels = levels_in_gptq(files, module, bits, width, less_one=place.less_one)
    elif place.layout == "mlx":
        levels = levels_in_mlx(files, module, place.expert, bits)
    elif place.layout == "awq":
        levels = _levels_in_awq(place, files)
    else:
        levels = _levels_in_bytes(place, files)
    if place.run is None:
        return levels
    group_of = next((files.read(name) for name in place.tensors if name.endswith("g_idx")), None)
    if group_of is None:
        group_of = torch.arange(width) // place.run
    return levels._replace(scales=levels.scales[:, group_of.long()], offsets=levels.offsets[:, group_of.long()])


def _levels_in_bytes(place: StoredLinear, files: CheckpointReader) -> Levels:
    half, zeros = 1 << (place.bits - 1), f"{place.module}.weight_zero_point"
    scales = files.read(f"{place.module}.weight_scale")
    offsets = torch.full(scales.shape, half)
    if zeros in files:
        offsets = files.read(zeros).to(torch.int16) + half
    return Levels((files.read(f"{place.module}.weight").to(torch.int16) + half).to(torch.uint8), scales, offsets)


def _levels_in_awq(place: StoredLinear, files: CheckpointReader) -> Levels:
    words, zeros, scales = (files.read(f"{place.module}.{part}") for part in ("qweight", "qzeros", "scales"))
    codes, offsets = (
        _reordered(unpack_bits(packed, place.bits, place.shape[0]), _AWQ_BACK, place.bits).T
        for packed in (words, zeros)
    )
    return Levels(codes, scales.T, offsets)


def _reordered(numbers: Tensor, order: tuple[int, ...], bits: int) -> Tensor:
    """Return the columns of each word in an order: AWQ has one at 4 bits, and none at the others."""
    return numbers.unflatten(1, (-1, 8))[:, :, list(order)].flatten(1) if bits == 4 else numbers


def encode_codes(place: StoredLinear, codes: Tensor) -> Tensor:
    """Return unsigned codes (O, I) uint8 as the place's first tensor stores them; of a stack the expert's slice."""
    bits = place.bits
    if place.layout == "bytes":
        return (codes.to(torch.int16) - (1 << (bits - 1))).to(torch.int8)
    if place.layout == "gptq":
        return pack_bits(codes, bits).T.contiguous()  # (W, O)
    if place.layout == "awq":
        return pack_bits(_reordered(codes.T, AWQ_ORDER, bits).contiguous(), bits)  # (I, W)
    return pack_bits(codes.contiguous(), bits)  # (O, W)
