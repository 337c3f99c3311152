"""Rotations of the residual stream: matrices and weights beside dense products, logits beside transformers."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from sarqc.errors import NumericalError, Refused
from sarqc.models.checkpoint import Checkpoint, read_checkpoint
from sarqc.models.hadamard import paley, shape_for
from sarqc.models.loading import load
from sarqc.models.rotated_files import RandomHadamard, RotatedFiles
from sarqc.models.rotation import RotatedCheckpoint, RotationKind, rotated
from sarqc.models.rotation_check import TOLERANCE, checked_logits, difference, logits_on
from tests.models.cases import CASES, make_checkpoint

CPU = torch.device("cpu")
TOKENS = torch.arange(7, 7 + 48).unsqueeze(0)


@pytest.mark.parametrize("order", [4, 12, 20, 28, 36, 44, 60, 68, 76, 104])
def test_paley_matrices_are_orthogonal(order):
    matrix = paley(order).astype(np.int64)
    assert set(np.unique(matrix)) == {-1, 1}
    np.testing.assert_array_equal(matrix @ matrix.T, order * np.eye(order, dtype=np.int64))


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (256, "Hadamard 256"), (4096, "Hadamard 4096"), (48, "Hadamard 12 ⊗ 4"), (896, "Hadamard 28 ⊗ 32"),
        (576, "Hadamard 36 ⊗ 16"), (960, "Hadamard 60 ⊗ 16"), (3072, "Hadamard 12 ⊗ 256"),
        (3584, "Hadamard 28 ⊗ 128"), (5120, "Hadamard 20 ⊗ 256"), (24, "Hadamard 12 ⊗ 2"), (12, "Hadamard 12"),
        (368, "23 blocks of Hadamard 16"), (50, "25 blocks of Hadamard 2"), (7, "7 blocks of Hadamard 1"),
    ],
)  # fmt: skip
def test_every_width_has_a_matrix(width, words):
    assert shape_for(width).words == words
    assert shape_for(width).width == width


def test_an_order_without_construction_is_an_error():
    with pytest.raises(ValueError, match="order 92"):
        paley(92)


def dense(width: int, seed: int) -> Tensor:
    """Q (D, D) by Kronecker products of numpy, with the signs of the generator."""
    shape, sylvester = shape_for(width), np.ones((1, 1))
    while len(sylvester) < shape.power:
        sylvester = np.kron(np.array([[1, 1], [1, -1]]), sylvester)
    block = sylvester if shape.small == 1 else np.kron(paley(shape.small), sylvester)
    whole = np.kron(np.eye(shape.blocks), block / np.sqrt(len(block)))
    signs = 1 - 2 * torch.randint(2, (width,), generator=torch.Generator().manual_seed(seed)).numpy()
    return torch.from_numpy(signs[:, None] * whole)


@pytest.mark.parametrize("width", [64, 48, 72, 368])
def test_products_are_those_with_the_dense_matrix(width):
    rows, q = torch.randn(700, width, dtype=torch.float64), RandomHadamard(width, 5)
    torch.testing.assert_close(q.rotate(rows), rows @ dense(width, 5))
    torch.testing.assert_close(q.rotate_back(rows), rows @ dense(width, 5).T)
    torch.testing.assert_close(q.rotate_back(q.rotate(rows)), rows)
    assert not torch.equal(q.signs, RandomHadamard(width, 6).signs)


def test_bits_do_not_depend_on_how_many_rows_are_turned_at_once():
    rows, q = torch.randn(500, 112, dtype=torch.float64), RandomHadamard(112, 0)
    before = rows.clone()
    alone = torch.cat([q.rotate(row.unsqueeze(0)) for row in rows])
    assert torch.equal(q.rotate(rows), alone)
    assert torch.equal(q.rotate_back(rows), torch.cat([q.rotate_back(row.unsqueeze(0)) for row in rows]))
    assert torch.equal(rows, before)


def by_hand(checkpoint: RotatedCheckpoint) -> dict[str, Tensor]:
    """All tensors of a rotated LLaMA, Mistral or Qwen in float64, by dense products."""
    config = checkpoint.original.config
    own = {name: value.double() for name, value in load_file(checkpoint.folder / "model.safetensors").items()}
    q = dense(config["hidden_size"], checkpoint.rotation.seed)
    made = dict(own)
    made["lm_head.weight"] = own.get("lm_head.weight", own["model.embed_tokens.weight"]) * own["model.norm.weight"] @ q
    made["model.embed_tokens.weight"] = own["model.embed_tokens.weight"] @ q
    made["model.norm.weight"] = torch.ones(len(q), dtype=torch.float64)
    for block in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{block}."
        readers = {
            "input_layernorm": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            "post_attention_layernorm": ("mlp.gate_proj", "mlp.up_proj"),
        }
        for norm, linears in readers.items():
            for linear in linears:
                made[f"{prefix}{linear}.weight"] = (
                    own[f"{prefix}{linear}.weight"] @ torch.diag(own[f"{prefix}{norm}.weight"]) @ q
                )
            made[f"{prefix}{norm}.weight"] = torch.ones(len(q), dtype=torch.float64)
        for linear in ("self_attn.o_proj", "mlp.down_proj"):
            made[f"{prefix}{linear}.weight"] = q.T @ own[f"{prefix}{linear}.weight"]
            if f"{prefix}{linear}.bias" in own:
                made[f"{prefix}{linear}.bias"] = q.T @ own[f"{prefix}{linear}.bias"]
        if checkpoint.rotation.kind == "r1+r2":
            width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
            r = dense(width, checkpoint.rotation.seed)
            of_values = torch.block_diag(*[r] * config["num_key_value_heads"])
            of_outputs = torch.block_diag(*[r] * config["num_attention_heads"])
            values, outputs = f"{prefix}self_attn.v_proj", f"{prefix}self_attn.o_proj.weight"
            made[f"{values}.weight"] = of_values.T @ made[f"{values}.weight"]
            made[outputs] = made[outputs] @ of_outputs
            if f"{values}.bias" in own:
                made[f"{values}.bias"] = made[f"{values}.bias"].double() @ of_values
    return made


DENSE = {
    "llama": {},
    "llama, odd sizes": {"hidden_size": 48, "head_dim": 12, "attention_bias": True, "mlp_bias": True},
    "llama, untied": {"tie_word_embeddings": False},
    "llama, fewer values": {"num_key_value_heads": 1, "attention_bias": True},
    "qwen2": {},
    "qwen3": {},
    "mistral, wide heads, no window": {},
}
Make = Callable[..., Checkpoint]


@pytest.fixture
def make(tmp_path: Path, tiny_llama: Path) -> Make:
    def made(case: str, **changes: object) -> Checkpoint:
        name = case if case in CASES else case.partition(",")[0]
        return read_checkpoint(make_checkpoint(name, tmp_path / "model", tiny_llama, **changes))

    return made


@pytest.mark.parametrize("kind", get_args(RotationKind))
@pytest.mark.parametrize("case", DENSE)
def test_weights_are_dense_products_rounded_once(make, case, kind):
    checkpoint = rotated(make(case, **DENSE[case]), kind, 3)
    expected, exact, stored = by_hand(checkpoint), RotatedFiles(checkpoint, is_rounded=False), RotatedFiles(checkpoint)
    assert expected.keys() == checkpoint.shapes.keys()
    for name, value in expected.items():
        assert checkpoint.shapes[name] == tuple(value.shape)
        torch.testing.assert_close(exact.read(name).double(), value, rtol=1e-5, atol=1e-6)
        dtype = CASES[case].dtype if case in CASES else torch.float32
        found = stored.read(name)
        assert found.dtype == dtype
        assert float((found == value.to(dtype)).double().mean()) > 0.99  # but for ties in the last bit of float64


@pytest.mark.parametrize("case", CASES)
def test_logits_of_every_family_stay(make, case, tmp_path):
    checkpoint = rotated(make(case), "r1+r2", 1)
    assert "values of heads rotated (Hadamard" in checkpoint.words
    original, apart = checked_logits(checkpoint, TOKENS, CPU, tmp_path / "scratch")
    assert 0 < apart < TOLERANCE
    loaded = load(checkpoint, CPU)
    assert difference(logits_on(loaded, TOKENS), original) < (1e-4 if CASES[case].dtype == torch.float32 else 0.2)
    if checkpoint.original.tied:
        assert loaded.model.get_input_embeddings().weight is not loaded.model.get_output_embeddings().weight
        assert f"head untied: +{4096 * 32 * loaded.stored_as('lm_head.weight').itemsize / 2**20:.3g} MiB" in (
            checkpoint.words
        )
    else:
        assert checkpoint.added_bytes == 0
        assert "untied" not in checkpoint.words


@pytest.mark.parametrize("kind", get_args(RotationKind))
def test_a_weight_is_turned_back(make, kind):
    checkpoint = rotated(make("llama"), kind, 2)
    files = RotatedFiles(checkpoint, is_rounded=False)
    for path in ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj"):
        name = f"model.layers.1.{path}.weight"
        back = files.to_original_basis(name, files.read(name))
        torch.testing.assert_close(back, files.original.read(name).double(), rtol=1e-4, atol=1e-5)


def test_a_column_without_input_is_that_of_the_original(make):
    folder = make("llama").folder
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.0.input_layernorm.weight"][3] = 0
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    files, name = RotatedFiles(rotated(read_checkpoint(folder), "r1", 2)), "model.layers.0.self_attn.q_proj.weight"
    back = files.to_original_basis(name, torch.zeros_like(tensors[name]))
    assert torch.equal(back[:, 3], tensors[name][:, 3].double())
    assert not back[:, :3].any()


def test_what_is_not_an_rms_norm_before_linears_is_refused_by_its_logits(make, tmp_path):
    """A role that is missing: the norm is 1, and its weight nowhere."""
    checkpoint = rotated(make("llama"), "r1", 1)
    columns = {name: norm for name, norm in checkpoint.rotation.columns.items() if "up_proj" not in name}
    wrong = replace(checkpoint, rotation=replace(checkpoint.rotation, columns=columns))
    with pytest.raises(Refused, match="gives other logits") as caught:
        checked_logits(wrong, TOKENS, CPU, tmp_path / "scratch")
    assert caught.value.field == "rotate"
    assert caught.value.fixes[0].values == {"rotate": "none"}


def test_numbers_that_do_not_fit_are_refused(make):
    checkpoint = make("qwen3_moe")
    path = checkpoint.folder / "model.safetensors"
    tensors = load_file(path)
    tensors["model.layers.0.input_layernorm.weight"].fill_(6e4)
    tensors["model.layers.0.self_attn.q_proj.weight"] *= 50
    save_file(tensors, path, {"format": "pt"})
    files = RotatedFiles(rotated(read_checkpoint(checkpoint.folder), "r1", 0))
    with pytest.raises(NumericalError, match="does not fit into"):
        files.read("model.layers.0.self_attn.q_proj.weight")


def test_widths_of_which_too_few_channels_are_mixed_are_refused(make):
    with pytest.raises(Refused, match="its largest power of two, 4, mixes too few") as caught:
        rotated(make("llama", hidden_size=92, head_dim=24), "r1", 0)
    assert caught.value.field == "rotate"
    checkpoint = make("llama", head_dim=4)
    with pytest.raises(Refused, match="for 4 channels of a head") as caught:
        rotated(checkpoint, "r1+r2", 0)
    assert caught.value.fixes[0].values == {"rotate": "r1"}
    assert rotated(checkpoint, "r1", 0).rotation.values == frozenset()


@pytest.mark.thorough
def test_a_decoder_without_a_written_family_is_refused(tmp_path, tiny_llama):
    config = GPT2Config(vocab_size=4096, n_positions=64, n_embd=32, n_layer=2, n_head=4)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_llama / name, tmp_path / "gpt2" / name)
    with pytest.raises(Refused, match="has no written family"):
        rotated(read_checkpoint(tmp_path / "gpt2"), "r1", 0)
