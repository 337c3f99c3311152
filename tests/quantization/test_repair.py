"""Codes on scales that were found: solved anew, descended to, or left as they are, against loops in float64."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from sarqc import Grid, LayerStatistics
from sarqc.errors import Refused
from sarqc.quantization.auto_by_layer import SelectionJob
from sarqc.quantization.grid import round_to_grid
from sarqc.quantization.methods import ColumnSolver, ExistingCodes, FoundDescent, Method
from sarqc.quantization.quantized_layer import CheckedLayer, ImportedCodes, QuantizedLayer
from sarqc.quantization.repair import UNCHANGED, WORSE, repair_layer
from sarqc.quantization.solve import only_solved, quantize
from sarqc.quantization.solving import Context, LayerJob
from sarqc.quantization.storage import Kind
from tests.oracles import correlated_inputs, regularised_gram, uneven_weight

ROWS, WIDTH = 5, 24
KINDS: tuple[Kind, ...] = ("full_range", "asymmetric", "affine")


def level(code: int, scale: float, zero: float, kind: str) -> float:
    return scale * code + zero if kind == "affine" else (code - zero) * scale


def nearest(value: float, scale: float, zero: float, grid: Grid) -> int:
    """By looking at every level."""
    return min(range(grid.lowest, grid.highest + 1), key=lambda code: abs(level(code, scale, zero, grid.kind) - value))


def column_by_column(weight: np.ndarray, g: np.ndarray, found: ImportedCodes, grid: Grid) -> np.ndarray:
    """Before a column is rounded, those to come take the values that minimise tr(ΔW G ΔWᵀ) given the errors made."""
    scales, zeros = found.scales.double().numpy(), found.zero_points.double().numpy()
    size = weight.shape[1] // scales.shape[1]
    codes = np.zeros(weight.shape, dtype=int)
    for row in range(len(weight)):
        error = np.zeros(weight.shape[1])
        for j in range(weight.shape[1]):
            done, rest = slice(0, j), slice(j, None)
            shift = -np.linalg.solve(g[rest, rest], g[rest, done] @ error[done])[0] if j else 0.0
            scale, zero = scales[row, j // size], zeros[row, j // size]
            codes[row, j] = nearest(weight[row, j] + shift, scale, zero, grid)
            error[j] = level(codes[row, j], scale, zero, grid.kind) - weight[row, j]
    return codes


def of_one_text(seed: int) -> tuple[LayerStatistics, LayerStatistics]:
    """Of the first and of the other half of its tokens."""
    first, second = torch.from_numpy(correlated_inputs(seed, 400, WIDTH)).chunk(2)
    return LayerStatistics.from_inputs(first), LayerStatistics.from_inputs(second)


def a_layer(kind: Kind, group_size: int, seed: int = 0) -> tuple[torch.Tensor, LayerStatistics, ImportedCodes, Grid]:
    """Return a weight rounded to a coarser grid than its own extremes ask for."""
    weight = torch.from_numpy(uneven_weight(seed, ROWS, WIDTH))
    statistics, _ = of_one_text(seed + 1)
    grid = Grid(3, group_size, kind)
    codes, scales, zeros = round_to_grid(0.8 * weight, Grid(3, max(group_size, 8), kind), torch.float64)
    if group_size == 1:  # as where channels of a group stand apart: each has the scale of its group
        scales, zeros = (part.repeat_interleave(8, dim=1) for part in (scales, zeros))
    found = ImportedCodes(codes.to(torch.int8), scales, zeros, weight, kind == "affine")
    return weight, statistics, replace(found, weight=found.weight_of(codes)), grid


def solved(layer: CheckedLayer, point: Method) -> QuantizedLayer:
    return next(only_solved(quantize([LayerJob(layer, [point])], Context()))).layer


@pytest.mark.parametrize(("kind", "group_size"), itertools.product(KINDS, (1, 8, WIDTH)))
def test_solving_on_found_scales_is_the_columns_one_by_one(kind, group_size):
    weight, statistics, found, grid = a_layer(kind, group_size)
    layer = CheckedLayer(weight, statistics, grid, None, imported=found)
    made = solved(layer, ColumnSolver(lam=0.05))
    g = regularised_gram(statistics.gram.numpy(), None, 0.05)
    assert made.codes.tolist() == column_by_column(weight.numpy(), g, found, grid).tolist()
    assert torch.equal(made.scales, found.scales)
    assert torch.equal(made.dequantized, found.weight_of(made.codes))
    assert made.report.recon_loss < solved(layer, ExistingCodes()).report.recon_loss


@pytest.mark.parametrize("kind", KINDS)
def test_descent_from_the_codes_found_takes_each_column_to_its_best_level(kind):
    weight, statistics, found, grid = a_layer(kind, 8)
    g = regularised_gram(statistics.gram.numpy(), None, 0.2)
    scales, zeros = (part.repeat_interleave(8, dim=1).numpy() for part in (found.scales, found.zero_points))
    codes, own = found.codes.numpy().astype(int), weight.numpy()
    for row, j in itertools.product(range(ROWS), range(WIDTH)):

        def objective(code: int, row: int = row, j: int = j) -> float:
            delta = np.array([level(codes[row, i] if i != j else code, scales[row, i], zeros[row, i], kind)
                              for i in range(WIDTH)]) - own[row]  # fmt: skip
            return float(delta @ g @ delta)

        codes[row, j] = min(range(grid.lowest, grid.highest + 1), key=objective)
    layer = CheckedLayer(weight, statistics, grid, None, imported=found)
    made = solved(layer, FoundDescent.of(ColumnSolver(lam=0.2)).with_(refine=1))
    assert made.codes.tolist() == codes.tolist()


def test_a_group_without_a_scale_stays_at_nothing_and_a_negative_scale_is_one():
    weight, statistics, found, grid = a_layer("full_range", 8)
    scales = found.scales.clone()
    scales[0, 1], scales[2, 0] = 0.0, -scales[2, 0]
    codes = found.codes.clone()
    codes[2, :8] = (-codes[2, :8].int()).clamp(grid.lowest, grid.highest).to(torch.int8)
    found = replace(found, scales=scales, codes=codes)
    found = replace(found, weight=found.weight_of(codes))
    layer = CheckedLayer(weight, statistics, grid, None, imported=found)
    before = solved(layer, ExistingCodes())
    for point in (ColumnSolver(lam=0.01), FoundDescent.of(ColumnSolver(lam=0.0))):
        made = solved(layer, point)
        assert torch.equal(made.dequantized[0, 8:16], torch.zeros(8, dtype=torch.float64))
        assert torch.isfinite(made.dequantized).all()
        assert made.report.recon_loss < before.report.recon_loss


def test_codes_stay_where_nothing_is_better_on_what_they_are_judged_by():
    weight, statistics, found, grid = a_layer("asymmetric", 8)
    _, unseen = of_one_text(1)
    job = SelectionJob("one", weight, statistics, unseen, unseen, found)
    best = repair_layer(job, grid, [ColumnSolver(lam=0.05)])
    assert best.report.chosen["best_validation"] < best.report.chosen["found_validation"]
    assert best.report.flags == ()
    assert best.report.held_out_loss < solved(
        CheckedLayer(weight, statistics, grid, unseen, imported=found), ExistingCodes()
    ).report.held_out_loss  # fmt: skip

    settled = solved(CheckedLayer(weight, unseen, grid, None, imported=found), FoundDescent(lam=0.0, refine=30))
    found = replace(found, codes=settled.codes, weight=settled.dequantized)  # the best for those inputs
    kept = repair_layer(replace(job, imported=found), grid, [ColumnSolver(lam=5.0)])
    assert torch.equal(kept.codes, found.codes)
    assert kept.report.flags == (UNCHANGED,)
    assert kept.report.chosen["best_validation"] == kept.report.chosen["found_validation"]


def test_what_is_worse_on_held_out_text_is_said():
    weight, statistics, found, grid = a_layer("asymmetric", 8)
    settled = solved(CheckedLayer(weight, statistics, grid, None, imported=found), FoundDescent(lam=0.0, refine=30))
    other, _ = of_one_text(9)
    found = replace(found, codes=settled.codes, weight=settled.dequantized)
    job = SelectionJob("one", weight, other, other, statistics, found)
    assert repair_layer(job, grid, [ColumnSolver(lam=0.01)]).report.flags == (WORSE,)


def test_of_several_points_both_ways_are_in_the_report():
    weight, statistics, found, grid = a_layer("asymmetric", 8)
    _, unseen = of_one_text(1)
    points = [ColumnSolver(lam=lam) for lam in (0.01, 0.3)]
    report = repair_layer(SelectionJob("one", weight, statistics, unseen, None, found), grid, points).report
    assert [row["lam"] for row in report.candidates] == [0.01, 0.01, 0.3, 0.3]
    assert min(row["validation"] for row in report.candidates) == pytest.approx(report.chosen["best_validation"])
    assert report.chosen["lam"] in (0.01, 0.3)


def test_codes_of_another_layer_are_refused():
    weight, statistics, found, grid = a_layer("asymmetric", 8)
    with pytest.raises(Refused, match="codes are"):
        CheckedLayer(weight[:3], statistics, grid, None, imported=found)
    with pytest.raises(Refused, match="no codes"):
        solved(CheckedLayer(weight, statistics, grid, None), ExistingCodes())
