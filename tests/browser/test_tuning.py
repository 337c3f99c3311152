"""“Find my λ” and “What is each step worth?” in a real browser: a press, a figure that grows, the run that follows."""

from typing import Any

import pytest

from tests.browser.conftest import App, findings
from tests.http.test_comparisons import SMALL

pytestmark = pytest.mark.thorough

SMALL_TUNING = SMALL | {"kind": "tune", "sweep": [0.01, 0.1, 1], "minutes": 30}


@pytest.fixture(scope="module")
def tuned(app):
    """A finished tuning run of ``SMALL_TUNING``."""
    return app.run(SMALL_TUNING)


@pytest.fixture(scope="module")
def climbed(app):
    """A finished ladder."""
    return app.run(SMALL | {"kind": "ladder"})


def seen(page, testid: str) -> str:
    return page.text_content(f"[data-testid={testid}]").replace("\u00a0", " ")


def begun(page, testid: str) -> dict[str, Any]:
    """The recipe that a button sends."""
    with page.expect_request(lambda request: request.method == "POST" and request.url.endswith("/api/runs")) as asked:
        page.click(f"[data-testid={testid}]")
    return asked.value.post_data_json


def cancelled(page, app: App, testid: str):
    """Cancels the run that a button began, and goes back to it."""
    page.wait_for_function("location.search.startsWith('?run=')")
    run_id = page.evaluate("new URLSearchParams(location.search).get('run')")
    page.click("[data-testid=cancel]")
    page.wait_for_selector("[data-testid=continue]", timeout=120_000)
    assert seen(page, "progress").startswith("Cancelled ")
    assert app.json(f"/runs/{run_id}")["state"] == "cancelled"
    page.click("[data-testid=leave]")
    page.wait_for_selector(f"[data-testid={testid}]:enabled")


@pytest.mark.parametrize("kind", ["tune", "ladder"])
def test_the_button_sends_the_form_s_recipe(app, open_page, kind):
    page = open_page("/calibrate")
    page.wait_for_selector(f"[data-testid={kind}]:enabled")
    recipe = begun(page, kind)
    assert (recipe["kind"], recipe["test"]) == (kind, "tiny-llama-held-out")  # the test text stays untouched
    cancelled(page, app, kind)
    for shown in (".tuning-run", ".ladder-run"):
        assert page.locator(shown).is_hidden()


def test_the_chart_is_the_progress_and_stays_one_plot(app, open_page):
    run_id = app.json("/runs", SMALL_TUNING)["id"]  # that of the other test finds what it has measured
    page = open_page(f"/calibrate?run={run_id}")
    page.wait_for_selector("[data-testid=plot-tuning][data-drawn]", timeout=200_000)
    page.evaluate("window.canvas = document.querySelector('[data-testid=plot-tuning] .plot-canvas svg')")
    page.wait_for_selector("[data-testid=run-it]", timeout=200_000)
    assert page.evaluate("window.canvas.isConnected")  # drawn on, never made anew
    page.wait_for_function("document.querySelector('[data-testid=progress]').textContent.includes('models measured')")
    view = app.json(f"/runs/{run_id}/tuning")
    assert seen(page, "tuning-log").count("Draw ") == sum(line["text"].startswith("Draw ") for line in view["log"])
    said = page.get_attribute("[data-testid=clock-bar]", "aria-valuetext")
    assert said.endswith(" of 30:00 left")
    widths = page.evaluate(
        "[...document.querySelectorAll('.clock-part')].map((part) => part.getBoundingClientRect().width)"
    )
    assert sum(widths) <= page.evaluate("document.querySelector('.clock-bar').getBoundingClientRect().width") + 1


def test_marks_rest_between_draws(tuned, app, open_page):
    page = open_page(f"/calibrate?run={tuned['id']}")
    page.wait_for_selector("[data-testid=run-it]")
    view = app.json(f"/runs/{tuned['id']}/tuning")
    title = page.locator("[data-testid=plot-tuning] .card-title")
    assert title.text_content().replace("\u00a0", " ") == view["figure"]["title"] + view["figure"]["subtitle"]
    moving = "document.querySelector('[data-testid=plot-tuning] .plot-canvas').getAnimations({subtree: true}).length"
    assert page.evaluate(moving) == 0, "nothing moves without a draw"


def test_the_end_is_the_server_s_sentence_a_study_and_the_run_to_follow(app, tuned, open_page):
    page = open_page(f"/calibrate?run={tuned['id']}")
    page.wait_for_selector("[data-testid=run-it]")
    view = app.json(f"/runs/{tuned['id']}/tuning")
    said = "".join(piece["text"] for piece in view["sentence"])
    assert seen(page, "tuning-sentence") == said.replace("\u00a0", " ")
    button = {"run": "Quantize with λ = ", "keep": "Quantize with GPTQ 1 %", "go_on": "Go on for"}
    assert seen(page, "run-it").startswith(button[view["tuning"]["next"]])
    aria = page.get_attribute("[data-testid=plot-tuning] .plot-frame", "aria-label")
    assert aria == view["figure"]["aria"]
    assert page.get_attribute("[data-testid=open-lab]", "href") == f"/?study={tuned['id']}"
    assert page.locator("[data-testid=how-it-ran]").get_attribute("open") is None
    top = "(name) => document.querySelector(name).getBoundingClientRect().top"
    places = [page.evaluate(top, name) for name in ("[data-testid=tuning-sentence]", "[data-testid=clock-bar]",
              "[data-testid=plot-tuning]", "[data-testid=run-it]", "[data-testid=how-it-ran]")]  # fmt: skip
    assert places == sorted(places)  # the answer first
    page.set_viewport_size({"width": 390, "height": 844})
    places = [page.evaluate(top, name) for name in ("[data-testid=tuning-sentence]", "[data-testid=run-it]",
              "[data-testid=plot-tuning]", "[data-testid=tuning-log]", "[data-testid=how-it-ran]")]  # fmt: skip
    assert places == sorted(places)
    page.set_viewport_size({"width": 1280, "height": 800})
    assert page.locator("[data-testid=report]").count() == 0  # there is no one quantized model to report
    following = view["tuning"]["recipe"]
    assert begun(page, "run-it") == following | {"test": "tiny-llama-test"}
    page.wait_for_function("([before]) => !location.search.includes(before)", arg=[tuned["id"]])
    new = page.evaluate("new URLSearchParams(location.search).get('run')")
    assert app.json(f"/runs/{new}")["recipe"]["lambda"] == following["lambda"]
    page.wait_for_selector(".tuning-run", state="hidden")
    app.json(f"/runs/{new}/cancel", {}, method="POST")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_end_of_a_ladder_is_the_server_s_sentence_and_the_run_to_follow(app, climbed, open_page, width):
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
    following = begun(page, "run-rung")
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
