"""Odd layers: dead channels, dead columns, constant rows, too few tokens, singular Grams, and what is refused."""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sarqc import Grid, LayerStatistics, method, quantize_layer
from sarqc.errors import Refused
from sarqc.quantization.methods import ColumnSolver, Method, ScaleSearch
from sarqc.quantization.quantized_layer import LayerReport, QuantizedLayer
from tests import oracles
from tests.quantizing import spelt_out

KINDS = ("symmetric", "full_range", "asymmetric")
LAYER_METHODS: tuple[Method, ...] = (
    method("rtn"),
    ColumnSolver(lam=0.0),
    ColumnSolver(lam=0.01),
    ColumnSolver(lam=0.0, gamma=0.5, saliency="saliency"),
    ColumnSolver(lam=0.3, gamma=0.1, saliency="saliency"),
    ColumnSolver(lam=0.3, gamma=1.0, saliency="saliency", static_groups=True),
    ScaleSearch(lam=0.0),
    ScaleSearch(lam=0.3),
    ScaleSearch(lam=0.3, saliency="identity", include_identity=False),
)


odd_layers = settings(
    max_examples=60,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def statistics_of(x: oracles.Array) -> LayerStatistics:
    return LayerStatistics.from_inputs(torch.from_numpy(x))


def column_solver(lam: float, gamma: float | None) -> ColumnSolver:
    return ColumnSolver(lam=lam) if gamma is None else ColumnSolver(lam=lam, gamma=gamma, saliency="saliency")


@dataclass
class Case:
    """One layer to quantize, float64."""

    x: oracles.Array
    weight: oracles.Array
    grid: Grid

    @property
    def statistics(self) -> LayerStatistics:
        return statistics_of(self.x)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """O 1..12, I 4..48, groups that divide, 1..3·I tokens; dead channels and columns, constant rows, zero groups."""
    rows, columns = draw(st.integers(1, 12)), draw(st.integers(4, 48))
    divisors = [size for size in range(1, columns + 1) if columns % size == 0]
    size = draw(st.sampled_from([*divisors, None]))
    grid = Grid(draw(st.sampled_from([2, 3, 4])), size, draw(st.sampled_from(KINDS)))
    tokens = draw(st.integers(1, 3 * columns))
    seed = draw(st.integers(0, 2**16))
    x, weight = oracles.correlated_inputs(seed, tokens, columns), oracles.uneven_weight(seed + 1, rows, columns)
    channel = st.integers(0, columns - 1)
    for j in draw(st.lists(channel, max_size=3)):
        x[:, j] = 0.0
    for j in draw(st.lists(channel, max_size=3)):
        weight[:, j] = 0.0
    for row in draw(st.lists(st.integers(0, rows - 1), max_size=2)):
        weight[row] = draw(st.sampled_from([0.25, -0.25, 0.0, 0.07]))
    width = size or columns
    for row, group in draw(
        st.lists(st.tuples(st.integers(0, rows - 1), st.integers(0, columns // width - 1)), max_size=2)
    ):
        weight[row, group * width : (group + 1) * width] = 0.0
    return Case(x, weight, grid)


def numbers(report: LayerReport) -> list[float]:
    """Every loss, ratio and floor that a report states."""
    values = [getattr(report, field.name) for field in dataclasses.fields(report)]
    return [value for value in values if isinstance(value, float)]


def assert_sound(layer: QuantizedLayer, case: Case) -> None:
    rows, columns = case.weight.shape
    groups = columns // (case.grid.group_size or columns)
    assert layer.codes.dtype == torch.int8
    assert tuple(layer.codes.shape) == (rows, columns)
    assert tuple(layer.scales.shape) == tuple(layer.zero_points.shape) == (rows, groups)
    assert int(layer.codes.min()) >= case.grid.lowest
    assert int(layer.codes.max()) <= case.grid.highest
    assert (layer.scales > 0).all()
    assert torch.isfinite(layer.scales).all()
    assert torch.equal(layer.dequantized, spelt_out(layer, torch.float64))
    report = layer.report
    for value in numbers(report):
        assert math.isfinite(value)
        assert value >= 0
    delta = layer.dequantized.numpy() - case.weight
    floor = 1e-12 * oracles.recon_from_inputs(case.weight, case.x)
    assert report.recon_loss == pytest.approx(oracles.recon_from_inputs(delta, case.x), rel=1e-6, abs=floor)
    assert report.drift == pytest.approx(oracles.sar_by_channel(delta, None), rel=1e-9)
    assert all(isinstance(flag, str) for flag in report.flags)


@odd_layers
@given(case=cases(), method_=st.sampled_from(LAYER_METHODS))
def test_every_odd_layer_gives_a_sound_result(case, method_):
    weight, statistics = torch.from_numpy(case.weight.copy()), case.statistics
    gram, abs_sum = statistics.gram.clone(), statistics.abs_sum.clone()
    layer = quantize_layer(weight, statistics, case.grid, method_)
    assert_sound(layer, case)
    assert np.array_equal(weight.numpy(), case.weight)
    assert torch.equal(statistics.gram, gram)
    assert torch.equal(statistics.abs_sum, abs_sum)


@pytest.mark.thorough
@odd_layers
@given(case=cases(), lam=st.sampled_from([0.0, 0.01, 1.0]), gamma=st.sampled_from([None, 0.1, 0.5]))
def test_every_odd_layer_follows_algorithm_2(case, lam, gamma):
    """With the floor that the report states added to the oracle's diagonal; both well enough conditioned to compare."""
    layer = quantize_layer(torch.from_numpy(case.weight), case.statistics, case.grid, column_solver(lam, gamma))
    gram = oracles.gram_by_token(case.x)
    abs_mean = np.abs(case.x).mean(axis=0)
    dead_weight = not case.weight.any()
    s = None if gamma is None or dead_weight else oracles.saliency(abs_mean, case.weight, gamma)
    g = oracles.regularised_gram(gram, s, lam)
    g += layer.report.diagonal_floor * np.eye(len(g))
    alive = np.diag(g) > 0
    condition = np.linalg.cond(g[np.ix_(alive, alive)]) if alive.any() else 1.0
    if condition > 1e8:
        return
    expected = oracles.algorithm_2(case.weight, g, case.grid.bits, case.grid.group_size, case.grid.kind)
    rows = expected.margin > 1e-5
    assert np.allclose(layer.dequantized.numpy()[rows], expected.dequantized[rows], rtol=1e-5, atol=1e-9)
    # A group of zeros may be zeros up to noise on the other side, and its codes then mean nothing.
    width = case.grid.group_size or case.weight.shape[1]
    largest = np.abs(expected.dequantized).reshape(len(rows), -1, width).max(axis=2)
    told = rows[:, None] & (np.repeat(largest, width, axis=1) > 1e-9)
    assert np.array_equal(layer.codes.numpy()[told], expected.codes[told])


@odd_layers
@given(case=cases(), method_=st.sampled_from(LAYER_METHODS), dtype=st.sampled_from([torch.float32, torch.float16]))
def test_every_odd_layer_is_sound_in_low_precision(case, method_, dtype):
    statistics = LayerStatistics.from_inputs(torch.from_numpy(case.x).float())
    weight = torch.from_numpy(case.weight).to(dtype)
    layer = quantize_layer(weight, statistics, case.grid, method_)
    assert torch.isfinite(layer.dequantized).all()
    assert torch.isfinite(layer.scales).all()
    assert int(layer.codes.min()) >= case.grid.lowest
    assert int(layer.codes.max()) <= case.grid.highest
    for value in numbers(layer.report):
        assert math.isfinite(value)
        assert value >= 0


# Channels that saw nothing


@pytest.mark.parametrize("name", ["rtn", "awq", "rqc-gs", "sarqc-gs", "gptq", "rqc-gbs", "sarqc-gbs"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_that_saw_no_token_is_rounded(kind, name):
    """An expert without tokens keeps its weights, rounded to nearest, with a finite report."""
    weight = oracles.uneven_weight(83, 5, 24)
    statistics = LayerStatistics.from_inputs(torch.zeros(0, 24, dtype=torch.float64))
    layer = quantize_layer(torch.from_numpy(weight), statistics, Grid(3, 8, kind), method(name))
    expected = oracles.round_to_nearest(weight, 3, 8, kind)
    assert np.array_equal(layer.codes.numpy(), expected.codes)
    assert np.allclose(layer.dequantized.numpy(), expected.dequantized, rtol=1e-12)
    report = layer.report
    assert report.n_tokens == 0
    assert report.recon_loss == 0.0
    assert report.relative_recon is None  # 0/0 is not 0
    assert all(math.isfinite(value) for value in numbers(report))
    assert report.drift == pytest.approx(oracles.sar_by_channel(expected.dequantized - weight, None))
    if name != "rtn":
        assert report.flags


@pytest.mark.parametrize("name", ["rtn", "awq", "rqc-gs", "sarqc-gs", "gptq", "rqc-gbs", "sarqc-gbs"])
def test_a_layer_of_zeros_stays_zero(name):
    weight = torch.zeros(3, 16, dtype=torch.float64)
    statistics = statistics_of(oracles.correlated_inputs(84, 40, 16))
    for kind in KINDS:
        layer = quantize_layer(weight, statistics, Grid(3, 8, kind), method(name))
        assert (layer.dequantized == 0).all()
        report = layer.report
        assert report.recon_loss == report.sar_loss == report.drift == 0.0
        assert report.relative_recon is report.relative_sar is report.relative_drift is None
        assert all(math.isfinite(value) for value in numbers(report))


# Too few tokens


@pytest.mark.parametrize("gamma", [None, 0.5])
def test_singular_gram_without_lambda_takes_a_recorded_floor(gamma):
    x, weight = (
        torch.from_numpy(part).float()
        for part in (oracles.correlated_inputs(85, 6, 48), oracles.uneven_weight(86, 4, 48))
    )
    statistics = LayerStatistics.from_inputs(x)
    report = quantize_layer(weight, statistics, Grid(3, 16, "asymmetric"), column_solver(0.0, gamma)).report
    steps = math.log10(report.diagonal_floor / (1e-6 * float(statistics.gram.diagonal().max())))
    assert steps == pytest.approx(round(steps), abs=1e-4)  # 1e-6 of the largest diagonal entry, times a power of ten
    assert 0 <= round(steps) <= 6
    assert report.flags


@pytest.mark.parametrize("unit", [2.0**-16, 1.0, 2.0**16])
def test_the_floor_is_measured_by_the_gram_alone(unit):
    """1e-6 of the Gram's own largest diagonal entry, also where a dead channel has been given a 1 to factorise."""
    x, weight = unit * oracles.correlated_inputs(85, 6, 48), oracles.uneven_weight(86, 4, 48)
    x[:, 7] = 0.0
    gram = oracles.gram_by_token(x)
    grid = Grid(3, 16, "asymmetric")
    layer = quantize_layer(torch.from_numpy(weight), statistics_of(x), grid, ColumnSolver(lam=0.0))
    assert layer.report.diagonal_floor == pytest.approx(1e-6 * float(np.diag(gram).max()), rel=1e-6, abs=0)
    g = gram + layer.report.diagonal_floor * np.eye(48)
    oracles.assert_same_codes(layer.codes.numpy(), oracles.algorithm_2(weight, g, 3, 16, "asymmetric"))


# What is refused


def small() -> tuple[torch.Tensor, LayerStatistics]:
    weight = torch.from_numpy(oracles.uneven_weight(91, 4, 48))
    return weight, LayerStatistics.from_inputs(torch.from_numpy(oracles.correlated_inputs(92, 96, 48)))


def test_the_largest_usual_size_is_named():
    """As for DeepSeek-MoE's 10944 = 171·64, in small: 5·64 is not a multiple of 128, but of 64."""
    weight = torch.from_numpy(oracles.uneven_weight(93, 2, 320))
    statistics = LayerStatistics(torch.eye(320).double(), torch.ones(320).double(), 4)
    with pytest.raises(Refused) as refused:
        quantize_layer(weight, statistics, Grid(4, 128, "symmetric"), method("rtn"))
    assert "64" in refused.value.remedy


def test_shapes_that_do_not_fit():
    weight, statistics = small()
    other = LayerStatistics.from_inputs(torch.from_numpy(oracles.correlated_inputs(94, 30, 32)))
    grid = Grid(3, 16, "symmetric")
    with pytest.raises(Refused):
        quantize_layer(weight, LayerStatistics(statistics.gram, statistics.abs_sum[:-1], 96), grid, method("gptq"))
    for name in ("rtn", "awq", "gptq"):
        with pytest.raises(Refused):
            quantize_layer(weight, other, grid, method(name))
        with pytest.raises(Refused):
            quantize_layer(weight, statistics, grid, method(name), held_out=other)
        with pytest.raises(Refused):
            quantize_layer(weight.flatten(), statistics, grid, method(name))
