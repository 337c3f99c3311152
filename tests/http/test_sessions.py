"""Signing out ends what was signed in, in every browser that has a copy; share links end too, and show a part alone."""

import sqlite3

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from sarqc.__main__ import app as commands
from sarqc.extras.host.users import write_user
from sarqc.jobs import links
from sarqc.settings import Settings
from sarqc.web.visitor import COOKIE, Cookies
from tests.http.conftest import HTML, TOKEN, assert_error, finished, opened, submit
from tests.jobs.conftest import settings_in


def another(client: TestClient, cookie: str | None = None) -> TestClient:
    """Another browser, which may have a copy of a cookie."""
    cookies = {} if cookie is None else {COOKIE: cookie}
    return TestClient(client.app, raise_server_exceptions=False, follow_redirects=False, cookies=cookies)


@pytest.fixture
def of_users(tmp_path):
    for name in ("ann", "bob"):
        write_user(tmp_path / "users", name, "runner", f"password of {name}")
    return settings_in(tmp_path, access="users", users_file=tmp_path / "users")


def sign_in(client: TestClient, name: str = "") -> str:
    """Returns the cookie."""
    said = {"name": name, "password": f"password of {name}" if name else TOKEN}
    assert client.post("/sign-in", data=said, follow_redirects=False).status_code == 303
    return client.cookies[COOKIE]


@pytest.mark.thorough
@pytest.mark.parametrize("access", ["users", "token"])
def test_a_copied_cookie_ends_with_signing_out(of_users, access):
    given = of_users.model_copy(update={"access": access})
    settings = Settings(**given.model_dump() | {"access_token": TOKEN})
    with opened(settings) as client:
        name = "ann" if access == "users" else ""
        copied = sign_in(client, name)
        assert another(client, copied).get("/api/visitor").json()["signed_in"]
        neighbour = another(client)
        sign_in(neighbour, "bob" if access == "users" else "")
        assert client.post("/sign-out", follow_redirects=False).status_code == 303
        assert_error(another(client, copied).get("/api/visitor"), 401, "not_signed_in")
        assert neighbour.get("/api/visitor").json()["signed_in"]
        sign_in(client, name)
        assert client.get("/api/visitor").json()["signed_in"]
        assert_error(another(client, copied).get("/api/visitor"), 401, "not_signed_in")
    with opened(settings) as again:  # the number is kept
        assert_error(another(again, copied).get("/api/visitor"), 401, "not_signed_in")
        assert another(again, client.cookies[COOKIE]).get("/api/visitor").json()["signed_in"]


def test_the_operator_signs_somebody_out(of_users, monkeypatch):
    """Beside the app, which goes on."""
    monkeypatch.setenv("SARQC_STATE_DIR", str(of_users.resolved_state_dir()))
    nobody = CliRunner().invoke(commands, ["user", "ann", "--sign-out"])
    assert "no database" in nobody.output
    with opened(of_users) as client:
        ann, bob = client, another(client)
        sign_in(ann, "ann")
        sign_in(bob, "bob")
        said = CliRunner().invoke(commands, ["user", "ann", "--sign-out"])
        assert said.exit_code == 0, said.output
        assert_error(ann.get("/api/visitor"), 401, "not_signed_in")
        assert bob.get("/api/visitor").json()["name"] == "bob"


def test_a_cookie_of_before_there_were_sessions_is_no_name(of_users):
    with opened(of_users) as client:
        for proof in ("", "huggingface", "x"):
            value = Cookies(of_users).header("http", "ann", proof=proof).partition("=")[2].partition(";")[0]
            assert_error(another(client, value).get("/api/visitor"), 401, "not_signed_in")


def test_two_names_from_the_proxy_are_none(tmp_path):
    """The first one is what somebody sent who wants to be another."""
    given = {"access": "proxy", "proxy_header": "X-Sarqc-User", "proxy_addresses": "10.0.0.9", "strangers": "viewer"}
    with opened(settings_in(tmp_path, **given), client=("10.0.0.9", 1)) as client:
        assert client.get("/api/visitor", headers={"X-Sarqc-User": "ann"}).json()["name"] == "ann"
        for names in (["bob", "ann"], ["ann", "ann"], ["", "ann"]):
            answer = client.get("/api/visitor", headers=[("X-Sarqc-User", name) for name in names])
            assert_error(answer, 401, "not_signed_in")
            page = client.get("/sign-in", headers=[*HTML.items(), *(("X-Sarqc-User", name) for name in names)])
            assert page.status_code == 401  # and not a way in a circle


# Share links.


@pytest.fixture
def shared(tmp_path):
    """Ann with a run of hers that has a note and tags, and the address of its link."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "other.txt").write_text("words")
    write_user(tmp_path / "users", "ann@home.example", "runner", "password of ann@home.example")
    given = {"access": "users", "users_file": tmp_path / "users", "host": "127.0.0.1"}
    with opened(settings_in(tmp_path, **given)) as ann:
        sign_in(ann, "ann@home.example")
        run = finished(ann, submit(ann)["id"])
        said = {"name": "For the talk", "note": "secret plan", "tags": ["thesis"]}
        assert ann.patch(f"/api/runs/{run['id']}", json=said).status_code == 200
        yield ann, run, ann.post(f"/api/runs/{run['id']}/link").json()["address"]


@pytest.mark.thorough
def test_a_guest_reads_the_numbers_and_not_whose_they_are(shared):
    ann, run, address = shared
    guest = another(ann)
    guest.get(address, headers=HTML)
    mine, theirs = (one.get(f"/api/runs/{run['id']}").json() for one in (ann, guest))
    assert (mine["owner"], mine["note"], mine["tags"]) == ("ann@home.example", "secret plan", ["thesis"])
    assert (theirs["owner"], theirs["note"], theirs["tags"]) == ("", "", [])
    assert theirs["name"] == "For the talk"
    assert theirs["summary"] == mine["summary"]
    for path in (f"/api/runs/{run['id']}", "/api/runs", "/api/runs/groups", "/api/runs/csv", "/api/runs/pareto",
                 f"/api/runs/{run['id']}/events"):  # fmt: skip
        text = guest.get(path, headers={"Accept": "application/json"}).text
        assert run["id"] in text or "pareto" in path or "events" in path
        assert not [secret for secret in ("home.example", "secret plan", "thesis") if secret in text], path
    # Nor does a filter tell, which looks at all words.
    for word in ("secret", "ann", "thesis", "talk"):
        assert guest.get(f"/api/runs?filter={word}").json()["total"] == 0
        assert ann.get(f"/api/runs?filter={word}").json()["total"] == 1


def test_a_guest_knows_the_models_and_texts_of_the_shared_run_alone(shared):
    ann, _, address = shared
    guest = another(ann)
    assert_error(guest.get("/api/corpora"), 401, "not_signed_in")
    guest.get(address, headers=HTML)
    names = {
        one: {text["name"] for text in client.get("/api/corpora").json()["corpora"] if text["where"] == "local"}
        for one, client in (("ann", ann), ("guest", guest))
    }
    assert names == {"ann": {"none.txt", "other.txt"}, "guest": {"none.txt"}}


def test_a_link_lasts_for_its_days(shared, monkeypatch):
    ann, run, address = shared
    one, guest = f"/api/runs/{run['id']}", another(ann)
    for days in ("0", "366", "x"):
        assert_error(ann.post(f"{one}/link?days={days}"), 422, "refused")
    longer = ann.post(f"{one}/link?days=90").json()
    assert longer["ends"] > ann.post(f"{one}/link").json()["ends"]
    now = links.time.time()
    assert guest.get(address, headers=HTML).status_code == 200
    assert guest.get(one).status_code == 200
    monkeypatch.setattr(links.time, "time", lambda: now + 31 * links.DAY)
    assert_error(guest.get(one), 401, "not_signed_in")
    assert another(ann).get(address, headers=HTML).status_code == 404
    assert another(ann).get(longer["address"], headers=HTML).status_code == 200


def test_a_run_has_twenty_links(shared):
    ann, run, _ = shared
    path = f"/api/runs/{run['id']}/link"
    for _ in range(links.AT_MOST - 1):
        assert ann.post(path).status_code == 201
    assert "20 links" in assert_error(ann.post(path), 409, "conflict")["what"]
    assert ann.delete(path).status_code == 204
    assert ann.post(path).status_code == 201
    database = sqlite3.connect(ann.app.state.supervisor.settings.database())
    assert database.execute("SELECT COUNT(*) FROM links").fetchone() == (1,)
    database.close()
