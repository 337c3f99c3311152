"""The architecture of DeepSeek-MoE against one written for this test alone, token by token, in numpy."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from sarqc.errors import Refused
from sarqc.models import deepseek_moe
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.deepseek_moe import DeepseekConfig, DeepseekForCausalLM

PUBLISHED = {  # config.json of deepseek-ai/deepseek-moe-16b-base
    "architectures": ["DeepseekForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "auto_map": {
        "AutoConfig": "configuration_deepseek.DeepseekConfig",
        "AutoModel": "modeling_deepseek.DeepseekModel",
        "AutoModelForCausalLM": "modeling_deepseek.DeepseekForCausalLM",
    },
    "aux_loss_alpha": 0.001, "bos_token_id": 100000, "eos_token_id": 100001, "first_k_dense_replace": 1,
    "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 10944,
    "max_position_embeddings": 4096, "model_type": "deepseek", "moe_intermediate_size": 1408, "moe_layer_freq": 1,
    "n_routed_experts": 64, "n_shared_experts": 2, "norm_topk_prob": False, "num_attention_heads": 16,
    "num_experts_per_tok": 6, "num_hidden_layers": 28, "num_key_value_heads": 16, "pretraining_tp": 1,
    "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 10000.0, "scoring_func": "softmax", "seq_aux": True,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 102400,
}  # fmt: skip


def small(seed: int = 0, **changes: Any) -> DeepseekForCausalLM:
    """Return a model with weights so large, and so different, that no part of it could be left out unnoticed."""
    keys = {
        "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "moe_intermediate_size": 10,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "n_shared_experts": 2,
        "n_routed_experts": 7, "num_experts_per_tok": 3, "rope_theta": 500.0, "bos_token_id": None,
        "eos_token_id": None, "max_position_embeddings": 64,
    }  # fmt: skip
    model = DeepseekForCausalLM(DeepseekConfig(**keys | changes)).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        parameter.normal_(std=0.3, generator=generator)
        if name.endswith(("layernorm.weight", "norm.weight")):
            parameter.add_(1)
    return model


def in_float64(model: DeepseekForCausalLM) -> DeepseekForCausalLM:
    """Return the model in float64 throughout; the frequencies, which are float32 by construction, set to exact ones."""
    config = model.config
    exact = frequencies(config.hidden_size // config.num_attention_heads, config.rope_parameters["rope_theta"])
    rotary = model.model.rotary_emb
    assert np.allclose(rotary.inv_freq.numpy(), exact, rtol=1e-6, atol=0)
    model.double()
    rotary.inv_freq.copy_(torch.from_numpy(exact))
    return model


def frequencies(size: int, theta: float) -> np.ndarray:
    return np.array([theta ** (-2 * pair / size) for pair in range(size // 2)])


def tokens(*shape: int, seed: int = 0, vocabulary: int = 61) -> torch.Tensor:
    return torch.randint(0, vocabulary, shape, generator=torch.Generator().manual_seed(seed))


# The reference. One token and one head at a time; a head's two halves are one complex number for each frequency.


def reference_norm(vector: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return weight * vector / np.sqrt(np.dot(vector, vector) / len(vector) + eps)


def reference_mlp(vector: np.ndarray, weights: dict[str, np.ndarray], at: str) -> np.ndarray:
    gate = weights[f"{at}.gate_proj.weight"] @ vector
    silu = gate / (1 + np.exp(-gate))
    return weights[f"{at}.down_proj.weight"] @ (silu * (weights[f"{at}.up_proj.weight"] @ vector))


def reference_routing(vector: np.ndarray, router: np.ndarray, config: DeepseekConfig) -> dict[int, float]:
    """Return the weight of each chosen expert."""
    exponentials = [float(np.exp(row @ vector)) for row in router]
    shares = {expert: value / sum(exponentials) for expert, value in enumerate(exponentials)}
    chosen = sorted(shares, key=shares.__getitem__)[-config.num_experts_per_tok :]
    total = sum(shares[expert] for expert in chosen) if config.norm_topk_prob else 1.0
    return {expert: shares[expert] / total for expert in chosen}


def reference_moe(vector: np.ndarray, weights: dict[str, np.ndarray], at: str, config: DeepseekConfig) -> np.ndarray:
    result = reference_mlp(vector, weights, f"{at}.shared_experts") if config.n_shared_experts else 0 * vector
    for expert, share in reference_routing(vector, weights[f"{at}.gate.weight"], config).items():
        result = result + share * reference_mlp(vector, weights, f"{at}.experts.{expert}")
    return result


def reference_rotation(head: np.ndarray, position: int, theta: float) -> np.ndarray:
    half = len(head) // 2
    turned = (head[:half] + 1j * head[half:]) * np.exp(1j * position * frequencies(len(head), theta))
    return np.concatenate([turned.real, turned.imag])


def reference_attention(
    rows: list[np.ndarray], weights: dict[str, np.ndarray], at: str, config: DeepseekConfig
) -> list[np.ndarray]:
    size = config.hidden_size // config.num_attention_heads
    theta = config.rope_parameters["rope_theta"]

    def heads(name: str, row: np.ndarray) -> list[np.ndarray]:
        out = weights[f"{at}.{name}.weight"] @ row + weights.get(f"{at}.{name}.bias", 0.0)
        return [out[start : start + size] for start in range(0, len(out), size)]

    keys = [[reference_rotation(head, t, theta) for head in heads("k_proj", row)] for t, row in enumerate(rows)]
    values = [heads("v_proj", row) for row in rows]
    results = []
    for t, row in enumerate(rows):
        found = []
        for number, query in enumerate(heads("q_proj", row)):
            shared = number * config.num_key_value_heads // config.num_attention_heads
            turned = reference_rotation(query, t, theta)
            powers = [float(np.exp(turned @ keys[s][shared] / size**0.5)) for s in range(t + 1)]
            found.append(sum(power * values[s][shared] for s, power in enumerate(powers)) / sum(powers))
        bias = weights.get(f"{at}.o_proj.bias", 0.0)
        results.append(weights[f"{at}.o_proj.weight"] @ np.concatenate(found) + bias)
    return results


def reference(model: DeepseekForCausalLM, ids: list[int]) -> np.ndarray:
    """Logits of one sequence, (tokens, vocabulary)."""
    config = model.config
    weights = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    rows = [weights["model.embed_tokens.weight"][token] for token in ids]
    for block in range(config.num_hidden_layers):
        at = f"model.layers.{block}"
        norm, eps = weights[f"{at}.input_layernorm.weight"], config.rms_norm_eps
        normed = [reference_norm(row, norm, eps) for row in rows]
        mixed = reference_attention(normed, weights, f"{at}.self_attn", config)
        rows = [row + change for row, change in zip(rows, mixed, strict=True)]
        norm = weights[f"{at}.post_attention_layernorm.weight"]
        dense = block < config.first_k_dense_replace or block % config.moe_layer_freq != 0
        for t, row in enumerate(rows):
            token = reference_norm(row, norm, eps)
            if dense:
                rows[t] = row + reference_mlp(token, weights, f"{at}.mlp")
            else:
                rows[t] = row + reference_moe(token, weights, f"{at}.mlp", config)
    final, head = weights["model.norm.weight"], weights["lm_head.weight"]
    return np.stack([head @ reference_norm(row, final, config.rms_norm_eps) for row in rows])


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kv_heads", [2, 4])
@pytest.mark.parametrize("frequency", [1, 2])
@pytest.mark.parametrize("dense", [1, 2])
@pytest.mark.parametrize("normed", [False, True])
def test_logits_are_the_references(normed, dense, frequency, kv_heads, seed):
    model = in_float64(
        small(
            seed, norm_topk_prob=normed, first_k_dense_replace=dense, moe_layer_freq=frequency,
            num_key_value_heads=kv_heads,
        )
    )  # fmt: skip
    ids = tokens(2, 9, seed=seed)
    logits = model(ids).logits.numpy()
    assert logits.std() > 0.5
    for row, sequence in zip(logits, ids.tolist(), strict=True):
        assert np.abs(row - reference(model, sequence)).max() < 1e-9


@pytest.mark.parametrize(
    "changes",
    [
        {"attention_bias": True},
        {"n_shared_experts": None},
        {"num_experts_per_tok": 7, "norm_topk_prob": True},
        {"num_experts_per_tok": 1},
        {"first_k_dense_replace": 0},
        {"tie_word_embeddings": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_logits_are_the_references_at_the_edges(changes):
    model = in_float64(small(5, **changes))
    ids = tokens(1, 8, seed=5)
    assert np.abs(model(ids).logits[0].numpy() - reference(model, ids[0].tolist())).max() < 1e-9


def test_a_single_expert_is_not_renormalised():
    """As published: its weight would always be 1, and the router would say nothing of how much it counts."""
    ids = tokens(1, 8)
    plain, normed = (small(num_experts_per_tok=1, norm_topk_prob=normed)(ids).logits for normed in (False, True))
    assert torch.equal(plain, normed)


@pytest.mark.parametrize(
    "scaling",
    [None, {"type": "linear", "factor": 2.0}, {"rope_type": "dynamic", "factor": 2.0}],
    ids=["plain", "linear", "dynamic"],
)
def test_without_experts_it_is_a_llama_bit_for_bit(scaling):
    changes = {"attention_bias": True, "rope_scaling": scaling, "max_position_embeddings": 6}
    model = small(first_k_dense_replace=4, **changes)
    keys = (
        "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_parameters", "attention_bias",
    )  # fmt: skip
    llama = LlamaForCausalLM(LlamaConfig(**{key: getattr(model.config, key) for key in keys})).eval()
    llama.load_state_dict(model.state_dict())
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert torch.equal(model.to(dtype)(tokens(2, 9)).logits, llama.to(dtype)(tokens(2, 9)).logits)


def published_names(config: DeepseekConfig) -> list[str]:
    def mlp(at: str) -> list[str]:
        return [f"{at}.{name}_proj.weight" for name in ("gate", "up", "down")]

    names = ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"]
    for block in range(config.num_hidden_layers):
        at = f"model.layers.{block}"
        names += [f"{at}.self_attn.{name}_proj.weight" for name in "qkvo"]
        names += [f"{at}.input_layernorm.weight", f"{at}.post_attention_layernorm.weight"]
        if block < config.first_k_dense_replace or block % config.moe_layer_freq:
            names += mlp(f"{at}.mlp")
        else:
            names += [f"{at}.mlp.gate.weight", *mlp(f"{at}.mlp.shared_experts")]
            names += [name for e in range(config.n_routed_experts) for name in mlp(f"{at}.mlp.experts.{e}")]
    return names


@pytest.mark.parametrize("changes", [{}, {"first_k_dense_replace": 2}, {"moe_layer_freq": 2}])
def test_names_are_the_published_ones(changes):
    model = small(**changes)
    assert sorted(model.state_dict()) == sorted(published_names(model.config))


@pytest.mark.thorough
def test_the_published_configuration_is_the_published_model():
    config = DeepseekConfig(**PUBLISHED)
    assert config.rope_parameters == {"rope_theta": 10000.0, "rope_type": "default"}
    assert (config.dtype, config.has_experts(0), config.has_experts(27)) == (torch.bfloat16, False, True)
    with torch.device("meta"):
        model = DeepseekForCausalLM(config)
    attention, head = 4 * 2048**2 + 2 * 2048, 2 * 102400 * 2048 + 2048
    mixture = 3 * 2048 * 1408 * (64 + 2) + 64 * 2048
    expected = head + 28 * attention + 3 * 2048 * 10944 + 27 * mixture
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
    assert round(expected / 1e9, 1) == 16.4  # what it is named after
    assert sorted(model.state_dict()) == sorted(published_names(config))


@pytest.mark.parametrize(
    "changes", [{"scoring_func": "sigmoid"}, {"num_experts_per_tok": 8}, {"num_attention_heads": 5}]
)
def test_what_it_is_not_is_an_error(changes):
    with pytest.raises(ValueError, match=str(next(iter(changes.values())))):
        small(**changes)


def as_published(model: DeepseekForCausalLM, folder: Path) -> Path:
    """Return a folder like the published one: its configuration's keys, and the code that must not run."""
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    theta = config.pop("rope_parameters")["rope_theta"]
    extra = {"auto_map": PUBLISHED["auto_map"], "rope_theta": theta, "rope_scaling": None, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config | extra))
    trap = f"open({str(folder / 'was-run')!r}, 'w').close()\nraise RuntimeError('code of the checkpoint was run')\n"
    for name in ("configuration_deepseek.py", "modeling_deepseek.py"):
        (folder / name).write_text(trap)
    return folder


@pytest.mark.parametrize("arguments", [{}, {"trust_remote_code": False}], ids=["unsaid", "untrusted"])
def test_it_loads_bit_for_bit_and_runs_nothing(tmp_path, arguments):
    deepseek_moe.register()
    deepseek_moe.register()
    model = small(7, moe_layer_freq=2, norm_topk_prob=True)
    folder = as_published(model, tmp_path / "model")
    assert type(AutoConfig.from_pretrained(folder, **arguments)) is DeepseekConfig
    loaded, told = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **arguments)
    assert type(loaded) is DeepseekForCausalLM
    assert not any(told[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    before, after = model.state_dict(), loaded.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(model(tokens(2, 9)).logits, loaded.eval()(tokens(2, 9)).logits)
    assert not (folder / "was-run").exists()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_runs(tmp_path, dtype):
    deepseek_moe.register()
    small(1).save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype).eval()
    assert model.model.rotary_emb.inv_freq.dtype == torch.float32
    logits = model(tokens(2, 9)).logits
    assert logits.dtype == dtype
    exact = small(1)(tokens(2, 9)).logits
    # Rounding may send a token to another expert, so that most logits are near and not all.
    assert (logits.float() - exact).abs().median() < 0.1 * exact.std()
    assert model.generate(tokens(1, 4), max_new_tokens=3, do_sample=False).shape == (1, 7)


def test_a_written_architecture_is_not_refused_for_its_code(tmp_path):
    folder = as_published(small(), tmp_path / "model")
    assert read_checkpoint(folder).family.title == "DeepSeek-MoE"
    config = json.loads((folder / "config.json").read_text())
    for other in ("deepseek_v2", "Deepseek", "llama", "", None, ["deepseek"]):
        (folder / "config.json").write_text(json.dumps(config | {"model_type": other}))
        with pytest.raises(Refused, match="code from the checkpoint"):
            read_checkpoint(folder)
    config.pop("model_type")
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(Refused, match="code from the checkpoint"):
        read_checkpoint(folder)


def test_generation_is_the_argmax_without_a_cache():
    model = in_float64(small(4))
    ids = tokens(2, 5, seed=4)
    grown = ids
    for _ in range(12):
        logits = model(grown, use_cache=False).logits[:, -1]
        grown = torch.cat((grown, logits.argmax(-1, keepdim=True)), dim=1)
    arguments = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(model.generate(ids, **arguments), grown)
    assert torch.equal(model.generate(ids, use_cache=False, **arguments), grown)
    assert len(set(grown[:, 5:].flatten().tolist())) > 3


def test_padding_on_the_left_changes_nothing():
    model = in_float64(small(6))
    short, long = tokens(1, 4, seed=1), tokens(1, 7, seed=2)
    both = torch.cat((torch.cat((torch.zeros(1, 3, dtype=torch.long), short), dim=1), long))
    mask = torch.ones_like(both)
    mask[0, :3] = 0
    arguments = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    together = model.generate(both, attention_mask=mask, **arguments)
    for row, ids in zip(together, (short, long), strict=True):
        alone = model.generate(ids, attention_mask=torch.ones_like(ids), **arguments)
        assert torch.equal(row[7:], alone[0, ids.shape[1] :])


def test_gradients_reach_every_chosen_expert_and_the_router():
    model = small(num_experts_per_tok=7).requires_grad_(True)
    model(tokens(2, 9), labels=tokens(2, 9)).loss.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())
