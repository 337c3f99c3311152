"""Every page as an accessibility checker and somebody without a mouse meet it."""

from collections import Counter

import pytest

from tests.browser.conftest import SMALL_RUN, findings

PAGES = {
    "lab": ("/?study=toy", ".lab.is-open"),
    "unknown": ("/?study=nobodys", "[data-testid=ways]"),
    "calibrate": ("/calibrate", "[data-testid=start]:enabled"),
    "run": ("/calibrate?run={run}", ".run-title"),
    "runs": ("/runs", "[data-testid=row]"),
    "compare": ("/runs?compare={run},{other}", ".compare.is-shown [data-testid=compared] td"),
    "not compared": ("/runs?compare={run},nobodys", "[data-testid=problem]"),
    "learn": ("/learn?step=2&shown=1", ".step.is-shown svg"),
    "missing": ("/nothing", "h1"),
}
NAMES = """() => [...document.querySelectorAll("button, input[type=checkbox]")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }))
  .map((one) => (one.getAttribute("aria-labelledby")?.split(" ").map((id) => document.getElementById(id))
      .map((part) => part?.getAttribute("aria-label") ?? part?.textContent ?? "").join(" "))
    || one.getAttribute("aria-label") || [...(one.labels ?? [])].map((label) => label.textContent).join(" ")
    || one.textContent.trim())"""


@pytest.fixture(scope="module")
def other_run(app):
    """A finished run to compare with ``small_run``, with a text."""
    asked = {**SMALL_RUN, "method": "rtn", "lambda": None, "sweep": [], "prompts": ["Once upon a time"]}
    return app.run(asked)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PAGES)
def test_no_finding_of_any_level_in_either_theme(name, open_page, small_run, other_run):
    path, ready = PAGES[name]
    page = open_page(
        path.format(run=small_run["id"], other=other_run["id"]), color_scheme="light", reduced_motion="reduce"
    )
    page.watch.expected.append("404")
    page.wait_for_selector(ready)
    page.wait_for_timeout(600)
    for theme in ("light", "dark"):
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        assert findings(page) == []
        page.click("[data-testid=theme]")
        page.wait_for_timeout(200)
    assert page.locator("main").count() == page.locator("h1").count() == page.locator("body > header").count() == 1
    names = Counter(page.evaluate(NAMES))
    assert "" not in names
    pages_own = {name for name, count in names.items() if count > 1 and ("figure" in name or "Pick" in name)}
    assert pages_own == set()


@pytest.mark.thorough
def test_a_whole_visit_by_keyboard_alone(app, open_page):
    """From λ in the Lab to a plan, a run, its row in Runs, and its deletion, which Escape takes back once."""
    page = open_page("/?study=toy&lambda=0.1&open=where", reduced_motion="reduce")
    page.wait_for_selector(".lab.is-open")
    press = page.keyboard.press

    def tab_to(selector, key="Tab", most=150):
        for _ in range(most):
            press(key)
            if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
                return
        raise AssertionError(f"the keyboard does not reach {selector}")

    press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    press("Enter")
    assert page.evaluate("location.hash") == "#content"
    tab_to("[data-testid=lambda]")
    before = page.text_content("[data-testid=sentence]")
    press("ArrowRight")
    page.wait_for_function(
        "(words) => document.querySelector('[data-testid=sentence]').textContent !== words", arg=before
    )
    at = page.input_value("[data-testid=knob-lambda]")
    tab_to("#cells-lab-map")  # a map of layers, whose cells the arrows go through
    spoken = "document.activeElement.nextElementSibling.textContent"
    first = page.evaluate(spoken)
    press("ArrowDown")
    assert page.evaluate(spoken) not in ("", first)
    assert page.input_value("[data-testid=knob-lambda]") == at
    layer = page.evaluate(spoken).split(":")[0]
    press("Enter")
    page.wait_for_function("location.search.includes('layer=')")
    assert page.locator("[data-testid=pick-layer] option:checked").inner_text() == layer
    assert page.evaluate("document.activeElement.id") == "cells-lab-map"

    tab_to(".bar a[href='/calibrate']", "Shift+Tab")
    press("Enter")
    page.wait_for_selector("[data-testid=start]:enabled")
    tab_to("[data-testid=start]", most=200)
    press("Enter")
    page.wait_for_selector(".run-title")
    run = page.url.partition("run=")[2].split("&")[0]
    app.json(f"/runs/{run}/cancel", {})  # its work is not the question here
    page.wait_for_selector("text=Cancelled")

    tab_to(".bar a[href='/runs']", "Shift+Tab")
    press("Enter")
    row = f"[data-run='{run}']"
    page.wait_for_selector(f"{row} [data-testid=more]")
    tab_to(f"{row} [data-testid=more]")
    focus = "document.activeElement.dataset.testid"
    for is_kept in (True, False):
        assert page.evaluate(focus) == "more"
        press("Enter")
        assert page.evaluate(focus) == "delete"
        press("Enter")
        assert page.evaluate(focus) == "delete-no"
        if is_kept:
            press("Escape")
    tab_to(f"{row} [data-testid=delete-yes]", "Shift+Tab", 3)
    press("Enter")
    page.wait_for_selector(row, state="detached")
    assert run not in [one["id"] for one in app.json("/runs")["runs"]]
    assert page.evaluate("document.activeElement !== document.body && document.activeElement.isConnected")


# What is pressed or dragged and is lower than 40 pixels, with the room around it that belongs to it; fields of text are
# as their words are.
PRESSED = "button, select, :is(.bar, .run-named) a, a:is(.quiet, .act), [type=checkbox], [type=range]"
SMALL = """(pressed) => [...document.querySelectorAll(pressed)]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && one.getClientRects().length)
  .filter((one) => {
    const box = one.getBoundingClientRect();
    const around = Number.parseFloat(getComputedStyle(one, "::after").height) || 0;
    const beside = 2 * Math.abs(Number.parseFloat(getComputedStyle(one, "::before").top) || 0);
    return Math.max(box.height, around, box.height + beside) < 39.5;
  })
  .map((one) => one.outerHTML.slice(0, 120))"""


@pytest.mark.thorough
def test_on_a_phone_what_is_pressed_is_large_and_what_is_read_is_there(open_page, small_run):
    paths = ("/?study=toy", "/?study=chosen&method=sarqc-gbs-auto", "/runs")
    for path, ready in zip(paths, (".lab.is-open", ".lab.is-open", "[data-testid=row]"), strict=True):
        page = open_page(path, width=390, height=844, has_touch=True, is_mobile=True)
        page.wait_for_selector(ready)
        assert page.evaluate(SMALL, PRESSED) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    cell = page.locator(f"[data-run='{small_run['id']}'] .run-perplexity")
    box = cell.bounding_box()
    assert 0 <= box["x"] < box["x"] + box["width"] <= 390
    assert "." in cell.text_content()
