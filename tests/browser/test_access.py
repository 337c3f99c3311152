"""A host with a token as people meet it: signing in, a link for somebody who has no token; and texts of one's own."""

import json
import urllib.request
from urllib.parse import urlparse

import pytest

from tests.browser.conftest import SMALL_RUN, App, findings, running

pytestmark = pytest.mark.thorough

TOKEN = "a-token-of-24-characters"
RUN = {**SMALL_RUN, "method": "rtn", "lambda": None, "sweep": []}


@pytest.fixture(scope="module")
def public_app(tmp_path_factory):
    """A host whose visitors need a token."""
    settings = {"SARQC_ACCESS": "token", "SARQC_ACCESS_TOKEN": TOKEN, "SARQC_HOSTS": "demo.example"}
    with running(tmp_path_factory.mktemp("public"), **settings) as app:
        yield app


def signed_in(open_page, app: App, path: str, **options):
    page = open_page(path, of=app, **options)
    page.fill("[name=password]", TOKEN)
    page.click("button[type=submit]")
    page.wait_for_selector("[data-testid=visitor]")
    return page


def test_the_sign_in_page(public_app, open_page):
    for theme, width in (("light", 1280), ("dark", 390)):
        page = open_page("/runs", of=public_app, color_scheme=theme, width=width)
        page.watch.expected.append("403")
        page.fill("[name=password]", "a wrong one")
        page.click("button[type=submit]")
        assert "not the token" in page.text_content("[role=alert]")
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert findings(page) == []


def test_signing_in_works_without_scripts(public_app, open_page):
    page = open_page("/runs?filter=x", of=public_app, java_script_enabled=False)
    page.fill("[name=password]", TOKEN)
    page.click("button[type=submit]")
    assert page.url == f"{public_app.url}/runs?filter=x"


def test_a_link_shows_a_run_to_somebody_without_the_token(public_app, open_page):
    page = signed_in(open_page, public_app, "/runs", reduced_motion="reduce")
    page.click("[data-testid=visitor]")
    assert "runner" in page.text_content("[data-testid=visitor-menu]")
    assert findings(page) == []
    run = page.context.request.post(f"{public_app.url}/api/runs", data=RUN).json()
    page.goto(f"{public_app.url}/calibrate?run={run['id']}")
    page.wait_for_selector("[data-testid=run-share]", timeout=200_000)  # the end of a real run
    page.click("[data-testid=run-share] summary")
    page.click("[data-testid=make-link]")
    address = page.input_value("[data-testid=shared-address]")
    assert address.startswith(f"{public_app.url}/share/")
    assert findings(page) == []

    other = open_page(urlparse(address).path, of=public_app)
    other.wait_for_selector(".run-title:has-text('tiny-llama')")
    assert other.url == f"{public_app.url}/calibrate?run={run['id']}"
    assert other.locator("[data-testid=run-share]").count() == 0
    other.click("[data-testid=leave]")
    assert "Viewers can’t begin runs" in other.text_content("[data-testid=no-run]")
    assert other.locator("[data-testid=start]").is_disabled()
    assert other.locator("[data-testid=bring-text]").count() == 0

    page.click("[data-testid=end-links]")
    page.wait_for_selector("text=No link shows this run any more.")
    other.watch.expected += ["401", "404"]
    other.goto(address)
    assert "invalid or has expired" in other.text_content("[role=alert]")
    other.goto(f"{public_app.url}/calibrate?run={run['id']}")
    assert urlparse(other.url).path == "/sign-in"

    page.click("[data-testid=visitor]")
    page.click("[data-testid=sign-out]")
    page.wait_for_selector("[name=password]")


def test_a_link_shows_an_uploaded_study(app, public_app, open_page):
    page = signed_in(open_page, public_app, "/runs")
    with urllib.request.urlopen(f"{app.url}/api/studies/toy/download") as answer:
        study = page.context.request.post(f"{public_app.url}/api/studies", data=answer.read()).json()
    page.reload()
    page.click("[data-testid=study-share]")
    page.click("[data-testid=make-link]")
    address = page.input_value("[data-testid=shared-address]")
    other = open_page("/sign-in", of=public_app).context.request
    entry = f"{public_app.url}/api/studies/{study['id']}"
    assert other.get(entry).status == 401
    other.get(address)
    assert other.get(entry).json()["title"] == study["title"]


def test_a_text_of_ones_own_is_planned_with(app, open_page, tmp_path):
    page = open_page("/calibrate", reduced_motion="reduce")
    page.wait_for_selector("[data-testid=start]:enabled")
    assert page.locator("[data-testid=visitor]").count() == 0  # a private host is as it was
    text = tmp_path / "Notes on a talk.txt"
    text.write_text("Once upon a time there was a little bird that liked to sing.\n" * 900)

    def plans_with_the_text(answer):
        sent = json.loads(answer.request.post_data) if answer.url.endswith("/api/plan") else {}
        return sent.get("calibration", "").startswith("text-")

    with page.expect_response(plans_with_the_text) as planned:
        page.set_input_files("[data-testid=text-file]", text)
    assert planned.value.status == 200
    assert page.input_value("#field-calibration input") == "Notes on a talk.txt · yours"
    assert "Notes on a talk" in page.text_content("[data-testid=own-text]")
    page.wait_for_selector("[data-testid=start]:enabled")
    assert findings(page) == []

    page.watch.expected.append("422")
    text.write_bytes(b"\xff\xfe\x00")
    page.set_input_files("[data-testid=text-file]", text)
    page.wait_for_selector("[data-testid=text-problem]")
    assert page.locator("[data-testid=text-problem] p").count() == 3

    page.click("[data-testid=text-delete]")
    page.click("[data-testid=text-delete-yes]")
    page.locator("[data-testid=own-text]").wait_for(state="detached")
    page.wait_for_function(
        "document.querySelector('#field-calibration input').value.startsWith('Written by tiny-llama')"
    )
    page.wait_for_selector("[data-testid=start]:enabled")
    assert app.json("/texts")["texts"] == []


def test_a_damaged_study_is_said_and_removed(app, open_page):
    folder = app.state / "studies" / "broken"
    folder.mkdir()
    (folder / "study.json").write_text('{"schema": 99')
    page = open_page("/runs")
    assert "damaged" in page.text_content("[data-study=broken] .damaged-why")
    page.click("[data-study=broken] [data-testid=study-delete]")
    page.click("[data-testid=study-delete-yes]")
    page.locator("[data-study=broken]").wait_for(state="detached")
    assert not folder.exists()
