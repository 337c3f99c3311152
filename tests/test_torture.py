"""A short part of the torture; all of it is ``make torture``."""

from types import SimpleNamespace

import pytest

from conformance.torture import (
    downloads,
    halls,
    hostile_models,
    kills,
    many_runs,
    pattern_bombs,
    requests_of_a_profile,
    strangers,
    viewers,
)
from conformance.torture.answers import Answer, Judge
from conformance.torture.figures import Figures
from sarqc.study.tensors import FILE

REQUESTS, KILLS = 150, 1


@pytest.fixture
def figures():
    """Of a torture that breaks nothing."""
    figures = Figures()
    yield figures
    assert figures.is_sound, figures.table()


@pytest.mark.soak
@pytest.mark.parametrize("profile", requests_of_a_profile.PROFILES)
def test_malformed_requests_break_nothing(tmp_path, figures, profile):
    requests_of_a_profile.play(tmp_path, profile, figures, REQUESTS, 1, with_pages=False)
    assert figures.counts["requests"] > 0.9 * REQUESTS


@pytest.mark.soak
def test_pattern_bombs_freeze_nothing(tmp_path, figures):
    some = {"froze": [pattern_bombs.FROZE], "many": pattern_bombs.BOMBS["many"]}
    pattern_bombs.play(tmp_path, figures, some)
    assert figures.counts[pattern_bombs.PLANS] == 3 * (1 + len(some))


@pytest.mark.soak
def test_hostile_models_hold_up_nobody(tmp_path, figures):
    hostile_models.play(tmp_path, figures, times=1)


@pytest.mark.soak
def test_quirks_are_measured_or_refused(tmp_path, figures):
    strangers.play(tmp_path, figures, pairs=20, seed=1)


@pytest.mark.soak
def test_kills_change_nothing(tmp_path, figures):
    kills.play(tmp_path, figures, KILLS, 1, [kills.RECIPES[-1]])
    assert figures.counts["kills"] == KILLS


@pytest.mark.soak
def test_a_crowd_hears_everything_and_leaves_nothing_behind(tmp_path, figures):
    viewers.listen(tmp_path, figures, 300, 2)
    assert figures.counts[viewers.HEARD] >= 300 * 3


@pytest.mark.soak
def test_downloads_leave_nothing(tmp_path, figures):
    downloads.play(tmp_path, figures, readers=5)


@pytest.mark.soak
def test_a_full_hall_hears_each_change(tmp_path, figures):
    halls.fill(tmp_path, figures)


@pytest.mark.soak
def test_runs_one_after_the_other_leave_nothing_behind(tmp_path, figures):
    many_runs.play(tmp_path, figures, 4)


def test_a_single_bit_is_seen(tmp_path):
    arrays = tmp_path / "state" / "studies" / "a" / FILE
    arrays.parent.mkdir(parents=True)
    app, run = SimpleNamespace(folder=tmp_path), {"study_id": "a", "summary": {"perplexity": 80.0}}
    results = []
    for last in (0, 0, 1):
        arrays.write_bytes(bytes([1, 2, 3, last]))
        results.append(kills._result(app, "a", run))
    assert results[0] == results[1] != results[2]
    assert kills._result(app, "a", run | {"summary": {"perplexity": 80.00000000000001}}) != results[2]


def layer(seq: int, index: int) -> dict[str, object]:
    return {"seq": seq, "type": "layer_done", "index": index}


STARTED = {"seq": 1, "type": "started", "layers": [{}, {}]}
FINISHED = {"seq": 4, "type": "finished"}


@pytest.mark.parametrize(
    ("events", "number"),
    [
        ([STARTED, layer(2, 0), layer(3, 1), FINISHED], 0),
        ([STARTED, layer(2, 0), layer(3, 0), FINISHED], 2),  # twice, and another not at all
        ([STARTED, layer(2, 0), layer(3, 1)], 1),
        ([STARTED, layer(3, 0), layer(3, 1), FINISHED], 1),
    ],
)
def test_faults_of_events_are_seen(events, number):
    assert len(kills.faults(events)) == number


@pytest.mark.parametrize(
    ("status", "kind", "body", "complaints"),
    [
        (404, "application/json", b'{"error": {"kind": "a", "what": "b", "where": "c", "remedy": ""}}', 0),
        (404, "application/json", b'{"detail": "Not Found"}', 1),
        (500, "text/plain", b"Internal Server Error", 2),
        (200, "application/json", b'{"path": "/nowhere/state/x"}', 1),
    ],
)
def test_wrong_answers_are_seen(status, kind, body, complaints):
    figures = Figures()
    judge = Judge.__new__(Judge)
    judge.figures, judge.hidden = figures, [b"/nowhere/state"]
    judge.judge("asked", "GET", "/api/x", Answer(status, {"content-type": kind}, body, 0.1))
    assert sum(len(kept) for kept in figures.complaints.values()) == complaints
