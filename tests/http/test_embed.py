"""Cards in frames of other sites: which answers these may show, and oEmbed by its specification (https://oembed.com)."""

from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.extras.classroom.oembed import FRAME
from sarqc.settings import Settings
from sarqc.web.browser_contract import CARDS, PANELS
from sarqc.web.visitor import COOKIE
from tests.documents import Document
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


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A host that anybody may look at, without pages."""
    with opened(tmp_path_factory.mktemp("host"), with_pages=False, **OPEN_HOST) as client:
        yield client


def oembed(client: TestClient, address: str, **further):
    answer = client.get("/oembed", params={"url": address, **further})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def test_oembed_is_what_its_specification_says(client):
    address = "http://demo.example/?study=toy&bits=2&lambda=0.1&embed=plane&open=proof&preview=x"
    told = oembed(client, address)
    assert (told["version"], told["type"]) == ("1.0", "rich")
    assert (told["width"], told["height"]) == FRAME  # required of this type, with “html”
    assert isinstance(told["title"], str)
    assert told["provider_url"] == "http://demo.example/"
    [frame] = Document(told["html"]).elements["iframe"]
    assert (frame["width"], frame["height"]) == tuple(map(str, FRAME))
    source = urlsplit(frame["src"])
    assert f"{source.scheme}://{source.netloc}{source.path}" == "http://demo.example/"
    assert parse_qs(source.query) == {"study": ["toy"], "bits": ["2"], "lambda": ["0.1"], "embed": ["plane"]}
    small = oembed(client, address, maxwidth=300, maxheight=5000, format="json")
    assert (small["width"], small["height"]) == (300, FRAME[1])


def test_an_address_without_a_card_shows_the_main_figure(client):
    for address in ("http://demo.example", "http://demo.example/?embed=1", "http://DEMO.example/?embed=%22%3E"):
        [frame] = Document(oembed(client, address)["html"]).elements["iframe"]
        assert parse_qs(urlsplit(frame["src"]).query) == {"embed": ["hero"]}


def test_other_addresses_are_not_found_and_other_formats_not_implemented(client):
    for address in (
        "https://elsewhere.example/?study=toy", "http://demo.example.evil/", "javascript:alert(1)", "http://[",
        "http://demo.example/runs", "http://demo.example/share/secret", "http://demo.example/sign-in",
        "http://demo.example/?study=nowhere", "",
    ):  # fmt: skip
        assert client.get("/oembed", params={"url": address}).status_code == 404, address
    assert client.get("/oembed", params={"url": "http://demo.example/", "format": "xml"}).status_code == 501
    assert client.get("/oembed").status_code == 422
    assert client.get("/oembed", params={"url": "http://demo.example/", "maxwidth": 0}).status_code == 422


def test_what_a_link_says_is_never_markup(client):
    query = urlencode({"study": "toy", "hide": '"><script>alert(1)</script>', "embed": "map"})
    told = oembed(client, f"http://demo.example/?{query}")
    assert Document(told["html"]).elements["script"] == []
    assert len(Document(told["html"]).elements["iframe"]) == 1


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
        # An editor finds oEmbed in the head.
        links = Document(client.get(CARD, headers=HTML).text).elements["link"]
        [found] = [link for link in links if link.get("type") == "application/json+oembed"]
        asked = parse_qs(urlsplit(found["href"]).query)["url"]
        assert asked == [f"http://demo.example{CARD}"]
        assert oembed(client, asked[0])["type"] == "rich"


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
        assert client.get("/oembed", params={"url": "http://demo.example/"}).status_code == 401


@pytest.mark.thorough
def test_nothing_changes_where_the_operator_has_not_allowed_it(tmp_path):
    with opened(tmp_path, with_pages=True, **OPEN_HOST | {"embed_ancestors": ""}) as client:
        assert ancestors(client, CARD) == "'self'"
        text = client.get(CARD, headers=HTML).text
        assert "oembed" not in text
        assert client.get("/oembed", params={"url": "http://demo.example/"}).status_code == 404


def test_the_cards_are_what_has_a_place_of_its_own():
    assert CARDS.keys() == PANELS.keys() - {"equation", "sentence", "band", "sliders", "doors"}
