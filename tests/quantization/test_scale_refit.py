"""Refit of scales: each round against least squares with its matrices written out, and what it leaves alone."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sarqc import Grid, LayerStatistics, method, quantize_layer
from sarqc.errors import Refused
from sarqc.quantization import scale_refit
from sarqc.quantization.counts import Workload
from sarqc.quantization.grid import dequantize_groups
from sarqc.quantization.methods import ColumnSolver
from sarqc.quantization.quantized_layer import CheckedLayer, ImportedCodes, QuantizedLayer
from sarqc.quantization.refinement import refined_codes
from sarqc.quantization.scale_refit import fitted_codes, refitted_scales
from sarqc.quantization.solve import only_solved, quantize
from sarqc.quantization.solving import Context, LayerJob
from sarqc.quantization.storage import Kind
from tests import oracles, oracles_fitting
from tests.quantizing import zeros_of

ROWS, COLUMNS, TOKENS, GROUP = 5, 48, 200, 16
X = oracles.correlated_inputs(51, TOKENS, COLUMNS)
X_FLOAT = X + 0.2 * oracles.correlated_inputs(52, TOKENS, COLUMNS)
W = oracles.uneven_weight(53, ROWS, COLUMNS)
GRAM = oracles.gram_by_token(X)
STATISTICS = LayerStatistics.from_inputs(torch.from_numpy(X), torch.from_numpy(X_FLOAT))
KINDS: tuple[Kind, ...] = ("symmetric", "full_range", "asymmetric", "affine")
FREE = 1e-7


def solved(point: Any, kind: Kind = "asymmetric", bits: int = 2, group: int | None = GROUP) -> QuantizedLayer:
    return quantize_layer(torch.from_numpy(W), STATISTICS, Grid(bits, group, kind), point)


def by_definition(
    target: oracles.Array, g: oracles.Array, start: QuantizedLayer, bits: int, kind: Kind, *, passes: int, rounds: int,
    order: str = "natural",
) -> tuple[oracles.Integers, oracles.Array, oracles.Array, oracles.Array]:  # fmt: skip
    """Codes, scales, zero points and margins of a solver's own codes after refinement and some rounds."""
    codes, scales = start.codes.numpy().astype(np.int64), start.scales.numpy().astype(np.float64)
    zeros = zeros_of(start).numpy().astype(np.float64)
    margin = np.full(len(target), np.inf)
    for number in range(rounds + 1):
        if number:
            new_scales, new_zeros = oracles_fitting.least_squares_scales(target, g, codes, scales, zeros, kind)
            before, after = (
                oracles_fitting.row_losses(target, g, codes, *own, kind)
                for own in ((scales, zeros), (new_scales, new_zeros))
            )
            is_less = (after < before) & (new_scales > 0).all(axis=1)
            scales = np.where(is_less[:, None], new_scales, scales)
            zeros = np.where(is_less[:, None], new_zeros, zeros)
        count = max(passes, 1) if number else passes
        codes, own = oracles_fitting.coordinate_descent(
            target, g, codes, scales, zeros, bits, kind, passes=count, order=order
        )
        margin = np.minimum(margin, own)
    return codes, scales, zeros, margin


def assert_same(layer: QuantizedLayer, expected: tuple[Any, ...], least: int = ROWS - 1) -> None:
    codes, scales, zeros, margin = expected
    free = margin > FREE
    assert free.sum() >= least
    assert np.array_equal(layer.codes.numpy()[free], codes[free])
    assert np.allclose(layer.scales.numpy()[free], scales[free], rtol=1e-7, atol=0)
    assert np.allclose(zeros_of(layer).numpy()[free], zeros[free], rtol=1e-7, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("passes", [0, 2])
@pytest.mark.parametrize(
    ("bits", "kind", "order"),
    [
        (2, "asymmetric", "natural"),
        (2, "asymmetric", "activation"),
        (3, "symmetric", "natural"),
        (2, "affine", "natural"),
        (3, "affine", "activation"),
    ],
)
def test_rounds_equal_least_squares_and_descent_by_definition(bits, kind, order, passes):
    point = ColumnSolver(lam=0.1, gamma=0.3, saliency="saliency", order=order)
    s = oracles.saliency(np.abs(X).mean(axis=0), W, 0.3)
    g = oracles.regularised_gram(GRAM, s, 0.1)
    plain = solved(point, kind, bits)
    for rounds in (1, 2):
        expected = by_definition(W, g, plain, bits, kind, passes=passes, rounds=rounds, order=order)
        layer = solved(point.with_(refine=passes, refit=rounds), kind, bits)
        assert_same(layer, expected)
    assert not np.allclose(expected[1], plain.scales.numpy(), rtol=1e-3)
    if kind == "asymmetric":
        assert torch.equal(layer.zero_points, plain.zero_points)


@pytest.mark.parametrize("group", [8, None])
@pytest.mark.parametrize("kind", ["asymmetric", "affine"])
def test_groups_of_any_size(kind, group):
    point = method("rqc-gbs", lam=0.1, static_groups=True)
    plain = solved(point, kind, 3, group)
    expected = by_definition(W, oracles.regularised_gram(GRAM, None, 0.1), plain, 3, kind, passes=1, rounds=1)
    assert_same(solved(point.with_(refine=1, refit=1), kind, 3, group), expected)


@pytest.mark.parametrize("name", ["gptaq", "gptaq-full"])
def test_with_a_shift_scales_are_fitted_to_the_shifted_weight(name):
    point = method(name)
    g = oracles.regularised_gram(GRAM, None, point.lam)
    target = oracles.shifted_target(W, g, oracles.cross_by_token(X_FLOAT, X), point.shift_strength)
    expected = by_definition(target, g, solved(point), 2, "asymmetric", passes=1, rounds=2)
    assert_same(solved(point.with_(refine=1, refit=2)), expected)


@pytest.mark.parametrize("kind", ["asymmetric", "affine"])
def test_rounding_to_nearest_is_refitted_on_the_gram_itself(kind):
    expected = by_definition(W, GRAM, solved(method("rtn", range="search"), kind, 3), 3, kind, passes=2, rounds=2)
    point = method("rtn", range="search", refine=2, refit=2)
    assert point.aim == method("rtn", refit=1).aim == "outputs"
    assert_same(solved(point, kind, 3), expected)


@pytest.mark.parametrize("name", ["awq", "sarqc-gs"])
def test_a_scale_search_is_refitted_in_the_coordinates_of_its_scaled_weight(name):
    plain = solved(method(name), bits=3)
    scale = plain.channel_scale
    objective = oracles_fitting.objective_of_search(name, W, X, 3, GROUP, "asymmetric")
    factors = scale.numpy()
    expected = by_definition(
        W * factors, objective / np.outer(factors, factors), plain, 3, "asymmetric", passes=1, rounds=1
    )
    layer = solved(method(name, refine=1, refit=1), bits=3)
    assert layer.report.chosen["alpha"] == plain.report.chosen["alpha"]
    assert_same(layer, expected)


@pytest.mark.thorough
@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    candidates=st.integers(1, 3),
    rows=st.integers(1, 6),
    groups=st.integers(1, 5),
    size=st.sampled_from([1, 4, 16, 40]),
    tokens=st.integers(0, 90),
    bits=st.sampled_from([2, 3, 8]),
    kind=st.sampled_from(KINDS),
    passes=st.integers(0, 3),
    storage=st.sampled_from([torch.float16, torch.bfloat16, torch.float64]),
    dead=st.booleans(),
    equal=st.booleans(),
    activation=st.booleans(),
)
def test_no_step_raises_the_objective_of_a_row(
    seed, candidates, rows, groups, size, tokens, bits, kind, passes,
    storage, dead, equal, activation,
):  # fmt: skip
    torch.manual_seed(seed)
    width = groups * size
    inputs = torch.randn(candidates, tokens, width).double() @ torch.randn(width, width).double()
    if dead:
        inputs[..., ::3] = 0
    gram, target = inputs.mT @ inputs, torch.randn(candidates, rows, width).double()
    grid = Grid(bits, size, kind)
    codes = torch.randint(grid.lowest, grid.highest + 1, (candidates, rows, width)).double()
    if equal:
        codes[..., :size] = grid.highest
    scales = (torch.rand(candidates, rows, groups) + 0.01).to(storage).double()
    zero_points = torch.zeros_like(scales)
    if kind == "asymmetric":
        zero_points = torch.randint(0, grid.highest + 1, scales.shape).double()
    elif kind == "affine":
        zero_points = torch.randn_like(scales).to(storage).double()

    def losses(codes: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor) -> torch.Tensor:
        delta = dequantize_groups(codes, scales, zero_points, grid.is_affine) - target
        return torch.einsum("coi,cij,coj->co", delta, gram, delta)

    room = 1e-9 * losses(codes, scales, zero_points).max()
    settings = {"gram": gram, "grid": grid, "storage": storage}
    now = (codes, scales, zero_points)
    orders = gram.diagonal(dim1=-2, dim2=-1).argsort(descending=True, stable=True) if activation else None
    for _ in range(3):
        new_scales, new_zeros = refitted_scales(target, *now, **settings)  # type: ignore[arg-type]
        after = (now[0], new_scales, new_zeros)
        assert bool((losses(*after) <= losses(*now) + room).all())
        assert bool((new_scales > 0).all())
        assert torch.equal(new_scales.to(storage).double(), new_scales)
        assert torch.equal(new_zeros.to(storage).double(), new_zeros) or kind == "asymmetric"
        assert kind == "affine" or torch.equal(new_zeros, now[2])
        moved = refined_codes(target, *after, gram, grid, passes=max(passes, 1), orders=orders)
        assert bool(((moved >= grid.lowest) & (moved <= grid.highest)).all())
        now = (moved, new_scales, new_zeros)
        assert bool((losses(*now) <= losses(*after) + room).all())
    for rounds in (1, 3, 10):
        fitted = fitted_codes(target, codes, scales, zero_points, passes=passes, rounds=rounds, **settings)  # type: ignore[arg-type]
        assert bool((losses(*fitted) <= losses(codes, scales, zero_points) + room).all())


@pytest.mark.parametrize("kind", ["asymmetric", "affine"])
def test_a_group_that_decides_nothing_keeps_its_numbers(kind):
    """Dead channels, codes at the zero point, equal codes of the affine grid: as they were, the others as without."""
    x = X.copy()
    x[:, :GROUP] = 0
    gram = torch.from_numpy(oracles.gram_by_token(x))[None]
    grid, target = Grid(3, GROUP, kind), torch.from_numpy(W)[None]
    plain = solved(method("rtn"), kind, 3)
    codes, scales, zeros = (part[None].double() for part in (plain.codes, plain.scales, zeros_of(plain)))
    codes[..., GROUP : 2 * GROUP] = zeros[..., 1:2] if kind == "asymmetric" else 5.0
    new_scales, new_zeros = refitted_scales(target, codes, scales, zeros, gram, grid, torch.float64)
    assert torch.equal(new_scales[..., :2], scales[..., :2])
    assert torch.equal(new_zeros[..., :2], zeros[..., :2])
    expected, expected_zeros = oracles_fitting.least_squares_scales(
        W, gram[0].numpy(), codes[0].numpy().astype(np.int64), scales[0].numpy(), zeros[0].numpy(), kind
    )
    assert np.allclose(new_scales[0].numpy(), expected, rtol=1e-8)
    assert np.allclose(new_zeros[0].numpy(), expected_zeros, rtol=1e-8, atol=1e-12)


def test_a_scale_never_turns_round():
    """Codes of the opposite sign would take a negative scale: their group keeps its own, the row's others improve."""
    grid, target = Grid(3, GROUP, "symmetric"), torch.from_numpy(W)[None]
    plain = solved(method("rtn"), "symmetric", 3)
    codes, scales = plain.codes[None].double(), plain.scales[None].double()
    codes[..., :GROUP] = -codes[..., :GROUP]
    new_scales, _ = refitted_scales(
        target, codes, scales, torch.zeros_like(scales), torch.from_numpy(GRAM)[None], grid, torch.float64
    )
    assert torch.equal(new_scales[..., 0], scales[..., 0])
    assert bool((new_scales > 0).all())


def test_some_rows_at_a_time_are_all_rows(monkeypatch):
    shapes = []
    made = scale_refit._normal_matrix

    def watched(basis: torch.Tensor, gram: torch.Tensor, is_affine: bool) -> torch.Tensor:
        matrix = made(basis, gram, is_affine)
        shapes.append(matrix.shape)
        return matrix

    monkeypatch.setattr(scale_refit, "_normal_matrix", watched)
    weight = torch.from_numpy(oracles.uneven_weight(54, 70, COLUMNS))
    grid = Grid(2, 2, "affine")
    point = method("rqc-gbs", lam=0.1, static_groups=True, refit=1)
    together = quantize_layer(weight, STATISTICS, grid, point)
    assert max(shape.numel() for shape in shapes) <= COLUMNS * COLUMNS
    assert sum(shape[1] for shape in shapes) == len(weight)
    for row in (0, 33, 69):
        alone = quantize_layer(weight[row : row + 1], STATISTICS, grid, point)
        assert torch.equal(alone.codes[0], together.codes[row])
        assert torch.allclose(alone.scales[0], together.scales[row])


def test_scales_of_a_quantized_checkpoint_are_not_refitted():
    layer = solved(method("gptq"))
    found = ImportedCodes(layer.codes, layer.scales, layer.zero_points, layer.dequantized)
    checked = CheckedLayer(
        torch.from_numpy(W), STATISTICS, Grid(2, GROUP, "asymmetric"), None, imported=found, name="q"
    )
    with pytest.raises(Refused, match="scales that stay") as refused:
        list(only_solved(quantize([LayerJob(checked, [method("gptq", refit=1)])], Context())))
    assert "Set refit to 0" in refused.value.remedy


def test_work_grows_with_rounds():
    work = Workload(
        shapes=((256, 256),) * 4, block_weights=4 * 256 * 256, bits=2, group_size=64, points=1, together=1, sequences=8,
        length=64, walks=1, budget_bytes=1 << 30,
    )  # fmt: skip
    for name in ("rtn", "awq", "gptq"):
        plain, once, twice = (method(name, refine=2, refit=rounds).count(work) for rounds in (0, 1, 2))
        assert once.losses - plain.losses == pytest.approx(3 * 2 * 4 * 256**3)
        assert twice.solves - once.solves == pytest.approx(once.solves - plain.solves)
        # Two passes, and the equations of at most two unknowns for each of the four groups.
        assert once.solves - plain.solves == pytest.approx(2 * 1.5 * 4 * 256**3 + 4 * 256 * 8**3 / 3)
        ranges = [method(name, range=source).count(work).rounded for source in ("minmax", "search", "joint")]
        assert (ranges[1] - ranges[0], ranges[2] - ranges[0]) == (25 * 4 * 256**2, 83 * 4 * 256**2)
        assert method(name, refit=1).working_bytes(work) > method(name, refine=1).working_bytes(work)
