"""Claims: each piece of work goes to one process, and that of a process that is gone to another one."""

import os
import threading

from sarqc.files import claims as module
from sarqc.files.claims import Claims
from sarqc.files.places import Folder

WANTED = {name: f"{name}0" * 16 for name in "abcdefgh"}


def test_a_crew_of_one_has_everything_and_leaves_nothing(tmp_path):
    with Claims(Folder(tmp_path), 1).share(WANTED) as mine:
        assert mine == [*WANTED]
        assert not list(tmp_path.iterdir())


def test_shares_are_fair_and_nobody_has_what_another_has(tmp_path):
    one, other, third = (Claims(Folder(tmp_path), 3) for _ in range(3))
    with one.share(WANTED) as first, other.share(WANTED) as second:
        with third.share(WANTED) as last:
            assert [len(first), len(second), len(last)] == [3, 2, 1]
            assert len({*first, *second, *last}) == 6
        with third.share(WANTED) as last:
            assert len(last) == 1  # what was let go is free
    assert not list(tmp_path.glob("*/*"))


def test_what_an_error_leaves_is_free(tmp_path):
    claims = Claims(Folder(tmp_path), 2)
    try:
        with claims.share(WANTED):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert not list(tmp_path.glob("*/*"))


def test_the_claim_of_a_process_that_is_gone_is_taken_over(tmp_path):
    only = {"a": WANTED["a"]}
    path = tmp_path / "a0" / f"{WANTED['a']}.claim"
    path.parent.mkdir()
    path.touch()
    with Claims(Folder(tmp_path), 2).share(only) as mine:
        assert mine == []
    os.utime(path, (1.0, 1.0))
    with Claims(Folder(tmp_path), 2).share(only) as mine:
        assert mine == ["a"]
    assert not path.exists()


def test_one_that_works_for_long_keeps_its_claim(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RENEWED_SECONDS", 0.01)
    only = {"a": WANTED["a"]}
    with Claims(Folder(tmp_path), 2).share(only):
        path = tmp_path / "a0" / f"{WANTED['a']}.claim"
        os.utime(path, (1.0, 1.0))
        touched = threading.Event()
        while path.stat().st_mtime < 2.0:
            touched.wait(0.01)


def test_one_waits_until_the_other_is_done(tmp_path):
    order = []
    inside = threading.Event()

    def second():
        inside.wait()
        with Claims(Folder(tmp_path), 2).alone(WANTED["a"]):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with Claims(Folder(tmp_path), 2).alone(WANTED["a"]):
        inside.set()
        thread.join(0.3)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]
