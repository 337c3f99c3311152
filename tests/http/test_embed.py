"""Cards in frames of other sites: which answers these may show."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.settings import Settings
from sarqc.web.page_names import CARDS, PANELS
from sarqc.web.visitor import COOKIE
from tests.http.conftest import TOKEN, write_study
from tests.jobs.conftest import settings_in

ASSETS = Path("assets").resolve()
SITES = "https://blog.example https://*.school.example"
HOST = {"Host": "demo.example"}
HTML = {**HOST, "Accept": "text/html"}
CARD = "/?study=toy&embed=plane"
OPEN_HOST = {"access": "open", "strangers": "viewer", "hosts": "demo.example", "embed_ancestors": SITES}


def settings_of(folder: Path, **given) -> Settings:
    """Settings of a host whose shipped study is “toy”."""
    assets = folder / "assets"
    assets.mkdir()
    for part in ("js", "css", "vendor", "published.json", "models", "tour.json"):
        (assets / part).symlink_to(ASSETS / part)
    write_study(assets / "studies", "toy")
    return settings_in(folder, assets_dir=assets, **given)


def opened(folder: Path, *, with_pages: bool, **given) -> TestClient:
    app = create_app(settings_of(folder, **given), with_pages=with_pages)
    return TestClient(app, base_url="http://demo.example", follow_redirects=False)


def ancestors(client: TestClient, address: str, **headers: str) -> str:
    """Who may show an answer in a frame."""
    policy = client.get(address, headers={**HTML, **headers}).headers["content-security-policy"]
    [said] = [part for part in policy.split("; ") if part.startswith("frame-ancestors ")]
    return said.removeprefix("frame-ancestors ")


@pytest.mark.thorough
def test_other_sites_may_show_cards_alone(tmp_path):
    with opened(tmp_path, with_pages=True, **OPEN_HOST) as client:
        for card in ("plane", "hero", "numbers"):
            answer = client.get(f"/?study=toy&embed={card}", headers=HTML)
            assert f"frame-ancestors {SITES}" in answer.headers["content-security-policy"]
            assert "set-cookie" not in answer.headers
        for address in (
            "/", "/?study=toy", "/?study=toy&embed=1", "/?embed=moon", "/?embed=sentence", "/?embed=1&embed=plane",
            "/calibrate?embed=plane", "/runs?embed=plane", "/learn?embed=plane", "/api/studies?embed=plane",
            "/sign-in?embed=plane", "/nowhere?embed=plane", "/share/secret?embed=plane",
        ):  # fmt: skip
            assert ancestors(client, address) == "'self'", address
        # With our cookie it is somebody's page, and stays out of frames.
        client.cookies.clear()
        given = client.get("/?study=toy", headers=HTML).cookies[COOKIE]
        client.cookies.clear()
        assert ancestors(client, CARD, Cookie=f"{COOKIE}={given}") == "'self'"
        assert ancestors(client, CARD, Cookie=f"a=b; {COOKIE}=forged") == "'self'"
        assert ancestors(client, CARD, Cookie="another=1") == SITES
        assert '<meta name="cards-in-frames">' in client.get(CARD, headers=HTML).text


@pytest.mark.thorough
def test_who_has_to_sign_in_sees_no_card(tmp_path):
    given = {"access": "token", "access_token": TOKEN, "hosts": "demo.example"}
    with opened(tmp_path, with_pages=True, **given, embed_ancestors="*") as client:
        answer = client.get(CARD, headers=HTML)
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/sign-in")
        assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
        assert ancestors(client, answer.headers["location"]) == "'self'"
        signed_in = {"Authorization": f"Bearer {TOKEN}"}
        assert ancestors(client, CARD, **signed_in) == "'self'"


@pytest.mark.thorough
def test_nothing_changes_where_the_operator_has_not_allowed_it(tmp_path):
    with opened(tmp_path, with_pages=True, **OPEN_HOST | {"embed_ancestors": ""}) as client:
        assert ancestors(client, CARD) == "'self'"
        assert "cards-in-frames" not in client.get(CARD, headers=HTML).text


def test_the_cards_are_what_has_a_place_of_its_own():
    assert CARDS.keys() == PANELS.keys() - {"equation", "sentence", "band", "sliders", "continued", "doors"}
