"""The store of content-keyed files: whole or not at all, whenever a signal comes."""

from __future__ import annotations

import gc
import os
import sys

import pytest

from sarqc.files.artefacts import ArtefactStore, chain_key


class Interrupt:
    """A trace function that raises KeyboardInterrupt once: before the line with the given number, of all that are run.

    Not before each bytecode: raised within an exception's own clean-up, it would stay the context of all later ones.
    """

    def __init__(self, at):
        self.at, self.seen = at, 0

    def __call__(self, _frame, event, _argument):
        if event == "line":
            self.seen += 1
            if self.seen == self.at:
                raise KeyboardInterrupt
        return self


def interrupted_write(store: ArtefactStore, at: int) -> bool:
    """Whether writing was interrupted; coverage and debuggers get their trace function back."""
    before = sys.gettrace()
    gc.disable()  # a finalizer would be traced too, and nobody hears what is raised in one
    sys.settrace(Interrupt(at))
    try:
        store.write("0a" * 16, ".layer", b"payload")
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
        gc.enable()
    return False


def test_an_interrupt_at_any_moment_leaves_the_whole_file_or_nothing(tmp_path):
    whole = 0
    for at in range(1, 10_000):
        folder = tmp_path / str(at)
        store = ArtefactStore(folder)
        interrupted = interrupted_write(store, at)
        left = [path.name for path in folder.glob("*/*")]
        assert left in ([], ["0a" * 16 + ".layer"]), f"before line {at}"
        whole += bool(left)
        if left:
            assert store.read("0a" * 16, ".layer") == b"payload"
        if not interrupted:
            break
    assert at > 100
    assert sys.exc_info() == (None, None, None)
    assert whole < at / 2, "most moments are before the file is in place"


def test_a_file_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        ArtefactStore(tmp_path).write("0a" * 16, ".layer", b"payload")
    finally:
        os.umask(before)
    assert (tmp_path / "0a" / f"{'0a' * 16}.layer").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("quota", [0, 1, 2, 3])
def test_trimming_takes_also_what_a_kill_left(tmp_path, quota):
    store = ArtefactStore(tmp_path)
    (tmp_path / "0a").mkdir()
    (tmp_path / "0a" / ".partial-0123").write_bytes(b"half a file")
    os.utime(tmp_path / "0a" / ".partial-0123", (1, 1))
    for age, key in enumerate(("0b" * 16, "0c" * 16), start=2):
        store.write(key, ".json", b"{}")
        os.utime(tmp_path / key[:2] / f"{key}.json", (age, age))
    size = 2 + 16
    removed = store.trim(quota * size)
    assert removed == [11 + 2 * size, 11 + size, 11, 0][quota]
    assert len(list(tmp_path.glob("*/*"))) == [0, 1, 2, 3][quota]


def test_what_a_killed_process_was_writing_is_removed_and_what_is_being_written_stays(tmp_path):
    store = ArtefactStore(tmp_path)
    store.write(chain_key("a"), ".bin", b"whole")
    (path,) = tmp_path.glob("*/*.bin")
    old, young = (path.with_name(f".partial-{name}") for name in ("old", "young"))
    for file in (old, young, path):
        file.touch()
    for file in (old, path):
        os.utime(file, (1.0, 1.0))
    assert store.remove_partial() == 1
    assert not old.exists()
    assert young.exists()
    assert store.read(chain_key("a"), ".bin") == b"whole"
