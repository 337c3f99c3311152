"""Tokenizers with regular expressions of their own: the same tokens, and an end to what takes for ever."""

import json
from pathlib import Path

import numpy as np
import pytest

from sarqc.errors import Refused
from sarqc.models import tokenizer_files
from sarqc.models.tokenizer_files import FAST, encode

# What ByteLevel does by itself, as GPT-2 writes it.
OF_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def with_expression(tiny_llama: Path, folder: Path, expression: str) -> Path:
    document = json.loads((tiny_llama / FAST).read_text(encoding="utf-8"))
    byte_level = document["pre_tokenizer"] | {"use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, byte_level]}
    (folder / FAST).write_text(json.dumps(document), encoding="utf-8")
    return folder


def test_tokens_are_the_same_in_a_process_of_its_own(tiny_llama: Path, tmp_path: Path) -> None:
    text = (tiny_llama / "test.txt").read_text(encoding="utf-8")[:20_000] + " naïve λ 12.5 €\n\n  x"
    own = with_expression(tiny_llama, tmp_path, OF_GPT2)
    assert not tokenizer_files._has_expressions(tokenizer_files._fast(tiny_llama, ""))
    assert tokenizer_files._has_expressions(tokenizer_files._fast(own, ""))
    assert np.array_equal(encode(text, own, "own", 10**6), encode(text, tiny_llama, "tiny-llama", 10**6))


@pytest.mark.parametrize(
    "expression",
    [r"(.+)+[0-9]{2}", r"(?:.*)(?:.*)(?:.*)[0-9]{2}"],  # beyond the library's limit for a match, and just below it
)
def test_an_expression_that_takes_for_ever_is_refused(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expression: str
) -> None:
    monkeypatch.setattr(tokenizer_files, "CPU_SECONDS", 1)
    monkeypatch.setattr(tokenizer_files, "CPU_SECONDS_EACH_MIB", 0)
    folder = with_expression(tiny_llama, tmp_path, expression)
    with pytest.raises(Refused, match="take more than 1 s for this text, or fail on it") as error:
        encode(("a " * 80 + "1\n") * 2000 + "11", folder, "theirs", 10**6)
    assert error.value.where == f"theirs, {FAST}"
