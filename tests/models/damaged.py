"""Checkpoints with one thing wrong each: what a broken download, a wrong hand or a bad will may leave behind."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Damage = Callable[[Path], None]
DEEP = 50_000
Q = "model.layers.2.self_attn.q_proj.weight"
UP = "model.layers.1.mlp.up_proj.weight"
NORM = "model.norm.weight"
EMBEDDING = "model.embed_tokens.weight"
EXPERT = "model.layers.1.mlp.experts.3.up_proj.weight"
ROUTER = "model.layers.1.mlp.gate.weight"
HEAD_NORM = "model.layers.1.self_attn.q_norm.weight"
GONE = object()
SLOW_SPLIT = {"type": "Split", "pattern": {"Regex": "([a-z ]+)+[0-9]"}, "behavior": "Removed", "invert": False}


def linked(folder: Path, copy: Path) -> Path:
    """Return a folder with hard links to a checkpoint's files: what is to be changed has to be written anew."""
    copy.mkdir()
    for path in folder.iterdir():
        os.link(path, copy / path.name)
    return copy


def rewritten(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def document(name: str, **changes: Any) -> Damage:
    """Values of a JSON file changed, or gone."""

    def damage(folder: Path) -> None:
        path = folder / name
        values = {**json.loads(path.read_bytes()), **changes} if path.is_file() else changes
        rewritten(path, json.dumps({key: value for key, value in values.items() if value is not GONE}).encode())

    return damage


def config(**changes: Any) -> Damage:
    return document("config.json", **changes)


def content(name: str, text: str | bytes) -> Damage:
    return lambda folder: rewritten(folder / name, text.encode() if isinstance(text, str) else text)


def replaced(name: str, old: str, new: str) -> Damage:
    def damage(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        rewritten(folder / name, text.replace(old, new).encode())

    return damage


def without(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def a_folder(name: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return damage


def a_pipe(name: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return damage


def weights(change: Callable[[bytes], bytes]) -> Damage:
    """Change the bytes of the weight file."""

    def damage(folder: Path) -> None:
        path = folder / "model.safetensors"
        rewritten(path, change(path.read_bytes()))

    return damage


def header(change: Callable[[dict[str, Any]], object]) -> Damage:
    """Change the header of the weight file, and leave what follows it."""

    def changed(data: bytes) -> bytes:
        length = struct.unpack("<Q", data[:8])[0]
        entries = json.loads(data[8 : 8 + length])
        change(entries)
        text = json.dumps(entries).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + length :]

    return weights(changed)


def entry(name: str, **changes: Any) -> Damage:
    """Change the header's entry of a tensor."""

    def change(entries: dict[str, Any]) -> None:
        entries[name].update(changes)
        for key in [key for key, value in changes.items() if value is GONE]:
            del entries[name][key]

    return header(change)


def renamed(name: str) -> Damage:
    """Leave a tensor under another name only."""
    return header(lambda entries: entries.update(another=entries.pop(name)))


def stored_as(*names: str, dtype: str) -> Damage:
    """Tensors of another type of equally many bytes."""

    def change(entries: dict[str, Any]) -> None:
        for name in names:
            entries[name]["dtype"] = dtype

    return header(change)


def turned(name: str) -> Damage:
    """Exchange the two sides of a matrix."""
    return header(lambda entries: entries[name]["shape"].reverse())


def swapped_offsets(entries: dict[str, Any]) -> None:
    entries[UP]["data_offsets"].reverse()


def overlapping(entries: dict[str, Any]) -> None:
    entries[NORM]["data_offsets"] = entries["model.layers.0.input_layernorm.weight"]["data_offsets"]


def shifted(entries: dict[str, Any]) -> None:
    entries[NORM]["data_offsets"] = [-512, 0]


INDEX = "model.safetensors.index.json"


def without_whole(damage: Damage) -> Damage:
    """Return the same damage in a folder whose weights only an index names."""

    def apply(folder: Path) -> None:
        damage(folder)
        (folder / "model.safetensors").unlink()

    return apply


LLAMA: dict[str, Damage] = {
    # config.json as a document
    "config: missing": without("config.json"),
    "config: empty": content("config.json", b""),
    "config: cut": content("config.json", '{"model_type": "llama", "hidden_size"'),
    "config: list": content("config.json", "[]"),
    "config: deep list": content("config.json", "[" * DEEP),
    "config: deep value": content("config.json", '{"model_type": "llama", "x": ' + "[" * DEEP + "]" * DEEP + "}"),
    "config: no text": content("config.json", b"\xff\xfe{}"),
    "config: surrogate": content("config.json", '{"model_type": "\\ud800"}'),
    "config: folder": a_folder("config.json"),
    "config: pipe": a_pipe("config.json"),
    "config: 20 MB": content("config.json", '{"model_type": "llama"' + " " * 20_000_000 + "}"),
    # fields
    **{
        f"{field}: gone": config(**{field: GONE})
        for field in (
            "model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
        )
    },
    "model_type: number": config(model_type=5),
    "model_type: unknown": config(model_type="mamba"),
    "model_type: long": config(model_type="x" * 100_000),
    "blocks: word": config(num_hidden_layers="six"),
    "blocks: none": config(num_hidden_layers=0),
    "blocks: fraction": config(num_hidden_layers=6.5),
    "blocks: huge": config(num_hidden_layers=10**30),
    "blocks: one too few": config(num_hidden_layers=5),
    "blocks: one too many": config(num_hidden_layers=7),
    "hidden: other": config(hidden_size=128),
    "hidden: huge": config(hidden_size=1 << 40),
    "intermediate: other": config(intermediate_size=512),
    "heads: three": config(num_attention_heads=3),
    "heads: sixteen": config(num_attention_heads=16),
    "kv heads: three": config(num_key_value_heads=3),
    "kv heads: none": config(num_key_value_heads=0),
    "head: odd": config(head_dim=31),
    "head: other": config(head_dim=64),
    "vocabulary: ten": config(vocab_size=10),
    "positions: letter": config(max_position_embeddings="x"),
    "positions: none": config(max_position_embeddings=0),
    "eps: none": config(rms_norm_eps=0.0),
    "eps: not a number": content("config.json", '{"model_type": "llama", "rms_norm_eps": NaN}'),
    "rope: unknown": config(rope_parameters={"rope_type": "spiral", "rope_theta": 1e4}),
    "rope: no theta": config(rope_parameters={"rope_type": "default", "rope_theta": -1.0}),
    "rope: linear without factor": config(rope_parameters={"rope_type": "linear", "rope_theta": 1e4}),
    "rope: scaling of five": config(rope_scaling=5),
    "activation: unknown": config(hidden_act="zilu"),
    "tied: no": config(tie_word_embeddings=False),
    "tied: word": config(tie_word_embeddings="yes"),
    "biases: promised": config(attention_bias=True),
    "padding: outside": config(pad_token_id=5000),
    "end of text: word": config(eos_token_id="end"),
    "code": config(auto_map={"AutoModel": "evil.Model"}),
    "quantized": config(quantization_config={"bits": 4}),
    # tokenizer and generation
    "tokenizer: missing": without("tokenizer.json"),
    "tokenizer: no object in it": content("tokenizer.json", "{}"),
    "tokenizer: cut": lambda folder: rewritten(
        folder / "tokenizer.json", (folder / "tokenizer.json").read_bytes()[:100_000]
    ),
    "tokenizer: deep": content("tokenizer.json", "[" * DEEP),
    "tokenizer: folder": a_folder("tokenizer.json"),
    "tokenizer: pipe": a_pipe("tokenizer.json"),
    "tokenizer: tokens that the model has not": replaced("tokenizer.json", '"Ġthe": ', '"Ġthe": 99'),
    "tokenizer: an expression that takes for ever": document("tokenizer.json", pre_tokenizer=SLOW_SPLIT),
    "tokenizer settings: damaged": content("tokenizer_config.json", "{"),
    "tokenizer settings: deep": content("tokenizer_config.json", "[" * DEEP),
    "tokenizer settings: class": document("tokenizer_config.json", tokenizer_class=5),
    "tokenizer settings: tokens": document("tokenizer_config.json", added_tokens_decoder=[1]),
    "tokenizer settings: code": document("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", None]}),
    "generation: damaged": content("generation_config.json", "nonsense"),
    "generation: end of text": document("generation_config.json", eos_token_id="x"),
    "generation: code": document("generation_config.json", auto_map={"x": "y"}),
    # weights as a file
    "weights: missing": without("model.safetensors"),
    "weights: folder": a_folder("model.safetensors"),
    "weights: pipe": a_pipe("model.safetensors"),
    "weights: empty": content("model.safetensors", b""),
    "weights: four bytes": weights(lambda data: data[:4]),
    "weights: cut": weights(lambda data: data[:-1000]),
    "weights: longer": weights(lambda data: data + b"1234"),
    "weights: header too long": weights(lambda data: struct.pack("<Q", 1 << 62) + data[8:]),
    "weights: header of no length": weights(lambda data: struct.pack("<Q", 0) + data[8:]),
    "weights: header no JSON": weights(lambda data: data[:8] + b"}" + data[9:]),
    "weights: header deep": weights(lambda data: struct.pack("<Q", DEEP) + b"[" * DEEP + data),
    "weights: header no text": weights(lambda data: data[:20] + b"\xff" + data[21:]),
    "index: damaged": content(INDEX, "{"),
    "index: no map": content(INDEX, "{}"),
    "index: map of numbers": document(INDEX, weight_map={Q: 3}),
    "index: map is a list": document(INDEX, weight_map=[Q]),
    "index: file missing": without_whole(document(INDEX, weight_map={Q: "model-00001.safetensors"})),
    "index: file elsewhere": document(INDEX, weight_map={Q: "../model.safetensors"}),
    "index: long name": without_whole(document(INDEX, weight_map={Q: "x" * 5000})),
    "index: NUL": without_whole(document(INDEX, weight_map={Q: "model\0.safetensors"})),
    "index: no file": document(INDEX, weight_map={}),
    # header entries
    "entry: no shape": entry(Q, shape=GONE),
    "entry: no dtype": entry(Q, dtype=GONE),
    "entry: no offsets": entry(Q, data_offsets=GONE),
    "entry: fractional shape": entry(Q, shape=[256.5, 256]),
    "entry: negative shape": entry(Q, shape=[-256, -256]),
    "entry: shape is a word": entry(Q, shape="wide"),
    "entry: unknown dtype": entry(Q, dtype="F17"),
    "entry: wider dtype": entry(Q, dtype="F32"),
    "entry: negative offsets": header(shifted),
    "entry: exchanged offsets": header(swapped_offsets),
    "entry: overlapping offsets": header(overlapping),
    "entry: a number": header(lambda entries: entries.update({Q: 5})),
    "entry: metadata": header(lambda entries: entries.update({"__metadata__": {"format": 5}})),
    # tensors
    "tensor: a linear missing": renamed(Q),
    "tensor: norm missing": renamed(NORM),
    "tensor: norm of a block missing": renamed("model.layers.3.post_attention_layernorm.weight"),
    "tensor: embedding missing": renamed(EMBEDDING),
    "tensor: turned": turned(UP),
    "tensor: embedding turned": turned(EMBEDDING),
    "tensor: norm as a column": entry(NORM, shape=[256, 1]),
    "tensor: flat": entry(UP, shape=[768 * 256]),
    "tensor: whole numbers": stored_as(Q, dtype="I16"),
    "tensor: unsigned": stored_as(UP, dtype="U16"),
    "tensor: norm of whole numbers": stored_as(NORM, dtype="I16"),
    "tensor: embedding of whole numbers": stored_as(EMBEDDING, dtype="I16"),
}  # fmt: skip

MOE: dict[str, Damage] = {
    "experts: gone": config(num_local_experts=GONE),
    "experts: none": config(num_local_experts=0),
    "experts: one too few": config(num_local_experts=7),
    "experts: one too many": config(num_local_experts=9),
    "experts: forty a token": config(num_experts_per_tok=40),
    "experts: other width": config(moe_intermediate_size=128),
    "experts: dense block": config(mlp_only_layers=[1]),
    "experts: every second block": config(decoder_sparse_step=2),
    "experts: step of none": config(decoder_sparse_step=0),
    "tensor: expert missing": renamed(EXPERT),
    "tensor: router missing": renamed(ROUTER),
    "tensor: router turned": turned(ROUTER),
    "tensor: norm of heads missing": renamed(HEAD_NORM),
    "tensor: expert of whole numbers": stored_as(EXPERT, dtype="I16"),
    "tensor: router of whole numbers": stored_as(ROUTER, dtype="I16"),
}
