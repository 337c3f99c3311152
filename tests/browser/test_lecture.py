"""Lectures in a real browser: the hall, its phones and the window of notes."""

import re

import pytest

from tests.browser.conftest import findings

SIZES = """step => ['.ask', '.step-canvas'].map((name) =>
  parseFloat(getComputedStyle(step.querySelector(name)).fontSize))"""
FITS = "document.documentElement.scrollHeight <= innerHeight && document.documentElement.scrollWidth <= innerWidth"


def begun(page) -> str:
    """Lets phones join, and returns the address."""
    page.get_by_test_id("phones").wait_for()
    page.keyboard.press("q")
    address = page.get_by_test_id("join-address").inner_text()
    page.keyboard.press("q")
    page.get_by_test_id("code-card").wait_for(state="detached")
    return f"http://{address}"


def path_of(address: str) -> str:
    return re.sub(r"^http://[^/]+", "", address)


def guess(phone, steps: int):
    """Moves the ring of a phone by keys, and sends its guess."""
    phone.get_by_test_id("send-guess").wait_for()
    phone.get_by_test_id("guess").focus()
    for _ in range(abs(steps)):
        phone.keyboard.press("ArrowRight" if steps > 0 else "ArrowLeft")
    phone.get_by_test_id("send-guess").click()
    phone.get_by_test_id("phone-status").get_by_text("Your guess is").wait_for()


def ended(page):
    if not page.get_by_test_id("code-card").count():
        page.keyboard.press("q")
    page.get_by_test_id("end-lecture").click()
    page.get_by_test_id("qr").wait_for(state="detached")


def test_a_phone_guesses_the_hall_sees_it_and_then_the_truth(open_page):
    page = open_page("/learn?lecture&step=10")
    phone = open_page(path_of(begun(page)), width=390, height=700)
    guess(phone, 1)
    page.get_by_text("1 phone, 1 guess").wait_for()
    assert page.locator(".heap").count() == 0  # nobody follows the others
    page.keyboard.press("PageDown")
    page.locator(".heap").wait_for()
    phone.get_by_text("Guesses are closed").wait_for()
    assert page.get_by_test_id("step-10").get_by_test_id("answer").inner_text() == ""
    page.keyboard.press("PageDown")
    page.get_by_test_id("step-10").get_by_test_id("answer").get_by_text("highest at λ").wait_for()
    phone.get_by_text("The best is λ = 0.3").wait_for()
    assert phone.locator(".heap").count() == 1
    ended(page)
    phone.get_by_text("The lecture is over").wait_for()


@pytest.mark.parametrize("path", ["/learn?lecture&step=7", "/?lecture&study=toy&bits=2&method=sarqc-gbs&lambda=0.1"])
def test_the_first_key_closes_the_code_and_does_nothing_else(open_page, path):
    page = open_page(path)
    page.get_by_test_id("phones").wait_for()
    if "study" in path:
        page.wait_for_selector('[data-plot="lab-hero"][data-drawn]')
    shown = (
        "document.querySelector('.step:not([hidden])')?.className ?? document.querySelector('[data-part=lambda]').value"
    )
    before = page.evaluate(shown)
    for key in ("PageDown", " ", "ArrowRight", "Escape", "b"):
        page.keyboard.press("q")
        page.get_by_test_id("qr").wait_for()
        page.keyboard.press(key)
        page.get_by_test_id("code-card").wait_for(state="detached")
        assert page.evaluate(shown) == before, key
        assert page.locator(".tour-black").is_hidden()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"({shown}) !== '{before}'")
    ended(page)


@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1920, 1080)])
def test_a_lecture_is_read_from_the_last_row_and_nothing_is_cut(open_page, width, height):
    page = open_page("/learn?lecture", width=width, height=height)
    for number in range(1, 11):
        step = page.get_by_test_id(f"step-{number}")
        step.locator(".step-canvas svg text").first.wait_for(state="attached")
        for _ in range(2):
            assert page.evaluate(FITS), number
            sizes = step.evaluate(SIZES)
            assert min(sizes) >= height / 46, (number, sizes)
            if not page.evaluate("document.querySelector('.step:not([hidden])').classList.contains('is-shown')"):
                page.keyboard.press("PageDown")
                step.get_by_test_id("answer").locator(":scope:not(:empty)").wait_for()
        page.keyboard.press("PageDown")


@pytest.mark.thorough
def test_the_notes_stay_in_step_and_move_the_lecture(open_page):
    page = open_page("/learn?lecture&step=1")
    page.get_by_test_id("step-1").get_by_test_id("show").wait_for()
    with page.expect_popup() as opened:
        page.keyboard.press("n")
    notes = opened.value
    notes.locator(".notes-clock").get_by_text("Step 1 of 10").wait_for()
    assert notes.get_by_test_id("step-1").get_by_test_id("notes").is_visible()
    assert notes.get_by_test_id("step-1").get_by_test_id("canvas").is_hidden()
    notes.get_by_test_id("notes-on").click()  # the answer
    answer = page.get_by_test_id("step-1").get_by_test_id("answer")
    answer.get_by_text("The nearest level").wait_for()
    assert notes.get_by_test_id("step-1").get_by_test_id("answer").inner_text() == answer.inner_text()
    notes.locator("body").press("PageDown")
    page.get_by_test_id("step-2").get_by_test_id("show").wait_for()
    notes.locator(".notes-clock").get_by_text("Step 2 of 10").wait_for()
    page.keyboard.press("PageUp")
    notes.locator(".notes-clock").get_by_text("Step 1 of 10").wait_for()
    assert findings(notes) == []
    page.goto("about:blank")
    notes.get_by_text("The window of the lecture is closed.").wait_for()


# The heap is under its λ of the figure, whose slider goes half a thumb beyond the first and the last of ten.
UNDER_THE_AXIS = """() => {
  const [heap, track] = [".heap", "[data-part=sliders] .track"].map(
    (selector) => document.querySelector(selector)?.getBoundingClientRect());
  if (!heap || !track) return false;
  const steps = (heap.left + heap.width / 2 - track.left - 11) / ((track.width - 22) / 9);
  return Math.round(steps) === 4 && Math.abs(steps - 4) < 0.02;
}"""


@pytest.mark.thorough
def test_the_lab_asks_the_phones_for_the_sweet_spot(open_page):
    page = open_page("/?lecture&study=tiny-llama&bits=2&method=sarqc-gbs")
    page.wait_for_selector('[data-plot="lab-hero"][data-drawn]')
    frame = page.locator("[data-plot=lab-hero] .plot-frame")
    assert frame.is_visible()
    phone = open_page(path_of(begun(page)), width=390, height=700, color_scheme="dark")
    assert frame.is_hidden()  # while they guess
    guess(phone, 0)
    page.get_by_text("1 phone, 1 guess").wait_for()
    page.keyboard.press(" ")
    page.locator(".heap").wait_for()
    assert frame.is_hidden()
    page.keyboard.press(" ")
    frame.wait_for()
    page.wait_for_function(UNDER_THE_AXIS)
    phone.get_by_text("The best λ lies between").wait_for()
    page.reload()  # the lecture goes on
    page.get_by_text("1 phone, 1 guess").wait_for()
    ended(page)


@pytest.mark.thorough
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_finding_on_a_phone_or_under_the_code(open_page, theme):
    page = open_page("/learn?lecture&step=10", color_scheme=theme)
    phone = open_page(path_of(begun(page)), width=390, height=700, color_scheme=theme)
    phone.get_by_test_id("send-guess").wait_for()
    assert findings(phone) == []
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert phone.context.cookies() == []
    guess(phone, 1)
    assert findings(phone) == []
    page.keyboard.press("q")
    page.get_by_test_id("qr").wait_for()
    assert findings(page) == []
    ended(page)
    unknown = open_page("/join/aaaa-bbbb-cccc", width=390, height=700, color_scheme=theme)
    unknown.watch.expected.append("404")
    assert "does not exist" in unknown.inner_text("main")
    assert findings(unknown) == []
