"""What a rotation is worth for the error of layers: where norms carry outlier channels, and where nothing does."""

from pathlib import Path
from statistics import geometric_mean

import pytest
import torch
from safetensors.torch import load_file, save_file

from sarqc.models.checkpoint import Checkpoint, read_checkpoint
from sarqc.models.loading import load
from sarqc.models.rotation import rotated
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import method
from sarqc.quantization.solve import quantize_layer
from tests.calibration.test_pipeline import inputs_of
from tests.models.cases import make_checkpoint

OUTLIERS = torch.tensor([3, 17, 40])
READERS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
TOKENS = torch.randint(4096, (8, 64), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def folder(tmp_path: Path, tiny_llama: Path) -> Path:
    return make_checkpoint(
        "llama", tmp_path / "model", tiny_llama, intermediate_size=64, hidden_size=64, head_dim=16, num_hidden_layers=1
    )


def plant(folder: Path, *, of_norms: float = 1, of_stream: float = 1) -> None:
    """Some channels that readers see are larger by both factors, and their columns smaller.

    Norms carry them, which leaves the model as it is, or the residual stream itself.
    """
    tensors = load_file(folder / "model.safetensors")
    for name, value in tensors.items():
        if name.endswith("layernorm.weight"):
            value[OUTLIERS] *= of_norms
        elif name.endswith(tuple(f"{module}.weight" for module in READERS)):
            value[:, OUTLIERS] /= of_norms * of_stream
        elif name.endswith(("o_proj.weight", "down_proj.weight")):
            value[OUTLIERS] *= of_stream
        elif name.endswith("embed_tokens.weight"):
            value[:, OUTLIERS] *= of_stream
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def mean_error(checkpoint: Checkpoint, bits: int, name: str) -> float:
    """Geometric mean of the relative errors of all readers of the residual stream."""
    loaded, grid = load(checkpoint, torch.device("cpu")), Grid(bits, 32, "asymmetric")
    readers = [layer.name for layer in checkpoint.layers if layer.module in READERS]
    errors = []
    for reader, seen in inputs_of(loaded, readers, TOKENS).items():
        statistics = LayerStatistics.from_inputs(seen.flatten(0, 1))
        errors.append(quantize_layer(loaded.weight(reader), statistics, grid, method(name)).report.relative_recon)
    return geometric_mean(errors)


def gain(folder: Path, bits: int, name: str) -> float:
    """Error with a rotation over that without; both are relative to the same outputs."""
    checkpoint = read_checkpoint(folder)
    return mean_error(rotated(checkpoint, "r1", 0), bits, name) / mean_error(checkpoint, bits, name)


@pytest.mark.parametrize(
    ("bits", "name", "most"), [(2, "rtn", 0.9), (2, "gptq", 0.8), (3, "rtn", 0.6), (3, "gptq", 0.5)]
)
def test_it_pays_where_norms_carry_outlier_channels(folder: Path, bits: int, name: str, most: float) -> None:
    plant(folder, of_norms=100)
    assert gain(folder, bits, name) < most


@pytest.mark.parametrize("bits", [2, 3])
def test_gptq_gains_where_the_stream_carries_them_too(folder: Path, bits: int) -> None:
    plant(folder, of_norms=24, of_stream=8)
    assert gain(folder, bits, "gptq") < 0.9


@pytest.mark.parametrize("name", ["rtn", "gptq"])
def test_it_does_not_pay_without_outliers(folder: Path, name: str) -> None:
    assert 0.9 < gain(folder, 2, name) < 1.1


def test_rounding_to_nearest_loses_where_the_stream_alone_carries_them(folder: Path) -> None:
    """Small columns are rounded to 0 without harm; a rotation mixes them with all others."""
    plant(folder, of_stream=8)
    assert gain(folder, 2, "rtn") > 1.5
