"""The weights in a real browser: another pooling of the surfaces, and one group weight by weight as λ moves."""

import re

import pytest

from tests.browser.conftest import drag, figure_menu, inside

INSPECTOR = '[data-plot="lab-inspector"]'
SURFACES = '[data-plot="lab-surfaces_flat"]'
CELLS = """card => {
  const { data } = document.querySelector(`${card} .plot-canvas`);
  return [data[1].z.length, data[1].z[0].length, Math.min(...data[1].z.flatMap((row) => Array.from(row)))];
}"""
# Where each arrow ends, by the axes, from what is drawn.
ENDS = """async card => {
  const { scripts } = await import('page-scripts');
  const { canvas, flat } = await scripts['charts/plot_host.js'].plot('lab-inspector');
  const [xaxis, yaxis] = ["x", "y"].map((name) => flat.plane.axis(name));
  const paths = [1, 2].map((at) => canvas.querySelector(`path[data-index="${at}"]`).getAttribute("d"));
  const arrows = [...paths.join("").matchAll(/M([-\\d.]+) [-\\d.]+L([-\\d.]+) ([-\\d.]+)M[^Z]+Z/g)];
  return arrows.map(([, x, , y]) => [xaxis.positionAt(Number(x)), yaxis.positionAt(Number(y))])
    .sort((a, b) => a[0] - b[0]).map(([, y]) => y);
}"""


def test_cells_are_pooled_as_chosen_and_arrows_follow_lambda_without_a_request(app, small_run, open_page):
    study = small_run["study_id"]
    page = open_page(f"/?study={study}&layer=3&lambda=1&pool=mean-saliency&drawing=flat&open=where")
    page.wait_for_selector(f"{SURFACES}[data-drawn]")
    assert page.evaluate(CELLS, SURFACES)[:2] == [28, 28]
    select = figure_menu(page, "surfaces_flat").locator("[data-testid=pool]")
    assert select.input_value() == "mean-saliency"
    select.select_option("signed")
    page.wait_for_function("location.search.includes('pool=signed')")
    page.wait_for_function(f"({CELLS})({SURFACES!r})[2] < 0")
    assert page.text_content(f"{SURFACES} .card-title").startswith("Weight change Ŵ − W")
    assert "Ŵ − W, λ = 1" in page.text_content(f"{SURFACES} .plot-canvas")  # where a narrow card has no room for that
    select.select_option("max")
    page.wait_for_function("!location.search.includes('pool')")
    page.wait_for_function(f"({CELLS})({SURFACES!r})[0] === 40")

    page.keyboard.press("Escape")
    page.locator(INSPECTOR).scroll_into_view_if_needed()
    page.wait_for_selector(f'{INSPECTOR}[data-drawn="0,2"]')
    asked = len(page.watch.requests)
    before = page.evaluate(ENDS, INSPECTOR)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(f'{INSPECTOR}[data-drawn="0,0"]')
    after = page.evaluate(ENDS, INSPECTOR)
    assert len(after) == len(before) > 90
    assert after != before
    assert len(page.watch.requests) == asked
    words = page.locator(f"{INSPECTOR} .annotation").first.text_content()
    query = "method=rqc-gbs&bits=2&layer=3"
    rows = app.json(f"/studies/{study}/tables/inspector?{query}")["rows"]
    first = [row for row in rows if row["lambda"] == 0]
    assert words.startswith(f"λ = 0: {sum(not row['nearest'] for row in first)} of {len(first)} ")
    assert max(abs(row["quantized"] - end) for row, end in zip(first, after, strict=True)) < 2e-3


@pytest.fixture
def page(small_run, open_page):
    """The surfaces of a layer of a small run."""
    shown = open_page(f"/?study={small_run['study_id']}&layer=3&lambda=1")
    shown.wait_for_selector('[data-plot="lab-surfaces"][data-drawn]')
    return shown


MARKS = """() => [...document.querySelectorAll(".cell-mark")].map((mark) => {
  const { left, top, width, height } = mark.getBoundingClientRect();
  const lines = [...mark.querySelectorAll(".cell-words > div")].map((one) => one.textContent);
  return { x: left + width / 2, y: top + height / 2, lines };
})"""


@pytest.mark.thorough
def test_a_cell_that_is_pointed_at_is_marked_with_its_values(page):
    x, y = inside(page.locator('[data-plot="lab-surfaces"] .plot-canvas'), 0.4, 0.6)
    page.mouse.move(x, y)
    page.wait_for_selector(".cell-mark")
    (mark,) = page.evaluate(MARKS)
    assert abs(mark["x"] - x) < 16
    assert abs(mark["y"] - y) < 16
    place, values = mark["lines"][:2]
    assert re.fullmatch(r"inputs? [\d–]+, outputs? [\d–]+", place)
    assert re.fullmatch(r"λ = 0: \S+ · λ = 1: \S+", values)
    page.mouse.click(x, y)  # the mark stays
    page.mouse.move(5, 5)
    page.wait_for_timeout(200)
    (kept,) = page.evaluate(MARKS)
    assert kept["lines"] == mark["lines"]
    page.mouse.click(x, y)
    page.mouse.move(5, 5)
    page.wait_for_function("!document.querySelector('.cell-mark')")


SURFACE = """async () => {
  const { scripts } = await import('page-scripts');
  return (await scripts['charts/plot_host.js'].plot('lab-surfaces')).surface;
}"""


@pytest.mark.thorough
def test_a_click_on_weights_that_the_study_has_shows_them(small_run, page):
    assert page.locator(INSPECTOR).is_hidden()
    # The cells of the group are known once its figure is there; keys go to one and choose it.
    place = page.evaluate(
        """async (id) => {
          const answer = await fetch(`api/studies/${id}/view?method=rqc-gbs&bits=2&layer=3`);
          const { figures } = await answer.json();
          const { row, first } = figures.inspector.data.find(({ meta }) => meta?.row !== undefined).meta;
          const [{ x, y }] = figures.surfaces.data;
          return [y.findLastIndex((start) => start <= row), x.findLastIndex((start) => start <= first)];
        }""",
        small_run["study_id"],
    )
    page.focus("#cells-lab-surfaces")
    for _ in range(39 - place[0]):  # keys begin at the upper left
        page.keyboard.press("ArrowDown")
    for _ in range(place[1]):
        page.keyboard.press("ArrowRight")
    assert "one by one" in page.text_content("#cells-lab-surfaces .cell-words")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{INSPECTOR}[data-drawn]")
    page.wait_for_function("location.search.includes('open=where')")


@pytest.mark.thorough
def test_the_curtain_is_a_slider(page):
    lam = page.input_value("[data-testid=lambda]")
    curtain = page.get_by_role("slider", name="Curtain between λ = 0 and λ = 1")
    assert curtain.input_value() == "20"
    curtain.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"({SURFACE})().then((surface) => surface.cut === 21)")
    page.keyboard.press("Home")
    page.wait_for_function(f"({SURFACE})().then((surface) => surface.cut === 0)")
    assert page.input_value("[data-testid=lambda]") == lam
    page.keyboard.press("End")
    page.wait_for_function(f"({SURFACE})().then((surface) => surface.cut === 39)")
    # The thumb is at the right end of the slider, which lies along the near edge: dragged to the left it goes back.
    box = curtain.bounding_box()
    place = box["x"] + box["width"] - 12, box["y"] + box["height"] - 12
    drag(page, place, (-box["width"] / 2, -box["height"] / 2))
    page.wait_for_function(f"({SURFACE})().then((surface) => surface.cut > 10 && surface.cut < 30)")


@pytest.mark.thorough
def test_paper_is_light_and_cards_keep_their_height(small_run, open_page):
    page = open_page(f"/?study={small_run['study_id']}&layer=3&lambda=1", color_scheme="dark")
    page.wait_for_selector('[data-plot="lab-hero"][data-drawn]')
    state = """() => [document.documentElement.dataset.theme, document.documentElement.dataset.paper ?? null,
      document.querySelector('[data-plot="lab-hero"]').offsetHeight]"""
    theme, paper, height = page.evaluate(state)
    assert (theme, paper) == ("dark", None)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 1280, "height": 1600})  # heights of cards follow the window's on the screen
    assert page.evaluate(state) == ["light", "wide", height]
    assert not page.locator(".lambda-axis .track").is_visible()
    assert not page.locator(".bar .pages").is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(state)[:2] == ["dark", None]
    assert not page.evaluate("document.querySelector('[data-plot=\"lab-hero\"]').style.height")
