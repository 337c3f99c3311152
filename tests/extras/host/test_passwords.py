"""Passwords under attack: few are judged, a few at a time, and everybody else is served meanwhile."""

import base64
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from sarqc.errors import TooMany
from sarqc.extras.host import passwords
from sarqc.extras.host.passwords import AT_ONCE, WAITING
from sarqc.extras.host.users import write_user
from sarqc.settings import Settings
from sarqc.web.throttle import ADDRESS_LIMIT, NAME_LIMIT, LoginThrottle
from tests.http.conftest import opened
from tests.jobs.conftest import settings_in, until

ADDRESS = ADDRESS_LIMIT
GROWTH_MIB = 160  # two guesses at once, and 200 requests: a guess of its own for each would take 3 GiB


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


def of_users(folder: Path) -> Settings:
    write_user(folder / "users", "ann", "runner", "password of ann")
    return settings_in(folder, access="users", users_file=folder / "users")


def resident_mib(pid: int) -> float:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


@pytest.mark.thorough
@pytest.mark.parametrize(("way", "wrong"), [("page", 403), ("basic", 401)])
def test_of_two_hundred_guesses_at_once_ten_are_judged(serve, tmp_path, monkeypatch, way, wrong):
    write_user(tmp_path / "users", "ann", "runner", "password of ann")
    monkeypatch.setenv("SARQC_ACCESS", "users")
    monkeypatch.setenv("SARQC_USERS_FILE", str(tmp_path / "users"))
    app = serve("quick")
    together, before = threading.Barrier(200), resident_mib(app.process.pid)

    def guess(number):
        with httpx.Client(base_url=str(app.http.base_url), timeout=60) as client:
            together.wait()
            if way == "page":
                return client.post("/sign-in", data={"name": "ann", "password": f"guess {number}"}).status_code
            return client.get("/api/runs", headers=basic("ann", f"guess {number}")).status_code

    with ThreadPoolExecutor(200) as strangers:
        codes = Counter(strangers.map(guess, range(200)))
    assert codes == {wrong: ADDRESS, 429: 200 - ADDRESS}
    assert resident_mib(app.process.pid) - before < GROWTH_MIB


@pytest.mark.thorough
def test_others_are_served_while_passwords_wait(tmp_path, monkeypatch):
    """More guesses than the app has threads, from as many addresses, none of which comes to an end."""
    going_on, at_once, most = threading.Event(), Counter[str](), Counter[str]()

    def slow(users, name, password):
        at_once["now"] += 1
        most["ever"] = max(most["ever"], at_once["now"])
        going_on.wait()
        at_once["now"] -= 1

    monkeypatch.setattr(passwords, "user_of", slow)
    settings = of_users(tmp_path).model_copy(update={"proxy_addresses": "10.0.0.9"})
    with opened(settings, client=("10.0.0.9", 1)) as client, ThreadPoolExecutor(99) as strangers:

        def guess(number):
            said = {"name": f"person-{number}", "password": "a guess"}
            from_there = {"X-Forwarded-For": f"198.51.100.{number}"}
            return client.post("/sign-in", data=said, headers=from_there).status_code

        guesses = [strangers.submit(guess, number) for number in range(99)]
        try:
            until(lambda: sum(one.done() for one in guesses) == 99 - WAITING)
            assert client.get("/api/visitor").status_code == 401
            assert client.get("/healthz").status_code == 200
        finally:
            going_on.set()
        assert Counter(one.result() for one in guesses) == {403: WAITING, 503: 99 - WAITING}
    assert most["ever"] == AT_ONCE


@pytest.mark.thorough
def test_who_is_right_does_not_count(tmp_path):
    with opened(of_users(tmp_path)) as client:
        for _ in range(2 * ADDRESS):
            assert client.get("/api/visitor", headers=basic("ann", "password of ann")).json()["name"] == "ann"
        codes = [client.get("/api/visitor", headers=basic("ann", "a guess")).status_code for _ in range(ADDRESS + 1)]
        assert codes == [401] * ADDRESS + [429]
        # Nor does a right one tell itself from a wrong one then, though it is known.
        assert client.get("/api/visitor", headers=basic("ann", "password of ann")).status_code == 429


def test_a_former_password_is_wrong(tmp_path):
    """Also one that was right a moment ago."""
    with opened(of_users(tmp_path)) as client:
        assert client.get("/api/visitor", headers=basic("ann", "password of ann")).status_code == 200
        write_user(tmp_path / "users", "ann", "runner", "another password")
        assert client.get("/api/visitor", headers=basic("ann", "password of ann")).status_code == 401
        assert client.get("/api/visitor", headers=basic("ann", "another password")).status_code == 200


def judged(tries: LoginThrottle, address: str, name: str, *, is_right: bool = False) -> bool:
    """Whether one is judged at all."""
    try:
        with tries.attempt("here", address, name) as one:
            one.is_right = is_right
    except TooMany:
        return False
    return True


def test_a_name_is_guessed_from_many_addresses_and_its_own_person_still_comes_in():
    tries = LoginThrottle()
    assert judged(tries, "home", "ann", is_right=True)
    guesses = [judged(tries, f"address {number}", "ann") for number in range(NAME_LIMIT + 5)]
    assert guesses == [True] * NAME_LIMIT + [False] * 5
    assert not judged(tries, "a new address", "ann", is_right=True)
    assert judged(tries, "home", "ann", is_right=True)
    assert judged(tries, "a new address", "bob", is_right=True)


def test_one_that_is_not_judged_yet_counts():
    tries = LoginThrottle()
    with tries.attempt("here", "home", "ann"):
        for number in range(ADDRESS - 1):
            assert judged(tries, "home", f"person {number}")
        assert not judged(tries, "home", "bob")


def test_guesses_at_other_names_do_not_lock_out_who_came_in_from_there():
    tries = LoginThrottle()
    assert judged(tries, "home", "ann", is_right=True)
    assert [judged(tries, "home", "") for _ in range(ADDRESS + 1)] == [True] * ADDRESS + [False]
    assert not judged(tries, "home", "bob", is_right=True)
    assert judged(tries, "home", "ann", is_right=True)
    # Nor do they guess at hers any more often for it.
    assert [judged(tries, "home", "ann") for _ in range(ADDRESS + 1)] == [True] * ADDRESS + [False]


def test_a_program_goes_on_beside_wrong_tokens_of_others(tmp_path):
    with opened(of_users(tmp_path)) as client:
        right = basic("ann", "password of ann")
        assert client.get("/api/visitor", headers=right).status_code == 200
        codes = [client.get("/api/visitor", headers=basic(f"p{n}", "a guess")).status_code for n in range(ADDRESS + 2)]
        assert codes == [401] * ADDRESS + [429] * 2
        assert client.get("/api/visitor", headers=right).status_code == 200
