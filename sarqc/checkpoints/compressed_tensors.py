"""The quantized model in the ``pack-quantized`` format of compressed-tensors: the solver's own codes, bit by bit.

Codes are packed along the rows of a weight, zero points along the columns of theirs.

Axes: O out_features, I in_features, G groups of a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sarqc.checkpoints.codes import (
    CheckpointReader,
    Coded,
    Contents,
    Levels,
    Writer,
    encoded_tensors,
    float_linears,
    layers_with_codes,
    pack_bits,
    refuse_biases,
    unpack_bits,
)
from sarqc.models.loading import LoadedModel
from sarqc.quantization.grid import Grid
from sarqc.quantization.quantized_layer import QuantizedLayer

LAYOUT_VERSION = "0.20.0"  # of compressed-tensors, whose layout this is; that of 3 bits was another before 0.18


@Writer
def save_packed(loaded: LoadedModel, layers: Mapping[str, QuantizedLayer], grids: Mapping[str, Grid]) -> Contents:
    """Return the contents with packed codes, scales and zero points."""
    refuse_biases(layers, grids)
    by_name = {loaded.family.in_file(name): grids[name] for name in layers_with_codes(loaded, layers)}
    config = {"quantization_config": quantization_config(float_linears(loaded), by_name)}
    return config, encoded_tensors(packed_tensors, loaded, layers, grids)


def packed_tensors(coded: Coded) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a quantized linear in the format, by name."""
    bits = coded.grid.bits
    yield f"{coded.name}.weight_packed", pack_bits(coded.codes, bits)
    yield f"{coded.name}.weight_scale", coded.scales
    yield f"{coded.name}.weight_shape", torch.tensor(coded.codes.shape)
    if coded.grid.kind == "asymmetric":
        yield f"{coded.name}.weight_zero_point", pack_bits(coded.zero_points.T, bits).T.contiguous()


def read_packed(files: CheckpointReader, name: str) -> Levels:
    """Return a linear of such a checkpoint, by its name there."""
    bits: int = files.config["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"]
    _, width = files.read(f"{name}.weight_shape").tolist()
    return levels_in_packed(files, name, bits, width)


def levels_in_packed(files: CheckpointReader, name: str, bits: int, width: int) -> Levels:
    """Return the stored numbers of a linear with this many input channels."""
    scales, zeros = files.read(f"{name}.weight_scale"), f"{name}.weight_zero_point"
    zero_points = torch.full(scales.shape, 1 << (bits - 1))
    if zeros in files:
        stored = files.read(zeros)
        in_bytes = stored.dtype == torch.int8  # signed, as before April 2025
        zero_points = stored.to(torch.int16) + zero_points if in_bytes else unpack_bits(stored.T, bits, len(scales)).T
    return Levels(unpack_bits(files.read(f"{name}.weight_packed"), bits, width), scales, zero_points)


def quantization_config(others: Sequence[str], grids: Mapping[str, Grid]) -> dict[str, Any]:
    """Return the entry of config.json for linears without codes and grids of the quantized linears by name.

    The first scheme applies to all linears; further schemes, such as that of layers which groups do not divide, name
    theirs.
    """
    by_grid: dict[Grid, list[str]] = {}
    for name, grid in grids.items():
        by_grid.setdefault(grid, []).append(name)
    ordered = sorted(by_grid.items(), key=lambda entry: -len(entry[1]))
    groups = {
        f"group_{number}": _scheme(grid, ["Linear"] if number == 0 else names)
        for number, (grid, names) in enumerate(ordered)
    }
    return {
        "config_groups": groups,
        "format": "pack-quantized",
        "ignore": list(others),
        "kv_cache_scheme": None,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
        "version": LAYOUT_VERSION,
    }


def _scheme(grid: Grid, targets: list[str]) -> dict[str, Any]:
    return {
        "format": "pack-quantized",
        "input_activations": None,
        "output_activations": None,
        "targets": targets,
        "weights": {
            "dynamic": False,
            "group_size": grid.group_size,
            "num_bits": grid.bits,
            "strategy": "channel" if grid.group_size is None else "group",
            "symmetric": grid.kind != "asymmetric",
            "type": "int",
        },
    }
