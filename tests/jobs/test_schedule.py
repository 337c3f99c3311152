"""The schedule against a fake clock: turns, order, and that nothing starves."""

import random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from sarqc.jobs.schedule import BRIEF_SECONDS, Start, Waiting, decide, steps_aside


def names(starts: list[Start]) -> list[str]:
    return [start.run_id for start in starts]


def test_nothing_to_do() -> None:
    assert decide([], ["cpu"], 0.0, {}) == []
    assert decide([Waiting("a", "ann", 0.0)], [], 0.0, {}) == []


def test_first_come_first_served_for_one_owner() -> None:
    waiting = [Waiting("c", "ann", 3.0), Waiting("a", "ann", 1.0), Waiting("b", "ann", 2.0)]
    assert decide(waiting, ["cuda:0", "cuda:1"], 9.0, {}) == [Start("a", "cuda:0"), Start("b", "cuda:1")]


def test_a_hundred_runs_do_not_keep_out_one() -> None:
    crowd = [Waiting(f"a{i:03}", "ann", 0.0) for i in range(100)]
    late = Waiting("b", "bob", 1.0)
    assert names(decide([*crowd, late], ["cpu"], 10.0, {"ann": 9.0})) == ["b"]
    assert names(decide([*crowd, late], ["cuda:0", "cuda:1"], 10.0, {})) == ["a000", "b"]


def test_newcomers_do_not_overtake_who_has_waited_since_its_last_turn() -> None:
    waiting = [Waiting("x2", "xavier", 0.0), *[Waiting(f"n{i}", f"new{i}", 11.0 + i) for i in range(20)]]
    assert names(decide(waiting, ["cpu"], 40.0, {"xavier": 10.0})) == ["x2"]


def test_an_owner_back_from_holiday_has_no_old_claim() -> None:
    waiting = [Waiting("x", "xavier", 100.0), Waiting("n", "new", 99.0)]
    assert names(decide(waiting, ["cpu"], 101.0, {"xavier": 1.0})) == ["n"]


def test_previews_first_but_not_for_ever() -> None:
    waiting = [Waiting("b", "ann", 0.0), Waiting("p", "ann", 5.0, "preview"), Waiting("q", "bob", 6.0, "preview")]
    assert names(decide(waiting, ["cpu"] * 3, 9.0, {})) == ["p", "b", "q"]
    assert names(decide(waiting, ["cpu"], 9.0, {}, last_lane="preview")) == ["b"]
    assert names(decide(waiting[1:], ["cpu"], 9.0, {}, last_lane="preview")) == ["p"]


def test_who_stepped_aside_is_the_first_to_go_on() -> None:
    waiting = [Waiting("b", "bob", 0.0), Waiting("a", "ann", 5.0, goes_on=True), Waiting("p", "cyd", 6.0, "preview")]
    assert names(decide(waiting, ["cpu"] * 3, 9.0, {"ann": 9.0})) == ["p", "a", "b"]


def test_as_many_step_aside_as_previews_wait() -> None:
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


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 100), st.sampled_from(["batch", "preview"])), max_size=12),
    st.integers(0, 5),
    st.dictionaries(st.sampled_from("abc"), st.floats(0, 100)),
)
@hypothesis_settings(max_examples=200, deadline=None)
def test_decisions_are_sound(queue: list, devices: int, held: dict[str, float]) -> None:
    waiting = [Waiting(f"{i:02}", owner, queued, lane) for i, (owner, queued, lane) in enumerate(queue)]
    free = [f"cuda:{i}" for i in range(devices)]
    starts = decide(waiting, free, 100.0, held)
    assert len(starts) == min(len(waiting), devices)  # no device is idle while somebody waits
    assert len(set(names(starts))) == len(starts)
    assert [start.device for start in starts] == free[: len(starts)]
    assert starts == decide(list(reversed(waiting)), free, 100.0, held)  # the order of the question is no matter


@pytest.mark.parametrize(("devices", "seed"), [(1, 1), (3, 2), (8, 3)])
def test_a_thousand_random_arrivals(devices: int, seed: int) -> None:
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
    held: dict[str, float] = {}
    served: list[Waiting] = []
    delay: dict[str, float] = {}
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
