"""The dry run of the largest block and linear: the functions of the run, on random numbers, without a trace."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sarqc import method, quantize_layer
from sarqc.calibration import dry_run as module
from sarqc.calibration import pipeline
from sarqc.calibration.dry_run import dry_run, largest_block, largest_linear, random_linears
from sarqc.calibration.job import CalibrationJob, Curves
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, load
from sarqc.models.walk import BlockWalk
from tests.calibration.test_pipeline import a_plan, fresh
from tests.models.cases import make_checkpoint
from tests.pretend_device import pretend, pretended

BUDGET = 1 << 28


@pytest.fixture
def loaded(random_llama: Path) -> LoadedModel:
    return fresh(random_llama)


def inputs_of(loaded: LoadedModel, job: CalibrationJob) -> tuple:
    """Name, weight and statistics of the largest linear as a dry run with seed 0 draws them."""
    random = torch.Generator().manual_seed(0)
    for walk in pipeline.Walks(loaded, job).all():  # the batches of states are drawn first
        for states in walk.hidden[:1]:
            torch.randn(states.shape, generator=random)
    layers, weights, statistics = random_linears(loaded, job, random)
    [path] = layers
    return layers[path].name, weights[path], statistics[path]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["rtn", "gptq", "sarqc-gbs", "gptaq", "awq"])
def test_the_linear_is_solved_as_any_layer_is(loaded, name):
    job = a_plan(loaded, name)
    [solved] = dry_run(loaded, job, budget_bytes=BUDGET)
    layer, weight, statistics = inputs_of(loaded, job)
    assert layer == "model.layers.0.mlp.gate_proj"  # 48 × 32, before up_proj and down_proj of the same size
    expected = quantize_layer(weight, statistics, job.grids[layer], job.method)
    assert torch.equal(solved.codes, expected.codes)
    assert torch.equal(solved.dequantized, expected.dequantized)
    assert solved.report.recon_loss == expected.report.recon_loss > 0


def test_every_point_of_a_curve_is_solved_in_one_batch(loaded, monkeypatch):
    """As many candidates at once as the run has: these are what fills a device."""
    from sarqc.quantization import column_solver

    sizes, together = [], column_solver._solve_together

    def counted(points: list, recorder: object) -> object:
        sizes.append(len(points))
        return together(points, recorder)

    monkeypatch.setattr(column_solver, "_solve_together", counted)
    job = replace(a_plan(loaded), curves=Curves(lams=(0.0, 0.5, 1.0, 2.0)))
    dry_run(loaded, job, budget_bytes=BUDGET)
    assert sizes == [5]
    dry_run(loaded, job, budget_bytes=BUDGET, points=job.method.points((0.1, 0.2, 0.3), (0.0, 1.0)))
    assert sizes == [5, 6]


@pytest.mark.parametrize("name", ["omniquant", "signround"])
def test_a_learned_block_is_learned_for_one_step_or_epoch(loaded, name):
    job = a_plan(loaded, name)
    solved = dry_run(loaded, job, budget_bytes=BUDGET)
    assert len(solved) == 7
    assert {one.report.chosen["epochs"] for one in solved} == {1}


def test_a_foldable_search_gets_the_whole_block(loaded):
    job = replace(a_plan(loaded), method=method("awq", mode="foldable"))
    assert len(dry_run(loaded, job, budget_bytes=BUDGET)) == 7


def test_one_batch_passes_through_the_largest_block_alone(loaded, monkeypatch):
    passed, run = [], BlockWalk.run

    def noted(walk: BlockWalk, block: torch.nn.Module, hidden: torch.Tensor, batch: int) -> torch.Tensor:
        passed.append((next(i for i, one in enumerate(loaded.blocks()) if one is block), tuple(hidden.shape)))
        return run(walk, block, hidden, batch)

    monkeypatch.setattr(BlockWalk, "run", noted)
    monkeypatch.setattr("sarqc.models.walk.batch_tokens", lambda **_: 64)  # two sequences of 32 tokens
    dry_run(loaded, a_plan(loaded), budget_bytes=BUDGET)
    largest = largest_block(loaded)
    assert {number for number, _ in passed} == {largest}
    assert {shape for _, shape in passed} == {(2, 32, 32)}  # of six sequences to calibrate on, and of two held out
    assert len(passed) == 4  # with hooks and without


def test_nothing_is_left_of_it(loaded):
    """Neither in the weights nor in the state of random numbers, nor in the result of the run after it."""
    before = {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}
    torch.manual_seed(7)
    state = torch.get_rng_state()
    dry_run(loaded, a_plan(loaded), budget_bytes=BUDGET)
    assert torch.equal(torch.get_rng_state(), state)
    after = loaded.model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())


def test_states_of_all_sequences_are_held_meanwhile(loaded, monkeypatch):
    """They fill a device beside the solver, although one batch of them is used."""
    alive: list[int] = []
    walks, solve = [], module.layer_batches

    class Kept(pipeline.Walks):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)
            import weakref

            walks.extend(weakref.ref(states) for walk in self.all() for states in walk.hidden)

    def noted(*given: object) -> object:
        alive.append(sum(one() is not None for one in walks))
        return solve(*given)

    monkeypatch.setattr(module, "Walks", Kept)
    monkeypatch.setattr(module, "layer_batches", noted)
    monkeypatch.setattr("sarqc.models.walk.batch_tokens", lambda **_: 64)
    dry_run(loaded, a_plan(loaded), budget_bytes=BUDGET)
    assert alive == [4]  # three batches to calibrate on and one held out
    assert not any(one() is not None for one in walks)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["rtn", "gptq", "sarqc-gbs", "gptaq", "awq", "signround"])
def test_on_a_device_it_is_the_same(random_llama, loaded, name):
    """With all tensors there, from the same random numbers: codes differ where a value lies next to a tie."""
    here = dry_run(loaded, a_plan(loaded, name), budget_bytes=BUDGET)
    with pretended():
        guest = load(read_checkpoint(random_llama), pretend())
        there = dry_run(guest, a_plan(guest, name), budget_bytes=BUDGET)
        assert len(there) == len(here)
        for one, other in zip(here, there, strict=True):
            assert other.codes.device.type == pretend().type
            assert (one.codes == other.codes.cpu()).float().mean() > 0.97


@pytest.mark.thorough
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", ["qwen3_moe, one block dense", "mixtral"])
def test_experts_of_a_block_are_solved_together(tmp_path, tiny_llama, name, streamed):
    """As a run solves them, whatever is in memory at once; the largest block need not have the largest linear."""
    checkpoint = read_checkpoint(make_checkpoint(name, tmp_path, tiny_llama))
    loaded = load(checkpoint, torch.device("cpu"), scratch=tmp_path if streamed else None)
    largest = largest_linear(checkpoint.layers)
    size = largest.shape[0] * largest.shape[1]
    assert size == max(rows * width for rows, width in (layer.shape for layer in checkpoint.layers))
    experts = [layer for layer in checkpoint.layers if layer.block == largest.block and layer.shape == largest.shape]
    solved = dry_run(loaded, a_plan(loaded), budget_bytes=BUDGET)
    assert len(solved) == (1 if largest.expert is None else len(experts))
    assert {tuple(one.codes.shape) for one in solved} == {largest.shape}


def test_the_largest_is_by_rows_times_columns(loaded):
    layers = loaded.checkpoint.layers
    assert largest_linear(layers).shape == (48, 32)
    assert largest_linear(layers[:4]).name == layers[0].name  # q_proj, o_proj are as large as each other
