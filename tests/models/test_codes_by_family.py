"""Codes of every family against a float64 reference: hooks in transformers, and Algorithm 2 as printed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from sarqc import method
from sarqc.calibration.job import SolvedLayer
from sarqc.calibration.pipeline import calibrate
from sarqc.engine.keys import describe, layer_keys
from tests import oracles
from tests.calibration.test_pipeline import a_plan, fresh
from tests.models.cases import CASES, make_checkpoint

LAM, GAMMA = 0.1, 0.5


def inputs_by_linear(folder: Path, sequences: Tensor) -> dict[str, Tensor]:
    """(tokens, I) in float64 for every linear; an expert's tokens are those that have it among their best two."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, experts_implementation="eager").eval()
    found: dict[str, Tensor] = {}

    def note(path: str) -> object:
        return lambda _module, given: found.update({path: given[0].flatten(0, -2)})

    for path, module in model.named_modules():
        is_mixture = path.endswith(".mlp") and hasattr(module, "experts")
        if is_mixture or (isinstance(module, nn.Linear) and ".layers." in path):
            module.register_forward_pre_hook(note(path))
    with torch.no_grad():
        model(sequences)
    tensors = {name: tensor.double() for name, tensor in load_file(folder / "model.safetensors").items()}
    for path in [path for path in found if path.endswith(".mlp")]:
        states, router = found[path], model.get_submodule(path).gate.weight
        best = (states @ router.double().T).argsort(dim=1, descending=True)[:, :2]
        stored = path.replace(".mlp", ".block_sparse_moe") if "mixtral" in model.config.model_type else path
        gate_name, up_name = ("w1", "w3") if "mixtral" in model.config.model_type else ("gate_proj", "up_proj")
        for expert in range(len(router)):
            own = states[(best == expert).any(dim=1)]
            gate, up = (tensors[f"{stored}.experts.{expert}.{name}.weight"] for name in (gate_name, up_name))
            found[f"{path}.experts.{expert}.gate_proj"] = found[f"{path}.experts.{expert}.up_proj"] = own
            found[f"{path}.experts.{expert}.down_proj"] = nn.functional.silu(own @ gate.T) * (own @ up.T)
    return found


@pytest.mark.parametrize("name", CASES)
def test_codes_are_those_of_the_reference(tiny_llama, tmp_path, name):
    folder = make_checkpoint(name, tmp_path / "float", tiny_llama)
    loaded, dtype = fresh(folder), CASES[name].dtype
    job = replace(a_plan(loaded, inputs_from="float"), method=method("sarqc-gbs", lam=LAM, gamma=GAMMA))
    weights = {layer.name: loaded.weight(layer.name).double().numpy().copy() for layer in loaded.checkpoint.layers}
    steps = calibrate(loaded, job, None, layer_keys(describe(loaded), job))
    solved = {step.info.name: step.quantized for step in steps if isinstance(step, SolvedLayer)}
    inputs = inputs_by_linear(folder, torch.from_numpy(job.sequences.calibration.copy()))
    rows, apart = 0, 0
    for path, layer in solved.items():
        x, weight = inputs[path].numpy(), weights[path]
        assert layer.report.n_tokens == len(x)
        if not len(x):
            continue
        s = oracles.saliency(np.abs(x).mean(axis=0), weight, GAMMA)
        g = oracles.regularised_gram(oracles.gram_by_token(x), s, LAM)
        expected = oracles.algorithm_2(
            weight, g, 3, 16, "asymmetric", store=lambda value: float(torch.tensor(value).to(dtype))
        )
        apart += int((layer.codes.numpy() != expected.codes).any(axis=1).sum())
        rows += len(weight)
        recon = oracles.recon_from_inputs(layer.dequantized.double().numpy() - weight, x)
        assert layer.report.recon_loss == pytest.approx(recon, rel=1e-3)
    assert rows > 500
    assert apart < 0.01 * rows  # a tie that float32 takes the other way, and what follows it in its row
