"""The quantized model in the format of mlx-lm and other readers of MLX: scale · code + bias, experts stacked.

Codes are packed along rows, as in compressed-tensors. A symmetric grid has the bias -2^(b-1) · scale, which is exact; a
bias of the affine grid is its own. MLX has groups of 32, 64 or 128: larger ones, whole rows too, are written as several
with one scale.

Axes: E experts, O out_features, I in_features, G groups of a row.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from sarqc.checkpoints.codes import (
    CheckpointReader,
    Coded,
    Contents,
    Levels,
    Writer,
    pack_bits,
    tensors_and_codes,
    unpack_bits,
)
from sarqc.errors import Refused
from sarqc.models.loading import LoadedModel
from sarqc.quantization.grid import Grid
from sarqc.quantization.quantized_layer import QuantizedLayer

GROUPS = (128, 64, 32)


@Writer
def save_mlx(loaded: LoadedModel, layers: Mapping[str, QuantizedLayer], grids: Mapping[str, Grid]) -> Contents:
    """Return the contents with ``weight``, ``scales`` and ``biases`` of linears, a block's experts as one stack."""
    sizes: dict[str, int] = {}
    for info in loaded.checkpoint.layers:
        grid = grids[info.name]
        if grid.kind == "asymmetric":
            remedy = "Use the grid symmetric, full_range or affine, or another format."
            raise Refused("its grid has zero points, for which the format has no place", info.name, remedy)
        if (size := group_of(grid.group_size_for(info.shape[1]))) is None:
            raise Refused("its groups are not made of 32 channels", info.name, "Use groups of 32, 64 or 128.")
        sizes[loaded.family.in_mlx(info)] = size
    _check_stacks(loaded)

    def tensors() -> Iterator[tuple[str, Tensor]]:
        by_file = {f"{loaded.family.in_file(info.name)}.weight": info for info in loaded.checkpoint.linears}
        stacks: dict[str, dict[int, dict[str, Tensor]]] = {}  # by the name of the stack and expert, until it is whole
        for stored, content in tensors_and_codes(loaded, layers, grids):
            info = by_file.get(stored)
            if info is None:
                assert isinstance(content, Tensor)
                yield stored, content
                continue
            name = loaded.family.in_mlx(info)
            parts = _parts(content, sizes[name]) if isinstance(content, Coded) else {"weight": content}
            if info.expert is None:
                yield from ((f"{name}.{part}", _as_stored(tensor)) for part, tensor in parts.items())
                continue
            stack = stacks.setdefault(name, {})
            stack[info.expert] = parts
            if len(stack) == loaded.checkpoint.experts(info.block):
                del stacks[name]
                for part in parts:
                    stacked = torch.stack([stack[expert][part] for expert in sorted(stack)])
                    yield f"{name}.{part}", _as_stored(stacked)

    config = _config(next(iter(grids.values())).bits, sizes) | _former_entries(loaded.checkpoint.config)
    return config, tensors()


def group_of(channels: int) -> int | None:
    """Return the largest of MLX's groups that divides a group of this many channels; None without any."""
    return next((size for size in GROUPS if channels % size == 0), None)


def _parts(coded: Coded, size: int) -> dict[str, Tensor]:
    """Return ``weight`` (O, words) int32, ``scales`` and ``biases`` (O, I / size) of one linear."""
    scales, biases, bits = coded.scales, coded.biases, coded.grid.bits
    if biases is None:
        biases = -(1 << (bits - 1)) * scales
        if not torch.isfinite(biases).all():
            raise Refused("a bias overflows the dtype of its scale", coded.name, "Use another format.")
    times = coded.codes.shape[1] // (size * scales.shape[1])
    return {
        "weight": pack_bits(coded.codes, bits),
        "scales": scales.repeat_interleave(times, dim=1),
        "biases": biases.repeat_interleave(times, dim=1),
    }


def _as_stored(tensor: Tensor) -> Tensor:
    """Return words as unsigned numbers, as in the files; torch can stack signed ones alone."""
    return tensor.view(torch.uint32) if tensor.dtype == torch.int32 else tensor


def _check_stacks(loaded: LoadedModel) -> None:
    """Refuse a stack of experts of which a part is quantized."""
    stacks = Counter(loaded.family.in_mlx(info) for info in loaded.checkpoint.layers if info.expert is not None)
    for info in loaded.checkpoint.layers:
        count = stacks.get(loaded.family.in_mlx(info))
        if count is not None and count != loaded.checkpoint.experts(info.block):
            raise Refused(
                "the experts of a block are one stack there, and only some are quantized",
                info.name,
                "Quantize all experts of a block, or use another format.",
            )


def _config(bits: int, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the entries of config.json: one for all linears, and those of linears with other groups than most."""
    group_sizes = list(sizes.values())
    usual = max(dict.fromkeys(group_sizes), key=group_sizes.count)
    settings: dict[str, Any] = {"group_size": usual, "bits": bits, "mode": "affine"}
    settings |= {name: settings | {"group_size": size} for name, size in sizes.items() if size != usual}
    return {"quantization": settings, "quantization_config": settings}


def _former_entries(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return entries that mlx-lm expects under the names of published checkpoints, which transformers 5 has changed."""
    named: dict[str, Any] = {}
    if "num_local_experts" in config:
        named["num_experts"] = config["num_local_experts"]
    rope = config.get("rope_parameters")
    if isinstance(rope, dict) and "rope_theta" in rope:
        named["rope_theta"] = rope["rope_theta"]
        if rope.get("rope_type", "default") != "default":
            named["rope_scaling"] = {name: value for name, value in rope.items() if name != "rope_theta"}
    return {name: value for name, value in named.items() if config.get(name) is None}


def read_mlx(files: CheckpointReader, name: str, expert: int | None) -> Levels:
    """Return a linear of such a checkpoint, by its name and in its groups there; of a stack one expert's."""
    bits: int = files.config["quantization"]["bits"]
    levels, half = levels_in_mlx(files, name, expert, bits), 1 << (bits - 1)
    if torch.equal(levels.offsets, -half * levels.scales):  # of a symmetric grid, whose levels are one product
        levels = levels._replace(offsets=torch.full(levels.scales.shape, half), is_affine=False)
    return levels


def levels_in_mlx(files: CheckpointReader, name: str, expert: int | None, bits: int) -> Levels:
    """Return the stored numbers of a linear, or of one expert in a stack."""
    words, scales, biases = (files.read(f"{name}.{part}") for part in ("weight", "scales", "biases"))
    if expert is not None:
        words, scales, biases = words[expert], scales[expert], biases[expert]
    words = words.view(torch.int32)
    return Levels(unpack_bits(words, bits, words.shape[1] * 32 // bits), scales, biases, is_affine=True)
