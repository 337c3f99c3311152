"""Who may come in, and what they may see and change: each test does what somebody would do who wants more."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.errors import NotFound, Refused
from sarqc.extras.host.users import write_user
from sarqc.jobs.sessions import Sessions
from sarqc.jobs.store import Store
from sarqc.recipe import Recipe
from sarqc.settings import SITE
from sarqc.web.access import Access
from sarqc.web.admission import admit
from sarqc.web.gate import Gate
from sarqc.web.identity import Identity
from sarqc.web.planning import WAITING, WAITING_EACH
from sarqc.web.visitor import Cookies, Visitor
from tests.http.conftest import HTML, TOKEN, finished, opened, submit, write_study
from tests.http.fake_app import resolve
from tests.jobs.conftest import settings_in, until
from tests.jobs.fake_runs import recipe
from tests.models.fake_hub import FakeHub, serving

PUBLIC = {"access": "open", "strangers": "runner"}


@pytest.fixture
def door(tmp_path):
    """Opens an app with the given settings; further calls give further browsers of the same app."""
    opened = []
    apps = []

    def browser(**given):
        if not apps:
            settings = settings_in(tmp_path, **given)
            apps.append(create_app(settings, execute="tests.jobs.fake_runs:quick", resolve=resolve, with_pages=False))
            opened.append(TestClient(apps[0], raise_server_exceptions=False, follow_redirects=False))
            return opened[0].__enter__()
        return TestClient(apps[0], raise_server_exceptions=False, follow_redirects=False)

    yield browser
    if opened:
        opened[0].__exit__(None, None, None)


def error_of(answer: httpx.Response, status: int) -> dict[str, str]:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"kind", "what", "where", "remedy"}
    return error


# The decision.


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"host": "0.0.0.0"}, "SARQC_ACCESS"),
        ({"host": "192.168.1.7"}, "SARQC_ACCESS"),
        ({"access": "open", "hosts": "demo.example"}, "SARQC_STRANGERS"),
        ({"access": "open", "strangers": "viewer", "hosts": ""}, "SARQC_HOSTS"),
        ({"access": "token"}, "SARQC_ACCESS_TOKEN"),
        ({"access": "token", "access_token": "short"}, "SARQC_ACCESS_TOKEN"),
        ({"access": "users"}, "SARQC_USERS_FILE"),
        ({"access": "proxy"}, "SARQC_PROXY_HEADER"),
        ({"access": "huggingface"}, "SARQC_OAUTH_CLIENT_ID"),
    ],
)
def test_a_host_that_others_can_reach_does_not_start_undecided(tmp_path, given, setting):
    with pytest.raises(Refused) as refused:
        create_app(settings_in(tmp_path, **given), with_pages=False)
    assert setting in refused.value.where
    assert not (tmp_path / "state").exists()  # nothing was begun


# Names of the host.


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7860", "127.0.0.1.evil.example", "", "[::2]:7860"])
def test_a_foreign_host_name_is_not_answered(door, host):
    client = door()
    for method, path in (("GET", "/api/runs"), ("POST", "/api/runs"), ("GET", "/"), ("GET", "/gradio_api/info")):
        assert error_of(client.request(method, path, headers={"Host": host}), 421)["kind"] == "misdirected"


@pytest.mark.parametrize("host", ["localhost:7860", "127.0.0.1", "[::1]:7860", "LOCALHOST", "testserver."])
def test_the_names_of_this_machine_are(door, host):
    assert door().get("/api/health", headers={"Host": host}).status_code == 200


def test_nothing_of_gradio_can_be_written_to(door):
    client = door()
    for path in ("/gradio_api/upload", "/gradio_api/queue/join", "/gradio_api/run/predict", "/login", "/", "/x"):
        for method in ("POST", "PUT", "DELETE", "PATCH", "TRACE"):
            error_of(client.request(method, path, files={"files": b"x"}), 405)


def test_no_other_site_may_read(door):
    answer = door().get("/api/health", headers={"Origin": "https://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


# Files of the host.


@pytest.mark.parametrize("access", ["private", "open"])
def test_files_of_the_host_can_not_be_named(door, tmp_path, access):
    secret = tmp_path / "secret.txt"
    secret.write_text("db_password = correct-horse\n" * 9)
    client = door(access=access, strangers="runner" if access == "open" else "none")
    shutil.copytree(tmp_path / "models", tmp_path / "elsewhere")
    (tmp_path / "texts" / "way-out").symlink_to(secret)
    (tmp_path / "texts" / "way-out.txt").symlink_to(secret)
    (tmp_path / "models" / "way-out").symlink_to(tmp_path / "elsewhere" / "fake")
    names = [
        str(secret), "/etc/passwd", "/proc/self/environ", "~/.bashrc", "~nosuchuser/x", f"{tmp_path}/texts/way-out",
        f"{tmp_path}/texts/../secret.txt", "file:///etc/passwd", "x" * 300, "text-" + "0" * 24, "way-out",
        "way-out.txt",
    ]  # fmt: skip
    for name in names:
        for field in ("calibration", "test"):
            for path in ("/api/plan", "/api/runs"):
                error = error_of(client.post(path, json=recipe().to_json() | {field: name}), 404)
                assert error["kind"] == "not_found"
    for name in [
        "way-out",
        str(tmp_path / "elsewhere" / "fake"),
        "/",
        "/root",
        f"{tmp_path}/models/../elsewhere/fake",
        "~",
    ]:
        error_of(client.post("/api/plan", json=recipe().to_json() | {"model": name}), 404)
        error_of(client.get("/api/model", params={"name": name}), 404)
    assert client.get("/api/runs").json()["runs"] == []


def test_declared_files_go_by_name_and_on_a_private_host_by_path(door, tmp_path):
    client = door()
    by_path = {"model": str(tmp_path / "models" / "fake"), "test": str(tmp_path / "texts" / "none.txt")}
    for changes in ({}, by_path):
        assert client.post("/api/plan", json=recipe().to_json() | changes).status_code == 200


def test_on_a_public_host_no_path_and_of_the_hub_only_what_is_listed(door, tmp_path):
    client = door(**PUBLIC, hub_models="good/model@abc123")
    assert client.post("/api/plan", json=recipe().to_json()).status_code == 200
    error_of(client.post("/api/plan", json=recipe().to_json() | {"model": str(tmp_path / "models" / "fake")}), 404)
    for changes in ({"model": "other/model"}, {"model": "good/model", "revision": "main"}):
        assert "good/model" in error_of(client.post("/api/plan", json=recipe().to_json() | changes), 403)["remedy"]
        named = {"name": changes["model"], "revision": changes.get("revision")}
        assert "good/model" in error_of(client.get("/api/model", params=named), 403)["remedy"]
    run = submit(client, model="good/model")
    assert run["recipe"]["revision"] == "abc123"
    offered = [model["name"] for model in client.get("/api/models").json()["models"] if model["where"] == "hub"]
    assert offered == ["good/model"]


# Who is who.


def test_guests_see_and_change_their_own(door):
    alice = door(**PUBLIC)
    bob = door()
    run = finished(alice, submit(alice)["id"])
    assert [found["id"] for found in alice.get("/api/runs").json()["runs"]] == [run["id"]]
    assert bob.get("/api/runs").json()["runs"] == []
    one = f"/api/runs/{run['id']}"
    for method, path in [
        ("GET", one), ("DELETE", one), ("POST", f"{one}/cancel"), ("POST", f"{one}/continue"), ("GET", f"{one}/log"),
        ("POST", f"{one}/export"), ("GET", f"{one}/checkpoint"), ("GET", f"{one}/events"), ("POST", f"{one}/link"),
        ("GET", f"{one}/tuning"), ("GET", f"{one}/ladder"), ("GET", f"{one}/rounding"),
        ("GET", f"/api/studies/{run['id']}"), ("GET", f"/api/studies/{run['id']}/download"),
        ("GET", f"/api/studies/{run['id']}/study.safetensors"), ("DELETE", f"/api/studies/{run['id']}"),
        ("GET", f"/api/studies/{run['id']}/view"), ("GET", f"/api/compare?ids={run['id']},x"),
        ("POST", f"/api/studies/{run['id']}/link"),
    ]:  # fmt: skip
        error_of(bob.request(method, path), 404)
    stolen = bob.get(one, headers={"X-Sarqc-Owner": run["owner"]})
    error_of(stolen, 404)
    assert alice.get(one).status_code == 200


def test_changes_of_others_are_not_told(door):
    alice, bob = door(**PUBLIC), door()
    run = finished(alice, submit(alice)["id"])
    access = bob.app.state.access
    for client, sees in ((alice, True), (bob, False)):
        assert access.sees(visitor(client))(access.store.get(run["id"])) is sees


def test_an_export_is_opened_by_those_who_may_see_it(door, tmp_path):
    alice, bob = door(**PUBLIC), door()
    run = submit(alice)
    access, settings = bob.app.state.access, settings_in(tmp_path, **PUBLIC)
    name = f"{run['id']}/tiny-llama-3bit-gptq-packed"
    (settings.exports_dir() / name).mkdir(parents=True)
    asked = Recipe.parse(
        {"model": "tiny-llama", "quantized_checkpoint": name, "method": "as-found", "calibration": "wikitext2"}
    )
    settings = settings.model_copy(update={"assets_dir": SITE / "assets"})
    assert admit(asked, visitor(alice), access, settings) == asked
    with pytest.raises(NotFound, match="no run"):
        admit(asked, visitor(bob), access, settings)


def visitor(client: TestClient) -> Visitor:
    who = client.get("/api/visitor").json()
    return Visitor(who["name"], who["role"])


def test_a_link_shows_one_run_until_it_is_revoked(door):
    alice, bob = door(**PUBLIC), door()
    run, other = submit(alice, kind="tune", test="none.txt"), submit(alice)
    one = f"/api/runs/{run['id']}"
    finished(alice, run["id"])
    address = alice.post(f"{one}/link").json()["address"]
    assert error_of(bob.get(one), 404)
    assert error_of(bob.get(f"{one}/tuning"), 404)
    opened = bob.get(address, headers=HTML)
    assert opened.status_code == 200
    assert f'content="0; url=/calibrate?run={run["id"]}"' in opened.text
    assert bob.get(one).json()["id"] == run["id"]
    assert bob.get(f"{one}/tuning").json() is None  # a fake run finds out nothing
    assert bob.get(f"/api/studies/{run['id']}").status_code == 422  # a fake run leaves no whole study: it was looked at
    assert [found["id"] for found in bob.get("/api/runs").json()["runs"]] == [run["id"]]
    error_of(bob.get(f"/api/runs/{other['id']}"), 404)
    for method, path in (("DELETE", one), ("POST", f"{one}/link"), ("POST", f"{one}/export"), ("GET", f"{one}/log")):
        error_of(bob.request(method, path), 403)  # seen is not owned
    assert alice.delete(f"{one}/link").status_code == 204
    error_of(bob.get(one), 404)
    assert door().get(address, headers=HTML).status_code == 404
    assert door().get("/share/" + "A" * 32, headers=HTML).status_code == 404


def test_links_of_a_run_go_with_it_and_not_before(door):
    alice, bob = door(**PUBLIC), door()
    run = submit(alice)
    one = f"/api/runs/{run['id']}"
    address = alice.post(f"{one}/link").json()["address"]
    if alice.delete(one).status_code == 409:  # it has not ended yet
        assert bob.get(address, headers=HTML).status_code == 200
    until(lambda: alice.delete(one).status_code in (204, 404))
    assert bob.get(address, headers=HTML).status_code == 404


def test_the_token(door):
    client = door(access="token", access_token=TOKEN)
    assert error_of(client.get("/api/runs"), 401)["kind"] == "not_signed_in"
    turned = client.get("/runs?state=failed", headers=HTML)
    assert (turned.status_code, turned.headers["location"]) == (303, "/sign-in?to=/runs%3Fstate%3Dfailed")
    error_of(client.get("/api/runs", headers={"Authorization": "Bearer wrong"}), 401)
    assert client.get("/api/runs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.post("/sign-in", data={"password": "wrong"}).status_code == 403
    entered = client.post("/sign-in", data={"password": TOKEN, "to": "/runs"})
    assert (entered.status_code, entered.headers["location"]) == (303, "/runs")
    assert submit(client)["owner"].startswith("guest-")
    assert client.get("/api/visitor").json()["role"] == "runner"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/\n"]
)
def test_signing_in_never_leads_away(door, to):
    client = door(access="token", access_token=TOKEN)
    assert client.post("/sign-in", data={"password": TOKEN, "to": to}).headers["location"] == "/"


def test_tries_are_counted(door):
    client = door(access="token", access_token=TOKEN)
    codes = [client.post("/sign-in", data={"password": "wrong"}).status_code for _ in range(12)]
    assert codes[:10] == [403] * 10
    assert codes[-1] == 429


def test_users_and_their_roles(door, tmp_path):
    users = tmp_path / "users"
    for name, role in (("ann", "runner"), ("vera", "viewer"), ("olga", "operator")):
        write_user(users, name, role, f"password of {name}")
    assert "password" not in users.read_text()
    assert users.stat().st_mode & 0o077 == 0
    client = door(access="users", users_file=users)

    def basic(name, password=None):
        both = f"{name}:{password or f'password of {name}'}"
        return {"Authorization": f"Basic {base64.b64encode(both.encode()).decode()}"}

    body = json.dumps(recipe().to_json())
    for headers, status in (
        ({}, 401), (basic("ann", "wrong"), 401), (basic("nobody"), 401), (basic("vera"), 403), (basic("ann"), 201),
    ):  # fmt: skip
        headers = headers | {"Content-Type": "application/json"}
        assert client.post("/api/runs", content=body, headers=headers).status_code == status
    (run,) = client.get("/api/runs", headers=basic("olga")).json()["runs"]
    assert run["owner"] == "ann"
    assert client.get("/api/runs", headers=basic("vera")).json()["runs"] == []
    assert client.post("/sign-in", data={"name": "olga", "password": "password of olga"}).status_code == 303
    known = {"name": "olga", "role": "operator", "signed_in": True, "can_sign_in": True, "public": True}
    assert client.get("/api/visitor").json() == known
    write_user(users, "olga", "operator", "another password")  # ends what was signed in with the old one
    error_of(client.get("/api/runs"), 401)


def test_a_users_file_that_is_wrong_or_goes(door, tmp_path):
    users = tmp_path / "users"
    users.write_text("# people\n\nann:king:aa:bb\n")
    with pytest.raises(Refused, match="line 3"):
        door(access="users", users_file=users)
    users.unlink()
    write_user(users, "ann", "runner", "password of ann")
    client = door(access="users", users_file=users)
    assert client.post("/sign-in", data={"name": "ann", "password": "password of ann"}).status_code == 303
    users.unlink()
    assert "users file" in error_of(client.get("/api/runs"), 503)["what"]


def test_only_the_proxy_may_say_who_somebody_is(door):
    client = door(access="proxy", proxy_header="X-Remote-User", proxy_addresses="10.0.0.9", operators="olga")
    error_of(client.get("/api/runs", headers={"X-Remote-User": "olga"}), 401)  # the test client is not a proxy
    behind = TestClient(client.app, client=("10.0.0.9", 1234), raise_server_exceptions=False, follow_redirects=False)
    who = behind.get("/api/visitor", headers={"X-Remote-User": "olga", "X-Forwarded-For": "8.8.8.8"}).json()
    assert (who["name"], who["role"]) == ("olga", "operator")
    assert behind.get("/api/visitor", headers={"X-Remote-User": "ann"}).json()["role"] == "runner"
    for name in ("", "guest-1234567890", "a b<script>"):
        error_of(behind.get("/api/visitor", headers={"X-Remote-User": name}), 401)


def test_wrong_tokens_of_programs_are_counted(door):
    client = door(access="token", access_token=TOKEN)
    codes = [client.get("/api/runs", headers={"Authorization": "Bearer wrong"}).status_code for _ in range(12)]
    assert codes[:10] == [401] * 10
    assert codes[-1] == 429
    assert client.get("/api/runs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 429  # for a minute


ASKING = """
import sys
from fastapi.testclient import TestClient
from app import create_app
from sarqc.settings import Settings

public = {"access": "open", "strangers": "runner", "hub_models": "some/model"} if sys.argv[2] == "open" else {}
app = create_app(Settings(state_dir=sys.argv[1], hosts="testserver", device="cpu", **public), with_pages=False)
with TestClient(app) as client:
    body = {"model": "some/model", "calibration": "tiny-llama-calibration", "samples": 2, "length": 32}
    print(client.post("/api/plan", json=body).status_code)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("access", ["private", "open"])
def test_the_operators_token_is_not_for_strangers(access, tmp_path):
    with serving(FakeHub({"some/model": Path("assets/models/tiny-llama")})) as hub:
        own = {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": "hf_FAKE", "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
        others = {name: value for name, value in os.environ.items() if "IMPLICIT_TOKEN" not in name}
        asked = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", ASKING, str(tmp_path / "state"), access],
            env=others | own, capture_output=True, text=True,
        )  # fmt: skip
    assert asked.stdout.strip() == "200", asked.stderr[-2000:]
    assert hub.tokens
    assert ("Bearer hf_FAKE" in hub.tokens) is (access == "private")


def test_forwarded_names_are_believed_from_the_proxy_alone(door):
    forged = {"X-Forwarded-For": "8.8.8.8", "X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"}
    seen = []

    async def behind(scope, receive, send):
        seen.append(httpx.Headers(scope["headers"]))

    app = door().app
    settings, access = app.state.supervisor.settings, app.state.access
    cookies = Cookies(settings)
    gate = Gate(behind, settings, Identity(settings, cookies, access.links, Sessions(access.store)))
    TestClient(gate, raise_server_exceptions=False).get("/", headers=forged)
    assert not [name for name in seen[0] if name.startswith(("x-forwarded", "forwarded"))]


# Limits.


def test_a_person_has_a_share_of_the_queue(door, monkeypatch):
    alice, bob = door(**PUBLIC, max_queued_each=2), door()
    monkeypatch.setattr(alice.app.state.supervisor, "_start_due", lambda: None)
    for _ in range(2):
        submit(alice)
    assert "2 of your runs" in error_of(alice.post("/api/runs", json=recipe().to_json()), 429)["what"]
    submit(bob)


@pytest.mark.thorough
def test_a_person_has_a_share_of_the_disk(door, monkeypatch):
    alice = door(**PUBLIC, export_gib_each=5000 / 2**30)  # the fake plan says 4,000 bytes
    runs = [finished(alice, submit(alice)["id"]) for _ in range(2)]
    monkeypatch.setattr(alice.app.state.supervisor, "_start_due", lambda: None)  # the first one waits
    assert alice.post(f"/api/runs/{runs[0]['id']}/export").status_code == 201
    assert "GiB" in error_of(alice.post(f"/api/runs/{runs[1]['id']}/export"), 507)["what"]


def test_requests_of_an_address_are_counted(door):
    client = door(access="open", strangers="viewer", requests_per_minute=5)
    codes = [client.get("/api/health").status_code for _ in range(12)]
    assert codes[0] == 200
    assert codes[-1] == 429


def test_strangers_of_an_address_share_its_places_in_the_queue(tmp_path):
    """Without cookies each request is that of another guest; another address has places of its own."""
    public = PUBLIC | {"hosts": "testserver", "proxy_addresses": "10.0.0.9"}
    with opened(settings_in(tmp_path, max_queued=4, max_queued_each=1, **public), client=("10.0.0.9", 1)) as client:
        client.app.state.supervisor._start_due = lambda: None

        def status(address):
            client.cookies.clear()
            headers = {"X-Forwarded-For": address}
            return client.post("/api/runs", json=recipe().to_json(), headers=headers).status_code

        assert [status("198.51.100.1") for _ in range(4)] == [201, 201, 429, 429]
        assert status("198.51.100.2") == 201


@pytest.mark.thorough
def test_plans_that_wait_keep_nobody_else_waiting(tmp_path):
    """As while the Hub swallows packets, or a model takes minutes: more plans than there are threads."""
    going_on = threading.Event()

    def waiting(recipe, settings):
        if recipe.seed == 1:
            going_on.wait(60)
        return resolve(recipe, settings)

    settings = settings_in(tmp_path, **PUBLIC, hosts="testserver", proxy_addresses="10.0.0.9")
    app = create_app(settings, execute="tests.jobs.fake_runs:quick", resolve=waiting, with_pages=False)
    with TestClient(app, client=("10.0.0.9", 1)) as client, ThreadPoolExecutor(60) as people:

        def planned(address, layers=1):
            where = {"X-Forwarded-For": address, "Cookie": ""}  # a stranger anew
            return people.submit(client.post, "/api/plan", json=recipe(layers).to_json(), headers=where)

        asked = [planned("198.51.100.1") for _ in range(10)]
        try:
            until(lambda: sum(answer.done() for answer in asked) == 10 - WAITING_EACH)
            neighbour = planned("198.51.100.2", 2)
            until(neighbour.done)
            assert neighbour.result().status_code == 200
            asked += [planned(f"198.51.100.{number}") for number in range(2, 12) for _ in range(4)]
            until(lambda: sum(answer.done() for answer in asked) == 50 - WAITING)
            assert client.get("/api/visitor").status_code == 200
        finally:
            going_on.set()
        answers = [answer.result() for answer in asked]
        assert Counter(answer.status_code for answer in answers) == {
            200: WAITING, 429: 10 - WAITING_EACH, 503: 40 + WAITING_EACH - WAITING
        }  # fmt: skip
        assert "of your plans" in next(error_of(answer, 429)["what"] for answer in answers if answer.status_code == 429)


# Texts.


def test_a_text_is_its_owners(door, tmp_path):
    alice, bob = door(**PUBLIC, text_uploads_each=2), door()
    made = alice.post("/api/texts?title=Notes", content=b"some words of mine\n")
    assert made.status_code == 201, made.text
    name = made.json()["name"]
    assert alice.get("/api/texts").json()["texts"][0]["title"] == "Notes"
    assert bob.get("/api/texts").json()["texts"] == []
    assert alice.post("/api/plan", json=recipe().to_json() | {"test": name}).status_code == 200
    error_of(bob.post("/api/plan", json=recipe().to_json() | {"test": name}), 404)
    error_of(bob.delete(f"/api/texts/{name}"), 404)
    assert bob.post("/api/texts", content=b"some words of mine\n").json()["name"] == name
    assert alice.delete(f"/api/texts/{name}").status_code == 204
    assert list((tmp_path / "state" / "text-uploads").glob("*"))  # bob's is there
    assert bob.delete(f"/api/texts/{name}").status_code == 204
    assert not list((tmp_path / "state" / "text-uploads").glob("*"))
    for content, status in ((b"\xff\xfe", 422), (b"  \n", 422), (b"", 422)):
        error_of(alice.post("/api/texts", content=content), status)
    for number in range(2):
        assert alice.post("/api/texts", content=f"text {number}".encode()).status_code == 201
    error_of(alice.post("/api/texts", content=b"one more"), 507)


def test_rows_and_chats_are_uploaded_as_well(door, tmp_path):
    alice, folder = door(**PUBLIC), tmp_path / "state" / "text-uploads"
    rows = "".join(
        json.dumps({"id": number, "content": f'Line {number}, and "more" of it.'}) + "\n" for number in range(900)
    )
    made = alice.post("/api/texts?file=My%20rows.JSONL", content=rows.encode("utf-8-sig"))
    assert made.status_code == 201, made.text
    (file,) = folder.iterdir()
    assert file.name == f"{made.json()['name']}.jsonl"
    assert json.loads(file.read_text().splitlines()[1]) == {"text": 'Line 1, and "more" of it.'}
    shown = alice.post("/api/plan", json=recipe().to_json() | {"calibration": made.json()["name"], "length": 32})
    assert shown.status_code == 200, shown.text
    assert alice.delete(f"/api/texts/{made.json()['name']}").status_code == 204
    assert not list(folder.iterdir())
    two = b'{"prompt": "a", "answer": "b"}'
    assert "“prompt”, “answer”" in error_of(alice.post("/api/texts?file=a.jsonl", content=two), 422)["what"]
    assert alice.post("/api/texts?file=a.jsonl&column=answer", content=two).status_code == 201
    chats = b'{"messages": [{"role": "user", "content": "a"}]}'
    name = alice.post("/api/texts?file=a.jsonl", content=chats).json()["name"]
    assert (folder / f"{name}.jsonl").read_bytes() == chats.replace(b": ", b":").replace(b", ", b",")
    for content, query in (
        (two, ""),
        (b"a", "?file=a.csv"),
        (b"", "?file=a.jsonl"),
        (b"[]", "?file=a.json"),
        (b"PAR1", "?file=a.parquet"),
        (b"a\0", "?file=a.txt"),
    ):
        error_of(alice.post(f"/api/texts{query}", content=content), 422)


def test_a_text_has_a_size(door):
    client = door(text_mib=0.001)
    error_of(client.post("/api/texts", content=b"x" * 2000), 413)


# Studies.


def test_studies_of_the_command_line_are_the_operators(door, tmp_path):
    stranger = door(**PUBLIC)
    write_study(tmp_path / "state" / "studies", "by-hand")
    write_study(tmp_path / "assets" / "studies", "shipped")
    (shown,) = stranger.get("/api/studies").json()["studies"]
    assert (shown["id"], shown["is_mine"]) == ("shipped", False)
    error_of(stranger.delete("/api/studies/shipped"), 403)
    error_of(stranger.get("/api/studies/by-hand"), 404)
    assert stranger.get("/api/studies/shipped").status_code == 200


def test_paths_of_the_host_stay_out_of_a_log(door, tmp_path):
    client = door()
    run = finished(client, submit(client)["id"])
    log = tmp_path / "state" / "logs" / f"{run['id']}.log"
    log.write_text(
        f'File "{tmp_path}/state/x.py", line 3\nread /root/.cache/huggingface/hub/models--a and /etc/passwd\n'
    )
    said = client.get(f"/api/runs/{run['id']}/log").text
    assert str(tmp_path) not in said
    assert "/root" not in said
    assert "/etc" not in said
    assert "<state>/x.py" in said


# Studies, all at once.


def may_see(access: Access, who: Visitor, study_id: str, origin: str) -> bool:
    """The rule for one study, as it is told to people."""
    shown = {link.target for link in access.links.behind(who.links)}
    if origin == "shipped" or access.sees_everything(who) or study_id in shown:
        return True
    if origin == "run":
        return access.store.get(study_id).owner == who.owner
    return origin == "uploaded" and who.owner in access.studies.owners(study_id)


def may_change(access: Access, who: Visitor, study_id: str) -> bool:
    if who.role == "viewer" or access.sees_everything(who):
        return who.role != "viewer"
    if access.store.owners([study_id]):
        return access.store.get(study_id).owner == who.owner
    return who.owner in access.studies.owners(study_id)


@pytest.mark.parametrize("given", [{}, PUBLIC | {"hosts": "demo.example"}])
def test_all_studies_at_once_are_seen_by_the_rule_for_one(tmp_path, given):
    settings = settings_in(tmp_path, **given)
    store = Store(settings.database())
    access = Access(settings, store)
    runs = {owner: store.create(recipe(), owner).id for owner in ("ann", "bob")}
    for name in (*runs.values(), "by-command"):
        write_study(settings.studies_dir(), name)
    for name in ("annas", "both", "former"):
        write_study(settings.uploads_dir(), name)
    write_study(settings.assets_dir / "studies", "shipped")
    for name, owner in (("annas", "ann"), ("both", "ann"), ("both", "bob")):
        access.studies.add(name, owner, "A study", 1)
    secrets = [access.links.make("run", runs["bob"], "bob")[0], access.links.make("study", "annas", "ann")[0]]
    origins = {study["id"]: study["origin"] for study in access.library.listing()["studies"]}
    assert Counter(origins.values()) == {"run": 2, "command_line": 1, "uploaded": 3, "shipped": 1}
    for owner, role, links in itertools.product(
        ("ann", "bob", "eve"), ("viewer", "runner", "operator"), ((), secrets[:1], secrets)
    ):
        who = Visitor(owner, role, frozenset(links))
        seen = access.studies_seen(who, origins)
        assert set(seen) == {name for name, origin in origins.items() if may_see(access, who, name, origin)}
        assert seen == {name: may_change(access, who, name) for name in seen}
    store.close()
