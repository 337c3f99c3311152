"""Signing in with Hugging Face, against a provider that answers as the real one does: OAuth 2 with PKCE over HTTP."""

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient

from tests.http.conftest import HTML, opened
from tests.jobs.conftest import settings_in

CLIENT, SECRET = "app-id", "app-secret"


class Provider(ThreadingHTTPServer):
    """Gives a token for a code whose verifier hashes to the challenge that was announced for it."""

    challenge = ""
    name: object = "ann"

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answers)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Answers(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        basic = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        digest = hashlib.sha256(form["code_verifier"][0].encode()).digest()
        right = (
            self.path == "/oauth/token"
            and basic == f"{CLIENT}:{SECRET}"
            and form["code"] == ["the-code"]
            and base64.urlsafe_b64encode(digest).decode().rstrip("=") == self.server.challenge
        )
        if right:
            self._say(200, {"access_token": "the-token", "token_type": "bearer"})
        else:
            self._say(400, {"error": "invalid_grant"})

    def do_GET(self):
        if self.path == "/oauth/userinfo" and self.headers["Authorization"] == "Bearer the-token":
            self._say(200, {"preferred_username": self.server.name})
        else:
            self._say(401, {})

    def _say(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def provider():
    server = Provider()
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def client(provider, tmp_path, monkeypatch):
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")  # the provider here speaks plain HTTP
    settings = settings_in(
        tmp_path, access="huggingface", oauth_client_id=CLIENT, oauth_client_secret=SECRET,
        openid_provider_url=provider.url, operators="olga",
    )  # fmt: skip
    with opened(settings, follow_redirects=False) as client:
        yield client


def left_for(client: TestClient, provider: Provider, to: str = "/runs") -> str:
    """Follows the link to the provider; returns the state that it is to send back."""
    answer = client.get(f"/sign-in/huggingface?to={to}")
    assert answer.status_code == 303
    address = urlsplit(answer.headers["location"])
    asked = parse_qs(address.query)
    assert answer.headers["location"].startswith(f"{provider.url}/oauth/authorize?")
    assert asked["client_id"] == [CLIENT]
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["redirect_uri"] == ["https://testserver/sign-in/callback"]
    provider.challenge = asked["code_challenge"][0]
    return asked["state"][0]


@pytest.mark.thorough
def test_from_the_link_to_a_name(client, provider):
    assert client.get("/api/runs").status_code == 401
    state = left_for(client, provider)
    entered = client.get("/sign-in/callback", params={"state": state, "code": "the-code"})
    assert (entered.status_code, entered.headers["location"]) == (303, "/runs")
    assert client.get("/api/visitor").json() == {
        "name": "ann", "role": "runner", "signed_in": True, "public": True, "can_sign_in": True
    }  # fmt: skip
    assert client.post("/sign-out").status_code == 303
    assert client.get("/api/runs").status_code == 401


@pytest.mark.thorough
def test_an_operator_by_name(client, provider):
    provider.name = "olga"
    client.get("/sign-in/callback", params={"state": left_for(client, provider), "code": "the-code"})
    assert client.get("/api/visitor").json()["role"] == "operator"


@pytest.mark.thorough
def test_an_operator_no_more_signs_in_again_as_what_they_are_now(client, provider):
    provider.name = "olga"
    client.get("/sign-in/callback", params={"state": left_for(client, provider), "code": "the-code"})
    copied = client.cookies["sarqc_visitor"]
    settings = client.app.state.supervisor.settings.model_copy(update={"operators": "ann"})
    client.__exit__(None, None, None)
    with opened(settings, follow_redirects=False) as again:
        again.cookies["sarqc_visitor"] = copied
        assert again.get("/api/visitor").status_code == 401
        again.cookies.clear()
        again.get("/sign-in/callback", params={"state": left_for(again, provider), "code": "the-code"})
        assert again.get("/api/visitor").json()["role"] == "runner"


def test_signing_out_ends_the_cookie_everywhere(client, provider):
    client.get("/sign-in/callback", params={"state": left_for(client, provider), "code": "the-code"})
    copy = TestClient(client.app, cookies={"sarqc_visitor": client.cookies["sarqc_visitor"]})
    assert copy.get("/api/visitor").json()["name"] == "ann"
    assert client.post("/sign-out").status_code == 303
    assert copy.get("/api/visitor").status_code == 401


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", ["code", "state", "elsewhere", "name"])
def test_what_is_forged_signs_nobody_in(client, provider, wrong):
    state, code = left_for(client, provider), "the-code"
    if wrong == "code":
        code = "another"
    elif wrong == "state":
        state = state[:-2] + ("AA" if not state.endswith("AA") else "BB")
    elif wrong == "elsewhere":  # begun in another browser: its verifier is not in this one
        client.cookies.clear()
    else:
        provider.name = "guest-1234567890"
    answer = client.get("/sign-in/callback", params={"state": state, "code": code}, headers=HTML)
    assert answer.status_code in (403, 503)
    assert "sarqc_visitor" not in answer.headers.get("set-cookie", "")
    assert client.get("/api/runs").status_code == 401
