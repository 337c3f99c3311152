"""Learned clipping in the blocks of a model, epoch by epoch, against plain OmniQuant on transformers' own blocks."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from transformers import AutoModelForCausalLM

from sarqc.calibration.job import SolvedLayer
from sarqc.calibration.pipeline import calibrate
from sarqc.engine.keys import describe, layer_keys
from sarqc.events import EpochDone
from sarqc.quantization.grid import Grid
from sarqc.quantization.methods import method
from tests import oracles_clipping
from tests.calibration.test_pipeline import a_plan, fresh

pytestmark = pytest.mark.thorough

EPOCHS, LAM = 3, 0.1


def blocks_of(folder: Path, sequences: Tensor) -> tuple[list[nn.Module], Tensor, list[Callable[..., Tensor]]]:
    """A model's blocks in float64, what the first one reads, and each as a function of weights by path and states."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval().requires_grad_(False)
    blocks, given = list(model.model.layers), dict[nn.Module, dict[str, Any]]()

    def note(block: nn.Module, _places: tuple[Tensor], names: dict[str, Any]) -> None:
        given[block] = names

    for block in blocks:
        block.register_forward_pre_hook(note, with_kwargs=True)
    model(sequences[:1], use_cache=False)

    def function_of(block: nn.Module) -> Callable[..., Tensor]:
        named = given[block]

        def run(weights: dict[str, Tensor], states: Tensor) -> Tensor:
            return functional_call(block, {f"{path}.weight": one for path, one in weights.items()}, (states,), named)

        return run

    return blocks, model.get_input_embeddings()(sequences), [function_of(block) for block in blocks]


def abs_means(block: nn.Module, paths: list[str], run: Callable[[], object]) -> dict[str, Tensor]:
    """mean|x| of the inputs (I,) of linears while a function runs."""
    found: dict[str, Tensor] = {}

    def noting(path: str) -> Callable[[nn.Module, tuple[Tensor]], None]:
        return lambda _linear, given: found.update({path: given[0].abs().flatten(0, -2).mean(dim=0)})

    hooks = [block.get_submodule(path).register_forward_pre_hook(noting(path)) for path in paths]
    run()
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize(("bits", "kind"), [(2, "symmetric"), (3, "asymmetric")])
def test_every_epoch_of_every_block(random_llama: Path, bits: int, kind: str) -> None:
    loaded = fresh(random_llama)
    chosen = method("sarqc-omniquant", lam=LAM, epochs=EPOCHS)
    grids = {layer.name: Grid(bits, 16, kind) for layer in loaded.checkpoint.layers}
    job = replace(a_plan(loaded), method=chosen, grids=grids)
    steps = list(calibrate(loaded, job, None, layer_keys(describe(loaded), job)))
    epochs = [step for step in steps if isinstance(step, EpochDone)]
    solved = {step.info.name: step.quantized for step in steps if isinstance(step, SolvedLayer)}
    assert len(epochs) == 3 * (EPOCHS + 1)

    sequences = torch.from_numpy(job.sequences.calibration.copy())
    blocks, states, functions = blocks_of(random_llama, sequences)
    float_states = states
    for index, (block, run) in enumerate(zip(blocks, functions, strict=True)):
        paths = [name.removeprefix(f"model.layers.{index}.") for name in solved if f".layers.{index}." in name]
        weights = {path: block.get_submodule(path).weight.clone() for path in paths}
        targets = run(weights, float_states)
        means = abs_means(block, paths, partial(run, weights, states))
        saliencies = {path: oracles_clipping.half_saliency(means[path], weights[path]) for path in paths}
        expected = oracles_clipping.omniquant(
            weights, saliencies, bits, kind, 16, run, list(states), list(targets), epochs=EPOCHS, lam=LAM,
            stored=torch.float32,
        )  # fmt: skip
        found = [step for step in epochs if step.block == index]
        assert found[0].recon == pytest.approx(expected.recon[0], rel=1e-4)
        assert found[0].sar == pytest.approx(expected.sar[0], rel=1e-4)
        # A tie that float32 takes the other way moves the gradients of what follows it: little beside what is learned.
        learned = max(expected.objective) - min(expected.objective)
        assert learned > 1e-3
        assert [step.objective for step in found] == pytest.approx(expected.objective, abs=0.1 * learned)
        # What is kept is the best epoch, by an error that is measured here.
        kept = {path: solved[f"model.layers.{index}.{path}"].dequantized.double() for path in paths}
        best = min(found, key=lambda step: step.objective)
        states, float_states = run(kept, states), targets
        assert float((states - targets).square().mean()) == pytest.approx(best.recon, rel=1e-4)
