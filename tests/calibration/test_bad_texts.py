"""What is named as a text and is none: no name ends in a traceback, nothing without an end is opened."""

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sarqc import Recipe
from sarqc.calibration import corpora
from sarqc.calibration.corpora import check_corpus, read_corpus, text_of
from sarqc.engine.plan import plan
from sarqc.errors import NotFound, Refused, TooLarge
from sarqc.models.catalogue import local_folder
from sarqc.models.checkpoint import read_checkpoint

NOWHERE = [
    "x" * 256, "x" * 1024, "a/" * 500, "~nosuchuser", "~nosuchuser/x", "/nowhere/at/all", "text.txt/a/b", "\n", " ",
    "~",
    "a/b.", "a--b/c", "a/b..c", "a/b\n", "a/" + "b" * 97, "owner/näme", "../..//..", "/dev/null/x", "a\0b",
]  # fmt: skip
FOLDERS = ("~", "../..//..")  # without a model in them


@pytest.mark.parametrize("name", NOWHERE)
def test_a_name_that_leads_nowhere(settings, name):
    with pytest.raises(Refused) as refused:
        check_corpus(name, settings)
    assert len(str(refused.value)) < 600
    if name not in FOLDERS:
        with pytest.raises(NotFound) as refused:
            local_folder(name, settings)
        assert len(str(refused.value)) < 600


@pytest.mark.parametrize("name", NOWHERE)
def test_a_recipe_with_such_a_name_is_refused(settings, text_file, name):
    good = {"model": "tiny-llama", "calibration": str(text_file), "samples": 2, "length": 32, "group_size": 32}
    for field in ("model", "calibration", "test"):
        with pytest.raises(Refused):
            plan(Recipe.parse(good | {field: name}), settings)


def test_only_regular_files_are_texts(settings, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    devices = ("/dev/zero", "/dev/stdin", "/dev/full")
    for path, take in product((tmp_path, tmp_path / "pipe", tmp_path / "link", *devices), (check_corpus, read_corpus)):
        with pytest.raises(Refused):  # at once: who opened one would never come back
            take(str(path), settings)


def test_a_text_has_a_largest_size(settings, tmp_path):
    small = settings.model_copy(update={"text_mib": 0.5})
    path = tmp_path / "text.txt"
    path.write_text("a" * 2**19)
    check_corpus(str(path), small)
    path.write_text("a" * (2**19 + 1))
    with pytest.raises(TooLarge, match="SARQC_TEXT_MIB"):
        check_corpus(str(path), small)
    huge = tmp_path / "huge.txt"
    with huge.open("wb") as file:
        file.truncate(1 << 40)  # nothing of it is read
    with pytest.raises(TooLarge):
        read_corpus(str(huge), settings)


def test_a_text_is_tokenised_once_and_again_when_it_changed(settings, tiny_llama, tmp_path):
    checkpoint, path = read_checkpoint(tiny_llama, "tiny-llama"), tmp_path / "text.txt"
    path.write_text("Once upon a time")
    first = text_of(str(path), checkpoint, settings)
    assert text_of(str(path), checkpoint, settings).ids is first.ids
    path.write_text("Once upon a time there was a fox")
    second = text_of(str(path), checkpoint, settings)
    assert len(second.ids) > len(first.ids)
    assert np.array_equal(second.ids[: len(first.ids)], first.ids)
    path.unlink()
    with pytest.raises(NotFound):  # what was read before is not given for what is gone
        text_of(str(path), checkpoint, settings)


def test_a_slow_tokenizer_holds_up_no_other_text(settings, tiny_llama, tmp_path, monkeypatch):
    shutil.copytree(tiny_llama, tmp_path / "slow")
    slow, quick = read_checkpoint(tmp_path / "slow", "slow"), read_checkpoint(tiny_llama, "tiny-llama")
    path, other = tmp_path / "text.txt", tmp_path / "other.txt"
    path.write_text("Once upon a time")
    other.write_text("there was a fox")
    asked, answered, encode = threading.Event(), threading.Event(), corpora.encode

    def waiting(text: str, folder: Path, *more: object) -> np.ndarray:
        if folder == slow.folder:
            asked.set()
            assert answered.wait(20), "another text waits for it"
        return encode(text, folder, *more)

    monkeypatch.setattr(corpora, "encode", waiting)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(text_of, str(path), slow, settings)
        assert asked.wait(20)
        assert text_of(str(other), quick, settings).ids.size
        answered.set()
        assert first.result().ids.size


def test_no_folder_of_the_host_is_named_that_nobody_named(settings, tmp_path):
    mirror = settings.model_copy(update={"data_dir": tmp_path})
    folder = tmp_path / "Salesforce" / "wikitext" / "wikitext-2-raw-v1"
    folder.mkdir(parents=True)
    (folder / "test.jsonl").write_text("nonsense")
    (folder / "validation.jsonl").write_bytes(b"\xff")
    for name in ("wikitext2", "wikitext2-test", "wikitext2-validation"):
        with pytest.raises(Refused) as refused:
            read_corpus(name, mirror)
        assert name in str(refused.value)
        assert str(tmp_path) not in str(refused.value)
