"""Pages in the language of their address: the Lab and Learn in German, the others and unknown languages in English."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import gradio as gr
import pytest
from fastapi.testclient import TestClient

import pages
from app import create_app
from pages import calibrate, lab, layout, learn
from sarqc.language import speaking
from sarqc.settings import Settings
from tests.jobs.conftest import settings_in

ASSETS = Path("assets").resolve()
HTML = {"Accept": "text/html"}
PAGES = (lab.PAGE, learn.PAGE)
_MARKUP = re.compile(r'"html_template":("(?:[^"\\]|\\.)*")')
_SPOKEN = re.compile(r'(?:aria-label|title)="([^"]*)"|>([^<]*)<')


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return settings_in(tmp_path_factory.mktemp("spoken"), access="open", strangers="viewer", assets_dir=ASSETS)


@pytest.fixture(scope="module")
def client(settings: Settings) -> Iterator[TestClient]:
    """The app with its pages."""
    with TestClient(create_app(settings), follow_redirects=False) as client:
        yield client


def document(client: TestClient, address: str, status: int = 200) -> str:
    answer = client.get(address, headers=HTML)
    assert answer.status_code == status
    return answer.text


def language_of(text: str) -> str:
    found = re.search(r'<html\s+lang="(\w+)"', text)
    assert found is not None
    return found[1]


def parts(text: str) -> list[str]:
    """The markup of the parts that Gradio's scripts insert."""
    return [json.loads(part) for part in _MARKUP.findall(text)]


def built(page: layout.Page, settings: Settings, code: str) -> list[str]:
    """The markup of a page's parts, in a language."""
    with speaking(code), gr.Blocks() as blocks:
        layout.heading(page)
        page.build(settings)
    return [block.html_template for block in blocks.blocks.values() if isinstance(block, gr.HTML)]


def spoken(markup: str) -> list[str]:
    """Words that people see or hear, without symbols, “auto” and names of methods."""
    texts = [unescape(label or text) for label, text in _SPOKEN.findall(markup)]
    return [text for text in texts if re.search(r"[a-z]{3}", text)]


def test_fields_have_their_words_in_german(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGES", (calibrate.PAGE,))
    words = pages.translations(settings)["de"]
    assert words["Group size (channels)"] == "Gruppengröße (Kanäle)"
    assert words["Bits per weight, 2 to 4."] == "Bits je Gewicht, 2 bis 4."
    assert words["full range"] == "ganzer Bereich"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_every_part_with_words_is_in_german(client: TestClient, settings: Settings, page: layout.Page) -> None:
    english, german = (built(page, settings, code) for code in ("en", "de"))
    shown = parts(document(client, f"{page.path}?lang=de"))
    for before, after in zip(english, german, strict=True):
        assert after in shown
        assert (before != after) == bool(spoken(before)), before
        assert before == after or before not in shown


def test_the_document_says_its_language_and_has_its_messages(client: TestClient) -> None:
    text = document(client, "/?lang=de")
    assert language_of(text) == "de"
    messages = re.search(r'<script type="application/json" id="messages" lang="de">(.*?)</script>', text)
    assert messages is not None
    assert json.loads(messages[1])["categories"] == ["one", "other"]
    assert "Die Gewichte <i>W</i> eines Sprachmodells" in text.split("<gradio-app")[0]  # the first sight
    assert '<a href="/learn?lang=de">Lernen</a>' in text


@pytest.mark.parametrize("address", ["/?lang=xx", "/?lang=", "/"])
def test_unknown_languages_are_english(client: TestClient, address: str) -> None:
    text = document(client, address)
    assert language_of(text) == "en"
    assert 'id="messages"' not in text
    assert parts(text) == parts(document(client, address.partition("?")[0]))


def test_where_there_is_no_page_this_is_said_in_german(client: TestClient) -> None:
    text = document(client, "/nowhere?lang=de", status=404)
    assert language_of(text) == "de"
    assert "<h1>Diese Seite gibt es nicht</h1>" in text
    assert '<a href="/learn?lang=de">Lernen</a> Quantisierung, Schritt für Schritt' in text
    assert "<h1>Page not found</h1>" in document(client, "/nowhere", status=404)


def test_a_phone_without_a_lecture_is_told_so_in_german(client: TestClient) -> None:
    assert "Diese Vorlesung gibt es nicht." in document(client, "/join/none?lang=de", status=404)
