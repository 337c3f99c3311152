"""Range, order and refinement: what each does to a layer, against its definition, and what it leaves alone."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sarqc import Grid, LayerStatistics, method, quantize_layer, sweep_layer
from sarqc.errors import Refused
from sarqc.quantization.grid import dequantize, nearest_codes, scales_and_zero_points
from sarqc.quantization.methods import METHODS, SHRINKS, ColumnSolver, Method
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.quantization.storage import Kind
from tests import oracles, oracles_fitting
from tests.quantizing import zeros_of

ROWS, COLUMNS, TOKENS, GROUP = 5, 48, 200, 16
X = oracles.correlated_inputs(31, TOKENS, COLUMNS)
X_FLOAT = X + 0.2 * oracles.correlated_inputs(32, TOKENS, COLUMNS)
W = oracles.uneven_weight(33, ROWS, COLUMNS)
GRAM = oracles.gram_by_token(X)
ABS_MEAN = np.abs(X).mean(axis=0)
STATISTICS = LayerStatistics.from_inputs(torch.from_numpy(X), torch.from_numpy(X_FLOAT))
KINDS: tuple[Kind, ...] = ("symmetric", "full_range", "asymmetric", "affine")
DEAD = 20  # channels of ``with_dead_channels``
FREE = 1e-7  # margin of the rows that are compared


def solved(method: Method, bits: int = 2, kind: Kind = "asymmetric", group: int | None = GROUP) -> QuantizedLayer:
    return quantize_layer(torch.from_numpy(W), STATISTICS, Grid(bits, group, kind), method)


def groups() -> list[tuple[int, int, slice]]:
    """Rows and groups of the weight, with the columns of each."""
    every = product(range(ROWS), range(COLUMNS // GROUP))
    return [(row, group, slice(group * GROUP, (group + 1) * GROUP)) for row, group in every]


def with_dead_channels(x: oracles.Array) -> oracles.Array:
    """Return the inputs with one whole group of channels at 0, and four channels of others."""
    x = x.copy()
    x[:, [*range(GROUP, 2 * GROUP), 1, 6, 40, 47]] = 0
    return x


def of_inputs(x: oracles.Array) -> tuple[LayerStatistics, oracles.Array]:
    return LayerStatistics.from_inputs(torch.from_numpy(x)), oracles.gram_by_token(x)


def objective_of(point: ColumnSolver) -> oracles.Array:
    s = None if point.gamma is None else oracles.saliency(ABS_MEAN, W, point.gamma)
    return oracles.regularised_gram(GRAM, s, point.lam)


def assert_same(layer: QuantizedLayer, codes: Any, margin: oracles.Array, least: int = ROWS - 1) -> None:
    free = margin > FREE
    assert free.sum() >= least
    assert np.array_equal(layer.codes.numpy()[free], codes[free])


def descended(target: oracles.Array, g: oracles.Array, start: QuantizedLayer, bits: int, kind: Kind, **how: Any) -> Any:
    """Codes of a layer after passes by definition, and the margins of its rows."""
    codes, scales, zeros = (part.numpy() for part in (start.codes.long(), start.scales, zeros_of(start)))
    return oracles_fitting.coordinate_descent(target, g, codes, scales, zeros, bits, kind, **how)


@pytest.mark.thorough
@pytest.mark.parametrize("gamma", [None, 0.5])
@pytest.mark.parametrize("order", ["natural", "activation"])
@pytest.mark.parametrize("source", ["minmax", "search"])
@pytest.mark.parametrize(
    ("bits", "kind"), [(2, "asymmetric"), (3, "asymmetric"), (2, "symmetric"), (3, "symmetric"), (2, "affine")]
)
def test_column_solver_equals_least_squares(bits, kind, source, order, gamma):
    point = ColumnSolver(
        lam=0.1, gamma=gamma, saliency="identity" if gamma is None else "saliency", range=source, order=order
    )
    g = objective_of(point)
    expected = oracles_fitting.columns_by_least_squares(W, g, bits, GROUP, kind, order=order, source=source)
    layer = solved(point, bits, kind)
    assert_same(layer, expected.codes, expected.margin)
    free = expected.margin > FREE
    assert np.allclose(layer.scales.numpy()[free], expected.scales[free], rtol=1e-8, atol=0)
    assert np.allclose(zeros_of(layer).numpy()[free], expected.zero_points[free], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_searched_range_is_the_best_of_those_tried(kind):
    layer = solved(method("rtn", range="search"), 3, kind)
    for row, group, part in groups():
        scale, zero, margin = oracles_fitting.searched_parameters(W[row, part], np.diag(GRAM)[part], 3, kind)
        # At the end of full_range's own range lies a tie, whichever range that is.
        if margin > FREE or kind == "full_range":
            assert layer.scales[row, group].item() == pytest.approx(scale, rel=1e-8)
            assert zeros_of(layer)[row, group] == pytest.approx(zero, rel=1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize(("bits", "kind"), [(2, "asymmetric"), (3, "asymmetric"), (2, "affine"), (3, "affine")])
def test_a_joint_search_takes_the_best_pair_of_ends(bits, kind):
    layer = solved(method("rtn", range="joint"), bits, kind)
    compared = 0
    for row, group, part in groups():
        own, importance = W[row, part], np.diag(GRAM)[part]
        scale, zero, margin, _ = oracles_fitting.jointly_searched_parameters(own, importance, bits, kind)
        if margin > FREE:
            compared += 1
            assert layer.scales[row, group].item() == pytest.approx(scale, rel=1e-8)
            assert zeros_of(layer)[row, group] == pytest.approx(zero, rel=1e-8, abs=1e-12)
    # A tie near any of the many ranges leaves a group out.
    assert compared >= ROWS


@pytest.mark.thorough
@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(1, 40),
    size=st.sampled_from([2, 8, 40]),
    bits=st.sampled_from([2, 3, 4]),
    kind=st.sampled_from(KINDS),
    offset=st.sampled_from([0.0, 3.0, -3.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    storage=st.sampled_from([torch.float16, torch.bfloat16, torch.float32]),
)
def test_a_joint_search_is_never_worse_than_a_search_of_equal_shares(
    seed, groups, size, bits, kind, offset, dtype, storage
):
    torch.manual_seed(seed)
    weights = torch.randn(groups, size, dtype=dtype) ** 3 + offset
    importance = torch.rand(groups, size, dtype=dtype) ** 2
    grid = Grid(bits, size, kind)

    def fitted(source: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        scales, zero_points = scales_and_zero_points(weights, grid, storage, source, importance)
        codes = nearest_codes(weights, scales[:, None], zero_points[:, None], grid)
        levels = dequantize(codes, scales[:, None], zero_points[:, None], grid.is_affine)
        return scales, zero_points, (importance * (levels - weights).square()).sum(dim=-1)

    (plain, plain_zeros, plain_loss), (both, both_zeros, joint_loss) = fitted("search"), fitted("joint")
    assert bool((joint_loss <= plain_loss).all())
    if kind in ("symmetric", "full_range"):
        assert torch.equal(plain, both)
        assert torch.equal(plain_zeros, both_zeros)
    elif kind == "asymmetric":
        assert torch.equal(both_zeros, both_zeros.round())
        assert bool(((both_zeros >= grid.lowest) & (both_zeros <= grid.highest)).all())


def test_ranges_shrink_to_two_fifths_and_equals_keep_the_widest():
    assert (SHRINKS[0], SHRINKS[-1], len(SHRINKS)) == (1.0, 0.4, 25)
    dead = LayerStatistics(torch.zeros(COLUMNS, COLUMNS), torch.zeros(COLUMNS), 0)
    grid, weight = Grid(3, GROUP, "asymmetric"), torch.from_numpy(W)
    plain, searched = (
        quantize_layer(weight, dead, grid, method("rtn", range=source)) for source in ("minmax", "search")
    )
    assert torch.equal(plain.scales, searched.scales)
    assert torch.equal(plain.codes, searched.codes)


@pytest.mark.parametrize("order", ["natural", "activation"])
@pytest.mark.parametrize(("bits", "kind"), [(2, "asymmetric"), (3, "symmetric"), (2, "affine")])
def test_refinement_tries_as_if_every_level_were_tried(bits, kind, order):
    point = ColumnSolver(lam=0.1, gamma=0.3, saliency="saliency", order=order)
    plain, refined = solved(point, bits, kind), solved(point.with_(refine=2), bits, kind)
    codes, margin = descended(W, objective_of(point), plain, bits, kind, passes=2, order=order)
    assert not np.array_equal(codes, plain.codes.numpy())
    assert_same(refined, codes, margin)
    assert torch.equal(refined.scales, plain.scales)


@pytest.mark.parametrize("passes", [1, 2])
def test_a_pass_goes_on_over_blocks_of_columns(passes):
    """Columns are taken in blocks of 64, whose changes the columns after them must know."""
    width, bits = 160, 2
    x, w = oracles.correlated_inputs(35, TOKENS, width), oracles.uneven_weight(36, ROWS, width)
    statistics, gram = of_inputs(x)
    plain, refined = (
        quantize_layer(torch.from_numpy(w), statistics, Grid(bits, 32, "asymmetric"), method("gptq", refine=count))
        for count in (0, passes)
    )
    codes, margin = descended(
        w, oracles.regularised_gram(gram, None, 0.01), plain, bits, "asymmetric", passes=passes, order="natural"
    )
    assert (codes != plain.codes.numpy())[:, 64:].any()
    assert_same(refined, codes, margin)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["asymmetric", "symmetric", "affine"])
@pytest.mark.parametrize("order", ["natural", "activation"])
@pytest.mark.parametrize("source", ["minmax", "search"])
def test_twenty_dead_channels_without_damping(source, order, kind):
    statistics, g = of_inputs(with_dead_channels(X))
    assert (np.diag(g) == 0).sum() == DEAD
    point = ColumnSolver(lam=0.0, range=source, order=order)
    plain, refined = (
        quantize_layer(torch.from_numpy(W), statistics, Grid(2, GROUP, kind), point.with_(refine=passes))
        for passes in (0, 2)
    )
    expected = oracles_fitting.columns_by_least_squares(W, g, 2, GROUP, kind, order=order, source=source)
    assert_same(plain, expected.codes, expected.margin, least=ROWS - 2)
    free = expected.margin > FREE
    assert np.allclose(plain.scales.numpy()[free], expected.scales[free], rtol=1e-8, atol=0)
    codes, margin = descended(W, g, plain, 2, kind, passes=2, order=order)
    assert_same(refined, codes, margin)
    assert plain.report.diagonal_floor == refined.report.diagonal_floor == 0


@pytest.mark.parametrize("name", ["gptaq", "gptaq-full"])
@pytest.mark.parametrize("order", ["natural", "activation"])
def test_with_a_shift_codes_are_refined_towards_the_shifted_weight(name, order):
    point = method(name, order=order)
    plain, refined = solved(point), solved(point.with_(refine=1))
    cross = oracles.cross_by_token(X_FLOAT, X)
    g = objective_of(point)
    target = oracles.shifted_target(W, g, cross, point.shift_strength)
    codes, margin = descended(target, g, plain, 2, "asymmetric", passes=1, order=order)
    assert_same(refined, codes, margin)


def test_activation_order_of_the_shifted_solvers_is_the_plain_order_of_a_sorted_layer():
    order = np.argsort(-np.diag(GRAM), kind="stable")
    sorted_statistics = LayerStatistics.from_inputs(
        torch.from_numpy(X[:, order].copy()), torch.from_numpy(X_FLOAT[:, order].copy())
    )
    grid = Grid(3, None, "asymmetric")  # one group: sorting does not change who shares a scale
    for name in ("gptq", "gptaq", "gptaq-full"):
        plain = method(name, static_groups=True)
        by_hand = quantize_layer(torch.from_numpy(W[:, order].copy()), sorted_statistics, grid, plain)
        ours = solved(method(name, order="activation"), 3, group=None)
        assert torch.equal(ours.codes[:, torch.from_numpy(order)], by_hand.codes), name
        assert torch.allclose(ours.scales, by_hand.scales)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["awq", "sarqc-gs"])
def test_a_scale_search_fits_the_grid_of_its_winner(name):
    plain, clipped, refined = (
        solved(method(name, **choices), 3) for choices in ({}, {"range": "search"}, {"range": "search", "refine": 2})
    )
    assert clipped.report.chosen["alpha"] == plain.report.chosen["alpha"]
    scale = plain.channel_scale
    assert torch.equal(clipped.channel_scale, scale)
    # By the definition: errors of W · s̃ count h / s̃², h of the search's own objective.
    objective = oracles_fitting.objective_of_search(name, W, X, 3, GROUP, "asymmetric")
    scaled, h = W * scale.numpy(), np.diag(objective) / scale.numpy() ** 2
    for row, group, part in groups():
        expected, zero, margin = oracles_fitting.searched_parameters(scaled[row, part], h[part], 3, "asymmetric")
        if margin > FREE:
            assert clipped.scales[row, group].item() == pytest.approx(expected, rel=1e-8)
            assert zeros_of(clipped)[row, group] == pytest.approx(zero, rel=1e-8)
    codes, margins = descended(
        scaled, objective / np.outer(scale.numpy(), scale.numpy()), clipped, 3, "asymmetric", passes=2
    )
    assert_same(refined, codes, margins)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name, entry in METHODS.items() if "refit" in entry.options])
def test_all_at_once_is_each_by_itself(name):
    fitting = {"range": "joint", "order": "activation", "refine": 3, "refit": 2}
    choices = {choice: value for choice, value in fitting.items()
               if choice in METHODS[name].options}  # fmt: skip
    base, lams = method(name, **choices), [0.0, 0.1, 0.3]
    assert base.fitting() == choices
    together = sweep_layer(torch.from_numpy(W), STATISTICS, Grid(2, GROUP, "asymmetric"), base, lams=lams)
    for index, lam in enumerate(lams):
        alone = solved(base.with_(lam=lam) if base.sweeps() else base)
        assert together.recon_loss[0, index] == alone.report.recon_loss
        assert {name: alone.report.chosen[name] for name in choices} == choices


def test_what_is_not_there_is_refused():
    for name, choices in (
        ("gptq", {"range": "widest"}),
        ("gptq", {"order": "random"}),
        ("gptq", {"refine": 31}),
        ("rtn", {"refine": -1}),
        ("rtn", {"refit": -1}),
        ("gptq", {"refit": 11}),
        ("signround", {"range": "joint"}),
        ("signround", {"refit": 1}),
        ("rtn", {"order": "activation"}),
        ("awq", {"order": "activation"}),
        ("omniquant", {"range": "search"}),
    ):
        with pytest.raises(Refused):
            method(name, **choices)
