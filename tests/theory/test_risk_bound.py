"""Theorem 1: risks from the inputs themselves, code matrices counted one by one, the bound where all can be known."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sarqc.errors import Refused
from sarqc.figures.theorem import log_all_codes
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import method
from sarqc.quantization.solve import quantize_layer, sweep_layer
from tests import oracles
from tests.quantizing import quantize_group
from tests.theory.risk_bound import (
    layer_risk,
    log_codes_within,
    risk_bound,
    squared_distances,
    sweep_risk,
)

X, X_VAL = (torch.from_numpy(oracles.correlated_inputs(seed, 160, 32)) for seed in (91, 92))
W = torch.from_numpy(oracles.uneven_weight(93, 6, 32))
STATISTICS, HELD_OUT = LayerStatistics.from_inputs(X), LayerStatistics.from_inputs(X_VAL)
LONGEST = float(torch.cat([X, X_VAL]).norm(dim=-1).max())
NAMES = ["rtn", "awq", "sarqc-gs", "gptq", "rqc-gbs", "sarqc-gbs"]


def sums(distances: torch.Tensor) -> list[float]:
    """The squared distance of every code vector."""
    return [math.fsum(chosen) for chosen in itertools.product(*distances.tolist())]


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 5).flatmap(
        lambda weights: st.lists(
            st.lists(st.floats(0, 10, allow_subnormal=False), min_size=4, max_size=4),
            min_size=weights,
            max_size=weights,
        )
    ),
    st.floats(0, 1),
)
def test_count_is_never_below_the_enumeration(distances: list[list[float]], part: float) -> None:
    listed = torch.tensor(distances, dtype=torch.float64)
    everything = sorted(sums(listed))
    squared_radius = everything[int(part * (len(everything) - 1))]  # a radius that some vector has exactly
    count = sum(one <= squared_radius for one in everything)
    bound = log_codes_within(listed, squared_radius * (1 + 1e-12) + 1e-300)
    assert bound >= math.log(count) - 1e-9
    assert bound <= math.log(len(everything)) + 1e-9


@pytest.mark.thorough
def test_count_is_the_least_over_a_dense_scan() -> None:
    """Chernoff's function by loops, on a fine grid of t: the bisection finds nothing worse, and t cannot do better."""
    distances = np.random.default_rng(3).uniform(-2, 2, size=(40, 8)) ** 2
    for squared_radius in (6.0, 15.0, 40.0):
        scan = [
            t * squared_radius + sum(math.log(sum(math.exp(-t * d) for d in row)) for row in distances)
            for t in np.geomspace(1e-3, 100, 2000)
        ]
        ours = log_codes_within(torch.from_numpy(distances), squared_radius)
        assert ours <= min(scan) + 1e-9
        assert ours == pytest.approx(min(scan), rel=1e-4)


def test_count_at_the_ends() -> None:
    distances = torch.tensor([[0.25, 0.25, 2.25], [0.0, 1.0, 4.0]], dtype=torch.float64)
    assert log_codes_within(distances, 0.2) == -math.inf  # nothing is as near
    assert log_codes_within(distances, 0.25) == pytest.approx(math.log(2))  # a tie between two levels
    assert log_codes_within(distances, 100.0) == pytest.approx(math.log(9))
    assert log_codes_within(torch.ones(3, 4, dtype=torch.float64), 3.0) == pytest.approx(3 * math.log(4))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000), st.floats(1e-6, 1e6))
def test_count_has_no_unit(seed: int, unit: float) -> None:
    distances = torch.from_numpy(np.random.default_rng(seed).uniform(0, 1, size=(12, 4)))
    plain, scaled = log_codes_within(distances, 3.0), log_codes_within(unit * distances, unit * 3.0)
    assert scaled == pytest.approx(plain, rel=1e-6) if math.isfinite(plain) else scaled == plain


def test_count_grows_with_the_radius_and_falls_far_below_everything() -> None:
    distances = torch.from_numpy(np.random.default_rng(5).uniform(0, 1, size=(50, 4)))
    radii = torch.linspace(float(distances.amin(dim=-1).sum()), float(distances.sum(dim=-1).sum()), 20).tolist()
    counts = [log_codes_within(distances, squared_radius) for squared_radius in radii]
    assert all(right >= left - 1e-9 for left, right in itertools.pairwise(counts))
    assert counts[0] < 0.1 * counts[-1]


@pytest.mark.parametrize("name", NAMES)
def test_layer_risk_from_the_inputs_themselves(name: str) -> None:
    grid = Grid(3, 16, "asymmetric")
    layer = quantize_layer(W, STATISTICS, grid, method(name))
    ours = layer_risk(W, layer, grid, STATISTICS, max_token_norm=LONGEST, held_out=HELD_OUT, delta=0.1)
    delta_w = (layer.dequantized - W).numpy()
    seen, unseen = (
        np.mean([np.sum((delta_w @ token) ** 2) for token in inputs.numpy()]) for inputs in (X, X_VAL)
    )  # the paper's risks, token by token
    assert float(ours.calibration_risk) == pytest.approx(seen, rel=1e-9)
    assert float(ours.held_out_risk) == pytest.approx(unseen, rel=1e-9)
    assert float(ours.gap) == pytest.approx(unseen - seen, rel=1e-6)
    assert float(ours.radius) == pytest.approx(np.linalg.norm(delta_w), rel=1e-12)
    assert float(ours.log_class) == pytest.approx(W.numel() * 3 * math.log(2)) == log_all_codes(W.numel(), grid.bits)
    assert 0 <= float(ours.log_ball) <= float(ours.log_class)
    for log_count, bound in ((ours.log_ball, ours.bound), (ours.log_class, ours.bound_any_radius)):
        expected = np.sum(delta_w**2) * LONGEST**2 * math.sqrt((math.log(2 / 0.1) + float(log_count)) / (2 * 160))
        assert float(bound) == pytest.approx(expected, rel=1e-9)
    assert abs(float(ours.gap)) <= float(ours.span)


@pytest.mark.parametrize("name", ["rtn", "awq", "sarqc-gs"])
def test_the_nearest_levels_are_alone_in_their_ball(name: str) -> None:
    grid = Grid(4, 16, "asymmetric")
    layer = quantize_layer(W, STATISTICS, grid, method(name))
    ours = layer_risk(W, layer, grid, STATISTICS, max_token_norm=LONGEST)
    assert float(ours.log_ball) == pytest.approx(0.0, abs=1e-9)
    assert not bool(ours.is_vacuous)
    assert float(ours.log_class) > 500
    assert math.isnan(float(ours.held_out_risk))
    assert math.isnan(float(ours.gap))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["symmetric", "full_range", "asymmetric", "affine"])
@pytest.mark.parametrize("name", ["rtn", "sarqc-gs", "sarqc-gbs"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_levels_counted_are_the_levels_stored(kind: str, name: str, dtype: torch.dtype) -> None:
    grid, weight = Grid(3, 16, kind), W.to(dtype)
    layer = quantize_layer(weight, LayerStatistics.from_inputs(X.float()), grid, method(name))
    distances = squared_distances(weight, layer, grid)
    taken = distances.gather(1, (layer.codes.long() - grid.lowest).reshape(-1, 1)).reshape(weight.shape)
    assert torch.equal(taken, (layer.dequantized.double() - weight.double()).square())


def test_levels_of_scales_that_neighbours_take_up() -> None:
    rows = {"w": torch.linspace(0.5, 2.0, len(W), dtype=torch.float64)}
    search = method("sarqc-gs", mode="foldable", include_identity=False)
    grid = Grid(3, 16, "asymmetric")
    layer = quantize_group({"w": W}, STATISTICS, grid, search, row_scales=rows)["w"]
    assert layer.row_scale is not None
    assert layer.channel_scale is not None
    distances = squared_distances(W, layer, grid)
    taken = distances.gather(1, layer.codes.long().reshape(-1, 1)).reshape(W.shape)
    assert torch.equal(taken, (layer.dequantized - W).square())


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["symmetric", "full_range", "asymmetric", "affine"])
@pytest.mark.parametrize("name", ["awq", "gptq"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_code_matrices_of_a_tiny_layer_counted_one_by_one(kind: str, name: str, dtype: torch.dtype) -> None:
    """Two bits, six weights: all 4096 code matrices, dequantized by the oracle's formula."""
    x = torch.from_numpy(oracles.correlated_inputs(95, 40, 6)).to(dtype)
    weight = torch.from_numpy(oracles.uneven_weight(96, 1, 6)).to(dtype)
    grid, statistics = Grid(2, 3, kind), LayerStatistics.from_inputs(x)
    layer = quantize_layer(weight, statistics, grid, method(name))
    ours = layer_risk(weight, layer, grid, statistics, max_token_norm=1.01 * float(x.double().norm(dim=-1).max()))
    scales, zeros = (part.double().numpy().repeat(3, axis=1) for part in (layer.scales, layer.zero_points))
    biases = 0.0 if layer.biases is None else layer.biases.double().numpy().repeat(3, axis=1)
    channel = np.ones(6) if layer.channel_scale is None else layer.channel_scale.double().numpy()
    count, low = 0, grid.lowest
    for codes in itertools.product(range(low, low + 4), repeat=6):
        levels = torch.from_numpy(((np.array([codes]) - zeros) * scales + biases) / channel).to(dtype).double()
        count += float((levels - weight.double()).square().sum()) <= float(ours.radius) ** 2 * (1 + 1e-6)
    assert count >= 1
    assert math.log(count) - 1e-6 <= float(ours.log_ball) <= 12 * math.log(2) + 1e-9


def test_the_bound_holds_where_everything_can_be_known() -> None:
    """One row of two weights at two bits, inputs from six equally likely vectors: the true risk of all 16 code
    matrices is known, and in no more than a share δ of draws does any of them leave its bound."""
    rng = np.random.default_rng(11)
    support = rng.normal(size=(6, 2))
    longest = float(np.linalg.norm(support, axis=1).max())
    drifts = np.array(list(itertools.product((-0.7, -0.2, 0.3, 0.8), (-0.5, 0.0, 0.5, 1.0))))  # (16, 2)
    losses = (drifts @ support.T) ** 2  # (16, 6)
    squared = np.sum(drifts**2, axis=1)
    delta, n_tokens, draws = 0.3, 12, 400
    outside_ball = outside_any = 0
    within = squared <= 0.6
    for _ in range(draws):
        seen = losses[:, rng.integers(6, size=n_tokens)].sum(axis=1)
        gap = np.abs(losses.mean(axis=1) - seen / n_tokens)

        def bound_of(drift: np.ndarray, log_count: float, seen: np.ndarray = seen) -> np.ndarray:
            ours = risk_bound(
                torch.from_numpy(seen),
                torch.from_numpy(drift),
                n_tokens=n_tokens,
                max_token_norm=longest,
                log_class=log_count,
                delta=delta,
            )
            return ours.bound.numpy()

        outside_ball += bool((gap > bound_of(np.full(16, 0.6), math.log(within.sum())))[within].any())
        outside_any += bool((gap > bound_of(squared, math.log(16))).any())
    assert outside_ball <= delta * draws
    assert outside_any <= delta * draws


def test_bound_grows_with_each_of_its_terms() -> None:
    base = {"n_tokens": 100, "max_token_norm": 2.0, "log_class": 50.0, "delta": 0.05}

    def bound(**changes: float) -> float:
        drift = changes.pop("drift", 1.0)
        return float(risk_bound(1.0, drift, **base | changes).bound)

    assert bound(drift=3.0) == pytest.approx(3 * bound())
    assert bound(max_token_norm=4.0) == pytest.approx(4 * bound())
    assert bound(n_tokens=400) == pytest.approx(bound() / 2)
    assert bound(log_class=60.0) > bound()
    assert bound(delta=0.01) > bound()
    assert bound() == pytest.approx(4.0 * math.sqrt((math.log(40) + 50) / 200))
    assert bool(risk_bound(1.0, 1.0, **base | {"log_class": 1e6}).is_vacuous)


@pytest.mark.thorough
@settings(max_examples=50, deadline=None)
@given(st.integers(-8, 8), st.integers(-8, 8))
def test_risk_and_bound_scale_alike(of_weight: int, of_inputs: int) -> None:
    """W · a and x · b turn both sides of the theorem into a² b² times themselves; the counts stay."""
    a, b = 2.0**of_weight, 2.0**of_inputs
    grid = Grid(3, 16, "asymmetric")
    layers = []
    for weight, inputs, longest in ((W, X, LONGEST), (a * W, b * X, b * LONGEST)):
        statistics = LayerStatistics.from_inputs(inputs)
        layer = quantize_layer(weight, statistics, grid, method("rqc-gbs"))
        layers.append(layer_risk(weight, layer, grid, statistics, max_token_norm=longest))
    plain, scaled = layers
    for name in ("calibration_risk", "span", "bound", "bound_any_radius"):
        assert float(getattr(scaled, name)) == pytest.approx(a**2 * b**2 * float(getattr(plain, name)), rel=1e-6)
    assert float(scaled.log_ball) == pytest.approx(float(plain.log_ball), rel=1e-6)


@pytest.mark.parametrize(("name", "gammas"), [("sarqc-gbs", (0.1, 0.5)), ("sarqc-gs", (None,))])
def test_a_sweep_is_its_layers(name: str, gammas: tuple[float | None, ...]) -> None:
    grid = Grid(3, 16, "symmetric")
    sweep = sweep_layer(W, STATISTICS, grid, method(name), lams=(0.01, 0.3, 3.0), gammas=gammas, held_out=HELD_OUT)
    plain = sweep_risk(sweep, W, grid, STATISTICS, max_token_norm=LONGEST, held_out=HELD_OUT)
    counted = sweep_risk(sweep, W, grid, STATISTICS, max_token_norm=LONGEST, held_out=HELD_OUT, count_ball=True)
    assert torch.equal(plain.log_ball, plain.log_class)
    assert torch.equal(plain.bound, plain.bound_any_radius)
    for i, j in itertools.product(range(len(gammas)), range(3)):
        layer = sweep.dequantized(i, j)
        single = layer_risk(W, layer, grid, STATISTICS, max_token_norm=LONGEST, held_out=HELD_OUT)
        for field in ("calibration_risk", "held_out_risk", "gap", "radius", "log_class", "log_ball", "span", "bound"):
            assert float(getattr(counted, field)[i, j]) == pytest.approx(float(getattr(single, field)), rel=1e-6)
    assert (counted.bound <= plain.bound).all()


def test_a_sweep_without_held_out_inputs() -> None:
    grid = Grid(3, 16, "symmetric")
    sweep = sweep_layer(W, STATISTICS, grid, method("rqc-gbs"), lams=(0.1, 1.0))
    ours = sweep_risk(sweep, W, grid, STATISTICS, max_token_norm=LONGEST)
    assert torch.isnan(ours.held_out_risk).all()
    assert torch.isnan(ours.gap).all()
    assert torch.isfinite(ours.bound).all()


def test_refused() -> None:
    good = {"n_tokens": 10, "max_token_norm": 1.0, "log_class": 1.0}
    for wrong in ({"n_tokens": 0}, {"delta": 0.0}, {"delta": 1.0}, {"max_token_norm": math.nan}):
        with pytest.raises(Refused):
            risk_bound(1.0, 1.0, **good | wrong)
    grid = Grid(3, 16, "symmetric")
    layer = quantize_layer(W, STATISTICS, grid, method("rtn"))
    with pytest.raises(Refused, match="root-mean-square"):
        layer_risk(W, layer, grid, STATISTICS, max_token_norm=0.5 * float(X.norm(dim=-1).mean()))


def test_nothing_is_mutated() -> None:
    grid = Grid(3, 16, "symmetric")
    layer = quantize_layer(W, STATISTICS, grid, method("awq"))
    kept = [part.clone() for part in (W, STATISTICS.gram, layer.codes, layer.scales, layer.dequantized)]
    layer_risk(W, layer, grid, STATISTICS, max_token_norm=LONGEST, held_out=HELD_OUT)
    parts = (W, STATISTICS.gram, layer.codes, layer.scales, layer.dequantized)
    assert all(torch.equal(one, other) for one, other in zip(kept, parts, strict=True))
