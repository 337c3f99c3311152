"""What is written is read again: the same tokens as the model that was measured, or the report says where not."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sarqc import Grid, Recipe, execute
from sarqc.checkpoints.compressed_tensors import save_packed
from sarqc.checkpoints.formats import FORMATS
from sarqc.checkpoints.gptq import save_gptq
from sarqc.checkpoints.mlx import save_mlx
from sarqc.checkpoints.plain import save_plain
from sarqc.checkpoints.round_trip import read_again
from sarqc.events import Warned
from tests.checkpoints.made import logits, quantized
from tests.models.cases import make_checkpoint

pytestmark = pytest.mark.thorough

WRITERS = {"packed": save_packed, "gptq": save_gptq, "mlx": save_mlx}
WIDE = {"intermediate_size": 64, "num_key_value_heads": 4, "head_dim": 8}
CASES = [("qwen3", "plain", "asymmetric"), ("qwen3", "packed", "asymmetric"), ("qwen3_moe", "packed", "full_range"),
         ("llama", "gptq", "asymmetric"), ("qwen3_moe, one block dense", "gptq", "symmetric"),
         ("llama", "mlx", "symmetric"), ("mixtral", "mlx", "affine"), ("qwen3_moe", "mlx", "full_range")]  # fmt: skip


@pytest.mark.parametrize(("name", "checkpoint_format", "kind"), CASES)
def test_the_files_stand_for_the_model(tiny_llama, tmp_path, name, checkpoint_format, kind):
    more = {"moe_intermediate_size": 32} if name.startswith("qwen3_moe") else {}
    source = make_checkpoint(name, tmp_path / "float", tiny_llama, **WIDE, **more)
    loaded, layers, grids = quantized(source, Grid(4, 32, kind))
    folder = tmp_path / "model"
    if checkpoint_format == "plain":
        save_plain(loaded, folder)
    else:
        WRITERS[checkpoint_format](loaded, layers, grids, folder)
    before = logits(loaded.model)
    for linear in layers:
        loaded.weight(linear).zero_()  # so that what is there afterwards is what was read
    assert len(read_again(loaded, folder, checkpoint_format)) == len(layers)
    assert torch.equal(logits(loaded.model), before)
    assert read_again(loaded, folder, checkpoint_format) == []


@pytest.fixture
def recipe(tiny_llama: Path, tmp_path: Path, text_file: Path) -> Recipe:
    folder = make_checkpoint("llama", tmp_path / "float", tiny_llama, **WIDE)
    return Recipe.parse({
        "model": str(folder), "bits": 3, "grid": "symmetric", "group_size": 32, "method": "rtn",
        "calibration": str(text_file), "samples": 2, "length": 32,
    })  # fmt: skip


@pytest.mark.parametrize("checkpoint_format", FORMATS)
def test_a_run_compares_the_tokens(recipe, fresh_settings, tmp_path, checkpoint_format):
    *_, finished = execute(
        recipe, fresh_settings, checkpoint_dir=tmp_path / "model", checkpoint_format=checkpoint_format
    )
    written = finished.summary["written"]
    assert (written["other_tensors"], written["tokens"], written["parts_at"]) == ([], 64, None)
    assert "the same 64 greedy tokens" in written["words"]
    assert written["words"] in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")


def test_a_file_that_says_something_else_is_told(recipe, fresh_settings, tmp_path, monkeypatch):
    from sarqc.engine import saved_model

    def damaging(loaded, layers, grids, folder, card):
        save_gptq(loaded, layers, grids, folder, card)
        tensors = load_file(folder / "model.safetensors")
        for name, tensor in tensors.items():
            if name.endswith("v_proj.scales"):
                tensors[name] = 3 * tensor
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    monkeypatch.setitem(saved_model._WITH_CODES, "gptq", damaging)
    *events, finished = execute(
        recipe, fresh_settings, checkpoint_dir=tmp_path / "model", checkpoint_format="gptq"
    )  # fmt: skip
    written = finished.summary["written"]
    assert written["other_tensors"] == [f"model.layers.{block}.self_attn.v_proj.weight" for block in range(3)]
    assert written["parts_at"] is not None
    assert f"number {written['parts_at'] + 1} is the first other" in written["words"]
    assert [event.what for event in events if isinstance(event, Warned)] == [written["words"]]
