"""The weights in a real browser: another pooling of the surfaces, and one group weight by weight as λ moves."""

from __future__ import annotations

import pytest

from tests.browser.conftest import figure_menu

pytestmark = pytest.mark.browser

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
    assert page.text_content(f"{SURFACES} .card-title").startswith("Ŵ − W")
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


MARKS = """() => [...document.querySelectorAll(".cell-mark")].map((mark) => {
  const { left, top, width, height } = mark.getBoundingClientRect();
  const lines = [...mark.querySelectorAll(".cell-words > div")].map((one) => one.textContent);
  return { x: left + width / 2, y: top + height / 2, lines };
})"""


def test_a_cell_that_is_pointed_at_is_marked_in_both_pictures(small_run, open_page):
    page = open_page(f"/?study={small_run['study_id']}&layer=3&lambda=1")
    page.wait_for_selector('[data-plot="lab-surfaces"][data-drawn]')
    for card, near, across, down in (("lab-surfaces", 16, 0.5, 0.35), ("lab-surfaces_flat", 8, 0.24, 0.62)):
        if card == "lab-surfaces_flat":
            figure_menu(page, "surfaces").locator("[data-drawing=flat]").click()
            page.wait_for_selector(f'[data-plot="{card}"][data-drawn]')
        box = page.locator(f'[data-plot="{card}"] .plot-canvas').bounding_box()
        x, y = box["x"] + across * box["width"], box["y"] + down * box["height"]
        page.wait_for_timeout(300)
        for step in range(40):  # a scene looks for what is under the mouse once it has moved
            page.mouse.move(x + step % 2, y)
            marks = page.evaluate(MARKS)
            if marks:
                break
            page.wait_for_timeout(50)
        first, second = page.evaluate(MARKS)
        assert abs(first["x"] - x) < near
        assert abs(first["y"] - y) < near
        assert first["lines"][1:] == second["lines"][1:]  # the same channels
        assert first["lines"][1].startswith("inputs ")
        assert first["lines"][0] != second["lines"][0]
        if card == "lab-surfaces":  # surfaces stand above each other, maps side by side
            assert second["y"] > first["y"] + 0.3 * box["height"]
        else:
            assert second["x"] > first["x"] + 0.3 * box["width"]
        page.mouse.move(5, 5)
        page.wait_for_function("!document.querySelector('.cell-mark')")


EYE = """() => {
  const { scene } = document.querySelector('[data-plot="lab-surfaces"] .plot-canvas')._fullLayout;
  return [scene.camera.eye.x, scene.camera.eye.y, scene.camera.eye.z].map((one) => Math.round(1e6 * one));
}"""


def test_surfaces_are_turned_by_keys(small_run, open_page):
    page = open_page(f"/?study={small_run['study_id']}&layer=3&lambda=1")
    page.wait_for_selector('[data-plot="lab-surfaces"][data-drawn]')
    first, lam = page.evaluate(EYE), page.input_value("[data-testid=lambda]")
    page.focus("#cells-lab-surfaces")
    for key in ("Shift+ArrowRight", "Shift+ArrowUp"):
        before = page.evaluate(EYE)
        page.keyboard.press(key)
        page.wait_for_function(f"(before) => String(({EYE})()) !== String(before)", arg=before)
    page.keyboard.press("Shift+Home")
    page.wait_for_function(f"(first) => String(({EYE})()) === String(first)", arg=first)
    assert page.input_value("[data-testid=lambda]") == lam


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
