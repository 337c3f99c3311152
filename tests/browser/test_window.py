"""Figures that fill the window, with type that grows; on every page by one control."""

import pytest

from tests.browser.conftest import figure_menu

pytestmark = pytest.mark.thorough

TYPE = """(card) => {
  const tick = document.querySelector(`${card} .axis[data-axis=x] text`);
  return Number.parseFloat(getComputedStyle(tick).fontSize);
}"""
BOX = """(card) => {
  const { left, top, right, bottom } = document.querySelector(card).getBoundingClientRect();
  return [left, top, innerWidth - right, innerHeight - bottom];
}"""


def fills(page, card: str, *, below: float = 0) -> bool:
    left, top, right, bottom = page.evaluate(BOX, card)
    return (left, right, bottom) == (0, 0, 0) and top == below


def test_a_figure_fills_the_window_with_larger_type_and_goes_back(open_page):
    page = open_page("/?study=toy&method=sarqc-gbs&bits=2&lambda=0.1&open=trade_off", width=1920, height=1080)
    card = '[data-plot="lab-plane"]'
    page.wait_for_selector(f"{card}[data-drawn]")
    page.wait_for_selector('[data-plot="lab-surfaces"][data-drawn]')
    page.locator(card).scroll_into_view_if_needed()
    before, type_before = page.evaluate(BOX, card), page.evaluate(TYPE, card)
    assert 14 < type_before < 16  # a large screen
    button = page.locator(f"{card} .enlarge-button")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"(card) => Math.abs(({TYPE})(card) - 20) < 0.1", arg=card)
    bar = page.locator("[data-testid=equation]").bounding_box()["height"]
    assert fills(page, card, below=bar)
    assert button.get_attribute("aria-pressed") == "true"
    page.keyboard.press("ArrowRight")  # λ moves as ever
    page.wait_for_selector(f'{card}[data-drawn="0,3"]')

    page.locator(f"{card} .figure-button:not(.enlarge-button)").click()
    page.keyboard.press("Escape")  # closes the menu alone
    assert fills(page, card, below=bar)
    page.keyboard.press("Escape")
    page.wait_for_function(f"([card, size]) => Math.abs(({TYPE})(card) - size) < 0.1", arg=[card, type_before])
    assert page.evaluate(BOX, card) == before
    assert page.evaluate("document.activeElement.classList.contains('enlarge-button')")


def test_a_button_in_a_menu_closes_it_and_stands_in_the_head_of_its_figure_until_the_way_back(open_page):
    page = open_page("/?study=toy&method=sarqc-gbs&bits=2", width=390, height=844)
    page.wait_for_selector('[data-plot="lab-hero"][data-drawn]')
    menu, button = figure_menu(page, "hero"), page.get_by_test_id("enlarge-lab-hero")
    button.click()
    assert menu.is_hidden()
    assert page.locator('[data-plot="lab-hero"] > .card-head .enlarge-button:focus').count() == 1
    button.click()
    assert button.is_hidden()
    assert page.evaluate("document.activeElement.dataset.testid") == "save-lab-hero"
    assert figure_menu(page, "hero").get_by_test_id("enlarge-lab-hero").is_visible()
