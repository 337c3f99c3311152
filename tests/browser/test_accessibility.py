"""Every page as an accessibility checker and somebody without a mouse meet it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.browser.conftest import AXE, App

pytestmark = pytest.mark.browser

PAGES = {
    "lab": ("/?study=toy", ".lab.is-open"),
    "unknown": ("/?study=nobodys", "[data-testid=ways]"),
    "calibrate": ("/calibrate", "[data-testid=start]:enabled"),
    "run": ("/calibrate?run={run}", ".run-title"),
    "runs": ("/runs", "[data-testid=row]"),
    "compare": ("/runs?compare={run},toy", "[data-testid=filter]"),
    "learn": ("/learn?step=2&shown=1", ".step.is-shown svg"),
    "missing": ("/nothing", "h1"),
}
NAMES = """() => [...document.querySelectorAll("button, input[type=checkbox]")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }))
  .map((one) => (one.getAttribute("aria-labelledby")?.split(" ").map((id) => document.getElementById(id))
      .map((part) => part?.getAttribute("aria-label") ?? part?.textContent ?? "").join(" "))
    || one.getAttribute("aria-label") || [...(one.labels ?? [])].map((label) => label.textContent).join(" ")
    || one.textContent.trim())"""


def findings(page: Any) -> list[str]:
    """What an accessibility checker says of a page as it stands, of any level."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations)")
    return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]


@pytest.mark.parametrize("name", PAGES)
def test_no_finding_of_any_level_in_either_theme(name: str, open_page: Any, small_run: dict[str, Any]) -> None:
    path, ready = PAGES[name]
    page = open_page(path.format(run=small_run["id"]), color_scheme="light", reduced_motion="reduce")
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


def test_a_whole_visit_by_keyboard_alone(app: App, open_page: Any) -> None:
    """From λ in the Lab to a plan, a run, its row in Runs, and its deletion, which Escape takes back once."""
    page = open_page("/?study=toy&lambda=0.1", reduced_motion="reduce")
    page.wait_for_selector(".lab.is-open")
    press = page.keyboard.press

    def tab_to(selector: str, key: str = "Tab", most: int = 150) -> None:
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
    page.wait_for_selector(f"{row} [data-testid=delete]")
    tab_to(f"{row} [data-testid=delete]")
    press("Enter")
    focus = "document.activeElement.dataset.testid"
    assert page.evaluate(focus) == "delete-no"
    press("Escape")
    assert page.evaluate(focus) == "delete"
    press("Enter")
    tab_to(f"{row} [data-testid=delete-yes]", "Shift+Tab", 3)
    press("Enter")
    page.wait_for_selector(row, state="detached")
    assert page.evaluate("document.activeElement !== document.body && document.activeElement.isConnected")
