"""“auto” for a layer against loops over explicit inputs."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sarqc import Grid, LayerStatistics, method, quantize_layer
from sarqc.errors import Refused
from sarqc.quantization.auto_by_layer import channel_subset
from sarqc.quantization.methods import METHODS, Method
from tests import oracles
from tests.pretend_device import pretend, pretended
from tests.quantizing import quantize_selected

ROWS, COLUMNS = 10, 48
GRID = Grid(2, 16, "asymmetric")


def grid_of(name: str) -> list[Method]:
    """Return the points that “auto” compares, once more: GPTAQ's own choose α alone, sarqc-gptaq all three."""
    auto = METHODS[name].auto
    axes = {"gamma": auto.gammas, "lam": auto.lams or (None,), "shift_strength": auto.strengths}
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    return [method(name, **{key: value for key, value in point.items() if value is not None}) for point in points]


def inputs_and_weight(seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Train and validation inputs, those of the float prefix, and a weight: few tokens, so that candidates differ."""
    train, validation = (torch.from_numpy(oracles.correlated_inputs(seed + k, 40, COLUMNS)) for k in (1, 2))
    noise = [torch.from_numpy(oracles.correlated_inputs(seed + k, 40, COLUMNS)) for k in (3, 4)]
    weight = torch.from_numpy(oracles.uneven_weight(seed + 5, ROWS, COLUMNS))
    return train, validation, train + 0.3 * noise[0], validation + 0.3 * noise[1], weight


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["rqc-gbs", "sarqc-gbs", "sarqc-gptaq", "gptaq", "gptaq-full"])
@pytest.mark.parametrize("seed", [0, 10, 20])
def test_the_chosen_point_is_the_best_on_inputs_it_was_not_solved_on(name, seed):
    train, validation, float_train, float_validation, weight = inputs_and_weight(seed)
    points = grid_of(name)
    seen = LayerStatistics.from_inputs(train, float_train)
    unseen = LayerStatistics.from_inputs(validation, float_validation)
    layer = quantize_selected(weight, seen, unseen, GRID, points)
    aim = float_validation if "gptaq" in name else validation
    losses = []
    for point in points:
        solved = quantize_layer(weight, seen, GRID, point).dequantized
        losses.append(sum(float(((solved @ x - weight @ y) ** 2).sum()) for x, y in zip(validation, aim, strict=True)))
    best = int(np.argmin(losses))
    assert len(set(losses)) > 2  # the candidates do differ
    assert layer.report.chosen["lam"] == points[best].lam
    assert layer.report.chosen["gamma"] == points[best].gamma
    assert layer.report.chosen.get("shift_strength") == points[best].alpha
    again = quantize_layer(weight, seen + unseen, GRID, points[best])
    assert torch.equal(layer.codes, again.codes)
    assert layer.report.recon_loss == again.report.recon_loss

    table = layer.report.candidates
    named = [(row["lam"], row["gamma"], row.get("shift_strength")) for row in table]
    assert named == [(point.lam, point.gamma, point.alpha) for point in points]
    energy = float(((validation @ weight.T) ** 2).sum())
    constant = float((((aim - validation) @ weight.T) ** 2).sum())
    for row, loss, point in zip(table, losses, points, strict=True):
        assert row["validation"] == pytest.approx((loss - constant) / energy, rel=1e-9, abs=1e-12)
        assert row["train"] == pytest.approx(quantize_layer(weight, seen, GRID, point).report.relative_recon, rel=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["rqc-gbs", "sarqc-gbs", "sarqc-gptaq"])
def test_statistics_may_be_on_another_device_than_the_weight(name):
    train, validation, float_train, float_validation, weight = inputs_and_weight()
    seen = LayerStatistics.from_inputs(train, float_train)
    unseen = LayerStatistics.from_inputs(validation, float_validation)
    expected = quantize_selected(weight, seen, unseen, GRID, grid_of(name))
    device = pretend()
    with pretended():
        with pytest.raises(RuntimeError, match="expected all tensors on"):
            _ = weight.to(device) + weight
        for parts in ((seen, unseen), (seen.to(device), unseen), (seen, unseen.to(device))):
            found = quantize_selected(weight.to(device), *parts, GRID, grid_of(name))
            assert found.codes.device == device
            assert torch.equal(found.codes.cpu(), expected.codes)
            assert found.report == expected.report


@pytest.mark.parametrize("fraction", [1 / 3, 0.5, 2 / 3])
def test_a_channel_fraction_compares_on_whole_groups_and_solves_on_all(fraction):
    train, validation, _, _, weight = inputs_and_weight()
    points = grid_of("sarqc-gbs")
    parts = [LayerStatistics.from_inputs(part) for part in (train, validation)]
    layer = quantize_selected(weight, *parts, GRID, points, channel_fraction=fraction)
    kept = channel_subset(COLUMNS, 16, fraction)
    losses = []
    for point in points:
        part = quantize_layer(weight[:, kept], LayerStatistics.from_inputs(train[:, kept]), GRID, point)
        losses.append(float((((part.dequantized - weight[:, kept]) @ validation[:, kept].T) ** 2).sum()))
    best = points[int(np.argmin(losses))]
    assert (layer.report.chosen["lam"], layer.report.chosen["gamma"]) == (best.lam, best.gamma)
    assert layer.codes.shape == weight.shape
    assert torch.equal(layer.codes, quantize_layer(weight, parts[0] + parts[1], GRID, best).codes)


@given(groups=st.integers(1, 40), size=st.sampled_from([1, 4, 16]), fraction=st.floats(0.001, 1.0))
def test_kept_channels_are_whole_groups_in_order(groups, size, fraction):
    kept = channel_subset(groups * size, size, fraction).tolist()
    assert kept == sorted(set(kept))
    assert set(kept) <= set(range(groups * size))
    by_group = {channel // size for channel in kept}
    assert len(kept) == len(by_group) * size
    assert len(by_group) >= 1
    assert len(by_group) >= fraction * groups - 1e-9
    assert len(by_group) < fraction * groups + 1


def test_per_channel_keeps_the_whole_row():
    assert channel_subset(48, 48, 0.1).tolist() == list(range(48))


def test_no_validation_token_is_said():
    train, _, _, _, weight = inputs_and_weight()
    nothing = LayerStatistics.from_inputs(torch.zeros(0, COLUMNS, dtype=torch.float64))
    layer = quantize_selected(weight, LayerStatistics.from_inputs(train), nothing, GRID, grid_of("sarqc-gbs"))
    assert "not_judged" in layer.report.flags
    assert layer.report.chosen["lam"] == 0.25
    for row in layer.report.candidates:
        assert row["validation"] is None
        assert all(math.isfinite(value) for name, value in row.items() if name != "validation")


@pytest.mark.parametrize("fraction", [0.0, 1.5, math.nan])
def test_a_bad_fraction_is_refused(fraction):
    train, validation, _, _, weight = inputs_and_weight()
    parts = [LayerStatistics.from_inputs(part) for part in (train, validation)]
    with pytest.raises(Refused, match="fraction"):
        quantize_selected(weight, *parts, GRID, grid_of("sarqc-gbs"), channel_fraction=fraction)
    with pytest.raises(Refused, match="candidate"):
        quantize_selected(weight, *parts, GRID, [])
