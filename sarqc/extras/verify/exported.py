"""An exported model beside its stamp and the float model, and the differences of its files.

Axes: O out_features, I in_features, G groups of a row.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from torch import Tensor

from sarqc.checkpoints.codes import CheckpointReader, Levels
from sarqc.checkpoints.formats import FORMATS, Format
from sarqc.checkpoints.round_trip import read_levels, read_tensor
from sarqc.engine.stamp import hash_of, hashes_of
from sarqc.errors import Refused, SarqcError
from sarqc.models.checkpoint import Checkpoint, check_config
from sarqc.models.families import LayerInfo
from sarqc.models.loading import LoadedModel
from sarqc.models.rotated_files import open_files
from sarqc.study.stamp import LayerHashes, Stamp

_PARTS: dict[Format, tuple[str, ...]] = {  # tensors of a quantized linear
    "plain": ("weight",),
    "packed": ("weight_packed", "weight_scale", "weight_shape", "weight_zero_point"),
    "gptq": ("qweight", "qzeros", "scales", "g_idx"),
    "mlx": ("weight", "scales", "biases"),
}
_FORMATS: dict[str | None, Format] = {None: "plain", "compressed-tensors": "packed", "gptq": "gptq"}  # by quant_method
_OWN_ENTRIES = {  # entries of config.json that may differ from the original's
    "auto_map",
    "tie_word_embeddings",
    "quantization_config",
    "quantization",
    "num_experts",
    "rope_theta",
    "rope_scaling",
}
# What reading damaged tensors, or with a damaged description of the format, may raise.
_UNREADABLE = (LookupError, TypeError, AttributeError, ValueError, RuntimeError, SafetensorError, SarqcError)
PART_WORDS = ("codes", "scales", "zero points", "weight")  # of ``LayerHashes``
_QUANTIZATION_ENTRIES = ("quantization_config", "quantization")  # entries of config.json
BIASES = "biases"  # in place of zero points, on the affine grid


class Exported:
    """The tensors of an exported model by the names of the float one."""

    def __init__(self, folder: Path, files: CheckpointReader, stamp: Stamp) -> None:
        """Raise ``Refused`` for a format or a family that is not known here."""
        self.files, self.stamp = files, stamp
        self.format = _format_of(files.config, folder)
        float_config = {key: value for key, value in files.config.items() if key not in _QUANTIZATION_ENTRIES}
        stems = {f"{name.rpartition('.')[0]}.weight" for name in files.names}
        self.family = check_config(float_config, str(folder), {*files.names, *stems})[1]
        self.folder = folder

    @classmethod
    @contextmanager
    def open(cls, folder: Path, stamp: Stamp) -> Iterator[Self]:
        """Open the files for a context. Raise ``Refused`` where they can't be read at all."""
        with CheckpointReader(folder) as files:
            yield cls(folder, files, stamp)

    def levels(self, name: str) -> Levels | None:
        """Return the codes of a linear in the groups that its grid has; None in a format without codes."""
        if self.format == "plain":
            return None
        levels = read_levels(self.files, self.family, self.format, self._info(name))
        return _regroup(levels, self.stamp.recipe["group_size"])

    def weight(self, name: str) -> Tensor:
        """Return the weight (O, I) of a quantized linear, in the dtype of the checkpoint."""
        levels = self.levels(name)
        if levels is None:
            return self.files.read(f"{self.family.in_file(name)}.weight")
        return levels.weight(levels.scales.dtype)

    def other_linears(self) -> dict[str, str]:
        """Return by name the differences of quantized linears from the stamp."""
        differences = {}
        for name, stamped in self.stamp.layers.items():
            try:
                words = self._other_parts(name, stamped)
            except _UNREADABLE as error:
                words = f"can't be read: {type(error).__name__} {error}"[:200]
            if words:
                differences[name] = words
        return differences

    def other_tensors(self, checkpoint: Checkpoint) -> dict[str, str]:
        """Return by name tensors beside the quantized linears that are neither the float model's nor, where they took
        up scales or were tuned, the stamp's; and tensors that belong to nothing."""
        files, differences = open_files(checkpoint), {}
        linears = {f"{self.family.in_file(info.name)}.weight": info for info in checkpoint.linears}
        expected: set[str] = set()
        for name in checkpoint.shapes:
            info = linears.get(name)
            expected |= self._names_of(name, info)
            if info is not None and info.name in self.stamp.layers:
                continue
            try:
                tensor = read_tensor(self.files, self.family, self.format, name, info)
            except _UNREADABLE:
                differences[name] = "is not there or can't be read"
                continue
            if name in self.stamp.folded:
                if hash_of(tensor) != self.stamp.folded[name]:
                    differences[name] = "is not what the stamp says"
            elif not same(tensor, files.read(name)):
                differences[name] = "is not the float model's"
        return differences | {name: "belongs to nothing" for name in self.files.names if name not in expected}

    def other_settings(self, checkpoint: Checkpoint) -> list[str]:
        """Return the names of entries of config.json that differ from the float model's."""
        own, original = self.files.config, checkpoint.config
        names = sorted((own.keys() | original.keys()) - _OWN_ENTRIES)
        return [name for name in names if name not in own or name not in original or own[name] != original[name]]

    def fill(self, loaded: LoadedModel, index: int) -> None:
        """Give a block of the float model the weights of the files."""
        infos = {
            f"{self.family.in_file(info.name)}.weight": info
            for info in loaded.checkpoint.linears
            if info.block == index
        }
        with torch.no_grad():
            for name, value in loaded.stored_tensors(index):
                info = infos.get(name)
                if info is not None and info.name in self.stamp.layers:
                    tensor = self.weight(info.name)
                else:
                    tensor = read_tensor(self.files, self.family, self.format, name, info)
                value.copy_(tensor.to(value.device, value.dtype))

    def _other_parts(self, name: str, stamped: LayerHashes) -> str:
        levels, weight = self.levels(name), self.weight(name)
        if levels is None:
            other = ["weight"] if hash_of(weight) != stamped.weight else []
        else:
            other = other_parts(hashes_of(levels, weight), stamped, self.stamp)
        return ", ".join(other)

    def _info(self, name: str) -> LayerInfo:
        """Return a tensor of a block as readers take a linear; they do not ask for its shape."""
        number, _, path = name.removeprefix(f"{self.family.blocks}.").partition(".")
        return self.family.layer(int(number), path, (0, 0))

    def _names_of(self, name: str, info: LayerInfo | None) -> set[str]:
        if info is None:
            return {name}
        is_stack = self.format == "mlx"
        stem = self.family.in_mlx(info) if is_stack else name.removesuffix(".weight")
        parts = _PARTS[self.format] if info.name in self.stamp.layers else ("weight",)
        return {f"{stem}.{part}" for part in parts}


def _format_of(config: Mapping[str, Any], folder: Path) -> Format:
    if "quantization" in config:
        return "mlx"
    described = config.get("quantization_config")
    method = described.get("quant_method", "") if isinstance(described, dict) else described
    if not isinstance(method, str | None) or method not in _FORMATS:
        raise Refused(f"its quantization is “{method}”", str(folder), f"Give an export of {', '.join(FORMATS)}.")
    return _FORMATS[method]


def other_parts(actual: LayerHashes, stamped: LayerHashes, stamp: Stamp) -> list[str]:
    """Return the parts of a linear that differ from the stamp, in words."""
    words = [BIASES if word == "zero points" and stamp.recipe["grid"] == "affine" else word for word in PART_WORDS]
    return [word for word, own, other in zip(words, actual, stamped, strict=True) if own != other]


def same(left: Tensor, right: Tensor) -> bool:
    """Return whether two tensors have the same dtype, shape and bits."""
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    return torch.equal(*(tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (left, right)))


def _regroup(levels: Levels, group_size: int | str | None) -> Levels:
    """Return levels whose groups may lie in several with the same numbers, as MLX needs them, in those of the grid."""
    width = levels.codes.shape[1]
    size = group_size if isinstance(group_size, int) and width % group_size == 0 else width
    groups = width // size

    def merged(numbers: Tensor) -> Tensor:
        if numbers.shape[1] == groups or numbers.shape[1] % groups:
            return numbers
        parts = numbers.unflatten(1, (groups, -1))  # (O, G, parts)
        first = parts[..., :1]
        return first[..., 0].contiguous() if same(parts, first.expand_as(parts)) else numbers

    return levels._replace(scales=merged(levels.scales), offsets=merged(levels.offsets))
