"""Weights that are NaN or infinite: refused while the checkpoint is read, by the name of the tensor."""

import math
from pathlib import Path

import pytest
import safetensors.torch
import torch

from sarqc import Recipe, execute
from sarqc.errors import Refused
from sarqc.events import Stage
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import load
from sarqc.settings import Settings
from tests.models.cases import make_checkpoint
from tests.models.damaged import linked, rewritten

LINEAR = "model.layers.2.mlp.down_proj.weight"
EMBEDDING = "model.embed_tokens.weight"
NORM = "model.layers.1.post_attention_layernorm.weight"


def with_value(folder: Path, copy: Path, name: str, value: float, dtype: torch.dtype | None = None) -> Path:
    """Return the checkpoint with the last number of one tensor replaced, in another dtype where one is given."""
    linked(folder, copy)
    tensors = safetensors.torch.load_file(copy / "model.safetensors")
    changed = tensors[name].to(dtype or tensors[name].dtype, copy=True)
    changed.view(-1)[-1] = value
    rewritten(copy / "model.safetensors", safetensors.torch.save(tensors | {name: changed}, {"format": "pt"}))
    return copy


def note_stages(recipe: Recipe, settings: Settings, stages: list[str]) -> None:
    stages.extend(event.name for event in execute(recipe, settings) if isinstance(event, Stage))


@pytest.mark.thorough
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", [LINEAR, EMBEDDING, NORM])
@pytest.mark.parametrize("kind", ["run", "tune"])
def test_a_run_refuses_before_any_work(random_llama, text_file, tmp_path, fresh_settings, name, value, kind):
    damaged = with_value(random_llama, tmp_path / "damaged", name, value)
    size = len(safetensors.torch.load_file(damaged / "model.safetensors")[name].view(-1))
    recipe = Recipe.parse({
        "model": str(damaged), "kind": kind, "group_size": 16, "calibration": str(text_file), "samples": 4,
        "length": 32, "held_out_samples": 2, "test": str(text_file), "window": 32, "test_tokens": 320,
    })  # fmt: skip
    stages: list[str] = []
    with pytest.raises(Refused) as refused:
        note_stages(recipe, fresh_settings, stages)
    assert refused.value.what == f"{name} has NaN or infinity among its values (1 of {size})"
    assert refused.value.where == str(damaged)
    assert refused.value.remedy
    assert stages[-1] == "loading"


@pytest.mark.parametrize("expert", ["gate_proj", "up_proj", "down_proj"])
def test_an_expert_is_named(tiny_llama, tmp_path, expert):
    whole = make_checkpoint("qwen3_moe", tmp_path / "whole", tiny_llama)
    name = f"model.layers.1.mlp.experts.2.{expert}.weight"
    damaged = with_value(whole, tmp_path / "damaged", name, math.inf)
    with pytest.raises(Refused, match=name.replace(".", r"\.")):
        load(read_checkpoint(damaged), torch.device("cpu"))


def test_a_streamed_block_is_looked_at_when_it_comes(random_llama, tmp_path):
    damaged = with_value(random_llama, tmp_path / "damaged", LINEAR, math.nan)
    loaded = load(read_checkpoint(damaged), torch.device("cpu"), scratch=tmp_path / "scratch")
    blocks = loaded.blocks()
    with loaded.at(blocks[1]):
        assert torch.isfinite(loaded.weight("model.layers.1.mlp.down_proj")).all()
    with pytest.raises(Refused, match="NaN or infinity"), loaded.at(blocks[2]):
        pass


def test_a_value_beyond_the_dtype_of_the_run_counts_as_infinite(random_llama, tmp_path):
    damaged = with_value(random_llama, tmp_path / "damaged", LINEAR, 1e300, torch.float64)
    with pytest.raises(Refused, match=r"down_proj\.weight has NaN or infinity"):
        load(read_checkpoint(damaged), torch.device("cpu"))
