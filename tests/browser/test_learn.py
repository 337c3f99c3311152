"""The tour in a real browser: keys, guesses, the address, and numbers that are those of the study."""

import csv
import io
import re
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest
from PIL import Image

from tests.browser.conftest import drag, inside

pytestmark = pytest.mark.thorough

NO_TEXT_IS_CUT = """svg => [...svg.querySelectorAll('text')].every((one) => {
  const { x, width } = one.getBBox();
  return x >= 0 && x + width <= svg.viewBox.baseVal.width;
})"""


def query(page) -> dict[str, str]:
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
    # A remote's keys and a keyboard's: the answer first, then the next step; what was shown stays shown.
    way = (("ArrowRight", 2, 0), ("PageDown", 2, 1), (" ", 3, 0), (" ", 3, 1), ("PageUp", 2, 1), ("ArrowLeft", 1, 1))
    for key, number, shown in (*way, ("Shift+ ", 1, 1), ("PageDown", 2, 1), ("ArrowRight", 3, 1)):
        page.keyboard.press(key)
        page.wait_for_url(re.compile(rf"step={number}&" + ("shown=1" if shown else "(?!shown)")))
        step = page.get_by_test_id(f"step-{number}")
        assert step.is_visible()
        assert step.get_by_test_id("show").is_visible() is not bool(shown)
        assert step.get_by_text("Guess first.").is_visible() is not bool(shown)
    assert page.locator(".step:visible").count() == 1
    assert page.locator('[data-testid="progress"] .is-done').count() == 3


def test_back_goes_one_step_back_and_a_link_shows_what_is_shown(open_page):
    page = open_page("/learn?step=1&shown=1&bits=3&weight=0.2")
    page.get_by_test_id("next").click()
    page.get_by_test_id("step-2").get_by_test_id("show").click()
    page.get_by_test_id("step-2").get_by_test_id("lambda").press("ArrowRight")
    page.get_by_test_id("next").click()
    page.get_by_test_id("step-3").get_by_test_id("show").wait_for()
    page.go_back()
    page.get_by_test_id("step-2").get_by_test_id("answer").get_by_text("At λ").wait_for()
    assert page.get_by_test_id("step-3").is_hidden()
    page.go_back()
    page.wait_for_url("**/learn?step=1&shown=1&bits=3&weight=0.2")
    page.get_by_test_id("step-1").get_by_test_id("answer").get_by_text("The nearest level").wait_for()
    page.go_forward()
    page.get_by_test_id("step-2").get_by_test_id("answer").get_by_text("At λ").wait_for()
    kept = page.url
    page.get_by_test_id("share").click()
    menu = page.get_by_test_id("share-menu")
    assert menu.get_by_test_id("share-link").input_value() == kept
    menu.locator('[data-tick="lock"][data-name="lambda"]').check()
    assert menu.get_by_test_id("share-link").input_value() == f"{kept}&lock=lambda"
    menu.locator('[data-tick="lock"][data-name="lambda"]').press("PageDown")  # the tour waits below the card
    assert page.get_by_test_id("step-2").is_visible()


def test_a_step_fills_the_screen_of_a_hall(open_page):
    page = open_page("/learn?step=7", width=1920, height=1080)
    step = page.get_by_test_id("step-7")
    step.locator(".step-canvas text").first.wait_for(state="attached")
    type_size = """() => {
      const svg = document.querySelector('.step:not([hidden]) .step-canvas svg');
      return 12 * svg.clientWidth / svg.viewBox.baseVal.width;
    }"""
    foot = "() => innerHeight - document.querySelector('.tour-foot').getBoundingClientRect().bottom"
    page.wait_for_function(f"Math.abs(({type_size})() - 18) < 0.1")
    assert page.evaluate(foot) < 16  # nothing of the screen is left over
    page.keyboard.press("f")
    page.wait_for_function("document.fullscreenElement === document.documentElement")
    page.wait_for_function(f"({type_size})() >= 19.9")
    assert page.locator(".bar").is_hidden()
    assert page.evaluate(foot) < 16
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    # Dragged with the mouse: the remote goes on all the same, where a keyboard would move the ring.
    box = step.get_by_test_id("guess").bounding_box()
    drag(page, inside(step.get_by_test_id("guess")), (300, 0))
    page.wait_for_url(re.compile("guess="))
    moved = step.get_by_test_id("guess").bounding_box()["x"] - box["x"]
    assert moved == pytest.approx(300, abs=80)  # the ring is under the finger, at the nearest λ
    page.keyboard.press("ArrowRight")
    step.get_by_test_id("answer").get_by_text("You said").wait_for()
    page.keyboard.press("b")
    assert page.evaluate("document.elementFromPoint(900, 500).dataset.testid") == "black"
    page.keyboard.press("PageDown")
    assert page.get_by_test_id("black").is_hidden()
    assert step.is_visible()
    # A figure that fills the window is left with its step.
    page.get_by_test_id("enlarge-learn-layer").click()
    page.wait_for_function(f"Math.abs(({type_size})() - 20) < 0.1")
    page.keyboard.press("PageDown")
    page.get_by_test_id("step-8").get_by_test_id("show").wait_for()
    page.keyboard.press("PageUp")
    step.get_by_test_id("answer").wait_for()
    page.keyboard.press("f")
    page.wait_for_function("!document.fullscreenElement")
    page.locator(".bar").wait_for()
    assert page.locator("h1").count() == 1
    assert page.evaluate(
        "!!(document.querySelector('header').compareDocumentPosition(document.querySelector('h1')) & 4)"
    )


def test_the_lattice_is_solved_while_it_is_dragged_and_the_address_brings_it_back(open_page):
    page = open_page("/learn?step=2")
    step = page.get_by_test_id("step-2")
    cross = step.get_by_test_id("weights")
    cross.wait_for()
    step.locator('[data-testid="guess"] [data-value="3"]').click()
    step.get_by_test_id("show").click()
    step.get_by_text("You said 3, and so it is").wait_for()
    drag(page, inside(cross), (70, -50))
    step.get_by_test_id("lambda").evaluate(
        "input => { input.value = input.max; input.dispatchEvent(new Event('input', { bubbles: true })); }"
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


def test_a_figure_is_saved_as_it_looks(open_page):
    """The Lab's menu, by keyboard: numbers as CSV; SVG and PNG with the page's colours written out."""
    for path, theme, ground in (("step=6&picks=2&shown=1", "dark", None), ("step=7&shown=1", "light", (255, 255, 255))):
        page = open_page(f"/learn?{path}", color_scheme=theme)
        step = page.locator(".step >> visible=true")
        step.locator(".step-canvas line").first.wait_for(state="attached")
        if "step=7" in path:
            page.wait_for_function("!document.querySelector('.step:not([hidden]) .learn-maps.is-waiting')")
        button = step.locator("[data-testid^=save-]")
        button.focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.dataset.save") == "Table"
        page.keyboard.press("Tab")
        with page.expect_download() as saved:
            page.keyboard.press("Enter")
        rows = list(csv.DictReader(io.StringIO(Path(saved.value.path()).read_text())))
        assert len(rows) == (12 if "step=6" in path else 10)

        button.click()
        with page.expect_download() as saved:
            step.get_by_role("button", name="SVG").click()
        drawing = Path(saved.value.path()).read_text()
        assert drawing.startswith("<svg")
        for left_over in ("var(", "class=", "aria-", "data-"):
            assert left_over not in drawing.replace("data:image/png", "")
        assert step.locator(".card-title").inner_text() in drawing
        assert drawing.count("<image") == (0 if "step=6" in path else 2)

        button.click()
        with page.expect_download() as saved:
            step.get_by_role("button", name="PNG").click()
        assert saved.value.suggested_filename.endswith(".png")
        picture = Image.open(saved.value.path())
        assert picture.format == "PNG"
        box = step.locator(".step-canvas svg").bounding_box()
        maps = step.locator("figure").evaluate_all("all => all.map((one) => one.offsetHeight + 12)")
        below = max([0, *maps])
        assert picture.size == pytest.approx((2 * box["width"], 2 * (box["height"] + 32 + below)), abs=2)
        colours = picture.convert("RGB").getcolors(1 << 24)
        assert len(colours) > 50
        surface = page.evaluate(
            "getComputedStyle(document.querySelector('.step-figure')).backgroundColor.match(/\\d+/g).map(Number)"
        )
        assert list(max(colours)[1]) == surface
        assert ground is None or tuple(surface) == ground


def test_what_an_address_gets_wrong_is_said_and_the_rest_is_shown(open_page):
    wrong = "step=7&guess=7&lambda=0.07&shown=1&nonsense=1&hide=moon&lock=sun,lambda"
    page = open_page(f"/learn?{wrong}")
    step = page.get_by_test_id("step-7")
    step.get_by_test_id("answer").get_by_text("Calibration text is best").wait_for()
    told = page.get_by_test_id("link-note")
    for word in ("guess=7", "from 0 to 2", "λ = 0.07 is not in this figure", "nonsense", "moon", "sun"):
        assert word in told.inner_text()
    assert "You said" not in step.get_by_test_id("answer").inner_text()
    assert step.get_by_test_id("lambda").is_disabled()
    page.wait_for_function("!/guess|nonsense/.test(location.search)")
    assert query(page)["lock"] == "sun,lambda"
    page.get_by_test_id("next").click()
    assert told.inner_text() == ""


def test_what_a_link_locks_stays_and_every_control_can_be_named(open_page):
    page = open_page("/learn?step=1&lock=guess,next")
    ring = page.get_by_test_id("step-1").get_by_test_id("guess")
    ring.focus()
    page.keyboard.press("ArrowRight")
    assert ring.get_attribute("aria-disabled") == "true"
    page.locator(".step-title >> visible=true").evaluate("element => element.focus()")
    page.keyboard.press("ArrowRight")
    assert page.get_by_test_id("step-1").is_visible()
    assert "guess=" not in urlparse(page.url).query.replace("lock=guess", "")

    page = open_page("/learn")
    names = set()
    for number in range(1, 11):
        page.click(f"[data-go='{number}']")
        names |= set(page.eval_on_selector_all("[data-control]", "all => all.map((one) => one.dataset.control)"))
    known = page.evaluate(
        "import('page-scripts').then(({ scripts }) => Object.keys(scripts['learn/address.js'].CONTROLS))"
    )
    assert names - {"bar"} == set(known)


def test_the_last_step_leads_to_the_lab_unless_the_link_locks_the_way(open_page):
    page = open_page("/learn?step=10&embed=1")
    page.get_by_test_id("to-lab").click()
    page.wait_for_selector(".lab.is-open")
    assert page.get_by_test_id("pick-study").input_value() == "smollm2"
    assert page.get_by_test_id("pick-method").input_value() == "sarqc-gbs"
    assert query(page)["embed"] == "1"

    page = open_page("/learn?step=9")
    page.get_by_test_id("next").wait_for()
    assert page.get_by_test_id("to-lab").is_hidden()
    page = open_page("/learn?step=10&lock=next")
    page.get_by_test_id("next").wait_for()
    assert page.get_by_test_id("next").is_disabled()
    assert page.get_by_test_id("to-lab").is_hidden()


def test_on_a_phone_the_answer_brings_its_figure_and_says_which_curve_is_which(open_page):
    page = open_page("/learn?step=7", width=390, height=844, reduced_motion="reduce")
    for number, names in ((7, {"calibration text", "unseen text"}), (10, {"identity", "saliency", "float"})):
        if number == 10:
            page.click("[data-go='10']")
        step = page.get_by_test_id(f"step-{number}")
        step.locator(".step-canvas text").first.wait_for()
        step.get_by_test_id("show").click()
        step.locator(".answer:has-text('at λ')").wait_for()
        assert names <= set(step.locator(".step-canvas text").all_text_contents())
        assert step.locator(".ask").bounding_box()["y"] == pytest.approx(8, abs=1)
        assert step.locator(".step-canvas").bounding_box()["y"] < 844 / 2
        assert step.locator(".step-canvas svg").evaluate(NO_TEXT_IS_CUT)
        page.set_viewport_size({"width": 660, "height": 844})  # figures below each other, and neither phone nor desk
        page.wait_for_function(
            "(n) => document.querySelector(`[data-step='${n}'] .step-canvas svg`).viewBox.baseVal.width > 560",
            arg=number,
        )
        assert step.locator(".step-canvas svg").evaluate(NO_TEXT_IS_CUT)
        assert number == 7 or step.locator(".step-canvas").bounding_box()["height"] >= 600  # two panels fit
        page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_test_id("share").click()
    box = page.get_by_test_id("share-menu").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


def test_a_row_is_rounded_column_by_column_by_keyboard_and_by_itself(open_page):
    page = open_page("/learn?step=3&shown=1&column=0")
    step = page.get_by_test_id("step-3")
    bold = """all => all.filter((one) =>
      one.getAttribute('font-weight') === '700' && /\\d\\.\\d\\d/.test(one.textContent)).length"""
    step.get_by_test_id("column").press("ArrowRight")
    page.wait_for_url(re.compile("column=1"))
    assert step.locator(".step-canvas text").evaluate_all(bold) == 3  # of three rows one column
    step.get_by_test_id("next-column").press("Enter")
    page.wait_for_url(re.compile("column=2"))
    page.clock.install()
    step.get_by_test_id("play").click()
    page.clock.run_for(100)
    assert step.get_by_test_id("play").inner_text() == "Pause"
    page.clock.run_for(12_000)
    page.wait_for_url(re.compile("column=8"))
    assert step.locator(".step-canvas text").evaluate_all(bold) == 24
    assert step.get_by_test_id("play").inner_text() == "Play"


@pytest.mark.parametrize("step", [1, 8])
def test_on_a_phone_what_is_asked_about_stands_in_the_first_window(open_page, step):
    page = open_page(f"/learn?step={step}", width=390, height=844)
    ring = page.get_by_test_id(f"step-{step}").get_by_test_id("guess")
    ring.wait_for()
    foot, box = page.locator(".tour-foot").bounding_box(), ring.bounding_box()
    assert box["y"] + box["height"] < foot["y"]
    assert 844 - foot["y"] < 50  # one row of what floats, the other one comes at the end of the page
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_function("document.querySelector('.progress').getBoundingClientRect().bottom <= innerHeight")
