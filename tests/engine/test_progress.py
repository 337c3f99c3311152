"""Work in a thread that tells how far it is."""

import threading

import pytest

from sarqc.engine.progress import with_progress
from sarqc.evaluation.perplexity import drain
from sarqc.events import Advanced


def test_what_it_tells_are_events_and_what_it_returns_is_returned():
    go_on = threading.Event()

    def work(tell):
        tell(1, 3)
        tell(2, 3)
        assert go_on.wait(10)
        return "found"

    steps = with_progress(work, "questions", every=0.01)
    assert next(steps) == Advanced(2, 3, "questions")
    go_on.set()
    assert drain(steps) == "found"


def test_its_error_is_raised():
    def work(tell):
        raise TimeoutError("of the work itself")

    with pytest.raises(TimeoutError, match="of the work itself"):
        list(with_progress(work, "questions"))


def test_it_ends_at_its_next_word_where_nobody_waits_any_more():
    told = 0

    def work(tell):
        nonlocal told
        pause = threading.Event()
        for done in range(10_000):
            tell(done, 10_000)
            told += 1
            pause.wait(0.005)

    steps = with_progress(work, "questions", every=0.02)
    next(steps)
    steps.close()
    last = told
    assert last < 10_000
    assert told == last
