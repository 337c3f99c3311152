"""A checkpoint on disk, read without loading it: its configuration and the shapes in its safetensors headers.

Everything that would be dangerous or hopeless to load is refused here, from bytes alone: pickled weights, remote
code, truncated files, unknown families, missing linears. No torch.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from sarqc.errors import Refused
from sarqc.models.families import Family, InputGroup, LayerInfo, family_of

_MAX_HEADER = 100_000_000  # bytes; the format's own limit
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
# Types whose published configurations ask for code from the checkpoint, and whose architecture is written here: our
# class is registered before anything is loaded, and nothing of the checkpoint is run.
_WRITTEN_HERE = ("deepseek",)  # sarqc.models.deepseek_moe


@dataclass(frozen=True)
class Checkpoint:
    """Configuration and tensor shapes of a model folder."""

    folder: Path
    config: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]  # as safetensors spells them
    files: dict[str, Path]  # where each tensor is
    only: str | None = None  # the one linear that is to be quantized, instead of all

    @cached_property
    def family(self) -> Family:
        return family_of(str(self.config.get("model_type")), str(self.folder))

    @property
    def n_blocks(self) -> int:
        return int(self.config["num_hidden_layers"])

    @property
    def max_positions(self) -> int:
        return int(self.config.get("max_position_embeddings", 2048))

    @property
    def parameters(self) -> int:
        """All parameters; tied embeddings count once, as they are stored once."""
        return sum(prod(shape) for shape in self.shapes.values())

    def parameters_of(self, block: int) -> int:
        """All parameters of a block."""
        prefix = self.family.in_file(f"{self.family.blocks}.{block}.")
        return sum(prod(shape) for name, shape in self.shapes.items() if name.startswith(prefix))

    @property
    def size_bytes(self) -> int:
        return sum(prod(shape) * _BYTES.get(self.dtypes[name], 4) for name, shape in self.shapes.items())

    def experts(self, block: int) -> int | None:
        """Number of a block's experts, the rows of its router; None for a dense block."""
        family = self.family
        shape = self.shapes.get(f"{family.in_file(f'{family.blocks}.{block}.{family.router}')}.weight")
        if shape is None and (family.dense or not family.mixture):
            return None
        if shape is None or len(shape) != 2:
            raise self._lacks(f"{family.blocks}.{block}.{family.router}")
        return shape[0]

    def groups(self, block: int) -> tuple[InputGroup, ...]:
        """The linears of a block, grouped by the tensor they read."""
        family, groups = self.family, self.family.groups(self.experts(block))
        if not family.optional:
            return groups
        prefix = family.in_file(f"{family.blocks}.{block}.{family.optional}")
        if any(name.startswith(prefix) for name in self.shapes):
            return groups
        kept = [
            replace(group, linears=tuple(path for path in group.linears if not path.startswith(family.optional)))
            for group in groups
        ]
        return tuple(group for group in kept if group.linears)

    @cached_property
    def layers(self) -> list[LayerInfo]:
        """The linears to be quantized. Raises ``Refused`` where a linear required by the family is missing."""
        found = []
        for block in range(self.n_blocks):
            for path in (path for group in self.groups(block) for path in group.linears):
                name = f"{self.family.blocks}.{block}.{path}"
                shape = self.shapes.get(f"{self.family.in_file(name)}.weight")
                if shape is None or len(shape) != 2:
                    raise self._lacks(name)
                found.append(self.family.layer(block, path, (shape[0], shape[1])))
        return found if self.only is None else [layer for layer in found if layer.name == self.only]

    def restricted(self, only: str | None) -> Checkpoint:
        """The same with a single linear to quantize, by full name, or all. Raises ``Refused`` for an unknown name."""
        if only is None:
            return self
        alone = replace(self, only=only)
        if not alone.layers:
            raise Refused(
                f"there is no linear “{only}” in the model", "recipe, only",
                f"Give a full name such as {self.layers[0].name}, or leave it out.",
            )  # fmt: skip
        return alone

    def _lacks(self, name: str) -> Refused:
        stored = self.family.in_file(name)
        return Refused(
            f"{stored} was expected and is not in the checkpoint",
            str(self.folder),
            f"A {self.family.title} model with {self.n_blocks} blocks has it, under this name: download it again.",
        )

    def gram_numbers(self, block: int) -> int:
        """Numbers in one set of a block's Grams: one for each tensor that its linears read, and for each expert."""
        family = self.family
        read = {
            (number, family.expert_of(path)): self.shapes[
                f"{family.in_file(f'{family.blocks}.{block}.{path}')}.weight"
            ][1]
            for number, group in enumerate(self.groups(block))
            for path in group.linears
        }
        return sum(width**2 for width in read.values())

    @property
    def share_quantized(self) -> float:
        """Parameters of the quantized linears over all parameters."""
        return sum(prod(layer.shape) for layer in self.layers) / self.parameters


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in a folder. Raises ``Refused`` where it can't or must not be loaded."""
    where = str(folder)
    config_path = folder / "config.json"
    if not config_path.is_file():
        raise Refused("there is no config.json", where, "Give the folder of a transformers checkpoint.")
    try:
        config = json.loads(config_path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"config.json is damaged: {error}", where, "Download the checkpoint again.") from None
    if not isinstance(config, dict):
        raise Refused("config.json is not a JSON object", where, "Download the checkpoint again.")
    if "auto_map" in config and config.get("model_type") not in _WRITTEN_HERE:
        raise Refused(
            "its configuration asks for code from the checkpoint to be run",
            where,
            "Such models are never loaded; convert it to an architecture that transformers has.",
        )
    if "quantization_config" in config:
        raise Refused("the model is quantized already", where, "Give the float checkpoint it was made from.")
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    files: dict[str, Path] = {}
    for path in _weight_files(folder):
        for name, entry in _read_header(path).items():
            shapes[name], dtypes[name], files[name] = tuple(entry["shape"]), entry["dtype"], path
    checkpoint = Checkpoint(folder, config, shapes, dtypes, files)
    _ = checkpoint.layers  # refuses unknown families and missing linears
    return checkpoint


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    elif (folder / "model.safetensors").is_file():
        names = ["model.safetensors"]
    else:
        pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
        if pickled:
            raise Refused(
                f"the weights are pickled ({pickled[0]}), which can run code when they are read",
                str(folder),
                "Convert them to safetensors; pickles are never opened.",
            )
        raise Refused("there is no model.safetensors", str(folder), "Download the checkpoint again.")
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            raise Refused(f"the weight file {name} is missing", str(folder), "Download the checkpoint again.")
    return [folder / name for name in names]


def _read_header(path: Path) -> dict[str, dict[str, Any]]:
    """The tensors of a safetensors file by name; the file must be as long as its header says."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else _MAX_HEADER + 1
        if length > min(_MAX_HEADER, size - 8):
            raise Refused("it is not a whole safetensors file", str(path), "Download it again.")
        try:
            header: dict[str, dict[str, Any]] = json.loads(file.read(length))
            header.pop("__metadata__", None)
            end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Refused("the header of the safetensors file is damaged", str(path), "Download it again.") from None
    if 8 + length + end != size:
        raise Refused(
            f"the file has {size} bytes, its header promises {8 + length + end}", str(path), "Download it again."
        )
    return header
