"""Texts become token sequences as the protocol says, and what can't be had is refused."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from sarqc.calibration import corpora
from sarqc.calibration.corpora import Text, draw_sequences, offered, read_corpus
from sarqc.errors import NotFound, Refused, Unreachable
from sarqc.models.tokenizing import encode
from sarqc.settings import Settings

WIKITEXT = Path("Salesforce", "wikitext", "wikitext-2-raw-v1")


def draw(ids: np.ndarray, **changes: object) -> object:
    wanted = {"samples": 3, "length": 10, "held_out_samples": 2, "sampling": "sequential", "seed": 0} | changes
    return draw_sequences(Text("text", ids), **wanted)


def described(name: str, settings: Settings) -> str:
    return corpora._read_source(corpora._source(name, settings, download=True))[1]


def mirrored(settings: Settings, folder: Path) -> Settings:
    return settings.model_copy(update={"data_dir": folder})


def write(path: Path, texts: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text, "url": ""}) + "\n" for text in texts), encoding="utf-8")


def test_sequential_takes_the_first_tokens():
    ids = np.arange(57)
    drawn = draw(ids)
    assert drawn.calibration.ravel().tolist() == list(range(30))
    assert drawn.held_out.ravel().tolist() == list(range(30, 50))


@given(st.integers(0, 1000), st.integers(1, 4), st.integers(0, 4), st.integers(2, 9))
def test_random_windows_never_overlap(seed, samples, held_out, length):
    ids = np.arange(80)
    how = {"sampling": "random", "seed": seed, "samples": samples, "held_out_samples": held_out, "length": length}
    drawn = draw(ids, **how)
    used = np.concatenate([drawn.calibration.ravel(), drawn.held_out.ravel()])
    assert len(set(used.tolist())) == (samples + held_out) * length
    assert np.array_equal(draw(ids, **how).calibration, drawn.calibration)


def test_too_short_a_text_says_what_would_fit():
    with pytest.raises(Refused, match="at most 4 sequences"):
        draw(np.arange(49))


def test_tokens_are_those_of_the_tokenizer(tiny_llama):
    text = (tiny_llama / "test.txt").read_text(encoding="utf-8")[:5000]
    expected = AutoTokenizer.from_pretrained(tiny_llama)(text)["input_ids"]
    assert encode(text, tiny_llama, "tiny-llama", 4096).tolist() == expected


@pytest.mark.parametrize("saved_with", ["truncation", "padding"])
def test_a_text_is_read_whole_whatever_the_tokenizer_was_saved_with(tiny_llama, tmp_path, saved_with):
    text = (tiny_llama / "test.txt").read_text(encoding="utf-8")[:5000]
    expected = encode(text, tiny_llama, "tiny-llama", 4096)
    tokenizer = Tokenizer.from_file(str(tiny_llama / "tokenizer.json"))
    if saved_with == "truncation":
        tokenizer.enable_truncation(len(expected) // 2)
    else:
        tokenizer.enable_padding(length=2 * len(expected))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert encode(text, tmp_path, "tiny-llama", 4096).tolist() == expected.tolist()


def test_embedded_corpora_are_offered_and_read(settings):
    for entry in offered(settings):
        if entry.where == "embedded":
            assert len(read_corpus(entry.name, settings)) > 10_000


@pytest.mark.parametrize("content", [b"", b"  \n ", b"\xff\xfe\x00"])
def test_no_text_is_refused(settings, tmp_path, content):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(Refused, match=r"text\.txt"):
        read_corpus(str(path), settings)


def test_an_unknown_name_lists_the_known(settings):
    with pytest.raises(NotFound, match="tiny-llama-test"):
        read_corpus("no-such-corpus", settings)


def test_a_mirror_is_read_as_the_hub_would_be(settings, tmp_path):
    write(tmp_path / WIKITEXT / "test.jsonl", [" = A = \n", "\n", " text \n"])
    mirror = mirrored(settings, tmp_path)
    assert read_corpus("wikitext2-test", mirror) == " = A = \n\n\n\n\n\n text \n"
    with pytest.raises(NotFound, match="validation"):
        read_corpus("wikitext2-validation", mirror)


@pytest.mark.parametrize(
    ("name", "file", "most", "between"),
    [
        ("c4", "allenai/c4/en/train.jsonl", 2000, "\n\n"),
        ("c4-validation", "allenai/c4/en/validation.jsonl", 1100, " "),
        ("pile", "NeelNanda/pile-10k/train.jsonl", 2000, "\n\n"),
    ],
)
@pytest.mark.parametrize("present", [pytest.param(3, marks=pytest.mark.thorough), 2500])
def test_a_large_corpus_is_its_first_documents(settings, tmp_path, name, file, most, between, present):
    texts = [f"Document {number}\nhas two lines, é and \u2028." for number in range(present)]
    write(tmp_path / file, texts)
    mirror = mirrored(settings, tmp_path)
    assert read_corpus(name, mirror) == between.join(texts[:most])
    assert described(name, mirror) == (
        f"{name}, the first {min(most, present):,} documents, joined by {json.dumps(between)}"
    )


@pytest.mark.parametrize("line", ["not json", '{"words": "text"}', "[1]", '{"text": " "}', ""])
def test_a_broken_mirror_names_its_file(settings, tmp_path, line):
    path = tmp_path / "allenai" / "c4" / "en" / "train.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(line, encoding="utf-8")
    with pytest.raises(Refused, match=r"train\.jsonl"):
        read_corpus("c4", mirrored(settings, tmp_path))


def test_embedded_texts_and_files_describe_themselves(settings, text_file):
    assert described("tiny-llama-test", settings) == "tiny-llama-test"
    assert described(str(text_file), settings) == str(text_file)


@pytest.mark.parametrize(
    ("name", "streamed", "read"), [("c4", True, 2000), ("pile", True, 2000), ("wikitext2", False, 3000)]
)
def test_the_hub_is_streamed_and_asked_once(fresh_settings, monkeypatch, name, streamed, read):
    asked, taken = [], []

    def load_dataset(dataset: str, config: str | None, **options: object) -> Iterator[dict[str, str]]:
        asked.append((dataset, config, options["split"], options["streaming"]))
        for number in range(3000):
            taken.append(number)
            yield {"text": str(number)}

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    text = read_corpus(name, mirrored(fresh_settings, None))
    assert text == "\n\n".join(map(str, range(read)))
    assert read_corpus(name, mirrored(fresh_settings, None)) == text
    assert len(taken) == read
    assert len(asked) == 1
    assert asked[0][3] is streamed


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["c4", "c4-validation", "pile", "wikitext2"])
def test_a_corpus_without_a_hub(settings, name):
    with pytest.raises(Unreachable, match="SARQC_DATA_DIR"):
        read_corpus(name, mirrored(settings, None))


@pytest.mark.skipif("SARQC_DATA_DIR" not in os.environ, reason="no mirror of the Hub on this host")
def test_the_mirror_of_this_host(settings):
    assert settings.data_dir is not None
    for entry in offered(settings):
        try:
            text = read_corpus(entry.name, settings)
        except NotFound:
            continue
        assert len(text) > 10_000
