"""Links as a preview reads them: the head of several pages, and the picture they name, decoded."""

import io
import re
import shutil
from html import unescape
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from app import create_app
from sarqc.web.link_preview import SITE, Introduction, head_of
from tests.documents import Document
from tests.http.conftest import TOKEN, write_study
from tests.jobs.conftest import settings_in

ASSETS = Path("assets").resolve()
HTML = {"Accept": "text/html", "Host": "demo.example"}
ADDRESS = "/?study=tiny-llama&bits=2&method=sarqc-gbs"


def head(client: TestClient, address: str, **headers: str) -> Document:
    answer = client.get(address, headers={**HTML, **headers})
    assert answer.status_code == 200
    assert "gradio" not in answer.text.split(">window.gradio_config")[0].lower()
    found = Document(answer.text)
    assert found.said["twitter:card"] == "summary_large_image"
    for name in ("title", "description", "image", "image:alt"):
        assert found.said[f"og:{name}"] == found.said[f"twitter:{name}"]
    assert (found.said["og:image:type"], found.said["og:image:alt"][:12]) == ("image/png", "A curve that")
    assert found.title.endswith(SITE)
    return found


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The app with its pages, for everybody, under the name demo.example."""
    folder = tmp_path_factory.mktemp("introduced")
    settings = settings_in(folder, access="open", strangers="viewer", hosts="demo.example", assets_dir=ASSETS)
    with TestClient(create_app(settings), follow_redirects=False) as client:
        yield client


@pytest.mark.thorough
def test_a_link_says_what_it_shows(client):
    for lam, quality in (("0.05", "perplexity"), ("1", "perplexity"), ("1", "accuracy")):
        address = f"{ADDRESS}&lambda={lam}&show={quality}"
        told = head(client, address)
        assert told.title == f"tiny-llama at 2 bits: GPTQ + saliency penalty – {SITE}"
        assert f"λ = {lam}" in told.said["og:title"]
        assert quality in told.said["og:title"]
        assert told.said["og:description"].startswith(f"At λ = {lam}".replace(" = ", "\u00a0=\u00a0"))
        assert f"the 2-bit model has {quality}" in told.said["og:description"]
        assert told.said["og:url"] == f"http://demo.example{address}"
        assert told.said["og:image"] == "http://demo.example/picture.png"


def test_the_picture_is_as_large_as_the_head_says(client):
    told = head(client, ADDRESS).said
    answer = client.get(told["og:image"])
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert len(answer.content) < 60_000
    assert Image.open(io.BytesIO(answer.content)).size == (int(told["og:image:width"]), int(told["og:image:height"]))
    again = client.get(told["og:image"], headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


def test_what_a_study_says_of_itself_stays_text():
    name = '<script>"&'
    found = Document(head_of(Introduction(name, name, name), "", "/"))
    assert found.title == f"{name} – {SITE}"
    assert {found.said[key] for key in ("og:title", "og:description", "description")} == {name}


@pytest.mark.thorough
def test_a_layer_a_width_and_a_draw_are_those_of_the_link(client):
    whole, layer, draw = (
        head(client, f"/?study=tiny-llama&bits=3{more}&lambda=0.1") for more in ("", "&layer=6", "&draw=1")
    )
    assert "3 bits" in whole.title
    assert "down_proj" in layer.title
    assert draw.said["og:title"] != whole.said["og:title"]  # other numbers


def test_what_an_address_can_not_mean_is_left_out_as_on_the_page(client):
    wrong = "bits=99&method=none&layer=9999&draw=77&lambda=x&gamma=-&scale=huge&show=taste&bits=2"
    first = "smollm2-135m-instruct at 3 bits: GPTQ + saliency penalty, λ = 0.2"
    named = "tiny-llama at 2 bits: GPTQ + saliency penalty, λ = 0.3"
    for address, title in (("/", first), (f"/?study=tiny-llama&{wrong}", named)):
        told = head(client, address)
        assert told.said["og:title"].startswith(title)


@pytest.mark.parametrize(
    ("address", "title"),
    [
        ("/?study=nobodys", "What λ does to a quantized model"),
        ("/calibrate", "Quantize a language model"),
        ("/calibrate?run=nobodys", "Quantize a language model"),
        ("/runs", "Quantized models, side by side"),
        ("/learn", "Quantization, step by step"),
        ("/learn?step=1", "One weight"),
        ("/learn?step=99", "Quantization, step by step"),
    ],
)
def test_pages_that_show_nothing_further_say_what_they_are_for(client, address, title):
    told = head(client, address)
    assert told.title == f"{title} – {SITE}"
    assert told.said["og:image"] == "http://demo.example/picture.png"


def test_the_page_has_one_title_its_bar_and_its_styles_before_any_script(client):
    text = client.get(ADDRESS, headers=HTML).text
    assert text.count("<title>") == 1
    assert f'"title":"tiny-llama at 2 bits: GPTQ + saliency penalty \\u2013 {SITE}"' in text
    assert text.encode().index(b"charset") < 1024
    assert text.index('rel="stylesheet"') < text.index('<header class="bar"') < text.index("<gradio-app")
    assert "<base" not in text  # with it “#content” would lead to another page
    assert client.head(ADDRESS, headers=HTML).content == b""


def test_the_lab_says_what_it_shows_before_any_script(client):
    view = client.get("/api/studies/tiny-llama/view?bits=2&method=sarqc-gbs", headers=HTML).json()
    at = view["lams"].index(0.3)
    seen = {}
    for more in ("", "&show=accuracy", "&hide=methods,band"):
        text = client.get(f"{ADDRESS}&lambda=0.3{more}", headers=HTML).text
        seen[more] = text[text.index('<div class="skeleton is-known"') : text.index("<gradio-app")]
        told = view["told"]["accuracy" if "accuracy" in more else "perplexity"]
        said = re.search(r'<p class="sentence">(.*?)</p>', seen[more], re.DOTALL)
        assert unescape(re.sub(r"<[^>]+>", "", said[1])) == "".join(p["text"] for p in told["sentences"][0][at])
    finding = view["figures"]["hero"]["finding"]["values"][0][at]
    assert f'<span class="card-finding">{finding}</span>' in unescape(seen[""])
    assert "card-finding" not in seen["&hide=methods,band"]
    drift = client.get(f"{ADDRESS}&show=drift", headers=HTML).text
    assert view["figures"]["hero_drift"]["title"] in unescape(drift)
    assert 'class="skeleton"' in client.get("/?study=nobodys", headers=HTML).text
    assert "skeleton" not in client.get("/learn", headers=HTML).text


def test_an_address_is_absolute_only_under_a_name_of_this_host(tmp_path):
    settings = settings_in(tmp_path, access="token", access_token=TOKEN, hosts="demo.example,*",
                           assets_dir=ASSETS)  # fmt: skip
    with TestClient(create_app(settings, with_pages=False)) as client:
        ours, foreign = (head(client, "/sign-in", Host=host) for host in ("demo.example:8000", "evil.example"))
        assert ours.said["og:image"] == "http://demo.example:8000/picture.png"
        assert foreign.said["og:image"] == "/picture.png"
        assert "og:url" not in foreign.said
        assert "evil" not in str(foreign.said)


@pytest.mark.thorough
def test_a_host_that_asks_who_one_is_shows_strangers_the_site_and_links_what_they_show(tmp_path):
    settings = settings_in(tmp_path, access="token", access_token=TOKEN, hosts="demo.example",
                           assets_dir=ASSETS)  # fmt: skip
    app = create_app(settings, with_pages=False)
    with TestClient(app, follow_redirects=False) as client:
        study = write_study(settings.studies_dir(), "secret-study").id
        asked = client.get(f"/?study={study}", headers=HTML)
        assert asked.status_code == 303
        told = head(client, asked.headers["location"])
        assert "secret" not in str(told.said).replace(told.said["og:url"], "")
        assert client.get("/picture.png", headers=HTML).status_code == 200

        link = f"/share/{app.state.access.links.make('study', study, 'operator')[0]}"
        told = head(client, f"{link}?lambda=0.3")
        client.cookies.clear()  # a preview keeps none
        assert told.said["og:title"] == "tiny at 2 bits: GPTQ + saliency penalty, λ = 0.3, perplexity 8.50"
        # A link introduces its own study, whatever else is asked of it.
        other = head(client, f"{link}?lambda=0.3&study=tiny-llama")
        assert other.said["og:title"] == told.said["og:title"]

        app.state.access.links.revoke(study)
        gone = client.get(link, headers=HTML)
        assert gone.status_code == 404
        assert "perplexity" not in gone.text
        shutil.rmtree(settings.studies_dir() / study)


@pytest.mark.parametrize("path", ["/nothing", "/runs/NOPE", "/learn/more", "/<script>"])
def test_what_is_not_there_is_a_page_for_people_and_json_for_programs(client, path):
    answer = client.get(path, headers=HTML)
    assert answer.status_code == 404
    assert answer.text.count("<h1>") == answer.text.count("<main") == answer.text.count('<header class="bar"') == 1
    for page in ("/", "/calibrate", "/runs", "/learn"):
        assert f'<a href="{page}">' in answer.text
    assert "<script>" not in answer.text.partition("<main")[2]
    assert Document(answer.text).title == f"Page not found – {SITE}"
    for address, headers in ((path, {"Accept": "*/*"}), (f"/api{path}", {"Accept": "text/html"})):
        told = client.get(address, headers={"Host": "demo.example", **headers})
        assert told.status_code == 404
        assert list(told.json()) == ["error"]
