"""A published site in the browser: from a plain file server below a path, without any other request."""

import pytest

from tests.browser.conftest import findings, watched
from tests.extras.publish.sites import served_site

OPENED = "#content.is-open"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of a site with the studies “small” and “steps”, and Learn, which reads “small”."""
    with served_site(tmp_path_factory.mktemp("www"), tmp_path_factory.mktemp("host"), with_codes=True) as address:
        yield address


@pytest.fixture
def visit(browser, served):
    """Opens pages of the site; each request must be below its path, and nothing may complain."""
    opened = []

    with watched(browser) as make:

        def made(path="", **options):
            opened.append(make(served + path, **options))
            return opened[-1]

        yield made
    for page in opened:
        assert [url for url in page.watch.requests if not url.startswith((served, "data:", "blob:"))] == []


def sentence(page) -> str:
    return page.inner_text("[data-testid=sentence]")


def test_the_lab_opens_and_moves(visit, served):
    page = visit("small/")
    page.wait_for_selector(OPENED)
    page.wait_for_selector("[data-plot=lab-hero] svg.flat")
    before = sentence(page)
    page.focus("[data-testid=lambda]")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**lambda=**")
    after = sentence(page)
    assert after != before
    # The address says it: the same page again.
    again = visit(page.url.removeprefix(served))
    again.wait_for_selector(OPENED)
    assert sentence(again) == after
    for absent in ("Calibrate", "Runs", "Compute here", "Use these settings"):
        assert not page.get_by_text(absent, exact=True).is_visible(), absent
    page.click("[data-testid=door-trade_off]")
    page.wait_for_selector("[data-plot=lab-plane] svg.flat")
    page.wait_for_url("**open=trade_off**")
    assert findings(page) == []


def test_layers_scales_numbers_and_files(visit, served):
    page = visit("small/?open=where,proof")
    page.wait_for_selector(OPENED)
    page.select_option("[data-testid=pick-layer]", "2")
    page.wait_for_url("**layer=2**")
    page.select_option("[data-testid=pick-quantity]", "drift")
    page.wait_for_url("**quantity=drift**")
    # Another line has no layers of its own here: the list is not there, and the page says why.
    page.select_option("[data-testid=pick-method]", "rtn")
    page.wait_for_selector("text=This line is shown with all layers and draws together.")
    assert not page.is_visible("[data-testid=pick-layer]")
    names = page.locator("[data-testid=download]").all_inner_texts()
    assert names == ["Download study.json", "Download study.safetensors"]
    for link in page.locator("[data-testid=download]").all():
        address = link.evaluate("element => element.href")
        assert address.startswith(f"{served}small/study.")
        assert page.evaluate("async address => (await fetch(address)).status", address) == 200


def test_a_view_that_is_not_there_is_named(visit):
    page = visit("small/?method=rqc-gbs&bits=2&layer=1")
    page.wait_for_selector("text=This is not among the files of this site.")
    assert page.is_visible("text=each layer and each draw on its own")


def test_the_list_leads_to_a_study_and_one_study_to_another(visit, served):
    page = visit()
    assert page.locator(".studies a").count() == 2
    assert findings(page) == []
    page.click(".studies a[href='steps/']")
    page.wait_for_selector(OPENED)
    assert page.url.startswith(f"{served}steps/")
    page.click("[data-testid=door-steps]")
    page.wait_for_selector("[data-plot=lab-ladder] svg.flat")
    page.select_option("[data-testid=pick-study]", "small")
    page.wait_for_url("**study=small**")
    page.click("text=Studies")
    page.wait_for_selector(".studies")


def test_learn_is_walked_to_its_end_and_leads_to_the_lab(visit, served):
    page = visit()
    page.click("text=Learn")
    page.wait_for_selector("[data-testid=step-1] [data-testid=show]")
    assert page.url.startswith(f"{served}learn/")
    for number in range(1, 11):
        step = page.get_by_test_id(f"step-{number}")
        if number != 9:  # this study has no ladder
            step.get_by_test_id("show").click()
            step.locator("[data-testid=answer] >> text=/./").first.wait_for()
            assert step.locator("[data-testid=canvas] >> css=svg, canvas").first.is_visible(), number
        if number < 10:
            page.get_by_test_id("next").click()
    assert findings(page) == []
    page.get_by_test_id("to-lab").click()
    page.wait_for_url(lambda address: address.startswith(f"{served}small/?"))
    page.wait_for_selector(OPENED)


def test_the_first_sentence_needs_little(visit):
    """Before any script the document says its sentence; the document is small."""
    page = visit("small/", java_script_enabled=False)
    page.wait_for_selector(".skeleton .sentence")
    text = page.content()
    assert len(text.encode()) < 150_000


@pytest.mark.thorough
def test_a_published_lecture_has_notes_and_no_phones(visit):
    page = visit("learn/?lecture")
    page.get_by_test_id("open-notes").wait_for()
    page.keyboard.press("q")
    assert page.get_by_test_id("phones").count() == page.get_by_test_id("code-card").count() == 0
    with page.expect_popup() as opened:
        page.keyboard.press("n")
    opened.value.locator(".notes-clock").get_by_text("Step 1 of 10").wait_for()


@pytest.mark.thorough
def test_the_model_runs_from_a_file_server(visit):
    page = visit("small/?lambda=0.1")
    button = page.get_by_test_id("try-open")
    button.wait_for()
    assert not [url for url in page.watch.requests if "/model/" in url]
    button.click()
    page.get_by_test_id("try-written").wait_for()
    assert "WebAssembly" in page.get_by_test_id("try").inner_text()
    page.get_by_test_id("try-lambda").press("Home")
    page.get_by_text("At λ = 0 there is nothing to compare with").wait_for()
    assert findings(page) == []
