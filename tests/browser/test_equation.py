"""The equation above the Lab: set for the method, it moves λ and γ, stays in sight, and shows what is of which term."""

import pytest

from tests.browser.conftest import drag, inside
from tests.synthetic_study import LAMS

BAR = "[data-testid=equation]"
KNOB = "[data-testid=knob-lambda]"
FADED = """(selector) => {
  const [element] = document.querySelectorAll(selector);
  let share = 1;
  for (let at = element; at; at = at.parentElement) {
    const { opacity, filter } = getComputedStyle(at);
    if (at.closest('.plot-canvas') === null) share *= Number(opacity);
    share *= Number(/opacity[(]([^)]+)[)]/.exec(filter)?.[1] ?? 1);
  }
  return Math.round(100 * share);
}"""


def shown(page, lam: float):
    """Knob, slider, figure and address agree."""
    page.wait_for_selector(f'[data-plot="lab-hero"][data-drawn$=",{LAMS.index(lam)}"]')
    assert page.input_value(KNOB) == f"{lam:g}"
    assert page.input_value("[data-testid=lambda]") == str(LAMS.index(lam))
    assert page.get_attribute(KNOB, "aria-valuetext") == f"λ = {lam:g}"
    page.wait_for_function(
        "(lam) => (new URLSearchParams(location.search).get('lambda') ?? '0.3') === lam", arg=f"{lam:g}"
    )


def test_lambda_is_dragged_stepped_and_typed_in_the_equation(open_lab):
    page = open_lab()
    place = inside(page.locator(KNOB))
    drag(page, place, (-34, 0))
    shown(page, 0.0)
    page.mouse.click(*place)  # into the field
    page.keyboard.press("ArrowRight")
    shown(page, 0.01)
    page.keyboard.press("ArrowUp")
    shown(page, 0.1)
    page.keyboard.type("0,4")
    assert page.input_value("[data-testid=lambda]") == str(LAMS.index(0.1))
    page.keyboard.press("Escape")
    assert page.input_value(KNOB) == "0.1"
    page.keyboard.type("0.8")
    page.keyboard.press("Enter")
    shown(page, 1.0)  # the nearest that there is
    page.keyboard.type("much")
    page.keyboard.press("Tab")
    shown(page, 1.0)
    page.fill("[data-testid=knob-gamma]", "0.5")
    page.keyboard.press("Enter")
    page.wait_for_selector('[data-plot="lab-hero"][data-drawn="1,4"]')
    assert page.input_value("[data-testid=knob-gamma]") == "0.5"


@pytest.mark.thorough
def test_a_term_that_is_asked_for_stands_out_on_the_whole_page(open_lab):
    page = open_lab()
    drift = "[data-testid=sentence] .role-drift"
    curves = '[data-plot="lab-curves"] .trace[data-shows="{}"]'
    ink = page.locator(drift).evaluate("words => getComputedStyle(words).color")

    def seen(selector, share):  # once a transition is over
        page.wait_for_function(f"([selector, share]) => ({FADED})(selector) === share", arg=[selector, share])

    def is_lit(term):
        for name in ("recon", "drift", "quality"):
            seen(curves.format(name), 100 if term in (None, name) else 20)
        seen('[data-plot="lab-deciles"] svg', 20 if term == "recon" else 100)
        seen('[data-plot="lab-plane"] svg', 100)  # of both
        seen('[data-testid=numbers] td[data-key="sar"]', 20 if term == "recon" else 100)
        faded = page.locator(drift).first.evaluate("words => getComputedStyle(words).color") != ink
        assert faded == (term == "recon")

    is_lit(None)
    page.hover("[data-testid=term-recon]")
    page.wait_for_selector(".lab[data-lit=recon]")
    is_lit("recon")
    page.keyboard.press("ArrowRight")  # the marks that move stay what they are
    shown(page, 0.3)
    is_lit("recon")
    page.mouse.move(640, 100)
    page.wait_for_selector(".lab:not([data-lit])")
    hero = '[data-plot="lab-hero"]'
    page.click("[data-testid=term-drift]")
    page.wait_for_selector(f'{hero} .trace[data-shows="drift"]')
    is_lit("drift")
    seen(f"{hero} svg", 100)  # the chart that was asked for
    page.mouse.move(640, 100)
    page.wait_for_selector(".lab:not([data-lit])")
    assert page.get_attribute("[data-testid=term-drift]", "aria-pressed") == "true"
    page.select_option("[data-testid=pick-layer]", "2")
    page.wait_for_function("location.search.includes('layer=2')")
    page.focus(KNOB)
    page.keyboard.press("Tab")
    page.wait_for_selector(".lab[data-lit=drift]")
    is_lit("drift")
    seen(f"{hero} svg", 100)
    assert page.locator(drift).count() >= 1
    page.keyboard.press("Escape")
    page.wait_for_selector(".lab:not([data-lit])")


@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_it_stays_in_sight_below_the_main_figure_and_over_a_figure_that_fills_the_window(open_lab, width, height):
    page = open_lab(width=width, height=height, has_touch=width < 500)
    play = page.locator("[data-testid=bar-play]")
    assert play.is_hidden()
    page.locator("[data-testid=numbers]").scroll_into_view_if_needed()
    page.wait_for_selector(".lab.is-away")
    box = page.locator(BAR).bounding_box()
    assert (box["x"], box["y"], box["width"]) == (0, 0, width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    quality = page.locator("[data-testid=bar-quality]")
    before = quality.inner_text()
    for part in (page.locator(KNOB), page.locator("[data-testid=knob-gamma]"), play, quality):
        place = part.bounding_box()
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= width
    play.click()
    page.wait_for_function("([knob, was]) => document.querySelector(knob).value !== was", arg=[KNOB, "0.1"])
    play.click()
    assert quality.inner_text() != before
    if width < 500:
        page.tap("[data-testid=term-drift]")
        page.wait_for_selector(".lab[data-lit=drift]")
        page.tap("[data-testid=term-drift]")
        page.wait_for_selector(".lab:not([data-lit])")
        page.tap("[data-testid=term-recon]")
        page.wait_for_selector(".lab[data-lit=recon]")
        page.touchscreen.tap(width / 2, height / 2)
        page.wait_for_selector(".lab:not([data-lit])")
    page.locator('[data-plot="lab-plane"] .enlarge-button').click()
    card = page.locator('[data-plot="lab-plane"]').bounding_box()
    bar = page.locator(BAR).bounding_box()
    assert bar["y"] == 0
    assert card["y"] == pytest.approx(bar["height"], abs=1)
    assert card["y"] + card["height"] == height
    page.focus(KNOB)
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector('[data-plot="lab-plane"][data-drawn]')
