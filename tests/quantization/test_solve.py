"""Odd layers: dead channels, dead columns, constant rows, too few tokens, singular Grams, and what is refused."""

import dataclasses
import itertools
import math
import re
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sarqc.errors import NumericalError, Refused
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import METHODS, ColumnSolver, Method, ScaleSearch, method
from sarqc.quantization.quantized_layer import LayerReport, QuantizedLayer
from sarqc.quantization.solve import quantize_layer, sweep_layer
from tests import oracles

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


def exact_weights(layer: QuantizedLayer, columns: int) -> torch.Tensor:
    """(codes - zero)·scale/channel_scale, spelt out again."""
    groups = layer.scales.shape[1]
    index = torch.arange(columns) // (columns // groups)
    value = (layer.codes.double() - layer.zero_points.double()[:, index]) * layer.scales.double()[:, index]
    return value if layer.channel_scale is None else value / layer.channel_scale.double()


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
    assert torch.equal(layer.dequantized, exact_weights(layer, columns))
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
def test_every_odd_layer_gives_a_sound_result(case: Case, method_: Method) -> None:
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
def test_every_odd_layer_follows_algorithm_2(case: Case, lam: float, gamma: float | None) -> None:
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
def test_every_odd_layer_is_sound_in_low_precision(case: Case, method_: Method, dtype: torch.dtype) -> None:
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


@pytest.mark.parametrize("gamma", [None, 0.1, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_dead_channels_keep_their_weight(kind: str, lam: float, gamma: float | None) -> None:
    x, weight = oracles.correlated_inputs(81, 96, 32), oracles.uneven_weight(82, 6, 32)
    dead = [0, 9, 31]
    x[:, dead] = 0.0
    grid = Grid(4, 16, kind)
    layer = quantize_layer(torch.from_numpy(weight), statistics_of(x), grid, column_solver(lam, gamma))
    lowest, highest = oracles.code_range(4, kind)
    for row, j in itertools.product(range(6), dead):
        scale, zero = float(layer.scales[row, j // 16]), int(layer.zero_points[row, j // 16])
        levels = (np.arange(lowest, highest + 1) - zero) * scale
        taken = float(layer.dequantized[row, j])
        assert abs(taken - weight[row, j]) <= np.abs(levels - weight[row, j]).min() + 1e-12
    assert (layer.dequantized[:, dead] != 0).float().mean() > 0.5
    assert layer.report.diagonal_floor == 0.0


@pytest.mark.parametrize("name", ["rtn", "awq", "rqc-gs", "sarqc-gs", "gptq", "rqc-gbs", "sarqc-gbs"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_that_saw_no_token_is_rounded(kind: str, name: str) -> None:
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
def test_a_layer_of_zeros_stays_zero(name: str) -> None:
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
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_singular_gram_without_lambda_takes_a_recorded_floor(dtype: torch.dtype, gamma: float | None) -> None:
    x, weight = oracles.correlated_inputs(85, 6, 48), oracles.uneven_weight(86, 4, 48)
    statistics, grid = LayerStatistics.from_inputs(torch.from_numpy(x).to(dtype)), Grid(3, 16, "asymmetric")
    layer = quantize_layer(torch.from_numpy(weight).to(dtype), statistics, grid, column_solver(0.0, gamma))
    report = layer.report
    steps = math.log10(report.diagonal_floor / (1e-6 * float(statistics.gram.diagonal().max())))
    assert steps == pytest.approx(round(steps), abs=1e-4)  # 1e-6 of the largest diagonal entry, times a power of ten
    assert 0 <= round(steps) <= 6
    assert report.flags
    if dtype == torch.float64:
        assert round(steps) == 0
        g = oracles.gram_by_token(x) + report.diagonal_floor * np.eye(48)
        oracles.assert_same_codes(layer.codes.numpy(), oracles.algorithm_2(weight, g, 3, 16, "asymmetric"))


@pytest.mark.parametrize("unit", [2.0**-16, 1.0, 2.0**16])
def test_the_floor_is_measured_by_the_gram_alone(unit: float) -> None:
    """1e-6 of the Gram's own largest diagonal entry, also where a dead channel has been given a 1 to factorise."""
    x, weight = unit * oracles.correlated_inputs(85, 6, 48), oracles.uneven_weight(86, 4, 48)
    x[:, 7] = 0.0
    gram = oracles.gram_by_token(x)
    grid = Grid(3, 16, "asymmetric")
    layer = quantize_layer(torch.from_numpy(weight), statistics_of(x), grid, ColumnSolver(lam=0.0))
    assert layer.report.diagonal_floor == pytest.approx(1e-6 * float(np.diag(gram).max()), rel=1e-6, abs=0)
    g = gram + layer.report.diagonal_floor * np.eye(48)
    oracles.assert_same_codes(layer.codes.numpy(), oracles.algorithm_2(weight, g, 3, 16, "asymmetric"))


def test_floor_is_flagged_and_only_where_it_was_needed() -> None:
    weight = torch.from_numpy(oracles.uneven_weight(87, 4, 32))
    enough = LayerStatistics.from_inputs(torch.from_numpy(oracles.correlated_inputs(88, 128, 32)))
    plenty = quantize_layer(weight, enough, Grid(3, 16, "symmetric"), ColumnSolver(lam=0.0)).report
    assert plenty.diagonal_floor == 0.0
    assert plenty.flags == ()
    # Enough tokens, but two channels are copies of each other and one is their sum.
    x = oracles.correlated_inputs(88, 128, 32)
    x[:, 5], x[:, 9] = x[:, 3], x[:, 3] + x[:, 4]
    x[:, 20:28] = x[:, 3:11]
    copies = LayerStatistics.from_inputs(torch.from_numpy(x))
    report = quantize_layer(weight, copies, Grid(3, 16, "symmetric"), ColumnSolver(lam=0.0)).report
    assert (report.diagonal_floor > 0) == bool(report.flags)
    damped = quantize_layer(weight, copies, Grid(3, 16, "symmetric"), method("gptq")).report
    assert damped.diagonal_floor == 0.0
    assert damped.flags == ()


@pytest.mark.parametrize("gamma", [None, 0.1])
def test_fewer_tokens_than_channels_is_solved_and_flagged(gamma: float | None) -> None:
    """λ carries the singular part: no floor, the oracle's codes, and a flag."""
    x, weight = oracles.correlated_inputs(89, 10, 48), oracles.uneven_weight(90, 6, 48)
    grid = Grid(3, 16, "asymmetric")
    layer = quantize_layer(torch.from_numpy(weight), statistics_of(x), grid, column_solver(0.25, gamma))
    s = None if gamma is None else oracles.saliency(np.abs(x).mean(axis=0), weight, gamma)
    g = oracles.regularised_gram(oracles.gram_by_token(x), s, 0.25)
    oracles.assert_same_codes(layer.codes.numpy(), oracles.algorithm_2(weight, g, 3, 16, "asymmetric"))
    assert layer.report.diagonal_floor == 0.0
    assert layer.report.n_tokens == 10
    assert layer.report.flags


# What is refused


def small() -> tuple[torch.Tensor, LayerStatistics]:
    weight = torch.from_numpy(oracles.uneven_weight(91, 4, 48))
    return weight, LayerStatistics.from_inputs(torch.from_numpy(oracles.correlated_inputs(92, 96, 48)))


@pytest.mark.parametrize("size", [5, 32, 96])
def test_group_size_that_does_not_divide(size: int) -> None:
    """The remedy names sizes that do divide: 48 = 16·3."""
    given = (*small(), Grid(3, size, "symmetric"))
    for call in (
        *(partial(quantize_layer, *given, method(name)) for name in ("gptq", "rtn", "awq")),
        partial(sweep_layer, *given, method("rqc-gbs"), lams=(0.1,)),
    ):
        with pytest.raises(Refused) as refused:
            call()
        named = {int(number) for number in re.findall(r"\d+", refused.value.remedy)}
        assert 16 in named
        assert size not in named


def test_the_largest_usual_size_is_named() -> None:
    """As for DeepSeek-MoE's 10944 = 171·64, in small: 5·64 is not a multiple of 128, but of 64."""
    weight = torch.from_numpy(oracles.uneven_weight(93, 2, 320))
    statistics = LayerStatistics(torch.eye(320).double(), torch.ones(320).double(), 4)
    with pytest.raises(Refused) as refused:
        quantize_layer(weight, statistics, Grid(4, 128, "symmetric"), method("rtn"))
    assert "64" in refused.value.remedy


def test_shapes_that_do_not_fit() -> None:
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


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["weight", "gram", "abs_sum", "held_out"])
def test_not_finite_is_an_error(place: str, poison: float) -> None:
    """Never a silent result: turned down when the statistics are made or at the latest when they are used."""
    weight, statistics = small()
    gram, abs_sum = statistics.gram.clone(), statistics.abs_sum.clone()
    held_gram = gram.clone()
    target = {"weight": weight, "gram": gram, "abs_sum": abs_sum, "held_out": held_gram}[place]
    target[(17,) if target.dim() == 1 else (2, 17)] = poison

    def solve(name: str) -> None:
        held_out = LayerStatistics(held_gram, statistics.abs_sum, statistics.n_tokens)
        poisoned = LayerStatistics(gram, abs_sum, statistics.n_tokens)
        quantize_layer(weight, poisoned, Grid(3, 16, "symmetric"), method(name), held_out=held_out)
        if METHODS[name].tunes:
            sweep_layer(weight, poisoned, Grid(3, 16, "symmetric"), method(name), lams=(0.1,), held_out=held_out)

    for name in ("rtn", "awq", "gptq", "rqc-gs", "sarqc-gbs"):
        with pytest.raises(NumericalError) as error:
            solve(name)
        assert error.value.what
        assert error.value.remedy
        if place != "weight":
            assert "17" in str(error.value)  # the channel


def test_inputs_that_are_not_finite() -> None:
    x = torch.ones(4, 6)
    x[2, 5] = math.inf
    with pytest.raises(NumericalError):
        LayerStatistics.from_inputs(x)
