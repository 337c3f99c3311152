"""The model on a sentence in a real browser: nothing is fetched before it is asked for, λ changes what it says."""

import json
import re
import time
from pathlib import Path

import pytest

from tests.browser.conftest import SMALL_RUN, findings

CODES = Path("assets/studies/tiny-llama/codes/codes.json")
LAB = "/?study=tiny-llama&method=sarqc-gbs&bits=2&gamma=0.1&lambda=0.1"
OF_MODEL = "/model/"
SAYS_ANOTHER = "before => document.querySelector('[data-testid=try-sentence]').innerText !== before"


def opened(page):
    """The card with its model, once it has said what comes next."""
    card = page.get_by_test_id("try")
    card.get_by_test_id("try-open").focus()
    page.keyboard.press("Enter")
    card.get_by_test_id("try-written").wait_for()
    return card


def numbers(card) -> list[str]:
    return card.get_by_test_id("try-table").locator("td").all_text_contents()


def test_the_model_answers_a_sentence_at_the_shown_lambda(open_page):
    page = open_page(LAB)
    button = page.get_by_test_id("try").get_by_test_id("try-open")
    button.wait_for()
    kept = json.loads(CODES.read_text())
    codes = [point["file"] for point in kept["points"] if point["bits"] == 2 and point["lam"] in (0, 0.1)]
    assert f"{sum(file['bytes'] for file in [*kept['files'], *codes]) / 2**20:.1f}" in button.inner_text()
    assert not [url for url in page.watch.requests if OF_MODEL in url]
    card = opened(page)
    assert "WebAssembly" in card.inner_text()
    asked = [url for url in page.watch.requests if OF_MODEL in url]
    assert len(asked) == 6
    assert card.get_by_test_id("try-next").locator("tbody tr").count() == 5
    tokens = card.get_by_test_id("try-strip").locator(".try-piece").count()
    assert len(numbers(card)) == 2 * tokens
    before = card.get_by_test_id("try-sentence").inner_text()
    assert "λ = 0.1" in before
    page.get_by_test_id("lambda").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(SAYS_ANOTHER, arg=before)
    assert "λ = 0.2" in card.get_by_test_id("try-sentence").inner_text()


@pytest.mark.thorough
def test_a_sentence_is_written_and_another_one_found(open_page):
    page = open_page(LAB)
    card = opened(page)
    field = card.get_by_test_id("try-text")
    field.fill("<script>alert(1)</script> 👩‍👧 " + "word " * 70)
    page.get_by_text("The first 64 tokens are read").wait_for()
    assert card.get_by_test_id("try-strip").locator(".try-piece").count() == 64
    assert "<script>" in "".join(card.get_by_test_id("try-strip").locator(".try-token").all_text_contents())
    field.fill("")
    card.get_by_text("Write a few words").wait_for()
    field.fill("Once upon a time")
    card.get_by_test_id("try-written").wait_for()
    assert findings(page) == []
    card.get_by_test_id("try-search").focus()
    page.keyboard.press("Enter")
    card.get_by_test_id("try-broken").wait_for()
    broken = re.findall(r"[\d.]+ at λ", card.get_by_test_id("try-broken").inner_text())
    text = field.input_value()
    assert text in (Path("assets/models/tiny-llama/held_out.txt")).read_text()
    page.wait_for_function("() => !document.querySelector('.try-answer.is-waiting')")
    said = card.get_by_test_id("try-sentence").inner_text()
    assert all(value.removesuffix(" at λ") in said for value in broken)  # the card says what the search said
    card.get_by_test_id("try-lambda").press("Home")
    card.get_by_text("At λ = 0 there is nothing to compare with").wait_for()
    assert card.get_by_test_id("try-search").is_disabled()


@pytest.mark.thorough
def test_where_no_codes_are_kept_the_card_leads_to_those(open_page):
    page = open_page(LAB.replace("sarqc-gbs", "rqc-gbs"))
    card = page.get_by_test_id("try")
    card.get_by_test_id("try-show").click()
    card.get_by_test_id("try-open").wait_for()
    assert page.get_by_test_id("pick-method").input_value() == "sarqc-gbs"
    page = open_page("/?study=toy")
    page.wait_for_selector(".lab.is-open")
    assert page.get_by_test_id("try").is_hidden()


@pytest.mark.thorough
def test_the_model_of_a_run_stands_beside_the_float_one(app, open_page):
    run = app.run({**SMALL_RUN, "grid": "asymmetric", "sweep": []})
    page = open_page(f"/?study={run['study_id']}")
    card = opened(page)
    assert len([url for url in page.watch.requests if OF_MODEL in url]) == 5
    assert card.get_by_test_id("try-alone").is_visible()
    assert card.get_by_test_id("try-search").count() == 0
    tokens = card.get_by_test_id("try-strip").locator(".try-piece").count()
    assert len(numbers(card)) == tokens
    assert card.get_by_test_id("try-next").locator("thead th").all_text_contents()[1:] == ["λ = 0.1"]
    assert findings(page) == []


@pytest.mark.thorough
def test_missing_codes_are_computed_by_runs(app, open_page):
    run = app.run({**SMALL_RUN, "grid": "asymmetric", "sweep": [0, 1]})
    before = {each["id"] for each in app.json("/runs")["runs"]}
    page = open_page(f"/?study={run['study_id']}&lambda=1")
    card = page.get_by_test_id("try")
    card.get_by_test_id("try-compute").click()
    while len(made := [each["id"] for each in app.json("/runs")["runs"] if each["id"] not in before]) < 2:
        time.sleep(0.3)
    finished = [app.finished(each) for each in made]
    assert {each["recipe"]["lambda"] for each in finished} == {0, 1}
    assert all(each["recipe"].get("test") is None for each in finished)
    card.get_by_test_id("try-open").wait_for()
    opened(page)
    assert card.get_by_test_id("try-next").locator("thead th").all_text_contents()[1:] == ["λ = 1", "λ = 0"]
    page.get_by_test_id("lambda").focus()
    page.keyboard.press("ArrowLeft")  # to the run's own point, with the model open
    page.wait_for_function(SAYS_ANOTHER, arg=card.get_by_test_id("try-sentence").inner_text())
    assert "λ = 0.1" in card.get_by_test_id("try-sentence").inner_text()
    assert findings(page) == []


@pytest.mark.thorough
def test_runs_for_codes_can_be_stopped(app, open_page):
    run = app.run({**SMALL_RUN, "grid": "asymmetric", "samples": 3})
    before = {each["id"] for each in app.json("/runs")["runs"]}
    page = open_page(f"/?study={run['study_id']}&lambda=1")
    card = page.get_by_test_id("try")
    card.get_by_test_id("try-compute").click()
    page.wait_for_function("() => document.querySelector('[data-testid=try-halt]') !== null")
    card.get_by_test_id("try-halt").click()
    card.get_by_test_id("try-compute").wait_for()
    made = [each["id"] for each in app.json("/runs")["runs"] if each["id"] not in before]
    while not {app.json(f"/runs/{each}")["state"] for each in made} <= {"cancelled", "finished"}:
        time.sleep(0.3)


@pytest.mark.thorough
def test_a_file_that_is_gone_is_said_and_can_be_asked_for_again(open_page):
    page = open_page(LAB)
    button = page.get_by_test_id("try").get_by_test_id("try-open")
    button.wait_for()
    page.watch.expected.append("ERR_FAILED")
    page.route("**/model/tokenizer.json*", lambda route: route.abort())
    button.click()
    page.locator(".try-trouble").wait_for()
    page.unroute("**/model/tokenizer.json*")
    opened(page)


@pytest.mark.thorough
def test_learn_runs_the_model_of_its_last_step(open_page):
    page = open_page("/learn?step=10&shown=1", width=390, height=844)
    card = page.get_by_test_id("try-card")
    card.get_by_test_id("try-open").click()
    card.get_by_test_id("try-written").wait_for()
    before = card.get_by_test_id("try-sentence").inner_text()
    card.get_by_test_id("try-lambda").press("Home")
    page.wait_for_function(SAYS_ANOTHER, arg=before)
    field = card.get_by_test_id("try-text")
    field.fill("A b")
    field.press("ArrowRight")  # belongs to the field, not to the tour
    assert page.get_by_test_id("step-10").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
