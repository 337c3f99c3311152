"""The walk from block to block is the model's own forward pass, and its statistics are sums over its inputs."""

from pathlib import Path

import pytest
import torch

from sarqc.calibration.capture import collect
from sarqc.models import walk as walk_module
from sarqc.models.loading import LoadedModel
from sarqc.models.walk import BlockWalk
from tests.calibration.test_pipeline import fresh, inputs_of


@pytest.fixture(scope="module")
def loaded(random_llama: Path) -> LoadedModel:
    return fresh(random_llama)


@pytest.fixture(scope="module")
def sequences() -> torch.Tensor:
    return torch.randint(0, 4096, (5, 24), generator=torch.Generator().manual_seed(1))


@pytest.mark.thorough
@pytest.mark.parametrize("batch_tokens", [1, 50, 100_000])
def test_the_walk_ends_where_the_model_does(loaded, sequences, monkeypatch, batch_tokens):
    monkeypatch.setattr(walk_module, "batch_tokens", lambda **_: batch_tokens)
    walk = BlockWalk(loaded, sequences)
    for block in loaded.blocks():
        walk.advance(walk.outputs(block))
    with torch.no_grad():
        logits = loaded.model.lm_head(loaded.model.model.norm(torch.cat(walk.hidden)))
        expected = loaded.model(sequences).logits
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)


def test_statistics_are_those_of_every_linear(loaded, sequences):
    seen = inputs_of(loaded, [layer.name for layer in loaded.checkpoint.layers], sequences)
    walk = BlockWalk(loaded, sequences)
    for index, block in enumerate(loaded.blocks()):
        statistics, outputs = collect(walk, block)
        assert set(statistics) == {path for group in loaded.groups(block) for path in group.linears}
        for path, found in statistics.items():
            tokens = seen[f"model.layers.{index}.{path}"].double().flatten(0, 1)  # (N, I)
            gram = sum(torch.outer(token, token) for token in tokens)
            torch.testing.assert_close(found.gram.double(), gram, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(found.abs_mean.double(), tokens.abs().mean(0), rtol=1e-5, atol=1e-6)
            assert found.n_tokens == 5 * 24
        assert statistics["self_attn.q_proj"] is statistics["self_attn.v_proj"]
        walk.advance(outputs)


def test_a_pass_without_outputs_ends_at_the_last_inputs(loaded, sequences, monkeypatch):
    monkeypatch.setattr(walk_module, "batch_tokens", lambda **_: 50)  # three batches
    walk, block = BlockWalk(loaded, sequences), loaded.blocks()[0]
    whole, _ = collect(walk, block)
    called = []
    handle = block.mlp.down_proj.register_forward_hook(lambda *_: called.append("down_proj"))
    statistics, outputs = collect(walk, block, outputs=False)
    handle.remove()
    assert (called, outputs) == ([], [])
    assert set(statistics) == set(whole)
    for path, found in statistics.items():
        assert torch.equal(found.gram, whole[path].gram)
        assert found.n_tokens == whole[path].n_tokens == sequences.numel()
    assert not any(module._forward_pre_hooks for module in block.modules())


def test_no_sequences_walk_nowhere(loaded):
    walk = BlockWalk(loaded, torch.empty((0, 24), dtype=torch.long))
    assert collect(walk, loaded.blocks()[0]) == ({}, [])
