"""Texts become token sequences as the protocol says, and what can't be had is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from sarqc.calibration.corpora import draw_sequences, offered, read_corpus, token_ids
from sarqc.errors import NotFound, Refused, Unreachable
from sarqc.settings import Settings


def draw(ids: np.ndarray, **changes: object) -> object:
    wanted = {"samples": 3, "length": 10, "held_out_samples": 2, "sampling": "sequential", "seed": 0} | changes
    return draw_sequences(ids, "text", **wanted)


def test_sequential_takes_the_first_tokens() -> None:
    ids = np.arange(57)
    drawn = draw(ids)
    assert drawn.calibration.ravel().tolist() == list(range(30))
    assert drawn.held_out.ravel().tolist() == list(range(30, 50))


@given(st.integers(0, 1000), st.integers(1, 4), st.integers(0, 4), st.integers(2, 9))
def test_random_windows_never_overlap(seed: int, samples: int, held_out: int, length: int) -> None:
    ids = np.arange(80)
    drawn = draw(ids, sampling="random", seed=seed, samples=samples, held_out_samples=held_out, length=length)
    used = np.concatenate([drawn.calibration.ravel(), drawn.held_out.ravel()])
    assert len(set(used.tolist())) == (samples + held_out) * length
    again = draw(ids, sampling="random", seed=seed, samples=samples, held_out_samples=held_out, length=length)
    assert np.array_equal(again.calibration, drawn.calibration)


def test_too_short_a_text_says_what_would_fit() -> None:
    with pytest.raises(Refused, match="at most 4 sequences"):
        draw(np.arange(49))


def test_tokens_are_those_of_the_tokenizer(tiny_llama: Path) -> None:
    text = (tiny_llama / "test.txt").read_text(encoding="utf-8")[:5000]
    expected = AutoTokenizer.from_pretrained(tiny_llama)(text)["input_ids"]
    assert token_ids(text, tiny_llama).tolist() == expected


def test_embedded_corpora_are_offered_and_read(settings: Settings) -> None:
    for entry in offered(settings):
        if entry.where == "embedded":
            assert len(read_corpus(entry.name, settings)) > 10_000


@pytest.mark.parametrize("content", [b"", b"  \n ", b"\xff\xfe\x00"])
def test_no_text_is_refused(settings: Settings, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(Refused, match=r"text\.txt"):
        read_corpus(str(path), settings)


def test_an_unknown_name_lists_the_known(settings: Settings) -> None:
    with pytest.raises(NotFound, match="tiny-llama-test"):
        read_corpus("no-such-corpus", settings)


def test_a_hub_corpus_without_a_hub(settings: Settings) -> None:
    with pytest.raises(Unreachable, match="SARQC_DATA_DIR"):
        read_corpus("wikitext2", settings)


def test_a_mirror_is_read_as_the_hub_would_be(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "Salesforce" / "wikitext" / "wikitext-2-raw-v1"
    folder.mkdir(parents=True)
    (folder / "test.txt").write_text(" = A = \n\n text \n", encoding="utf-8")
    mirror = settings.model_copy(update={"data_dir": tmp_path})
    assert read_corpus("wikitext2-test", mirror) == " = A = \n\n\n\n\n\n text \n"
    with pytest.raises(NotFound, match="validation"):
        read_corpus("wikitext2-validation", mirror)
