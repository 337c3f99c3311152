"""A sweep over λ and γ is the single solves, point for point."""

from dataclasses import replace

import pytest
import torch

from sarqc import Grid, LayerStatistics, method, quantize_layer, sweep_layer
from sarqc.quantization import column_solver
from sarqc.quantization.auto_by_layer import SelectionJob, select_layers
from sarqc.quantization.methods import Method
from sarqc.quantization.quantized_layer import CheckedLayer
from sarqc.quantization.solve import only_solved, quantize
from sarqc.quantization.solving import Context, LayerJob
from tests import oracles

ROWS, COLUMNS = 6, 64
X = torch.from_numpy(oracles.correlated_inputs(71, 192, COLUMNS))
X_VAL = torch.from_numpy(oracles.correlated_inputs(72, 96, COLUMNS))
W = torch.from_numpy(oracles.uneven_weight(73, ROWS, COLUMNS))
STATISTICS, HELD_OUT = LayerStatistics.from_inputs(X), LayerStatistics.from_inputs(X_VAL)
FIELDS = (
    "recon_loss",
    "sar_loss",
    "drift",
    "relative_recon",
    "relative_drift",
    "held_out_loss",
    "relative_held_out",
    "diagonal_floor",
)
LAMS = (1.0, 0.0, 0.01, 0.3)  # not in order on purpose


def at(method_: Method, lam: float, gamma: float | None) -> Method:
    return replace(method_, lam=lam) if gamma is None else replace(method_, lam=lam, gamma=gamma)


@pytest.mark.parametrize(("name", "gammas"), [("rqc-gbs", (None,)), ("sarqc-gbs", (0.1, 0.5))])
def test_a_singular_point_does_not_touch_its_neighbours(name, gammas):
    """Twelve tokens for 64 channels: λ = 0 needs a floor, λ > 0 does not, in the same batch."""
    statistics = LayerStatistics.from_inputs(X[:12])
    grid = Grid(3, 32, "asymmetric")
    sweep = sweep_layer(W, statistics, grid, method(name), lams=LAMS, gammas=gammas, held_out=HELD_OUT)
    floors = torch.as_tensor(sweep.diagonal_floor)
    zero = LAMS.index(0.0)
    assert (floors[:, zero] > 0).all()
    others = [j for j in range(len(LAMS)) if j != zero]
    assert (floors[:, others] == 0).all()
    for i, gamma in enumerate(gammas):
        for j in others:
            single = quantize_layer(W, statistics, grid, at(method(name), LAMS[j], gamma), held_out=HELD_OUT)
            for field in FIELDS:
                value = float(torch.as_tensor(getattr(sweep, field))[i, j])
                assert value == pytest.approx(getattr(single.report, field), rel=1e-9), field
            assert torch.equal(sweep.dequantized(i, j).codes, single.codes)
        single = quantize_layer(W, statistics, grid, at(method(name), 0.0, gamma))
        assert float(floors[i, zero]) == single.report.diagonal_floor


def test_held_out_is_nan_where_there_is_none():
    for name in ("rqc-gbs", "sarqc-gs"):
        sweep = sweep_layer(W, STATISTICS, Grid(3, 32, "symmetric"), method(name), lams=(0.1, 1.0))
        for field in ("held_out_loss", "relative_held_out"):
            assert torch.isnan(torch.as_tensor(getattr(sweep, field))).all()
        assert torch.isfinite(torch.as_tensor(sweep.recon_loss)).all()


@pytest.mark.parametrize("name", ["sarqc-gbs", "sarqc-gptaq"])
def test_a_smaller_budget_takes_more_turns_and_changes_nothing(name, monkeypatch):
    """What is solved at once stays within the budget, counted in the tensors that the column solver holds."""
    solve_columns, turns = column_solver.solve_columns, []

    def counted(weight: torch.Tensor, factors: torch.Tensor, *others: object, **named: object) -> object:
        turns.append(factors.numel() * 8)
        return solve_columns(weight, factors, *others, **named)

    monkeypatch.setattr(column_solver, "solve_columns", counted)
    statistics = LayerStatistics.from_inputs(X, X + 0.05 * X.flip(0))
    grid, solver = Grid(3, 16, "asymmetric"), method(name)
    sweeps, counts = {}, []
    for budget in (1, 1 << 19, 1 << 30):
        turns.clear()
        sweeps[budget] = sweep_layer(
            W, statistics, grid, solver, lams=LAMS, gammas=(0.1, 0.5), held_out=HELD_OUT, budget_bytes=budget
        )
        assert sum(turns) == 8 * COLUMNS * COLUMNS * 8  # every candidate once
        assert max(turns) <= max(budget, COLUMNS * COLUMNS * 8)
        counts.append(len(turns))
    assert counts[0] == 8 > counts[1] > counts[2] == 1
    for field in FIELDS:
        for sweep in sweeps.values():
            torch.testing.assert_close(getattr(sweep, field), getattr(sweeps[1], field), rtol=1e-9, atol=0)


class SmallDevice:
    """A device with room for so many points at once; more raise what PyTorch raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.tried: list[int] = []
        solve = column_solver._Batch.of

        def of(points: list) -> column_solver._Batch:
            self.tried.append(len(points))
            if len(points) > room:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return solve(points)

        monkeypatch.setattr(column_solver._Batch, "of", of)


def test_a_batch_without_room_is_halved_and_that_is_said(monkeypatch):
    layer = CheckedLayer(W, STATISTICS, Grid(3, 16, "asymmetric"), HELD_OUT)
    job = LayerJob(layer, method("rqc-gbs").points(LAMS))
    plain = [solved.layer for solved in only_solved(quantize([job], Context()))]
    device = SmallDevice(monkeypatch, 1)
    small = [solved.layer for solved in only_solved(quantize([job], Context()))]
    assert device.tried == [4, 2, 1, 1, 1, 1]
    for one, other in zip(plain, small, strict=True):
        assert torch.equal(one.codes, other.codes)
        assert one.report.flags == ()
        assert other.report.flags == ("little_memory",)


def test_a_point_that_has_no_room_alone_is_an_error(monkeypatch):
    SmallDevice(monkeypatch, 0)
    with pytest.raises(torch.OutOfMemoryError):
        quantize_layer(W, STATISTICS, Grid(3, 16, "asymmetric"), method("rqc-gbs"))


def test_auto_says_that_its_candidates_had_no_room(monkeypatch):
    jobs = [SelectionJob("one", W, STATISTICS, HELD_OUT), SelectionJob("two", W, STATISTICS, HELD_OUT)]
    points = method("rqc-gbs").points(LAMS)
    plain = select_layers(jobs, Grid(3, 16, "asymmetric"), points)
    SmallDevice(monkeypatch, 3)
    small = select_layers(jobs, Grid(3, 16, "asymmetric"), points)
    for one, other in zip(plain, small, strict=True):
        assert torch.equal(one.codes, other.codes)
        assert one.report.candidates == other.report.candidates
        assert "little_memory" in other.report.flags
