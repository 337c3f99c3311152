"""The tour in a real browser: keys, guesses, the address, and numbers that are those of the study."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

pytestmark = pytest.mark.browser


def query(page: Any) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlparse(page.url).query).items()}


def test_the_tour_is_walked_by_keys_and_asks_before_it_shows(open_page):
    page = open_page("/learn")
    first = page.get_by_test_id("step-1")
    first.get_by_test_id("show").wait_for()
    assert page.locator("nav.pages a[aria-current]").inner_text() == "Learn"
    assert first.get_by_test_id("answer").inner_text() == ""
    # The handle needs the arrow keys for itself; anywhere else they lead on.
    first.get_by_test_id("guess").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("guess=-0.24"))
    assert first.is_visible()
    first.get_by_test_id("show").click()
    first.get_by_text("You said −0.24").wait_for()
    page.locator(".step-title >> visible=true").evaluate("element => element.focus()")
    for key, number in (("ArrowRight", 2), (" ", 3), ("ArrowLeft", 2), ("Shift+ ", 1), ("ArrowLeft", 1), (" ", 2)):
        page.keyboard.press(key)
        page.wait_for_url(re.compile(rf"step={number}"))
        assert page.get_by_test_id(f"step-{number}").is_visible()
    assert page.locator(".step:visible").count() == 1
    assert page.locator('[data-testid="progress"] .is-done').count() == 2


def test_the_lattice_is_solved_while_it_is_dragged_and_the_address_brings_it_back(open_page):
    page = open_page("/learn?step=2")
    step = page.get_by_test_id("step-2")
    cross = step.get_by_test_id("weights")
    cross.wait_for()
    step.locator('[data-testid="guess"] [data-value="3"]').click()
    step.get_by_test_id("show").click()
    step.get_by_text("You said 3, and so it is").wait_for()
    box = cross.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 70, y - 50, steps=8)
    page.mouse.up()
    step.get_by_test_id("lambda").evaluate(
        "input => { input.value = 41; input.dispatchEvent(new Event('input', { bubbles: true })); }"
    )
    page.wait_for_function("() => new URLSearchParams(location.search).get('lambda') === '10'")
    kept = query(page)
    assert float(kept["x"]) > 0
    assert float(kept["y"]) > 0.5
    said = step.get_by_test_id("answer").inner_text()
    drawn = step.locator(".step-canvas svg").inner_html()
    page.reload()
    step.get_by_test_id("answer").get_by_text("At λ").wait_for()
    assert step.get_by_test_id("answer").inner_text() == said
    assert step.locator(".step-canvas svg").inner_html() == drawn
    assert query(page) == kept


def test_the_last_steps_show_the_numbers_of_the_study(open_page, app):
    view = app.json("/studies/tiny-llama/view?method=rqc-gbs&bits=2")
    rows = view["table"]["rows"]
    best = min(rows, key=lambda row: row["perplexity"])
    page = open_page("/learn?step=6&guess=0.01&shown=1", width=390, height=844, color_scheme="dark")
    step = page.get_by_test_id("step-6")
    answer = step.get_by_test_id("answer")
    answer.get_by_text("You said 0.01, which is outside the band").wait_for()
    assert f"{-best['perplexity_difference']:.1f} ± {best['perplexity_error']:.1f} better" in answer.inner_text()
    assert f"{best['perplexity']:.1f} at λ = {best['lambda']:g}" in step.locator(".step-canvas").text_content()
    step.locator("summary").click()
    cells = step.locator("tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert [cell[1] for cell in cells] == [f"{row['perplexity']:.1f}" for row in rows]
    page.get_by_test_id("next").click()
    last = page.get_by_test_id("step-7")
    last.get_by_test_id("show").click()
    table = last.get_by_test_id("published")
    table.wait_for()
    float_row = table.locator("tbody tr").first.locator("td").all_inner_texts()
    assert float_row[0] == "5.47"
    assert float_row[-1] == f"{view['study']['model']['perplexity']:.1f}"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
