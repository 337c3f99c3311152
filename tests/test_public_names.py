"""The stable names, used as the guide shows them."""

import pytest
import torch

import sarqc
from sarqc import Grid, LayerStatistics, Recipe, execute, method, quantize_layer, sweep_layer
from sarqc.events import Finished


def test_names_are_pinned():
    assert sarqc.__all__ == [
        "Grid", "LayerStatistics", "method", "quantize_layer", "sweep_layer", "Recipe", "execute", "Study", "compare",
    ]  # fmt: skip


def test_a_layer_as_in_the_readme():
    torch.manual_seed(0)
    weight, inputs = torch.randn(6, 256), torch.randn(300, 256)
    statistics = LayerStatistics.from_inputs(inputs)
    layer = quantize_layer(weight, statistics, Grid(3, 128, "asymmetric"), method("sarqc-gbs", lam=0.1, gamma=0.1))
    direct = ((layer.dequantized - weight) @ inputs.T).square().sum() / (weight @ inputs.T).square().sum()
    assert abs(layer.report.relative_recon - float(direct)) < 1e-5
    sweep = sweep_layer(
        weight, statistics, Grid(3, 128, "asymmetric"), method("sarqc-gbs"), lams=[0, 0.1, 1], gammas=[0.1, 0.5]
    )
    assert sweep.relative_recon.shape == (2, 3)
    assert torch.equal(sweep.dequantized(0, 1).codes, layer.codes)


@pytest.mark.thorough
def test_a_run_needs_no_settings(text_file):
    recipe = Recipe(model="tiny-llama", calibration=str(text_file), method="rtn", samples=1, length=16)
    assert isinstance(list(execute(recipe))[-1], Finished)
