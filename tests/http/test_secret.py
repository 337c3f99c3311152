"""The secret that signs cookies: whole or refused; and cookies and sign-in limits while the host's clock jumps."""

import time
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from app import create_app
from sarqc.errors import Refused, TooMany
from sarqc.web.throttle import ADDRESS_LIMIT, LoginThrottle
from sarqc.web.visitor import COOKIE, COOKIE_SECONDS, Cookies


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_secret_that_was_cut_off_is_refused(settings, length):
    path = settings.resolved_state_dir() / "secret"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * length)
    for _ in range(2):  # and the state folder is free again
        with pytest.raises(Refused, match="32 bytes") as caught:
            create_app(settings, with_pages=False)
        assert (caught.value.exit_code, caught.value.where) == (2, str(path))
    assert path.read_bytes() == b"x" * length


def test_a_new_secret_appears_whole(settings, monkeypatch):
    folder = settings.resolved_state_dir()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "secret.partial").write_bytes(b"of a start that was cut off")
    seen = []
    rename = Path.rename

    def noted(path, target):
        seen.append((path.stat().st_size, target.exists()))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", noted)
    Cookies(settings)
    assert seen == [(32, False)]
    path = folder / "secret"
    assert (path.stat().st_size, path.stat().st_mode & 0o777) == (32, 0o600)
    content = path.read_bytes()
    Cookies(settings)
    assert path.read_bytes() == content
    assert not (folder / "secret.partial").exists()


@pytest.mark.parametrize(("later", "is_known"), [(-86_400.0, True), (60.0, True), (COOKIE_SECONDS + 60.0, False)])
def test_a_cookie_outlives_a_clock_that_goes_back(settings, monkeypatch, later, is_known):
    cookies, now = Cookies(settings), time.time()
    value = cookies.header("http", "ann").partition(";")[0]
    assert value.startswith(f"{COOKIE}=")
    monkeypatch.setattr(time, "time", lambda: now + later)
    said = cookies.of(Headers({"cookie": value}))
    assert (said is not None and said.owner == "ann") is is_known


def test_wrong_passwords_are_counted_by_seconds_that_pass(monkeypatch):
    passed = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: passed)
    tries = LoginThrottle()

    def guess():
        with tries.attempt("here", "home", "ann"):
            pass

    for _ in range(ADDRESS_LIMIT):
        guess()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 86_400)
    with pytest.raises(TooMany):
        guess()
    passed += 61
    guess()
