"""“What is each step worth on my model?” in a real browser: a press, a figure that grows, and the run after it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import App, findings

pytestmark = pytest.mark.browser

SMALL_LADDER = {
    "kind": "ladder", "model": "tiny-llama", "bits": 2, "blocks": [0], "calibration": "tiny-llama-calibration",
    "samples": 2, "length": 64, "test": "tiny-llama-held-out", "window": 64, "test_tokens": 512, "draws": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def climbed(app: App) -> dict[str, Any]:
    """A finished ladder of ``SMALL_LADDER``."""
    return app.finished(app.json("/runs", SMALL_LADDER)["id"])


def seen(page: Any, testid: str) -> str:
    return page.text_content(f"[data-testid={testid}]").replace("\u00a0", " ")


def test_the_button_sends_the_form_s_recipe_for_a_ladder(app: App, open_page):
    page = open_page("/calibrate")
    page.wait_for_selector("[data-testid=ladder]:enabled")
    assert page.text_content("[data-testid=ladder]") == "What is each step worth on my model?"
    sensible = float(page.input_value("[data-testid=ladder-budget]"))
    assert "draws" in page.text_content("[data-testid=ladder-budgets] [aria-current=true]")
    with page.expect_request(lambda request: request.method == "POST" and request.url.endswith("/api/runs")) as asked:
        page.click("[data-testid=ladder]")
    recipe = asked.value.post_data_json
    assert (recipe["kind"], recipe["minutes"], recipe["test"]) == ("ladder", sensible, "tiny-llama-held-out")
    assert {"method", "gamma", "range", "order", "tasks", "speed", "baseline"}.isdisjoint(recipe)
    page.wait_for_function("location.search.startsWith('?run=')")
    run_id = page.evaluate("new URLSearchParams(location.search).get('run')")
    page.click("[data-testid=cancel]")
    page.wait_for_selector("[data-testid=continue]", timeout=120_000)
    assert app.json(f"/runs/{run_id}")["state"] == "cancelled"
    page.click("[data-testid=leave]")
    page.wait_for_selector("[data-testid=ladder]:enabled")
    assert page.locator(".ladder-run").is_hidden()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_end_is_the_server_s_sentence_and_the_run_to_follow(
    app: App, climbed: dict[str, Any], open_page: Any, width: int
) -> None:
    page = open_page(f"/calibrate?run={climbed['id']}")
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_selector("[data-testid=run-rung]")
    page.wait_for_selector("[data-testid=plot-ladder][data-drawn]")
    view = app.json(f"/runs/{climbed['id']}/ladder")
    assert seen(page, "ladder-sentence") == "".join(one["text"] for one in view["sentence"]).replace("\u00a0", " ")
    aria = page.get_attribute("[data-testid=plot-ladder] .plot-frame", "aria-label")
    assert aria == view["figure"]["aria"]
    assert seen(page, "progress").startswith("18 models measured")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert findings(page) == []
    with page.expect_request(lambda request: request.method == "POST" and request.url.endswith("/api/runs")) as asked:
        page.click("[data-testid=run-rung]")
    following = asked.value.post_data_json
    assert (following["kind"], following["test"]) == ("run", "tiny-llama-test")  # not the text that chose the rung
    assert following["method"] == view["ladder"]["rows"][view["ladder"]["best"]]["method"]


def test_the_lab_leads_to_the_ladder_of_one_s_own_model(open_page):
    page = open_page("/?study=tiny-llama&bits=2&open=steps")
    page.wait_for_selector("[data-testid=own-ladder]", state="attached")
    page.wait_for_function("document.querySelector('[data-testid=own-ladder]').search.includes('kind=ladder')")
    address = page.get_attribute("[data-testid=own-ladder]", "href")
    page = open_page(address)
    page.wait_for_selector("[data-testid=ladder]:enabled")
    page.wait_for_function("document.activeElement.dataset.part === 'ladder-budget'")
    assert page.text_content("[data-testid=link-note]").strip() == ""
    assert "bits=2" in address


def test_lists_say_what_it_is(climbed: dict[str, Any], open_page):
    page = open_page(f"/runs?filter={climbed['id']}")
    page.wait_for_selector(".kind")
    assert page.text_content(".kind") == "ladder"
