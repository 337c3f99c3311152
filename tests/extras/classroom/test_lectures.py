"""Lectures: what is counted in which phase, against a model of its own; who may do what; and what listeners hear."""

import asyncio
import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings as chosen
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from conformance.torture import halls
from conformance.torture.figures import Figures
from sarqc.errors import Busy, Conflict, Forbidden, NotFound, Refused, TooMany
from sarqc.extras.classroom import lecture_api
from sarqc.extras.classroom import lectures as rules
from sarqc.extras.classroom.lecture_api import _start, _stream_to_phone, qr_rows
from sarqc.extras.classroom.lectures import LECTURES_EACH, PHONES, Lecture, Lectures, LectureWish, PhoneGuess, new_code
from sarqc.jobs.bell import Bell
from sarqc.web.streams import states
from tests.http.conftest import TOKEN, assert_error, opened
from tests.http.test_access import door
from tests.http.test_streams import run_apart
from tests.jobs.conftest import settings_in

__all__ = ["door"]
LAMS = [0.0, 0.01, 0.1, 1.0]
ORDER = ("open", "closed", "revealed")


def wish(stop: str | None = "model", phase: str = "open", best: int | None = None, **given) -> dict[str, Any]:
    document = {"stop": stop, "lams": LAMS, "phase": phase, "best": best, "band": None}
    return document | given


def phone(number: int) -> str:
    return f"{number:032x}"


def said(number: int, guess: int, stop: str = "model") -> PhoneGuess:
    return PhoneGuess(phone=phone(number), stop=stop, guess=guess)


class Halls(RuleBasedStateMachine):
    """A lecture beside a model of it that is a plain dictionary; fewer phones, so that it gets full."""

    PLACES = 3

    @initialize()
    def begin(self) -> None:
        self.kept = rules.PHONES
        rules.PHONES = self.PLACES
        self.lectures, self.time = Lectures(Bell()), 0.0
        self.lecture, self.secret = self.lectures.begin(new_code(), "ada", 0.0)
        self.stop: str | None = None
        self.phases: dict[str, str] = {}
        self.counted: dict[str, dict[int, int]] = {}
        self.known: set[int] = set()
        self.is_over = False

    def teardown(self):
        if hasattr(self, "kept"):
            rules.PHONES = self.kept

    @rule(stop=st.sampled_from([None, "layer", "model"]), phase=st.sampled_from(ORDER))
    def tell(self, stop: str | None, phase: str) -> None:
        document = LectureWish.model_validate(wish(stop, phase, 2 if phase == "revealed" else None))
        if self.is_over:
            with pytest.raises(Conflict):
                self.lecture.tell(document, self.time)
            return
        self.lecture.tell(document, self.time)
        self.stop = stop
        if stop is not None:
            before = self.phases.get(stop, "open")
            self.phases[stop] = ORDER[max(ORDER.index(before), ORDER.index(phase))]
            self.counted.setdefault(stop, {})

    @rule(number=st.integers(0, 4), guess=st.integers(0, 5), stop=st.sampled_from(["layer", "model"]))
    def guess(self, number: int, guess: int, stop: str) -> None:
        self.time += 1.0
        if self.is_over:
            expected = NotFound
        elif number not in self.known and len(self.known) >= self.PLACES:
            expected = Busy
        elif stop != self.stop or self.phases[stop] != "open":
            expected = Conflict
        elif guess >= len(LAMS):
            expected = Refused
        else:
            expected = None
        if expected is not None:
            with pytest.raises(expected):
                self.lecture.guess(said(number, guess, stop), self.time)
            return
        self.lecture.guess(said(number, guess, stop), self.time)
        self.known.add(number)
        self.counted[stop][number] = guess

    @rule()
    def end(self) -> None:
        self.lectures.end(self.lecture)
        self.is_over = True

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        if not hasattr(self, "lecture"):
            return
        hall, heard = self.lecture.hall_state(), self.lecture.phone_state()
        if self.is_over:
            assert hall["phase"] == heard["phase"] == "ended"
            assert hall["counts"] == []
            assert heard["counts"] is None
            with pytest.raises(NotFound):
                self.lectures.of(self.lecture.code)
            return
        if self.stop is None:
            assert hall["phase"] == heard["phase"] == "waiting"
            return
        guesses, phase = self.counted[self.stop], self.phases[self.stop]
        counts = [Counter(guesses.values())[at] for at in range(len(LAMS))]
        assert (hall["phase"], hall["guesses"], hall["counts"]) == (phase, len(guesses), counts)
        assert heard["counts"] == (counts if phase == "revealed" else None)
        assert (heard["best"] is None) is (phase != "revealed")


TestHalls = Halls.TestCase
TestHalls.settings = chosen(max_examples=25, stateful_step_count=20, deadline=None)


def begun(now: float = 0.0) -> tuple[Lectures, Lecture, str]:
    lectures = Lectures(Bell())
    return (lectures, *lectures.begin(new_code(), "ada", now))


@pytest.mark.parametrize(
    "given",
    [{"lams": []}, {"lams": [0.1, 0.1]}, {"lams": [1.0, 0.0]}, {"phase": "revealed"}, {"phase": "revealed", "best": 4},
     {"phase": "revealed", "best": 1, "band": (1, 4)}],
)  # fmt: skip
def test_a_question_that_makes_no_sense_changes_nothing(given):
    _, lecture, _ = begun()
    with pytest.raises(Refused):
        lecture.tell(LectureWish.model_validate(wish() | given), 0.0)
    assert lecture.phone_state()["phase"] == "waiting"


def test_a_phone_counts_once_and_takes_its_time():
    _, lecture, _ = begun()
    lecture.tell(LectureWish.model_validate(wish()), 0.0)
    lecture.guess(said(1, 0), 10.0)
    with pytest.raises(TooMany):
        lecture.guess(said(1, 1), 10.4)
    lecture.guess(said(2, 0), 10.4)
    lecture.guess(said(1, 3), 10.6)
    assert lecture.hall_state()["counts"] == [1, 0, 0, 1]


def test_a_full_lecture_takes_nobody_in_until_somebody_leaves():
    _, lecture, _ = begun()
    listening = [lecture.joined(phone(number)) for number in range(PHONES)]
    for one in listening:
        one.__enter__()
    assert lecture.hall_state()["phones"] == PHONES
    with pytest.raises(Busy), lecture.joined(phone(PHONES)):
        pass
    with lecture.joined(phone(0)) as again:  # the same phone once more: the page was loaded again
        assert lecture.is_heard(phone(0), again)
        assert lecture.hall_state()["phones"] == PHONES
    listening[1].__exit__(None, None, None)
    with lecture.joined(phone(PHONES)):
        pass


def test_a_lecture_that_nobody_leads_ends_by_itself_and_nobody_has_all_of_them():
    lectures, lecture, secret = begun(0.0)
    for _ in range(LECTURES_EACH - 1):
        lectures.begin(new_code(), "ada", 5.0)
    with pytest.raises(Busy):
        lectures.begin(new_code(), "ada", 5.0)
    lectures.begin(new_code(), "bob", 5.0)
    for owner in range(rules.LECTURES - LECTURES_EACH - 1):
        lectures.begin(new_code(), f"other {owner}", 5.0)
    with pytest.raises(Busy):
        lectures.begin(new_code(), "carol", 5.0)
    with pytest.raises(Forbidden):
        lectures.of_lecturer(lecture.code, secret + "x")
    assert lectures.end_idle(rules.IDLE_SECONDS) == 5.0  # the first one was touched 5 s before the others
    assert lecture.is_over
    assert len(lectures) == rules.LECTURES - 1
    assert lectures.end_idle(rules.IDLE_SECONDS + 5) is None
    assert len(lectures) == 0


def test_codes_can_not_be_guessed_and_are_easily_typed():
    codes = {new_code() for _ in range(200)}
    assert len(codes) == 200
    assert all(re.fullmatch(r"([a-z2-9]{4}-){2}[a-z2-9]{4}", code) for code in codes)
    assert len(rules.ALPHABET) ** (rules.CODE_PARTS * rules.CODE_LETTERS) > 2**58


# What listeners hear.


def documents(parts: list[bytes]) -> list[dict[str, Any]]:
    lines = b"".join(parts).decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_phones_hear_the_question_the_end_of_guessing_and_the_answer_and_nothing_of_each_other():
    async def listen():
        bell = Bell()
        lectures = Lectures(bell)
        lecture, _ = lectures.begin(new_code(), "ada", 0.0)
        heard = []
        hall = []

        async def follow(parts, into):
            async for part in parts:
                into.append(part)

        one = asyncio.create_task(follow(await _start(_stream_to_phone(lecture, phone(1), bell)), heard))
        state = lambda: (lecture.hall_state(), lecture.is_over)  # noqa: E731
        two = asyncio.create_task(follow(states(bell, lecture.hall_topic, state), hall))
        steps = [
            lambda: lecture.tell(LectureWish.model_validate(wish()), 1.0),
            lambda: lecture.guess(said(1, 2), 2.0),
            lambda: lecture.guess(said(2, 0), 2.0),
            lambda: lecture.tell(LectureWish.model_validate(wish(phase="closed")), 3.0),
            lambda: lecture.tell(LectureWish.model_validate(wish(phase="revealed", best=2, band=(1, 2))), 4.0),
            lambda: lectures.end(lecture),
        ]
        for step in steps:
            await asyncio.sleep(0.08)  # longer than news are gathered
            step()
        await asyncio.wait_for(asyncio.gather(one, two), 10)
        return heard, hall

    heard, hall = run_apart(listen())
    told = documents(heard)
    assert [one["phase"] for one in told] == ["waiting", "open", "closed", "revealed", "ended"]
    assert [one["counts"] for one in told] == [None, None, None, [1, 0, 1, 0], None]
    assert (told[3]["best"], told[3]["band"], told[1]["lams"]) == (2, [1, 2], LAMS)
    assert [one["guesses"] for one in documents(hall)] == [0, 0, 1, 2, 2, 2, 0]


def test_a_second_stream_of_a_phone_ends_the_first():
    async def listen():
        bell = Bell()
        lecture, _ = Lectures(bell).begin(new_code(), "ada", 0.0)
        first = await _start(_stream_to_phone(lecture, phone(1), bell))
        assert [await anext(first), await anext(first)]
        second = await _start(_stream_to_phone(lecture, phone(1), bell))
        assert await anext(second)
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(first), 10)
        return lecture.hall_state()["phones"] == 1

    assert run_apart(listen())


# Who may do what.

GUESS = {"phone": phone(1), "stop": "model", "guess": 1}


@pytest.fixture
def hall(door):
    """A lecturer with the token, a phone without it, and a lecture with the lecturer's header."""
    lecturer = door(access="token", access_token=TOKEN, hosts="testserver")
    lecturer.headers["Authorization"] = f"Bearer {TOKEN}"
    begun = lecturer.post("/api/lectures", headers={"Origin": "http://testserver"})
    assert begun.status_code == 201, begun.text
    return lecturer, door(), begun.json(), {"X-Lecture-Secret": begun.json()["secret"]}


def test_the_code_lets_a_phone_guess_and_opens_nothing_else(hall):
    lecturer, guest, lecture, own = hall
    code = lecture["code"]
    assert lecture["address"] == f"http://testserver/join/{code}"
    answer = lecturer.put(f"/api/lectures/{code}", json=wish(), headers=own)
    assert answer.json() == {"phase": "open", "stop": "model", "phones": 0, "guesses": 0, "counts": [0, 0, 0, 0]}
    taken = guest.post(f"/api/join/{code}/guess", json=GUESS)
    assert (taken.status_code, "set-cookie" in taken.headers) == (204, False)
    for path in ("/api/runs", "/api/studies", "/api/visitor", "/", "/learn", f"/api/lectures/{code}/events"):
        assert_error(guest.get(path, headers=own | {"Cookie": f"code={code}"}), 401, "not_signed_in")
    assert_error(guest.post("/api/lectures"), 401, "not_signed_in")
    assert_error(guest.put(f"/api/lectures/{code}", json=wish(), headers=own), 401, "not_signed_in")
    for path in ("/api/join/../runs", f"/api/join/{code}/runs", f"/api/join/{code}"):
        assert guest.get(path).status_code in (401, 404), path
    closed = lecturer.put(f"/api/lectures/{code}", json=wish(phase="closed"), headers=own)
    assert closed.json()["counts"] == [0, 1, 0, 0]
    assert_error(guest.post(f"/api/join/{code}/guess", json=GUESS), 409, "conflict")


def test_only_the_holder_of_the_secret_moves_and_ends_a_lecture(hall):
    lecturer, guest, lecture, own = hall
    code = lecture["code"]
    for headers in ({"X-Lecture-Secret": code}, {"X-Lecture-Secret": "é".encode()}):
        assert_error(lecturer.put(f"/api/lectures/{code}", json=wish(), headers=headers), 403, "forbidden")
        assert_error(lecturer.delete(f"/api/lectures/{code}", headers=headers), 403, "forbidden")
    assert lecturer.delete(f"/api/lectures/{code}").status_code == 422  # without a secret
    foreign = own | {"Origin": "https://evil.example"}
    assert_error(lecturer.delete(f"/api/lectures/{code}", headers=foreign), 403, "forbidden")
    assert lecturer.delete(f"/api/lectures/{code}", headers=own).status_code == 204
    assert_error(lecturer.delete(f"/api/lectures/{code}", headers=own), 404, "not_found")
    assert_error(guest.post(f"/api/join/{code}/guess", json=GUESS), 404, "not_found")
    assert_error(guest.get(f"/api/join/{code}/events?phone={phone(1)}"), 404, "not_found")


def test_a_viewer_begins_no_lecture(door):
    guest = door(access="open", strangers="viewer", hosts="testserver")
    assert_error(guest.post("/api/lectures"), 403, "forbidden")


def test_a_guess_of_another_shape_is_refused(hall):
    lecturer, guest, lecture, own = hall
    address = f"/api/join/{lecture['code']}/guess"
    lecturer.put(f"/api/lectures/{lecture['code']}", json=wish(), headers=own)
    changes = [{"phone": "ada"}, {"stop": "m" * 33}, {"name": "Ada"}, {"guess": None}]
    changes += [{"guess": guess} for guess in (-1, 1.5, "1", True, 10**30)]
    for body in (*(GUESS | change for change in changes), [], None):
        assert guest.post(address, json=body).status_code == 422, body
    assert guest.post(address, content=b'"' + b"x" * 5000).status_code == 413
    assert guest.post(address, json=GUESS).status_code == 204


def test_the_code_to_scan_is_a_qr_code_of_the_address():
    rows = qr_rows("https://demo.example/join/abcd-efgh-jkmn")
    size = len(rows)
    assert all(len(row) == size and set(row) <= {"0", "1"} for row in rows)
    assert (size - 17) % 4 == 0
    finder = ["1111111", "1000001", "1011101", "1011101", "1011101", "1000001", "1111111"]
    for top, left in ((0, 0), (0, size - 7), (size - 7, 0)):
        assert [row[left : left + 7] for row in rows[top : top + 7]] == finder


@pytest.mark.thorough
def test_a_phone_follows_a_lecture_through_a_server(serve):
    app = serve("quick")
    lecture = app.http.post("/api/lectures").json()
    own, code = {"X-Lecture-Secret": lecture["secret"]}, lecture["code"]
    with app.http.stream("GET", f"/api/join/{code}/events?phone={phone(1)}") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert (answer.headers["x-accel-buffering"], answer.headers["cache-control"]) == ("no", "no-store")
        lines = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
        assert next(lines)["phase"] == "waiting"
        app.http.put(f"/api/lectures/{code}", json=wish(), headers=own)
        assert next(lines)["phase"] == "open"
        app.http.delete(f"/api/lectures/{code}", headers=own)
        assert next(lines)["phase"] == "ended"
        assert next(lines, None) is None


@pytest.mark.parametrize(
    "origin", [f"https://{'a' * 3000}.example", "javascript:alert(1)", "null", "https://x.example/path", "https://a@b"]
)
def test_an_origin_that_is_none_is_no_address_for_phones(client, origin):
    begun = client.post("/api/lectures", headers={"Sec-Fetch-Site": "none", "Origin": origin})
    assert begun.status_code == 201
    assert begun.json()["address"] == f"http://testserver/join/{begun.json()['code']}"


def test_a_lecture_whose_code_can_not_be_drawn_has_not_begun(client, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(lecture_api, "qr_rows", lambda text: 1 / 0)
        assert [client.post("/api/lectures").status_code for _ in range(3)] == [500] * 3
    assert client.post("/api/lectures").status_code == 201


def test_a_small_hall_loses_no_guess(tmp_path):
    """Two lectures at one address with more phones than it may have connections, or requests a minute."""
    figures = Figures()
    limits = {"SARQC_MAX_CONNECTIONS_PER_ADDRESS": 16, "SARQC_REQUESTS_PER_MINUTE": 20}
    halls.fill(tmp_path, figures, phones=12, at_once=6, **limits)
    assert figures.is_sound, figures.table()
    assert figures.counts[halls.LISTENED] == 24


def test_strangers_of_an_address_share_its_lectures(tmp_path):
    """Without cookies each request is that of another guest; another address has lectures of its own."""
    settings = settings_in(tmp_path, access="open", strangers="runner", hosts="testserver", proxy_addresses="10.0.0.9")
    with opened(settings, client=("10.0.0.9", 1)) as client:

        def status(address):
            client.cookies.clear()
            return client.post("/api/lectures", headers={"X-Forwarded-For": address}).status_code

        assert [status("198.51.100.1") for _ in range(4)] == [201, 201, 503, 503]
        assert status("198.51.100.2") == 201
