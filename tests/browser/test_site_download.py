"""A study is published from the menu *Share*: its size first, then its site as a zip file."""

import zipfile

import pytest

from tests.browser.conftest import findings

pytestmark = pytest.mark.thorough


def test_the_size_first_and_then_the_site(open_page):
    page = open_page("/?study=toy")
    page.set_default_timeout(120_000)
    page.wait_for_selector("#content.is-open")
    page.click("[data-testid=share]")
    button, words = page.get_by_test_id("publish"), page.get_by_test_id("publish-words")
    button.click()
    page.wait_for_function("document.querySelector('[data-testid=publish-words]').innerText.includes('views, about')")
    assert button.inner_text() == "Download the site"
    assert findings(page) == []
    with page.expect_download() as saved:
        button.click()
        assert button.is_disabled()
    assert saved.value.suggested_filename == "toy-site.zip"
    with zipfile.ZipFile(saved.value.path()) as archive:
        assert {"toy-site/index.html", "toy-site/toy/index.html", "toy-site/toy/study.json"} <= set(archive.namelist())
    page.wait_for_function("document.querySelector('[data-testid=publish-words]').innerText.includes('Saved')")
    assert words.is_visible()
