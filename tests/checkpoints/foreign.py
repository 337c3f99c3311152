"""Checkpoints as others write them, number by number and apart from every packer and reader here.

Axes: O out_features, I in_features, G groups of a row.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)  # which of eight columns the numbers of a word are, lowest bits first


@dataclass(frozen=True)
class Linear:
    """What is to be stored of a linear: unsigned codes (O, I), scales (O, G), zero points (O, G) or biases, and the
    group of each channel (I,)."""

    bits: int
    codes: np.ndarray
    scales: Tensor
    zero_points: np.ndarray
    biases: Tensor | None
    group_of: np.ndarray

    @property
    def weight(self) -> Tensor:
        """(codes - zero points) · scales, exactly in float64 and rounded once."""
        spread = self.zero_points[:, self.group_of]
        exact = torch.from_numpy(self.codes - spread).double() * self.scales[:, self.group_of].double()
        return exact.to(self.scales.dtype)


def linear(
    shape: tuple[int, int], bits: int, size: int, rng: np.random.Generator, *, symmetric: bool = False,
    dtype: torch.dtype = torch.float16, order: np.ndarray | None = None,
) -> Linear:  # fmt: skip
    """Random numbers for a linear; ``order``: a permutation of the channels, whose groups are then runs of it."""
    out, width = shape
    groups = -(-width // size)
    group_of = np.arange(width) // size
    if order is not None:
        group_of = group_of[np.argsort(order)]
    half = 1 << (bits - 1)
    zeros = np.full((out, groups), half) if symmetric else rng.integers(0, 1 << bits, (out, groups))
    scales = torch.from_numpy(rng.uniform(0.001, 0.1, (out, groups))).to(dtype)
    biases = torch.from_numpy(rng.uniform(-1, 0, (out, groups))).to(dtype)
    return Linear(bits, rng.integers(0, 1 << bits, shape), scales, zeros, biases, group_of)


def in_words(rows: np.ndarray, bits: int) -> Tensor:
    """Each row as one large number, least significant first, cut into words of 32 bits: (R, C) -> (R, W)."""
    found = []
    for row in rows:
        number = sum(int(one) << (bits * place) for place, one in enumerate(row))
        found.append(np.frombuffer(number.to_bytes(-(-len(row) * bits // 32) * 4, "little"), "<i4"))
    return torch.from_numpy(np.stack(found).astype(np.int32))


def less_one(rows: np.ndarray, bits: int) -> Tensor:
    """Zero points in words of 32 bits, less one: from the word, so that a 0 borrows, where words hold whole numbers."""
    if 32 % bits:
        return in_words((rows - 1) % (1 << bits), bits)
    ones = sum(1 << place for place in range(0, 32, bits))
    words = (in_words(rows, bits).numpy().view(np.uint32).astype(np.int64) - ones) % (1 << 32)
    return torch.from_numpy(words.astype(np.uint32).view(np.int32))


def gptq(name: str, one: Linear, *, first: bool = False, with_order: bool = True) -> dict[str, Tensor]:
    zeros = one.zero_points.T
    parts = {
        f"{name}.qweight": in_words(one.codes, one.bits).T.contiguous(),
        f"{name}.qzeros": less_one(zeros, one.bits) if first else in_words(zeros, one.bits),
        f"{name}.scales": one.scales.T.contiguous(),
    }
    return parts | ({f"{name}.g_idx": torch.from_numpy(one.group_of.astype(np.int32))} if with_order else {})


def awq(name: str, one: Linear) -> dict[str, Tensor]:
    def packed(rows: np.ndarray) -> Tensor:
        if one.bits != 4:
            return in_words(rows, one.bits)
        words = np.zeros((len(rows), rows.shape[1] // 8), dtype=np.int64)
        for place, column in enumerate(AWQ_COLUMNS):
            words |= rows[:, column::8].astype(np.int64) << (4 * place)
        return torch.from_numpy(words.astype(np.uint32).view(np.int32))

    return {
        f"{name}.qweight": packed(one.codes.T),
        f"{name}.qzeros": packed(one.zero_points.T),
        f"{name}.scales": one.scales.T.contiguous(),
    }


def packed(name: str, one: Linear, *, symmetric: bool = False, with_order: bool = False) -> dict[str, Tensor]:
    parts = {
        f"{name}.weight_packed": in_words(one.codes, one.bits),
        f"{name}.weight_scale": one.scales,
        f"{name}.weight_shape": torch.tensor(one.codes.shape),
    }
    if not symmetric:
        parts[f"{name}.weight_zero_point"] = in_words(one.zero_points.T, one.bits).T.contiguous()
    if with_order:
        parts[f"{name}.weight_g_idx"] = torch.from_numpy(one.group_of.astype(np.int32))
    return parts


def in_bytes(name: str, one: Linear, *, symmetric: bool = False) -> dict[str, Tensor]:
    half = 1 << (one.bits - 1)
    parts = {
        f"{name}.weight": torch.from_numpy((one.codes - half).astype(np.int8)),
        f"{name}.weight_scale": one.scales,
    }
    if not symmetric:
        parts[f"{name}.weight_zero_point"] = torch.from_numpy((one.zero_points - half).astype(np.int8))
    return parts


def mlx(name: str, one: Linear) -> dict[str, Tensor]:
    assert one.biases is not None
    words = in_words(one.codes, one.bits).view(torch.uint32)
    return {f"{name}.weight": words, f"{name}.scales": one.scales, f"{name}.biases": one.biases}


def write(
    source: Path, target: Path, linears: Mapping[str, Linear], stored: Callable[[str, Linear], dict[str, Tensor]],
    config: Mapping[str, Any], more: Mapping[str, Tensor] | None = None,
) -> Path:  # fmt: skip
    """Write the files of ``source`` with those linears stored in another way, in two files with an index."""
    shutil.copytree(source, target)
    (target / "model.safetensors").unlink()
    tensors = load_file(source / "model.safetensors")
    for name, one in linears.items():
        del tensors[f"{name}.weight"]
        tensors |= stored(name, one)
    tensors |= more or {}
    described = json.loads((source / "config.json").read_text(encoding="utf-8"))
    (target / "config.json").write_text(json.dumps(described | config), encoding="utf-8")
    names = sorted(tensors)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, target / file, metadata={"format": "pt", "by": "others"})
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (target / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return target


def hashes(folder: Path) -> dict[str, str]:
    """Every file of a folder by its path in it."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*") if path.is_file()
    }  # fmt: skip
