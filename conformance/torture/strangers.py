"""Folders of models as strangers have them: quirks of their files in pairs, measured or refused.

The measure is transformers alone in float64. All folders of a play have one path, and one host measures them, so
numbers that were stored of another folder would show too.
"""

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from conformance.torture.figures import Figures
from sarqc.engine.execute import execute
from sarqc.engine.plan import plan
from sarqc.errors import Refused
from sarqc.events import Measured
from sarqc.models.checkpoint import read_checkpoint
from sarqc.recipe import Recipe
from sarqc.settings import SITE, Settings
from tests.checkpoints import foreign
from tests.models.cases import make_checkpoint

MODELS = ("llama", "mistral", "qwen2", "qwen2, windows", "qwen3", "qwen3_moe", "mixtral")
WINDOW, WINDOWS = 32, 6
TOLERANCE = 2e-3  # relative, of float32 beside float64 in models whose random weights amplify
FOLDERS, MEASURED, REFUSED = "folders", "measured", "refused"
WRONG, CRASHED, TAKEN = "another number", "errors without words", "not refused as by transformers"
_SHARE_QUANTIZED = 0.3
TINY = SITE / "assets" / "models" / "tiny-llama"
RECIPE = {
    "calibration": "tiny-llama-calibration", "method": "rtn", "samples": 1, "length": 16, "bits": 4, "group_size": 8,
    "indivisible": "per_channel", "window": WINDOW, "test_tokens": WINDOW * WINDOWS, "baseline": False,
}  # fmt: skip


@dataclass(frozen=True)
class Folder:
    """A model that quirks change, and its test text."""

    path: Path
    text: Path

    def document(self, name: str) -> dict[str, Any]:
        path = self.path / name
        return json.loads(path.read_text()) if path.exists() else {}

    def change(self, name: str, **values: Any) -> None:
        content = json.dumps(self.document(name) | values)
        (self.path / name).write_text(content)

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: value for file in self.path.glob("*.safetensors") for name, value in load_file(file).items()}

    def store(self, tensors: dict[str, torch.Tensor], shards: int = 1, start: str = "model") -> None:
        """Write the only weights of the folder."""
        for file in [*self.path.glob("*.safetensors"), *self.path.glob("*.index.json")]:
            file.unlink()
        save(self.path, tensors, shards, start)


Quirk = Callable[[Folder], None]


def save(folder: Path, tensors: dict[str, torch.Tensor], shards: int, start: str = "model") -> None:
    if shards == 1:
        save_file(tensors, folder / f"{start}.safetensors", {"format": "pt"})
        return
    names, weight_map = sorted(tensors), {}
    for number in range(shards):
        file = f"{start}-{number + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensors[name].clone() for name in names[number::shards]}
        save_file(part, folder / file, {"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / f"{start}.safetensors.index.json").write_text(json.dumps(index))


def config(**values: Any) -> Quirk:
    return lambda folder: folder.change("config.json", **values)


def rope(kind: str, **values: Any) -> Quirk:
    return config(rope_parameters={"rope_type": kind, "rope_theta": 10000.0, **values})


def tokenizer(**values: Any) -> Quirk:
    return lambda folder: folder.change("tokenizer.json", **values)


def named(tokenizer_class: str) -> Quirk:
    return lambda folder: folder.change("tokenizer_config.json", tokenizer_class=tokenizer_class)


def weights(change: Callable[[dict[str, torch.Tensor]], None], shards: int = 1) -> Quirk:
    def quirk(folder: Folder) -> None:
        tensors = folder.tensors()
        change(tensors)
        folder.store(tensors, shards)

    return quirk


def cast(kind: torch.dtype) -> Quirk:
    return weights(lambda tensors: tensors.update({name: value.to(kind) for name, value in tensors.items()}))


def tensor(name: str, shape: tuple[int, ...], kind: torch.dtype = torch.float32) -> Quirk:
    value = torch.ones(shape).to(kind)
    return weights(lambda tensors: tensors.update({name: value}))


def without(name: str) -> Quirk:
    return weights(lambda tensors: tensors.pop(name, None))


def both_sets(changed: bool, whole_is_new: bool) -> Quirk:
    """Two sets of weights, as ``save_pretrained`` leaves them that is called twice."""

    def quirk(folder: Folder) -> None:
        tensors = folder.tensors()
        others = {name: value * (1.5 if changed else 1) for name, value in tensors.items()}
        folder.store(tensors if whole_is_new else others)
        save(folder.path, others if whole_is_new else tensors, 3)

    return quirk


def stale_index(folder: Folder) -> None:
    save(folder.path, folder.tensors(), 3)
    (folder.path / "model-00002-of-00003.safetensors").unlink()


def scaled(name: str, factor: float) -> Quirk:
    return weights(lambda tensors: tensors.update({name: tensors[name] * factor}))


def text(write: Callable[[Folder, list[str]], None]) -> Quirk:
    return lambda folder: write(folder, folder.text.read_text().splitlines())


def encoded(encoding: str) -> Quirk:
    return text(lambda folder, lines: folder.text.write_bytes("\n".join(lines).encode(encoding)))


BLOCK, LAST = "model.layers.0.", "model.layers.2."
YARN = {"factor": 4.0, "original_max_position_embeddings": 32}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
QUIRKS: dict[str, Quirk] = {
    # What a configuration computes
    **{f"θ {theta:g}": rope("default", rope_theta=theta) for theta in (100.0, 500.0, 1e6)},
    "θ as before": config(rope_parameters=None, rope_theta=300.0),
    "linear": rope("linear", factor=2.0),
    "linear as before": config(rope_parameters=None, rope_scaling={"type": "linear", "factor": 2.0}, rope_theta=1e4),
    "YaRN": rope("yarn", **YARN),
    "YaRN with attention": rope("yarn", **YARN, attention_factor=2.0),
    "YaRN without an original": rope("yarn", factor=4.0),
    "llama3": rope("llama3", **LLAMA3),
    "dynamic": rope("dynamic", factor=2.0),
    "longrope": rope("longrope", short_factor=[1.5] * 4, long_factor=[3.0] * 4, original_max_position_embeddings=16),
    "longrope of another size": rope("longrope", short_factor=[1.5], long_factor=[3.0]),
    "positions of no kind": rope("ntk"),
    "half of a head turned": rope("default", partial_rotary_factor=0.5),
    **{f"ε {eps:g}": config(rms_norm_eps=eps) for eps in (0.1, 1e-3, 1e-12)},
    "ε as text": config(rms_norm_eps="1e-6"),
    **{
        f"activation {name}": config(hidden_act=name)
        for name in ("relu", "gelu", "gelu_pytorch_tanh", "tanh", "nothing")
    },
    "window 4": config(sliding_window=4, use_sliding_window=True),
    "window 0": config(sliding_window=0),
    "no window": config(sliding_window=None, use_sliding_window=False),
    "layer types": config(layer_types=["full_attention"] * 3),
    "too few layer types": config(layer_types=["full_attention"]),
    "one expert": config(num_experts_per_tok=1),
    "more experts chosen than there are": config(num_experts_per_tok=99),
    "experts normalised": config(norm_topk_prob=True),
    "heads of 16": config(head_dim=16),
    "no head size": config(head_dim=None),
    "as many keys as queries": config(num_key_value_heads=4),
    "one head less": config(num_attention_heads=3),
    "another width": config(hidden_size=64),
    "another inner width": config(intermediate_size=64),
    "two blocks": config(num_hidden_layers=2),
    "four blocks": config(num_hidden_layers=4),
    "no blocks": config(num_hidden_layers=0),
    "4,095 tokens": config(vocab_size=4095),
    "4,097 tokens": config(vocab_size=4097),
    "16 positions": config(max_position_embeddings=16),
    "tied": config(tie_word_embeddings=True),
    "not tied": config(tie_word_embeddings=False),
    "biases of attention": config(attention_bias=True),
    "biases of the MLP": config(mlp_bias=True),
    # What it names
    "null quantization": config(quantization_config=None),
    "empty quantization": config(quantization_config={}),
    "quantization left over": config(quantization_config={"quant_method": "gptq", "bits": 4, "group_size": 128}),
    "code of its own": config(auto_map={"AutoModelForCausalLM": "modeling.Model"}),
    "another architecture": config(architectures=["GPT2LMHeadModel"]),
    "another type": config(model_type="gpt_neox"),
    "type in capitals": config(model_type="LLAMA"),
    "no type": config(model_type=None),
    "dtype of before": config(torch_dtype="float16", dtype=None),
    "dtype": config(dtype="bfloat16"),
    "dropout": config(attention_dropout=0.5),
    "eager": config(attn_implementation="eager", _attn_implementation="eager"),
    "no cache": config(use_cache=False),
    "unknown field": config(my_own_field={"deep": [1, 2, {"deeper": None}]}),
    "old version": config(transformers_version="4.20.0"),
    "NaN": config(rms_norm_eps=float("nan")),
    "number too long": config(hidden_size=10**30),
    "byte order mark": lambda folder: (folder.path / "config.json").write_bytes(
        b"\xef\xbb\xbf" + (folder.path / "config.json").read_bytes()),
    # Tokenizers
    "lower case": tokenizer(normalizer={"type": "Lowercase"}),
    "digits": tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}),
    "prefix": tokenizer(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                                       "use_regex": True}),
    "cut to 16": tokenizer(
        truncation={"direction": "Right", "max_length": 16, "strategy": "LongestFirst", "stride": 0}),
    "padded": tokenizer(padding={"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None,
                                 "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}),
    "NFKC": tokenizer(normalizer={"type": "NFKC"}),
    **{name: named(name) for name in (
        "GPT2Tokenizer", "LlamaTokenizer", "LlamaTokenizerFast", "Qwen2Tokenizer", "GPTNeoXTokenizerFast", "Nobody",
    )},
    "no tokenizer": lambda folder: (folder.path / "tokenizer.json").unlink(missing_ok=True),
    "no settings of the tokenizer": lambda folder: (folder.path / "tokenizer_config.json").unlink(missing_ok=True),
    "begin added": lambda folder: folder.change("tokenizer_config.json", add_bos_token=True, bos_token="a"),
    "longest": lambda folder: folder.change("tokenizer_config.json", model_max_length=8),
    "broken tokenizer": lambda folder: (folder.path / "tokenizer.json").write_text("{"),
    # Weights
    "float16": cast(torch.float16),
    "bfloat16": cast(torch.bfloat16),
    "float64": cast(torch.float64),
    "integers": cast(torch.int8),
    "three files": weights(lambda tensors: None, 3),
    "two sets of the same": both_sets(changed=False, whole_is_new=True),
    "two sets, whole new": both_sets(changed=True, whole_is_new=True),
    "two sets, files new": both_sets(changed=True, whole_is_new=False),
    "stale index": stale_index,
    "frequencies stored": tensor(f"{BLOCK}self_attn.rotary_emb.inv_freq", (4,)),
    "scales of FP8": tensor(f"{BLOCK}mlp.gate_proj.weight_scale_inv", (1, 1)),
    "scale": tensor(f"{BLOCK}self_attn.q_proj.weight_scale", (32, 1)),
    "a bias more": tensor(f"{LAST}self_attn.q_proj.bias", (32,)),
    "adapter": tensor(f"base_model.model.{BLOCK}self_attn.q_proj.lora_A.weight", (4, 32)),
    "adapter inside": tensor(f"{BLOCK}self_attn.q_proj.lora_A.weight", (4, 32)),
    "norm of heads": tensor(f"{BLOCK}self_attn.q_norm.weight", (8,)),
    "a block more": tensor("model.layers.3.self_attn.q_proj.weight", (32, 32)),
    "vision": tensor("vision_tower.patch.weight", (8, 8)),
    "empty tensor": tensor("nothing", (0,)),
    "a norm less": without("model.norm.weight"),
    "a linear less": without(f"{LAST}mlp.down_proj.weight"),
    "no embedding": without("model.embed_tokens.weight"),
    "head as embedding": weights(lambda tensors: tensors.update(
        {"lm_head.weight": tensors["model.embed_tokens.weight"].clone()})),
    "head of its own": weights(lambda tensors: tensors.update(
        {"lm_head.weight": -tensors["model.embed_tokens.weight"].clone()})),
    "tiny": scaled("model.norm.weight", 1e-20),
    "large": scaled(f"{BLOCK}input_layernorm.weight", 1e4),
    "not finite": scaled("model.embed_tokens.weight", float("nan")),
    "transposed": tensor(f"{LAST}self_attn.k_proj.weight", (32, 16)),
    "pickle beside": lambda folder: (folder.path / "pytorch_model.bin").write_bytes(b"\x80\x04\x95"),
    "other file beside": lambda folder: save(folder.path, {"x": torch.ones(2)}, 1, "adapter_model"),
    "cut off": lambda folder: next(folder.path.glob("*.safetensors")).write_bytes(bytes(100)),
    # Texts
    "text with a byte order mark": encoded("utf-8-sig"),
    "text in UTF-16": encoded("utf-16"),
    "text of Windows": text(lambda folder, lines: folder.text.write_bytes("\r\n".join(lines).encode())),
    "text of blanks": text(lambda folder, lines: folder.text.write_text(" \n" * 400)),
    "text with zeros": text(lambda folder, lines: folder.text.write_text("\0".join(lines))),
    "one line": text(lambda folder, lines: folder.text.write_text(" ".join(lines))),
    "JSON as text": text(lambda folder, lines: folder.text.write_text(
        "\n".join(json.dumps({"text": line}) for line in lines))),
}  # fmt: skip


def play(folder: Path, figures: Figures, *, pairs: int, seed: int) -> None:
    """Measure folders with two quirks each and compare; the same seed makes the same folders."""
    figures.expect(WRONG, CRASHED, TAKEN)
    chance = random.Random(seed)
    sources = [make_checkpoint(name, folder / "sources" / str(number), TINY) for number, name in enumerate(MODELS)]
    quantized = _quantized(folder / "quantized", sources, chance)
    host = Settings(state_dir=folder / "state", device="cpu")
    for names in _chosen(chance, pairs):
        source = chance.choice(sources)
        opened = quantized.get(source) if chance.random() < _SHARE_QUANTIZED else None
        model = Folder(folder / "model", folder / "text.txt")
        shutil.rmtree(model.path, ignore_errors=True)
        shutil.copytree(opened or source, model.path)
        shutil.copy(TINY / "held_out.txt", model.text)
        words = f"seed {seed}: {MODELS[int(source.name)]}{', quantized,' if opened else ''} with {' and '.join(names)}"
        for name in names:
            QUIRKS[name](model)
        figures.count(FOLDERS)
        recipe = RECIPE | {"model": str(model.path), "test": str(model.text)}
        if opened is not None:
            of_codes = {"method": "as-found", "model": str(source), "quantized_checkpoint": str(model.path)}
            left_out = ("bits", "group_size", "indivisible")
            recipe = {name: value for name, value in (recipe | of_codes).items() if name not in left_out}
        _judge(model, recipe, host, figures, words)


def _chosen(chance: random.Random, pairs: int) -> Iterator[list[str]]:
    """Each quirk once by itself, then pairs in the order of the table: in each part the last one breaks a file."""
    yield from ([name] for name in QUIRKS)
    for _ in range(pairs):
        yield sorted(chance.sample([*QUIRKS], 2), key=[*QUIRKS].index)


def _quantized(folder: Path, sources: list[Path], chance: random.Random) -> dict[Path, Path]:
    """Return checkpoints as GPTQ writes them, by their originals."""
    folder.mkdir()
    made = {}
    about = {"quant_method": "gptq", "bits": 4, "group_size": 8, "sym": False, "checkpoint_format": "gptq_v2"}
    for source in sources:
        layers = read_checkpoint(source).layers
        if any(layer.expert is not None for layer in layers):
            continue
        weights = load_file(source / "model.safetensors")
        linears = {layer.name: rounded(weights[f"{layer.name}.weight"].float()) for layer in layers}
        made[source] = foreign.write(
            source, folder / source.name, linears, foreign.gptq, {"quantization_config": about}
        )
    return made


def rounded(weight: torch.Tensor) -> foreign.Linear:
    """Return a weight (O, I) rounded to nearest in groups of 8 on 4 bits."""
    groups = weight.unflatten(1, (-1, 8))
    low, high = groups.amin(2), groups.amax(2)
    scales = ((high - low) / 15).clamp(min=1e-6).half()
    zeros = (-low / scales.float()).round().clamp(0, 15)
    codes = (groups / scales.float()[..., None] + zeros[..., None]).round().clamp(0, 15).flatten(1)
    group_of = np.arange(weight.shape[1]) // 8
    return foreign.Linear(4, codes.long().numpy(), scales, zeros.long().numpy(), None, group_of)


def _judge(model: Folder, recipe: dict[str, Any], host: Settings, figures: Figures, name: str) -> None:
    began, which = time.monotonic(), "quantized" if "quantized_checkpoint" in recipe else "float"
    try:
        asked = Recipe.parse(recipe)
        plan(asked, host)
        events = (event for event in execute(asked, host) if isinstance(event, Measured))
        value = next(event.value for event in events if event.which == which)
    except Refused as error:
        figures.count(REFUSED)
        if not error.remedy:
            figures.complain(CRASHED, f"{name}: {error}")
        return
    except Exception as error:
        figures.complain(CRASHED, f"{name}: {type(error).__name__} {error}")
        return
    figures.took("slowest folder", time.monotonic() - began)
    expected = by_transformers(model)
    if isinstance(expected, str):
        figures.complain(TAKEN, f"{name}: {value}, {expected}")
    elif not np.isclose(value, expected, rtol=TOLERANCE):
        figures.complain(WRONG, f"{name}: {value}, transformers {expected}")
    else:
        figures.count(MEASURED)


def decode(model: Folder) -> None:
    """Give the folder of a GPTQ checkpoint the weights that its codes stand for."""
    tensors = model.tensors()
    if not any(name.endswith(".qweight") for name in tensors):
        return
    for name in [name.removesuffix(".qweight") for name in tensors if name.endswith(".qweight")]:
        words, zeros, scales, group_of = (
            tensors.pop(f"{name}.{part}") for part in ("qweight", "qzeros", "scales", "g_idx")
        )
        places = 4 * torch.arange(8)
        codes = (words.long()[:, None, :] >> places[None, :, None] & 15).flatten(0, 1)
        zero_points = (zeros.long()[:, :, None] >> places & 15).flatten(1)
        order = group_of.long()
        tensors[f"{name}.weight"] = (
            ((codes - zero_points[order]) * scales.double()[order]).T.to(scales.dtype).contiguous()
        )
    model.store(tensors)
    document = model.document("config.json")
    document.pop("quantization_config", None)
    (model.path / "config.json").write_text(json.dumps(document))


def by_transformers(model: Folder) -> float | str:
    """Return the perplexity of the first windows in float64, or why nobody else reads such a model."""
    from transformers import AutoModelForCausalLM

    try:
        decode(model)
        loaded, report = AutoModelForCausalLM.from_pretrained(
            model.path, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager",
            output_loading_info=True, local_files_only=True,
        )  # fmt: skip
        if report["missing_keys"] or report["mismatched_keys"]:
            return f"made up: {report['missing_keys']} {report['mismatched_keys']}"
        return _perplexity(loaded.eval(), model)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@torch.no_grad()
def _perplexity(loaded: PreTrainedModel, model: Folder) -> float:
    own = Tokenizer.from_file(str(model.path / "tokenizer.json"))
    own.no_truncation()
    own.no_padding()
    begin = own.encode("").ids
    words = model.text.read_text(encoding="utf-8-sig")
    ids = own.encode(words).ids[len(begin) :][: WINDOW * WINDOWS]
    width, losses = WINDOW - len(begin), []
    for start in range(0, len(ids) // width * width, width):
        window = torch.tensor([[*begin, *ids[start : start + width]]])
        logits = loaded(window, use_cache=False).logits[0, :-1]
        of_window = torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="none")
        losses.append(of_window[max(0, len(begin) - 1) :])
    return float(torch.cat(losses).mean().exp())
