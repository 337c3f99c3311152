"""Mixtures on the pages: from all layers to an expert, its tokens, and a run whose experts share cells."""

import json
from urllib.parse import parse_qs, urlparse

import pytest

from tests.browser.conftest import OPEN

pytestmark = pytest.mark.thorough

MAP = '[data-plot="lab-map"]'
CELL = """async ([plot, row, column]) => {
  const { scripts } = await import('page-scripts');
  const host = await scripts['charts/plot_host.js'].plot(document.querySelector(plot).dataset.plot);
  const [box, cell] = [host.canvas.getBoundingClientRect(), host.cellBox(0, [row, column])];
  return [box.left + cell.left + cell.width / 2, box.top + cell.top + cell.height / 2];
}"""


def opened(page):
    page.wait_for_selector(f"{MAP}[data-drawn]")
    page.wait_for_selector(".lab:not(.is-loading)")
    return page


def click_cell(page, plot: str, row: int, column: int):
    page.locator(plot).scroll_into_view_if_needed()
    page.mouse.click(*page.evaluate(CELL, [plot, row, column]))


def test_from_all_layers_to_an_expert_and_back(app, open_page):
    page = opened(open_page(f"/?study=mixture&{OPEN}"))
    view = app.json("/studies/mixture/view")
    assert page.locator("[data-testid=pick-layer]").is_hidden()
    assert page.locator("[data-testid=pick-block] option").all_text_contents() == ["all layers", "block 0", "block 1"]
    assert page.text_content(f"{MAP} .card-name") == "Every layer: reconstruction error, unseen text"

    page.click("[data-level=experts]")
    title = page.locator(f"{MAP} .card-name")
    assert title.text_content() == "Every expert: reconstruction error, unseen text"
    worst = view["figures"]["map_experts"]["data"][0]["customdata"][1][2][0]  # of block 1 and expert 2
    click_cell(page, MAP, 1, 2)
    page.wait_for_url(f"**layer={worst}*")
    opened(page)
    assert title.text_content() == "Every expert: reconstruction error, unseen text"
    assert page.input_value("[data-testid=pick-layer]") == str(worst)
    page.click("[data-level=blocks]")
    assert title.text_content() == "Every layer: reconstruction error, unseen text"
    page.select_option("[data-testid=pick-block]", "all")
    page.wait_for_selector("[data-testid=pick-layer]", state="hidden")


def test_tokens_of_experts_are_a_quantity_of_the_map(open_page):
    page = opened(open_page(f"/?study=mixture&quantity=tokens&{OPEN}", width=390, height=844))
    page.click("[data-level=experts]")
    assert page.text_content(f"{MAP} .card-finding") == "1 of 8 experts saw no token"
    assert page.evaluate("document.documentElement.scrollWidth") == 390


# What the key of a preview said and the figure drew: each time that it changed.
SEEN = """
window.seen = [];
new MutationObserver(() => {
  const key = document.querySelector("[data-testid=preview]");
  const words = key?.querySelector("[data-testid=preview-words]").textContent;
  const now = key ? [Number(key.dataset.points), words] : null;
  if (JSON.stringify(now) !== JSON.stringify(window.seen.at(-1))) window.seen.push(now);
}).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
"""
# Marks that are drawn over the main figure, and those of its own curve of errors.
MARKS = """() => {
  const { data } = document.querySelector('[data-plot="lab-hero"] .plot-canvas');
  const drawn = data.filter(({ xaxis }) => xaxis === "x2").map(({ x }) => x.length);
  return [drawn, data.some(({ name, y }) => name === "calibration text" && y.length > 1)];
}"""


def test_a_layer_is_computed_here_over_the_curves_of_the_study(app, open_page):
    """A real preview of one expert's linear: drawn over the shipped curves, there after a reload, in no list."""
    page = open_page("/?study=tiny-moe&layer=all")
    page.wait_for_selector('[data-plot="lab-hero"][data-drawn]')
    assert page.is_hidden("[data-testid=compute]")  # there is no layer to compute
    page.goto(page.url.split("?")[0] + "?study=tiny-moe&layer=20")
    page.wait_for_selector("[data-testid=compute]:visible")
    page.evaluate(SEEN)
    page.click("[data-testid=compute]")
    page.wait_for_function("window.seen.some(Boolean)")
    assert page.evaluate("window.seen.find(Boolean)") == [0, "waiting for a device"]
    assert page.evaluate(MARKS)[0] == []  # the study's curves stay while it is waited
    page.wait_for_function("location.search.includes('preview=')")
    page.reload()
    page.wait_for_selector("[data-testid=preview-keep]", timeout=200_000)
    assert page.text_content("[data-testid=preview-words]").startswith("computed ")
    n = int(page.get_attribute("[data-testid=preview]", "data-points"))
    page.wait_for_function(f"({MARKS})()[0].length === 2")  # errors of two texts, which take the first place
    assert page.evaluate(MARKS) == [[n] * 2, True]
    assert "draw 0 alone" in page.text_content("[data-testid=preview-facts]")
    assert "In this layer" in page.text_content("[data-testid=sentence]")

    (run_id,) = parse_qs(urlparse(page.url).query)["preview"]
    assert run_id not in {run["id"] for run in app.json("/runs")["runs"]}
    assert run_id not in page.locator("[data-testid=pick-study] option").evaluate_all("all => all.map(o => o.value)")

    page.select_option("[data-testid=pick-layer]", "21")
    page.wait_for_function(f"({MARKS})()[0].length === 0")
    page.click("[data-testid=preview-remove]")
    page.wait_for_selector("[data-testid=preview]", state="detached")
    page.wait_for_function("!location.search.includes('preview=')")


def test_a_stream_that_breaks_doubles_nothing_and_a_preview_can_be_cancelled(open_page):
    """The server's part is played: its stream ends after two points, and each time it tells them again."""
    page = open_page("/?study=tiny-moe&layer=20")
    point = {"type": "point_done", "name": "a", "total": 15, "relative_drift": 0.2, "relative_held_out": None}
    points = [point | {"index": i, "lam": i / 200, "relative_recon": 0.2, "relative_sar": 0.3} for i in range(2)]
    told = []
    sent = []

    def stream(route):
        told.append(len(told))
        events = [*points, {"type": "cancelled"}] if sent else points
        lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        route.fulfill(content_type="text/event-stream", body=f"retry: 50\n\n{lines}")

    def answer(route):
        sent.append(f"{route.request.method} {urlparse(route.request.url).path}")
        route.fulfill(json={"id": "played", "state": "cancelling"})

    made = {"id": "played", "name": ""}
    page.route(
        "**/api/runs?lane=preview", lambda route: route.fulfill(json=made | {"recipe": route.request.post_data_json})
    )
    page.route("**/api/runs/played/events", stream)
    page.route("**/api/runs/played/cancel", answer)
    page.route("**/api/runs/played", answer)
    page.wait_for_selector("[data-testid=compute]:visible")
    page.evaluate(SEEN)
    page.click("[data-testid=compute]")
    page.wait_for_function("window.seen.some((now) => now?.[1].includes('does not answer'))")
    with page.expect_request("**/api/runs/played/events"):
        pass
    page.wait_for_selector("[data-testid=preview][data-points='2']")
    page.wait_for_function(f"JSON.stringify(({MARKS})()[0]) === '[2,0]'")  # no errors on unseen text
    with page.expect_response(lambda response: response.request.method == "DELETE"):
        page.click("[data-testid=preview-remove]")
    page.wait_for_selector("[data-testid=preview]", state="detached")
    assert sent == ["POST /api/runs/played/cancel", "DELETE /api/runs/played"]
    assert len(told) > 2
    seen = [now for now in page.evaluate("window.seen") if now]
    assert [now[0] for now in seen] == sorted(now[0] for now in seen)
    assert seen[-1][0] == 2
    page.wait_for_function(f"({MARKS})()[0].length === 0")
    assert page.locator("[data-testid=compute-problem]").count() == 0
    assert page.is_enabled("[data-testid=compute]")
