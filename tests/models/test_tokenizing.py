"""Tokenizers: one reading of a folder for texts and models, and an end to what takes for ever or all memory."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sarqc.errors import Refused
from sarqc.models import tokenizing
from sarqc.models.tokenizing import (
    FAST,
    SHIPPED,
    Beginning,
    check_tokenizer,
    encode,
    encode_each,
    facts_of,
    text_files,
    tokenizer_of,
)

# What ByteLevel does by itself, as GPT-2 writes it.
OF_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SAMPLE = "In 1984, 12345 Birds \tflew; naïve λ 12.5 €\n\n  x"
Change = Callable[[dict[str, Any]], object]


def changed(source: Path, folder: Path, change: Change, config: dict[str, Any] | None = None) -> Path:
    """Return a copy of a folder with another tokenizer.json and further settings."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer_config.json"):
        shutil.copy(source / name, folder / name)
    document = json.loads((source / FAST).read_text(encoding="utf-8"))
    change(document)
    (folder / FAST).write_text(json.dumps(document), encoding="utf-8")
    if config is not None:
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")) | config
        (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def splitting_by(expression: str) -> Change:
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}

    def change(document: dict[str, Any]) -> None:
        byte_level = document["pre_tokenizer"] | {"use_regex": False}
        document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, byte_level]}

    return change


def single_digits(document: dict[str, Any]) -> None:
    steps = [{"type": "Digits", "individual_digits": True}, document["pre_tokenizer"]]
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    document["normalizer"] = {"type": "Lowercase"}


def replacing(*, times: int, what: str, by: str) -> Change:
    step = {"type": "Replace", "pattern": {"String": what}, "content": by}
    return lambda document: document.update(normalizer={"type": "Sequence", "normalizers": [step] * times})


def beginning_with_a_billion(document: dict[str, Any]) -> None:
    names = [f"<{number}>" for number in range(1000)]
    special = {name: {"id": name, "ids": [0] * 10**6, "tokens": [name] * 10**6} for name in names[:1]}
    # One long list, named a thousand times.
    document["post_processor"] = {
        "type": "TemplateProcessing", "special_tokens": special, "pair": [],
        "single": [{"SpecialToken": {"id": names[0], "type_id": 0}}] * 1000 + [{"Sequence": {"id": "A", "type_id": 0}}],
    }  # fmt: skip


def long_words(document: dict[str, Any]) -> None:
    vocabulary = {"[UNK]": 0, "a": 1, "##a": 2}
    document |= {
        "added_tokens": [], "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 10**9, "vocab": vocabulary},
    }  # fmt: skip


def long_prefix(document: dict[str, Any]) -> None:
    document["model"]["continuing_subword_prefix"] = "é" * 10**6


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-moe"])
def test_shipped_tokenizers_are_known(settings, name):
    content = (settings.assets_dir / "models" / name / FAST).read_bytes()
    assert hashlib.sha256(content).hexdigest() in SHIPPED


def test_shipped_tokenizers_need_no_process(tiny_llama, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    assert encode(SAMPLE, tiny_llama, "tiny-llama", 4096).size


def test_tokens_are_the_same_in_a_process_of_its_own(tiny_llama, tmp_path):
    text = (tiny_llama / "test.txt").read_text(encoding="utf-8")[:20_000] + SAMPLE
    own = changed(tiny_llama, tmp_path, splitting_by(OF_GPT2))
    texts = ["", text, "b"]
    for there, here in zip(
        encode_each(texts, own, "own", 10**6), encode_each(texts, tiny_llama, "tiny-llama", 10**6), strict=True
    ):
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("tokenizer_class", ["GPT2Tokenizer", "Qwen2Tokenizer", "PreTrainedTokenizerFast", None])
def test_tokenizer_json_decides_whatever_class_is_named(tiny_llama, tmp_path, tokenizer_class):
    config = {"tokenizer_class": tokenizer_class, "add_bos_token": True, "pad_token": "<never seen>",
              "chat_template": "{{ bos_token }}{{ messages }}"}  # fmt: skip
    folder = changed(tiny_llama, tmp_path, single_digits, config)
    expected = Tokenizer.from_file(str(folder / FAST)).encode(SAMPLE).ids
    loaded = tokenizer_of(folder)
    assert loaded(SAMPLE)["input_ids"] == loaded.encode(SAMPLE) == expected
    assert encode(SAMPLE, folder, "own", 4096).tolist() == expected
    assert loaded.chat_template == config["chat_template"]
    assert (loaded.bos_token, loaded.bos_token_id, loaded.pad_token) == ("<s>", 0, None)
    if tokenizer_class == "GPT2Tokenizer":  # which the library makes anew
        assert AutoTokenizer.from_pretrained(folder)(SAMPLE)["input_ids"] != expected


def test_facts_of_a_tokenizer(tiny_llama, tmp_path):
    def begin(document: dict[str, Any]) -> None:
        special = {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}
        single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
        document["post_processor"] = {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [],
            "special_tokens": special,
        }

    template = [{"name": "default", "template": "{{ bos_token }}"}]
    folder = changed(tiny_llama, tmp_path / "1", begin, {"bos_token": {"content": "</s>"}, "chat_template": template})
    facts = facts_of(folder, "1")
    assert (facts.own, facts.bos, facts.chats_begin) == (Beginning((0,), "<s>"), Beginning((1,), "</s>"), True)
    folder = changed(tiny_llama, tmp_path / "2", begin, {"bos_token": None})
    assert facts_of(folder, "2").bos == Beginning()
    folder = changed(tiny_llama, tmp_path / "3", lambda _: None)
    assert not facts_of(folder, "3").chats_begin
    (folder / "chat_template.jinja").write_text("<s>{{ messages }}")
    assert facts_of(folder, "3").chats_begin


@pytest.mark.thorough
def test_a_folder_without_tokenizer_json_is_read_by_its_vocabulary(tiny_llama, tmp_path):
    PreTrainedTokenizerFast.from_pretrained(tiny_llama).backend_tokenizer.model.save(str(tmp_path))
    config = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    check_tokenizer(tmp_path, "slow")
    expected = AutoTokenizer.from_pretrained(tmp_path)(SAMPLE)["input_ids"]
    assert encode(SAMPLE, tmp_path, "slow", 4096).tolist() == tokenizer_of(tmp_path)(SAMPLE)["input_ids"] == expected
    assert {path.name for path in text_files(tmp_path)} == {"vocab.json", "merges.txt", "tokenizer_config.json"}


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


BOMBS: dict[str, tuple[Change, str]] = {
    "text that grows": (replacing(times=9, what="a", by="a" * 10), "too much memory"),
    "a beginning that grows": (beginning_with_a_billion, "too much memory"),
    "long words": (long_words, "takes more than 2 s"),
    "nothing replaced": (replacing(times=1, what="", by="a"), "fails"),
    "a long prefix": (long_prefix, "damaged|fails|too much memory"),
    "an expression beyond the library's limit": (splitting_by(r"(.+)+[0-9]{2}"), "takes more than 2 s|fails"),
    "an expression just below it": (splitting_by(r"(?:.*)(?:.*)(?:.*)[0-9]{2}"), "takes more than 2 s|fails"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("bomb", BOMBS)
def test_what_a_tokenizer_takes_is_bounded(tiny_llama, tmp_path, monkeypatch, bomb):
    monkeypatch.setattr(tokenizing, "CPU_SECONDS", 2)
    monkeypatch.setattr(tokenizing, "CPU_SECONDS_EACH_MIB", 0)
    change, what = BOMBS[bomb]
    folder, other = changed(tiny_llama, tmp_path / "1", change), changed(tiny_llama, tmp_path / "2", single_digits)
    refusals: list[Refused] = []

    def ask() -> None:
        try:
            check_tokenizer(folder, "theirs")
            encode(("a " * 80 + "1\n") * 1000 + "11", folder, "theirs", 10**6)
        except Refused as error:
            refusals.append(error)

    before = resident()
    thread = threading.Thread(target=ask)
    thread.start()
    assert encode(SAMPLE, other, "other", 4096).size  # meanwhile
    thread.join()
    (refusal,) = refusals
    assert resident() - before < 100 << 20
    assert refusal.where.startswith("theirs")
    assert "\n" not in refusal.what
    assert re.search(what, str(refusal))


def test_tokens_are_no_more_than_a_text_can_have(tiny_llama, tmp_path):
    folder = changed(tiny_llama, tmp_path, replacing(times=1, what="a", by="b " * 20))
    with pytest.raises(Refused, match="makes 40,001 tokens of a text of 2,000 characters"):
        encode("a" * 2000, folder, "theirs", 10**6)


@pytest.mark.parametrize("name", [FAST, "chat_template.jinja"])
def test_a_huge_file_is_not_opened(tiny_llama, tmp_path, name):
    folder = changed(tiny_llama, tmp_path, lambda _: None)
    with (folder / name).open("wb") as file:
        file.truncate(3 << 30)
    before = resident()
    with pytest.raises(Refused, match=f"{name} has more than 64 MiB"):
        check_tokenizer(folder, "theirs")
    assert resident() - before < 10 << 20
