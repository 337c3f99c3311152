"""Models made to exhaust whoever reads them, planned by a running app while a neighbour plans a shipped one."""

import json
import shutil
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import requests

from conformance.torture.figures import Figures
from conformance.torture.served import Served
from sarqc.settings import SITE
from tests.models.gguf_files import write_gguf

TINY = SITE / "assets" / "models" / "tiny-llama"
PLANS, SLOWEST, USUAL, MEANWHILE = "plans of hostile models", "slowest plan", "plan of tiny-llama", "meanwhile"
GROWTH = "MiB that the app grew by"
ODD, DEAF, LATE = "other answers than 200 and 422", "neighbour's plans not answered", "neighbour's plans late"
LEFT, LARGE = "processes left", "grew too much"
MOST_MIB, _MOST_TIMES = 300, 2
LIMITED = "sarqc.files.limited"  # the processes that read foreign files
NEIGHBOUR = {"model": "tiny-llama", "calibration": "tiny-llama-calibration", "samples": 4, "length": 64}

TENFOLD = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
REGEX = {"type": "Split", "pattern": {"Regex": "(a|aa)+$|([a-z ]+)+[0-9]"}, "behavior": "Removed", "invert": False}
TOKENIZERS: dict[str, dict[str, Any]] = {
    **{
        f"{n} tenfold replacements": {"normalizer": {"type": "Sequence", "normalizers": [TENFOLD] * n}}
        for n in (4, 5, 9)
    },
    "prepended": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "a" * 10**6}] * 9}},
    "replaced by a million": {"normalizer": {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 10**6}},
    "nothing replaced": {"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "a"}},
    "expression": {"pre_tokenizer": REGEX},
    "expressions": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [REGEX] * 50}},
    "template": {"post_processor": {
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}] * 1000 + [
            {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"x": {"id": "x", "ids": [1] * 10**5, "tokens": ["x"] * 10**5}}}},
    "words without end": {"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"},
                          "pre_tokenizer": None, "post_processor": None, "decoder": None,
                          "model": {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##",
                                    "max_input_chars_per_word": 10**9, "vocab": {"a": 0}}},
    "prefix of a million": {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "a",
                                      "continuing_subword_prefix": "a" * 10**6}},
    "wrong kinds": {"model": {"type": "BPE", "vocab": [], "merges": {}}},
    "many added tokens": {"added_tokens": [
        {"id": 4096 + n, "content": f"<{n}>", "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True} for n in range(100_000)]},
}  # fmt: skip
GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "vocab_size": 4096, "n_positions": 128}
CONFIGS: dict[str, dict[str, Any]] = {
    "blocks": GPT2 | {"n_layer": 4096},
    "blocks and more": GPT2 | {"n_layer": 10**9},
    "positions": GPT2 | {"n_layer": 2, "n_positions": 1 << 30},
    "width": GPT2 | {"n_layer": 2, "n_embd": 1 << 24},
    "labels": GPT2 | {"n_layer": 2, "num_labels": 10**9},
    "label names": GPT2 | {"n_layer": 2, "id2label": {str(n): "x" for n in range(200_000)}},
    "attention types": {"model_type": "gpt_neo", "attention_types": [[["global", "local"], 10**9]], "num_layers": 24},
    "positions of gpt_neo": {"model_type": "gpt_neo", "max_position_embeddings": 60_000, "num_layers": 24},
    "xglm": {"model_type": "xglm", "max_position_embeddings": 1 << 20},
    "text": {"model_type": "gemma3", "text_config": {"num_hidden_layers": 10**9}},
    "experts": {"model_type": "olmoe", "num_experts": 1 << 39},
    "experts of llama4": {"model_type": "llama4_text", "num_local_experts": 1 << 30},
    "mixtral": {"model_type": "mixtral", "num_hidden_layers": 4096, "num_local_experts": 4096},
    "qwen3_moe": {"model_type": "qwen3_moe", "num_hidden_layers": 4096, "num_experts": 4096},
    "vocabulary": GPT2 | {"n_layer": 2, "vocab_size": 10**15},
    "long": GPT2 | {"n_layer": 2, "x": "y" * (15 << 20)},
    "deep": GPT2 | {"n_layer": 2, "x": json.loads("[" * 150 + "]" * 150)},
    "negative": GPT2 | {"n_layer": -5},
}  # fmt: skip


def changed_tokenizer(folder: Path, changes: dict[str, Any]) -> None:
    shutil.copytree(TINY, folder)
    document = json.loads((TINY / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(document | changes))


def of_configuration(folder: Path, config: dict[str, Any]) -> None:
    shutil.copytree(TINY, folder)
    (folder / "config.json").write_text(json.dumps(config))


def sparse(name: str, size: int) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        shutil.copytree(TINY, folder)
        with (folder / name).open("r+b") as file:
            file.truncate(size)

    return make


def of_gguf(folder: Path, *, fields: int = 0, text: int = 0, change: Callable[[bytes], bytes] = bytes) -> None:
    """A GGUF file with so many further fields, each a text of so many bytes of nothing."""
    folder.mkdir()
    path = write_gguf(TINY, folder / "model.gguf")
    content = change(path.read_bytes())
    with path.open("wb") as file:
        file.write(content[:16] + struct.pack("<Q", struct.unpack_from("<Q", content, 16)[0] + fields))
        for number in range(fields):
            file.write(struct.pack("<Q", 6) + b"x%05d" % number + struct.pack("<IQ", 8, text))
            file.seek(text, 1)
        file.write(content[24:])


def number_of(name: bytes, value: int) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        place = content.index(name) + len(name) + 4
        return content[:place] + struct.pack("<I", value) + content[place + 4 :]

    return change


FILES: dict[str, Callable[[Path], None]] = {
    "tokenizer.json of 3 GiB": sparse("tokenizer.json", 3 << 30),
    "config.json of 3 GiB": sparse("config.json", 3 << 30),
    "tokenizer_config.json of 3 GiB": sparse("tokenizer_config.json", 3 << 30),
    "weights of 1 TiB": sparse("model.safetensors", 1 << 40),
    "GGUF, texts": lambda folder: of_gguf(folder, fields=4000, text=1 << 20),
    "GGUF, long text": lambda folder: of_gguf(folder, fields=1, text=1 << 38),
    "GGUF, blocks": lambda folder: of_gguf(folder, change=number_of(b"llama.block_count", 1 << 30)),
    "GGUF, 4,096 blocks": lambda folder: of_gguf(folder, change=number_of(b"llama.block_count", 4096)),
    "GGUF, width": lambda folder: of_gguf(folder, change=number_of(b"llama.embedding_length", 1 << 30)),
    "GGUF, cut": lambda folder: of_gguf(folder, change=lambda content: content[: len(content) // 2]),
}


def make(folder: Path, times: int) -> Iterator[str]:
    """Yield the names of hostile models, each so many times with other bytes."""
    folder.mkdir()
    for number in range(times):
        for kind, (name, values) in enumerate([*TOKENIZERS.items(), *CONFIGS.items()]):
            model, added = folder / f"{number}-{name}", {"of": number}
            if kind < len(TOKENIZERS):
                changed_tokenizer(model, values)
                (model / "generation_config.json").write_text(json.dumps(added))
            else:
                of_configuration(model, values | added)
            yield model.name
        for name, write_files in FILES.items():
            write_files(folder / f"{number}-{name}")
            yield f"{number}-{name}"


def play(folder: Path, figures: Figures, *, times: int = 3) -> None:
    """Plan each of them as one visitor, a neighbour's model meanwhile, and list all models at the end."""
    figures.expect(ODD, DEAF, LATE, LEFT, LARGE)
    folder.mkdir(parents=True, exist_ok=True)
    names = list(make(folder / "models", times))
    app = Served(
        folder,
        "conformance.torture.no_work:execute",
        access="proxy",
        proxy_header="X-User",
        proxy_addresses="127.0.0.1",
    ).wait()
    process, done, seconds = psutil.Process(app.process.pid), threading.Event(), list[float]()
    neighbour = threading.Thread(target=_plan_of_a_neighbour, args=(app, figures, done, seconds))
    try:
        app.http.headers["X-User"] = "mallory"
        usual = []
        for _ in range(6):
            began = time.monotonic()
            assert app.http.post(f"{app.address}/api/plan", json=NEIGHBOUR, timeout=60).ok
            usual.append(time.monotonic() - began)
        before = process.memory_info().rss
        neighbour.start()
        with ThreadPoolExecutor(2) as threads:  # as many plans as one person gets at once
            list(threads.map(lambda name: _plan(app, figures, name), names))
        if not (answer := app.http.get(f"{app.address}/api/models", timeout=600)).ok:
            figures.complain(ODD, f"the list of models: {answer.status_code} {answer.text[:300]}")
        done.set()
        neighbour.join()
        figures.took(USUAL, statistics.median(usual[1:]))
        figures.took(MEANWHILE, statistics.median(seconds))
        if statistics.median(seconds) > _MOST_TIMES * statistics.median(usual[1:]):
            figures.complain(LATE, f"{statistics.median(seconds):.2f} s")
        grown = (process.memory_info().rss - before) >> 20
        figures.count(GROWTH, grown)
        if grown > MOST_MIB:
            figures.complain(LARGE, f"{grown} MiB")
        if left := [child for child in process.children(recursive=True) if LIMITED in child.cmdline()]:
            figures.complain(LEFT, str(left))
    finally:
        done.set()
        app.end()


def _plan(app: Served, figures: Figures, name: str) -> None:
    began = time.monotonic()
    answer = app.http.post(f"{app.address}/api/plan", json=NEIGHBOUR | {"model": name}, timeout=900)
    figures.count(PLANS)
    figures.took(SLOWEST, time.monotonic() - began)
    if answer.status_code not in (200, 422):
        figures.complain(ODD, f"{name}: {answer.status_code} {answer.text[:300]}")


def _plan_of_a_neighbour(app: Served, figures: Figures, done: threading.Event, seconds: list[float]) -> None:
    with requests.Session() as http:
        http.trust_env = False
        http.headers["X-User"] = "ann"
        while not done.wait(0.5):
            began = time.monotonic()
            try:
                answer = http.post(f"{app.address}/api/plan", json=NEIGHBOUR, timeout=60)
                if not answer.ok:
                    figures.complain(DEAF, answer.text[:300])
            except requests.RequestException as error:
                figures.complain(DEAF, str(error))
            seconds.append(time.monotonic() - began)
