"""Two bits on the symmetric grid, in every format that carries codes: compensated codes take all four levels."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from sarqc.checkpoints.compressed_tensors import save_packed
from sarqc.checkpoints.gptq import save_gptq
from sarqc.checkpoints.mlx import save_mlx
from sarqc.checkpoints.plain import save_plain
from sarqc.quantization.grid import Grid
from tests.checkpoints.made import quantized, unpacked
from tests.models.cases import make_checkpoint

pytestmark = pytest.mark.thorough

SIDES = {"hidden_size": 64, "intermediate_size": 96, "num_key_value_heads": 4}
Decoded = tuple[np.ndarray, np.ndarray]  # signed codes (O, I), and scales (O, G)


def of_packed(tensors: dict[str, torch.Tensor], name: str) -> Decoded:
    width = int(tensors[f"{name}.weight_shape"][1])
    codes = unpacked(tensors[f"{name}.weight_packed"].numpy(), 2, width) - 2
    return codes, tensors[f"{name}.weight_scale"].numpy()


def of_gptq(tensors: dict[str, torch.Tensor], name: str) -> Decoded:
    words, scales = tensors[f"{name}.qweight"], tensors[f"{name}.scales"].numpy()
    zeros = unpacked(tensors[f"{name}.qzeros"].numpy(), 2, scales.shape[1]) + 1  # stored less one
    codes = unpacked(words.T.numpy(), 2, 16 * len(words))
    return codes - zeros[tensors[f"{name}.g_idx"].numpy()].T, scales.T


def of_mlx(tensors: dict[str, torch.Tensor], name: str) -> Decoded:
    words, scales = tensors[f"{name}.weight"].view(torch.int32), tensors[f"{name}.scales"].numpy()
    biases = tensors[f"{name}.biases"].numpy()
    assert np.array_equal(biases, -2 * scales)
    return unpacked(words.numpy(), 2, 16 * words.shape[1]) - 2, scales


@pytest.mark.parametrize(
    ("save", "decode"), [(save_packed, of_packed), (save_gptq, of_gptq), (save_mlx, of_mlx)],
    ids=["packed", "gptq", "mlx"],
)  # fmt: skip
def test_all_four_levels_are_read_again(tiny_llama: Path, tmp_path: Path, save: object, decode: object) -> None:
    folder = make_checkpoint("llama", tmp_path / "float", tiny_llama, **SIDES)
    choices = {"range": "search", "order": "activation", "refine": 2}
    loaded, layers, grids = quantized(folder, Grid(2, 32, "symmetric"), "gptq", **choices)
    save_plain(loaded, tmp_path / "plain")
    save(loaded, layers, grids, tmp_path / "model")
    plain, tensors = (load_file(tmp_path / name / "model.safetensors") for name in ("plain", "model"))
    used = set()
    for name in layers:
        codes, scales = decode(tensors, name)
        size = codes.shape[1] // scales.shape[1]
        assert np.array_equal(codes * np.repeat(scales, size, axis=1), plain[f"{name}.weight"].numpy())
        used |= set(codes.ravel().tolist())
    assert used == {-2, -1, 0, 1}
