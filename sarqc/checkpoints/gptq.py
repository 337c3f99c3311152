"""The quantized model in GPTQ's format, read by GPTQModel, vLLM and others.

Codes are packed along the columns of a weight, zero points along the rows of theirs. In the first convention (“gptq”) a
zero point is stored less one. Readers add the one to whole words, so a zero point of 0, stored as all ones, would run
over into its neighbour: asymmetric grids are written in the second convention (“gptq_v2”), as they are. Symmetric ones
have the zero point 2^(b-1) throughout and are written in the first, which more readers know.

Axes: O out_features, I in_features, G groups of a row, W 32-bit words.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sarqc import __version__
from sarqc.checkpoints.codes import (
    CheckpointReader,
    Coded,
    Contents,
    Levels,
    Writer,
    encoded_tensors,
    float_linears,
    pack_bits,
    refuse_biases,
    unpack_bits,
)
from sarqc.errors import Refused
from sarqc.models.loading import LoadedModel
from sarqc.quantization.grid import Grid
from sarqc.quantization.quantized_layer import QuantizedLayer


@Writer
def save_gptq(loaded: LoadedModel, layers: Mapping[str, QuantizedLayer], grids: Mapping[str, Grid]) -> Contents:
    """Return the contents with ``qweight``, ``qzeros``, ``scales`` and ``g_idx``."""
    refuse_biases(layers, grids)
    by_name = {loaded.family.in_file(name): grids[name] for name in layers}
    blocks = loaded.family.in_file(loaded.family.blocks)
    others = [name for name in float_linears(loaded) if name.startswith(f"{blocks}.")]
    config = {"quantization_config": quantization_config(others, by_name)}
    return config, encoded_tensors(_tensors, loaded, layers, grids)


def _tensors(coded: Coded) -> Iterator[tuple[str, Tensor]]:
    bits, width, groups = coded.grid.bits, coded.codes.shape[1], coded.scales.shape[1]
    offset = 0 if _uses_second_convention(coded.grid) else 1
    yield f"{coded.name}.qweight", pack_bits(coded.codes, bits).T.contiguous()  # (W, O)
    yield f"{coded.name}.qzeros", pack_bits((coded.zero_points - offset).T, bits)  # (G, W)
    yield f"{coded.name}.scales", coded.scales.T.contiguous()  # (G, O)
    yield f"{coded.name}.g_idx", _groups_of_channels(width, groups)


def _groups_of_channels(width: int, groups: int) -> Tensor:
    return torch.arange(width, dtype=torch.int32) // (width // groups)


def _uses_second_convention(grid: Grid) -> bool:
    return grid.kind == "asymmetric"


def read_gptq(files: CheckpointReader, name: str) -> Levels:
    """Return a linear of such a checkpoint, by its name there.

    Raises:
        Refused: If groups are not contiguous.
    """
    config = files.config["quantization_config"]
    bits, index = config["bits"], files.read(f"{name}.g_idx")
    levels = levels_in_gptq(files, name, bits, len(index), less_one=config["checkpoint_format"] == "gptq")
    if not torch.equal(index, _groups_of_channels(len(index), levels.scales.shape[1])):
        raise Refused("its g_idx is not that of groups of neighbouring channels", name, "Export the model again.")
    return levels


def levels_in_gptq(files: CheckpointReader, name: str, bits: int, width: int, *, less_one: bool) -> Levels:
    """Return the stored numbers of a linear with this many input channels; ``less_one`` is the first convention."""
    scales, zeros = files.read(f"{name}.scales").T, files.read(f"{name}.qzeros")  # (O, G), (G, W)
    if less_one and 32 % bits == 0:
        # Added to whole words, as it was subtracted: the overflow from a zero point of 0 returns to its place.
        zeros = zeros + sum(1 << start for start in range(0, 32, bits))
    zero_points = unpack_bits(zeros, bits, len(scales)).T
    if less_one and 32 % bits:
        zero_points = (zero_points + 1) & ((1 << bits) - 1)
    return Levels(unpack_bits(files.read(f"{name}.qweight").T, bits, width), scales, zero_points)


def quantization_config(others: Sequence[str], grids: Mapping[str, Grid]) -> dict[str, Any]:
    """Return the entry of config.json for linears in blocks without codes and grids of the quantized linears by name.

    ``dynamic`` has GPTQModel's rules for single linears: “-:” for those without codes, “+:” for those of another grid
    than most, such as layers which groups do not divide.
    """
    kinds = list(grids.values())
    usual = max(dict.fromkeys(kinds), key=kinds.count)
    rules: dict[str, dict[str, Any]] = {f"-:^{re.escape(name)}$": {} for name in others}
    rules |= {f"+:^{re.escape(name)}$": {"group_size": _size(grid)} for name, grid in grids.items() if grid != usual}
    return {
        "bits": usual.bits,
        "checkpoint_format": "gptq_v2" if _uses_second_convention(usual) else "gptq",
        "desc_act": False,
        "group_size": _size(usual),
        "lm_head": False,
        "meta": {"quantizer": [f"sarqc:{__version__}"]},
        "pack_dtype": "int32",
        "quant_method": "gptq",
        "sym": not _uses_second_convention(usual),
    } | ({"dynamic": rules} if rules else {})


def _size(grid: Grid) -> int:
    return -1 if grid.group_size is None else grid.group_size
