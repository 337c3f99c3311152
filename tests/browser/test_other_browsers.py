"""A published site in Firefox and WebKit, as far as they are installed: pictures, λ, model, Learn, and no complaint."""

from pathlib import Path

import pytest

from tests.browser.webdriver import LISTENER, absent, complaints, firefox, wait, webkit
from tests.extras.publish.sites import BELOW, served_site

pytestmark = pytest.mark.thorough

BROWSERS = {"firefox": firefox, "webkit": webkit}
HERO = "document.querySelector('[data-plot=lab-hero] svg.flat')"
SENTENCE = "document.querySelector('[data-testid=sentence]').innerText.replace(/\\s/g, ' ')"
BROKEN = """<!doctype html><html><head><meta http-equiv="Content-Security-Policy" content="img-src 'self'">
<script>console.error("said aloud"); nowhereToBeFound();</script><script>Promise.reject("not kept")</script>
<img src="data:image/png,x"><script src="missing.js"></script></head></html>"""
CURVES = f"{HERO}.outerHTML"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of a site with studies, a model and Learn, whose pages keep what goes wrong, and of a broken page."""
    root = tmp_path_factory.mktemp("www")
    with served_site(root, tmp_path_factory.mktemp("host"), with_codes=True) as address:
        (root / BELOW / "broken.html").write_text(BROKEN)
        for page in root.rglob("*.html"):
            text = page.read_text()
            assert "<head>" in text
            page.write_text(text.replace("<head>", f"<head>{LISTENER}", 1))
        yield address


@pytest.fixture(scope="module", params=sorted(BROWSERS))
def browser(request, tmp_path_factory):
    """Each browser that is installed."""
    if reason := absent(request.param):
        pytest.skip(reason)
    with BROWSERS[request.param](Path(tmp_path_factory.mktemp(request.param))) as started:
        yield started


def test_a_complaint_is_heard(browser, served):
    browser.open(f"{served}broken.html")
    for part in ("said aloud", "nowhereToBeFound", "not kept", "img-src", "missing.js"):
        wait(browser, "document.documentElement.dataset.complaints.includes(arguments[0])", part)


@pytest.fixture
def quiet(browser, served):
    """Nothing may complain, and each request must be one of the site."""
    yield
    asked = browser.run(
        "return performance.getEntries().map(({ name }) => name).filter((name) => /^https?:/.test(name))"
    )
    assert asked
    assert all(address.startswith(served) for address in asked)
    assert complaints(browser) == []


@pytest.mark.usefixtures("quiet")
def test_the_first_picture_is_drawn_and_follows_lambda(browser, served):
    browser.open(f"{served}small/")
    wait(browser, "document.querySelector('#content.is-open')")
    wait(browser, HERO)
    assert browser.run("return document.querySelector('[data-plot=lab-surfaces] canvas') !== null")
    wait(browser, "document.querySelectorAll('[data-plot=lab-surfaces][data-drawn]').length")
    sentence, curves = browser.run(f"return [{SENTENCE}, {CURVES}]")
    browser.run("document.querySelector('[data-testid=lambda]').focus()")
    browser.press("ArrowLeft")
    wait(browser, "location.search.includes('lambda=')")
    assert browser.run(f"return {SENTENCE}") != sentence
    wait(browser, f"{CURVES} !== arguments[0]", curves)
    # The thumb of the slider is under the marked point of the curve.
    value = browser.run("return document.querySelector('[data-testid=lambda]').getAttribute('aria-valuetext')")
    assert value in browser.run(f"return {SENTENCE}")


@pytest.mark.usefixtures("quiet")
def test_a_part_opens_and_its_figures_are_drawn(browser, served):
    browser.open(f"{served}small/?open=where,trade_off")
    for name in ("map", "plane"):
        wait(browser, f"document.querySelector('[data-plot=lab-{name}] svg.flat')")
    width = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0


@pytest.mark.usefixtures("quiet")
def test_the_first_stop_of_learn_answers(browser, served):
    browser.open(f"{served}learn/")
    wait(browser, "document.querySelector('[data-testid=step-1] [data-testid=show]')")
    browser.run("document.querySelector('[data-testid=step-1] [data-testid=show]').focus()")
    browser.press("Enter")
    wait(browser, "document.querySelector('[data-testid=step-1] [data-testid=answer]').innerText")
    drawn = "document.querySelector('[data-testid=step-1] [data-testid=canvas] :is(svg, canvas)')"
    wait(browser, f"{drawn}?.getBoundingClientRect().width > 100")


@pytest.mark.usefixtures("quiet")
def test_the_model_answers_a_sentence(browser, served):
    browser.open(f"{served}small/?lambda=0.1")
    wait(browser, "document.querySelector('[data-testid=try-open]')")
    browser.run("document.querySelector('[data-testid=try-open]').click()")
    wait(browser, "document.querySelector('[data-testid=try-written]')")
    said = browser.run("return document.querySelector('[data-testid=try]').innerText")
    assert "WebAssembly" in said
    assert browser.run("return document.querySelectorAll('[data-testid=try-next] tbody tr').length") == 5
