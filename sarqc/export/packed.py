"""The quantized model in the ``pack-quantized`` format of compressed-tensors: the solver's own codes, bit by bit.

Axes: O out_features, I in_features, G groups of a row, P 32-bit words of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sarqc.errors import Refused
from sarqc.export.plain import new_checkpoint, stored_tensors, write_weights
from sarqc.models.loading import LoadedModel
from sarqc.quantization.grid import Grid
from sarqc.quantization.quantized_layer import QuantizedLayer

LAYOUT_VERSION = "0.20.0"  # of compressed-tensors, whose layout this is; that of 3 bits was another before 0.18
_ROWS_AT_ONCE = 1024


def save_packed(
    loaded: LoadedModel,
    layers: Mapping[str, QuantizedLayer],
    grids: Mapping[str, Grid],
    folder: Path,
    card: str = "",
) -> None:
    """Writes the model with packed codes and scales in place of the quantized weights, everything else as it is.

    ``layers``: by name, with the weights that the model has; ``grids``: the grid of each. The folder appears whole or
    not at all; ``card`` becomes its README.md. Raises ``Refused`` for what the format can't carry.
    """
    for name in layers:
        if grids[name].kind in ("asymmetric", "affine"):
            what = "biases, for which the format has no place" if grids[name].is_affine else "zero points"
            raise Refused(f"its grid has {what}", name, "Take the grid symmetric or full_range, or the format plain.")
    family = loaded.family
    in_file = {f"{family.in_file(name)}.weight": name for name in layers}

    def packed() -> Iterator[tuple[str, Tensor]]:
        for stored, tensor in stored_tensors(loaded):
            if stored not in in_file:
                yield stored, tensor
                continue
            name, prefix = in_file[stored], stored.removesuffix("weight")
            layer = layers[name]
            if not torch.equal(tensor, layer.stored().to(tensor.device, tensor.dtype)):
                raise Refused(
                    "its codes and scales alone are not the model's weight",
                    name,
                    "Take mode foldable, or the format plain.",
                )
            yield f"{prefix}weight_packed", pack_codes(layer.codes, grids[name].bits)
            yield f"{prefix}weight_scale", layer.scales.to(tensor.dtype).cpu()
            yield f"{prefix}weight_shape", torch.tensor(layer.codes.shape)

    by_name = {family.in_file(name): grids[name] for name in layers}
    config = {"quantization_config": quantization_config(_others(loaded), by_name)}
    with new_checkpoint(loaded, folder, card, config) as partial:
        write_weights(partial, packed())


def pack_codes(codes: Tensor, bits: int) -> Tensor:
    """Signed codes as one string of bits a row, lowest first, ``bits`` for each: (O, I) int8 -> (O, P) int32.

    A code is stored plus 2^(bits-1); codes may lie across two words, and only the end of a row is padded.
    """
    width = codes.shape[-1] * bits
    padding = -width % 32
    packed = []
    for rows in codes.cpu().split(_ROWS_AT_ONCE):
        unsigned = (rows.to(torch.int16) + 2 ** (bits - 1)).to(torch.uint8).numpy()  # (O, I)
        every_bit = np.unpackbits(unsigned[..., None], axis=-1, count=bits, bitorder="little")  # (O, I, bits)
        row_bits = np.pad(every_bit.reshape(len(rows), width), ((0, 0), (0, padding)))
        words = np.packbits(row_bits, axis=-1, bitorder="little").view("<i4")  # (O, P)
        packed.append(torch.from_numpy(words.astype(np.int32)))
    return torch.cat(packed)


def _others(loaded: LoadedModel) -> list[str]:
    """Linears and routers of the model that stay float, by their names in checkpoints."""
    quantized, family = {layer.name for layer in loaded.checkpoint.layers}, loaded.family
    linears = [name for name, module in loaded.model.named_modules() if isinstance(module, nn.Linear)]
    routers = [
        f"{family.blocks}.{i}.{family.router}" for i in range(len(loaded.blocks())) if loaded.checkpoint.experts(i)
    ]
    return [family.in_file(name) for name in dict.fromkeys([*linears, *routers]) if name not in quantized]


def quantization_config(others: Sequence[str], grids: Mapping[str, Grid]) -> dict[str, Any]:
    """The entry of config.json for the quantized linears and the ``others``, which readers leave alone.

    The first scheme is meant for all linears, further ones, such as that of layers which groups do not divide, name
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
            "symmetric": True,
            "type": "int",
        },
    }
