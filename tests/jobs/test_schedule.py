"""The schedule against a fake clock: turns, order, and that nothing starves."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from sarqc.jobs.schedule import BRIEF_SECONDS, Start, Waiting, decide, steps_aside


def names(starts: list[Start]) -> list[str]:
    return [start.run_id for start in starts]


ANN, PREVIEW = Waiting("a", "ann", 0.0), Waiting("p", "ann", 5.0, "preview")
CROWD = [Waiting(f"a{i:03}", "ann", 0.0) for i in range(100)] + [Waiting("b", "bob", 1.0)]
LANES = [Waiting("b", "ann", 0.0), PREVIEW, Waiting("q", "bob", 6.0, "preview")]


@pytest.mark.parametrize(
    ("waiting", "devices", "now", "held", "last_lane", "expected"),
    [
        pytest.param([], 1, 0.0, {}, None, [], id="nobody waits"),
        pytest.param([ANN], 0, 0.0, {}, None, [], id="no device is free"),
        pytest.param([Waiting("c", "ann", 3.0), ANN, Waiting("b", "ann", 2.0)], 2, 9.0, {}, None, ["a", "b"],
                     id="first come, first served for one owner"),
        pytest.param(CROWD, 1, 10.0, {"ann": 9.0}, None, ["b"], id="a hundred runs do not keep out one"),
        pytest.param(CROWD, 2, 10.0, {}, None, ["a000", "b"], id="nor of two devices"),
        pytest.param([Waiting("x2", "xavier", 0.0), *(Waiting(f"n{i}", f"new{i}", 11.0 + i) for i in range(20))],
                     1, 40.0, {"xavier": 10.0}, None, ["x2"],
                     id="newcomers do not overtake who has waited since its last turn"),
        pytest.param([Waiting("x", "xavier", 100.0), Waiting("n", "new", 99.0)], 1, 101.0, {"xavier": 1.0}, None, ["n"],
                     id="an owner back from holiday has no old claim"),
        pytest.param(LANES, 3, 9.0, {}, None, ["p", "b", "q"], id="previews first"),
        pytest.param(LANES, 1, 9.0, {}, "preview", ["b"], id="but not for ever"),
        pytest.param(LANES[1:], 1, 9.0, {}, "preview", ["p"], id="unless nothing else waits"),
        pytest.param([Waiting("b", "bob", 0.0), Waiting("a", "ann", 5.0, goes_on=True), replace(PREVIEW, owner="cyd")],
                     3, 9.0, {"ann": 9.0}, None, ["p", "a", "b"], id="who stepped aside is the first to go on"),
    ],
)  # fmt: skip
def test_whose_turn_it_is(waiting, devices, now, held, last_lane, expected):
    assert names(decide(waiting, [f"cuda:{i}" for i in range(devices)], now, held, last_lane)) == expected


def test_as_many_step_aside_as_previews_wait():
    running = [Waiting(name, name, 9.0, goes_on=True) for name in ("a", "b", "c")]
    previews = [Waiting("p", "ann", 5.0, "preview"), Waiting("q", "bob", 6.0, "preview")]
    batch = [Waiting("z", "zoe", 0.0)]
    assert steps_aside([*batch, previews[0]], 0, running, 9.0, {}) == {"a"}
    assert steps_aside(batch, 0, running, 9.0, {}) == set()
    assert steps_aside(previews[:1], 1, running, 9.0, {}) == set()  # a device is free, or soon will be
    assert steps_aside(previews, 0, running, 9.0, {}) == {"a"}  # the second after it, once something else had its turn
    assert steps_aside(previews[:1], 0, running, 9.0, {}, last_lane="preview") == set()
    long = Waiting("p", "ann", 5.0, "preview", seconds=BRIEF_SECONDS + 1)
    assert steps_aside([long], 0, running, 9.0, {}) == set()


@pytest.mark.thorough
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 100), st.sampled_from(["batch", "preview"])), max_size=12),
    st.integers(0, 5),
    st.dictionaries(st.sampled_from("abc"), st.floats(0, 100)),
)
@hypothesis_settings(max_examples=200, deadline=None)
def test_decisions_are_sound(queue, devices, held):
    waiting = [Waiting(f"{i:02}", owner, queued, lane) for i, (owner, queued, lane) in enumerate(queue)]
    free = [f"cuda:{i}" for i in range(devices)]
    starts = decide(waiting, free, 100.0, held)
    assert len(starts) == min(len(waiting), devices)  # no device is idle while somebody waits
    assert len(set(names(starts))) == len(starts)
    assert [start.device for start in starts] == free[: len(starts)]
    assert starts == decide(list(reversed(waiting)), free, 100.0, held)  # the order of the question is no matter


@pytest.mark.parametrize(("devices", "seed"), [(1, 1), (3, 2), (8, 3)])
def test_a_thousand_random_arrivals(devices, seed):
    """An owner floods, others come now and then; every run is served, alone on its device, in the owner's order."""
    rng = random.Random(seed)
    arrivals = sorted(
        (
            Waiting(
                f"{i:04}",
                rng.choices(["flood", "ann", "bob", "cyd"], [20, 1, 1, 1])[0],
                rng.uniform(0, 2000),
                rng.choice(["batch", "batch", "preview"]),
            )
            for i in range(1000)
        ),
        key=lambda run: run.queued,
    )
    clock, waiting, running = 0.0, [], {}  # running: device -> (run, end)
    held = {}
    served = []
    delay = {}
    lane = None
    pending = list(arrivals)
    while pending or waiting or running:
        times = [pending[0].queued] if pending else []
        clock = min(times + [end for _, end in running.values()])
        while pending and pending[0].queued <= clock:
            waiting.append(pending.pop(0))
        for device in [device for device, (_, end) in running.items() if end <= clock]:
            held[running.pop(device)[0].owner] = clock
        free = [f"d{i}" for i in range(devices) if f"d{i}" not in running]
        now_held = held | {run.owner: clock for run, _ in running.values()}
        for start in decide(waiting, free, clock, now_held, lane):
            run = next(run for run in waiting if run.run_id == start.run_id)
            waiting.remove(run)
            assert start.device not in running
            running[start.device] = (run, clock + rng.uniform(1, 4) * devices)
            held[run.owner] = clock
            lane = run.lane
            served.append(run)
            delay[run.run_id] = clock - run.queued
    assert len(served) == 1000
    for owner in ("flood", "ann", "bob", "cyd"):
        for kind in ("batch", "preview"):
            mine = [run.queued for run in served if (run.owner, run.lane) == (owner, kind)]
            assert mine == sorted(mine)
    flood = max(delay[run.run_id] for run in served if run.owner == "flood")
    others = [delay[run.run_id] for run in served if run.owner != "flood"]
    assert max(others) < 60 * devices < flood  # those who ask for little wait little
