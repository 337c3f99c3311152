"""The Lab as a person meets it: the sentence, λ by keyboard, the camera that stays, numbers that are the server's."""

import csv
import io

import pytest
import yaml

from sarqc.figures.titles import finding_at
from sarqc.recipe import Recipe
from tests.browser.conftest import SHIFTS, drag, figure_menu, inside
from tests.synthetic_study import LAMS

SURFACES = '[data-plot="lab-surfaces"]'
READ_SURFACE = """async () => {
  const { scripts } = await import('page-scripts');
  const { canvas, surface } = await scripts['charts/plot_host.js'].plot('lab-surfaces');
  return {
    camera: { ...surface.camera },
    left: canvas.data[0].z.map((row) => Array.from(row)),
    right: canvas.data[1].z.map((row) => Array.from(row)),
  };
}"""
READ_MARKERS = """() => {
  const canvas = document.querySelector('[data-plot="lab-hero"] .plot-canvas');
  return canvas.data.filter((trace) => trace.name === "marker").map((trace) => trace.x[0]);
}"""


def drawn_at(page, gamma: int, lam: int, plot: str = SURFACES):
    page.wait_for_selector(f'{plot}[data-drawn="{gamma},{lam}"]')


@pytest.mark.thorough
def test_opens_with_the_sentence_and_every_figure_described(app, open_lab):
    page = open_lab()
    view = app.json("/studies/toy/view?method=sarqc-gbs&bits=2")
    at = LAMS.index(0.1)
    assert page.text_content("[data-testid=sentence]") == "".join(
        p["text"] for p in view["told"]["perplexity"]["sentences"][0][at]
    )
    labels = page.eval_on_selector_all(".plot-frame", "frames => frames.map(f => f.getAttribute('aria-label'))")
    shown = [label for label in labels if label and len(label) > 40]
    assert len(shown) >= 6
    assert page.text_content("[data-testid=grid]") == "asymmetric, groups of 128"


@pytest.mark.thorough
def test_lambda_by_keyboard_moves_marker_sentence_and_right_surface_and_asks_nobody(open_lab):
    page = open_lab()
    drawn_at(page, 0, 2)
    home = page.evaluate(READ_SURFACE)["camera"]
    drag(page, inside(page.locator(f"{SURFACES} .plot-canvas"), 0.25, 0.6), (60, 15))
    page.wait_for_timeout(300)
    before = page.evaluate(READ_SURFACE)
    assert before["camera"]["azimuth"] != home["azimuth"]
    assert before["camera"]["elevation"] != home["elevation"]
    sentence = page.text_content("[data-testid=sentence]")
    asked = len(page.watch.requests)

    page.keyboard.press("ArrowRight")
    drawn_at(page, 0, 3)

    after = page.evaluate(READ_SURFACE)
    assert page.evaluate(READ_MARKERS) == ["0.3"]
    assert page.input_value("[data-testid=knob-lambda]") == "0.3"
    assert page.text_content("[data-testid=sentence]") != sentence
    assert after["left"] == before["left"]
    assert after["right"] != before["right"]
    assert after["camera"] == before["camera"]
    assert page.watch.requests[asked:] == []


@pytest.mark.thorough
def test_typing_is_not_stepping_dragging_on_the_curves_is_and_the_wheel_scrolls_over_surfaces(open_lab):
    page = open_lab()
    page.focus("[data-testid=pick-layer]")
    page.keyboard.press("ArrowLeft")
    assert page.input_value("[data-testid=knob-lambda]") == "0.1"

    hero = page.locator('[data-plot="lab-hero"] .plot-canvas')
    drag(page, inside(hero, 0.3), (-0.2 * hero.bounding_box()["width"], 0))
    assert page.input_value("[data-testid=knob-lambda]") == "0"

    page.locator(f"{SURFACES} .plot-canvas").hover()
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, 200)
    page.wait_for_function("(before) => scrollY > before", arg=before)


@pytest.mark.thorough
def test_every_number_of_the_table_is_the_servers(app, open_lab):
    page = open_lab()
    table = app.json("/studies/toy/view?method=sarqc-gbs&bits=2")["table"]
    shown = page.eval_on_selector_all(
        "[data-testid=numbers] tbody tr",
        "rows => rows.map(r => [...r.cells].map(c => [c.dataset.key, c.dataset.value]))",
    )
    assert len(shown) == len(table["rows"])
    for cells, row in zip(shown, table["rows"], strict=True):
        for key, text in cells:
            value = row[key]
            if isinstance(value, float) and not isinstance(value, bool):
                assert float(text) == value
    with page.expect_download() as download:
        page.click("[data-testid=csv]")
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert [float(row["perplexity"]) for row in rows] == [row["perplexity"] for row in table["rows"]]


@pytest.mark.thorough
def test_back_goes_one_choice_back_and_lambda_is_no_choice(open_lab):
    page = open_lab("study=toy&method=rqc-gbs&bits=2")
    entries = page.evaluate("history.length")
    for key in ("ArrowLeft", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    page.select_option("[data-testid=pick-layer]", "2")
    page.wait_for_function("location.search.includes('layer=2')")
    lam = page.input_value("[data-testid=knob-lambda]")
    page.select_option("[data-testid=pick-method]", "sarqc-gbs")
    page.wait_for_function("!location.search.includes('method=')")  # the study's own default
    assert page.evaluate("history.length") == entries + 2

    page.go_back()
    page.wait_for_function("document.querySelector('[data-testid=pick-method]').value === 'rqc-gbs'")
    assert page.input_value("[data-testid=pick-layer]") == "2"
    page.go_back()
    page.wait_for_function("document.querySelector('[data-testid=pick-layer]').value === 'all'")
    assert page.input_value("[data-testid=knob-lambda]") == lam
    page.go_forward()
    page.wait_for_function("document.querySelector('[data-testid=pick-layer]').value === '2'")
    assert page.evaluate("history.length") == entries + 2


@pytest.mark.thorough
def test_a_click_on_the_map_chooses_the_layer(open_lab):
    page = open_lab()
    canvas = page.locator('[data-plot="lab-map"] .plot-canvas')
    canvas.scroll_into_view_if_needed()
    page.mouse.click(*inside(canvas, 0.25, 0.25))
    page.wait_for_function("document.querySelector('[data-testid=pick-layer]').value !== 'all'")
    page.wait_for_function("document.querySelector('[data-testid=sentence]').textContent.includes('In this layer')")


# The largest distance in pixels between a tick of the λ axis and the slider's thumb there; 999 where they are apart.
APART = r"""() => {
  const canvas = document.querySelector('[data-plot="lab-hero"] .plot-canvas');
  const ticks = [...canvas.querySelectorAll(".axis[data-axis=x] text")]
    .filter((text) => /^[\d.]+$/.test(text.textContent));
  const slider = document.querySelector("[data-testid=lambda]");
  const track = slider.getBoundingClientRect();
  const [last, thumb] = [Number(slider.max), 22];
  const step = (track.width - thumb) / last;
  const middle = ({ left, width }) => left + width / 2;
  const apart = ticks.map((tick, at) =>
    Math.abs(middle(tick.getBoundingClientRect()) - track.left - thumb / 2 - at * step));
  return slider.closest(".lambda-axis.is-axis") && ticks.length === last + 1 ? Math.max(...apart) : 999;
}"""


@pytest.mark.thorough
def test_the_slider_stands_on_the_axis_to_the_pixel_at_every_width(open_lab):
    page = open_lab()
    for width, height in ((1280, 800), (1920, 1080), (390, 844), (1000, 700), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(f"({APART})() < 1")
    figure_menu(page, "hero").locator("[data-quality=accuracy]").click()
    page.keyboard.press("Escape")
    page.select_option("[data-testid=pick-method]", "rqc-gbs")
    page.wait_for_selector(".lab:not(.is-loading)")
    page.wait_for_function(f"({APART})() < 1")


@pytest.mark.thorough
def test_play_goes_through_every_lambda_back_to_where_it_began_or_until_it_is_paused(open_lab):
    page = open_lab()
    knob, play = page.get_by_test_id("knob-lambda"), page.get_by_test_id("play")
    began, seen = knob.input_value(), []
    page.expose_function("see", lambda text: seen.append(text))
    page.evaluate("""() => new MutationObserver(() => see(document.querySelector("[data-testid=lambda]").ariaValueText))
      .observe(document.querySelector("[data-testid=lambda]"), { attributeFilter: ["aria-valuetext"] })""")
    figure_menu(page, "hero").get_by_test_id("play").click()
    assert page.locator("#menu-lab-hero").is_hidden()
    page.wait_for_selector("[data-testid=play][aria-pressed=true]", state="attached")
    page.wait_for_selector("[data-testid=play][aria-pressed=false]", state="attached")
    assert [text.split(",")[0] for text in seen] == [*(f"λ = {lam:g}" for lam in LAMS), f"λ = {began}"]
    assert knob.input_value() == began
    play.evaluate("button => button.click()")
    page.wait_for_function("document.querySelector('[data-testid=knob-lambda]').value === '0'")
    play.evaluate("button => button.click()")
    assert play.get_attribute("aria-pressed") == "false"
    paused_at = knob.input_value()
    page.wait_for_timeout(1200)
    assert knob.input_value() == paused_at


@pytest.mark.thorough
def test_a_term_of_the_equation_puts_its_curve_in_the_place_of_perplexity_and_back(open_lab):
    page = open_lab()
    title = "document.querySelector('[data-plot=lab-hero] .card-name').textContent"
    for term, words, shown in (("recon", "Reconstruction error", "error"), ("drift", "Weight drift", "drift")):
        page.click(f"[data-testid=term-{term}]")
        page.wait_for_function(f"{title}.startsWith('{words}')")
        page.wait_for_function(f"location.search.includes('show={shown}')")
    page.click("[data-testid=term-drift]")
    page.wait_for_function(f"{title}.startsWith('Perplexity')")
    page.wait_for_function("!location.search.includes('show=')")


# Names of the controls in the first window, without the cells of a figure, which are there for arrow keys.
IN_SIGHT = """all => all
  .filter((one) => !one.matches('.cells') && one.checkVisibility({ visibilityProperty: true }) && one.tabIndex >= 0)
  .filter((one) => one.getBoundingClientRect().bottom <= innerHeight)
  .map((one) => one.dataset.testid ?? one.className)"""


def test_everything_stands_on_one_screen_and_each_part_opens_at_its_finding(app, open_page):
    page = open_page("/?study=tiny-llama&method=sarqc-gbs&bits=2&lambda=0.1&gamma=0.1")
    page.wait_for_selector('[data-plot="lab-surfaces"][data-drawn]')
    view = app.json("/studies/tiny-llama/view?method=sarqc-gbs&bits=2")
    controls = page.locator("#content :is(button, select, input, a, [tabindex='0'])").evaluate_all(IN_SIGHT)
    assert len(controls) <= 21, controls
    at = {"gamma": 0, "lambda": view["lams"].index(0.1)}
    speaking = {"where": "map", "trade_off": "plane", "steps": "ladder", "text": "gap", "proof": None}
    for name, card in speaking.items():
        button = page.locator(f"[data-testid=door-{name}]")
        said = finding_at(view["figures"][card], at) if card else "How it was measured, and every number"
        assert button.locator("[data-finding]").text_content() == said
        assert button.bounding_box()["y"] + button.bounding_box()["height"] <= 800
        assert page.locator(f"#door-{name}").is_hidden()
        button.click()
        assert page.locator(f"#door-{name} [data-plot]:visible").count() > 0
        assert button.get_attribute("aria-expanded") == "true"
    page.wait_for_function("location.search.includes('open=where,trade_off,steps,text,proof')")
    page.click("[data-testid=door-proof]")
    assert page.locator("#door-proof").is_hidden()


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080), (390, 844)])
def test_a_part_comes_into_view_where_it_is_pressed_and_its_button_stays_when_it_closes(open_page, width, height):
    page = open_page("/?study=tiny-llama&method=sarqc-gbs&bits=2", width=width, height=height)
    page.wait_for_selector('[data-plot="lab-surfaces"][data-drawn]')
    for name in ("where", "trade_off", "steps", "text", "proof"):
        page.evaluate("scrollTo(0, 0)")
        button, content = page.get_by_test_id(f"door-{name}"), page.locator(f"#door-{name}")
        button.press("Enter")
        pressed, opened = button.bounding_box(), content.bounding_box()
        end = pressed["y"] + pressed["height"]
        assert page.locator(".area-equation.block").bounding_box()["height"] <= pressed["y"]
        assert end < opened["y"] < height / 2 or opened["y"] + opened["height"] <= height
        assert opened["y"] - end < 16  # below its own button, on a phone too
        assert page.evaluate("document.activeElement.dataset.door") == name
        button.press("Enter")
        assert content.is_hidden()
        assert button.bounding_box() == pressed


@pytest.mark.thorough
def test_a_phone_draws_the_surface_and_a_finger_on_it_scrolls_the_page(open_page):
    page = open_page("/?study=toy&method=sarqc-gbs&bits=2", width=390, height=844, has_touch=True)
    page.wait_for_selector(f"{SURFACES}[data-drawn]")
    canvas = page.locator(f"{SURFACES} .plot-canvas")
    assert canvas.evaluate("one => getComputedStyle(one).touchAction") == "pan-y"
    # Something is drawn: not all pixels are alike.
    colours = canvas.locator("canvas").evaluate("""one => {
      const { data } = one.getContext('2d').getImageData(0, 0, one.width, one.height);
      return new Set(new Uint32Array(data.buffer)).size;
    }""")
    assert colours > 100
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.thorough
def test_the_theme_is_kept(open_lab):
    page = open_lab(color_scheme="light")
    page.click("[data-testid=theme]")
    page.reload()
    page.wait_for_selector('[data-plot="lab-hero"][data-drawn]')
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("document.body.classList.contains('dark')")


@pytest.mark.thorough
def test_what_stands_below_the_sentence_keeps_its_place(open_lab):
    """Whatever the sentence says of a λ and of either quality; the bar above says the quality that is shown."""
    page = open_lab("study=tiny-llama&method=sarqc-gbs&bits=2&lambda=0")
    bar, hero = page.locator("[data-testid=equation]"), page.locator("[data-plot=lab-hero]")
    places, lines = set(), set()
    for quality in ("perplexity", "accuracy"):
        figure_menu(page, "hero").locator(f"[data-quality={quality}]").click()
        page.keyboard.press("Escape")
        assert quality in bar.text_content()
        assert ("%" in page.text_content("[data-testid=bar-quality]")) == (quality == "accuracy")
        for _ in range(10):
            places.add(hero.bounding_box()["y"])
            lines.add(page.locator("[data-testid=sentence]").bounding_box()["height"])
            page.keyboard.press("ArrowRight")
        for _ in range(10):
            page.keyboard.press("ArrowLeft")
    assert len(places) == 1
    assert len(lines) > 1


@pytest.mark.thorough
def test_a_chosen_layer_cuts_no_list(open_lab):
    page = open_lab("study=tiny-llama&method=sarqc-gbs&bits=2&layer=6")
    page.wait_for_selector("[data-testid=compute]:visible")
    widths = page.eval_on_selector_all(".picks select", "all => all.map((one) => [one.scrollWidth, one.clientWidth])")
    assert all(inner <= outer for inner, outer in widths)
    assert page.evaluate("document.documentElement.scrollWidth") == 1280


@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_sentence_is_there_before_the_view_is(open_page, width, height):
    page = open_page("/api/health", width=width, height=height, script=SHIFTS)
    held = []
    page.route("**/api/studies/*/view*", lambda route: held.append(route))
    page.goto(page.url.replace("/api/health", "/?study=toy&method=sarqc-gbs&bits=2&lambda=0.3"))
    page.wait_for_selector(".skeleton .sentence")
    said = page.text_content(".skeleton .sentence")
    page.wait_for_selector("gradio-app .lab [data-testid=sentence]", state="attached")
    for route in held:
        route.continue_()
    page.unroute("**/api/studies/*/view*")
    page.wait_for_selector(".lab.is-open")
    assert page.locator(".skeleton").count() == 0
    assert page.text_content("[data-testid=sentence]") == said
    assert page.evaluate("window.shifts") < 0.1


@pytest.mark.thorough
def test_on_a_phone_the_main_figure_stays_where_it_is_when_another_line_is_chosen(open_page):
    page = open_page("/?study=tiny-llama&method=sarqc-gbs&bits=2", width=390, height=844)
    page.wait_for_selector(".lab.is-open")
    figure, sentence = page.locator(".lab .plot-hero >> visible=true"), page.get_by_test_id("sentence")
    before, said = figure.bounding_box()["y"], sentence.inner_text()
    for name, value in (("bits", "3"), ("method", "rqc-gbs")):
        page.locator(f"[data-pick={name}]").select_option(value)
        page.wait_for_function("said => document.querySelector('[data-testid=sentence]').innerText !== said", arg=said)
        said = sentence.inner_text()
        assert figure.bounding_box()["y"] == before


@pytest.mark.thorough
def test_a_study_that_is_long_in_coming_is_waited_for_in_words(open_page):
    page = open_page("/api/health")
    held = []
    page.route("**/api/studies/*/view*", lambda route: held.append(route))
    page.goto(page.url.replace("/api/health", "/?study=toy"))
    page.wait_for_selector(".waiting", state="attached")
    page.wait_for_function("() => Number(getComputedStyle(document.querySelector('.waiting')).opacity) === 1")
    assert page.locator(".waiting").inner_text() == "Fetching the study"
    assert page.locator("[data-testid=picks]").is_hidden()
    while held:
        held.pop().continue_()
    page.unroute("**/api/studies/*/view*")
    page.wait_for_selector(".lab.is-open")
    assert page.locator(".waiting").is_hidden()


def test_the_shown_point_goes_to_calibrate(open_page):
    page = open_page("/?study=tiny-llama&method=sarqc-gbs&bits=2&lambda=0.3&gamma=0.5")
    page.locator("[data-testid=use]").click()
    card = page.locator("[data-testid=use-card]")
    assert "2 bits, GPTQ + saliency penalty, λ = 0.3, γ = 0.5" in card.text_content()
    assert card.locator("li").count() == 3
    card.locator("summary").click()
    said = yaml.safe_load(card.locator("[role=tabpanel]").text_content())
    assert (said["lambda"], said["gamma"]) == (0.3, 0.5)
    with page.expect_request("**/api/plan") as asked:
        card.locator("[data-testid=use-form]").click()
    assert Recipe.parse(asked.value.post_data_json) == Recipe.parse(said)
    page.wait_for_selector("[data-testid=start]:enabled")
    assert page.input_value("#field-lam input") == "0.3"
    assert page.text_content("[data-testid=link-note]") == ""
