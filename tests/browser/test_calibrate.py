"""From the form to a finished run: refusals, a closed tab, a second browser, numbers that are the server's."""

import json
import urllib.request
from contextlib import suppress
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml

from sarqc.recipe import Recipe
from tests.browser.conftest import SHIFTS, SMALL_RUN, App, all_settings, findings
from tests.jobs.conftest import until
from tests.test_recipe_texts import recipe_of_request

SMALL = "/calibrate?test_tokens=1024"


def fill_small(page):
    """The form of ``SMALL``, made small by hand."""
    small = {"samples": 2, "length": 64, "held-out-samples": 2, "tasks": "", "sweep": "0, 0.1"}
    for name, value in small.items():
        page.fill(f"#field-{name} :is(textarea, input)", str(value))
    for count in ("128", "1,024"):
        page.wait_for_selector(f"[data-testid=plan]:has-text('{count} tokens')")
    page.wait_for_selector("[data-testid=start]:enabled")


# What covers the bar of a phone's buttons while the form is scrolled below it.
OVER_THE_BUTTONS = """() => {
  const bar = document.querySelector(".plan-acts");
  const over = new Set();
  for (let y = 0; y < 1200; y += 15) {
    window.scrollTo({ top: y, behavior: "instant" });
    const { left, top, width, height } = bar.getBoundingClientRect();
    for (let x = 0.02; x < 1; x += 0.07)
      for (const part of [0.2, 0.5, 0.8]) {
        const there = document.elementFromPoint(left + x * width, top + part * height);
        if (there && !bar.contains(there)) over.add(there.textContent.slice(0, 40));
      }
  }
  return [...over];
}"""


def choose_method(page, name: str):
    page.click("[data-testid=methods] summary")
    page.check(f"[data-testid=methods] input[value={name}]")


def events_of(app: App, run_id: str) -> list[dict[str, Any]]:
    request = urllib.request.Request(f"{app.url}/api/runs/{run_id}/events", headers={"Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)["events"]


@pytest.mark.thorough
def test_a_change_by_the_page_outlasts_a_late_word_of_the_form(open_form):
    """Gradio may deliver what it gathered before the page put a method into the form."""
    page = open_form()
    page.evaluate(
        """async () => {
          const { formChanged, fieldsChanged } = (await import("page-scripts")).scripts["calibrate/calibrate_page.js"];
          const former = (await fieldsChanged()).map((value) => (value?.__type__ ? value.value : value));
          const late = () => formChanged(former);
          document.getElementById("fields-changed").addEventListener("click", late, { capture: true, once: true });
        }"""
    )

    def is_of_awq(answer):  # a slow answer to an earlier question may come first
        return answer.url.endswith("/api/plan") and answer.request.post_data_json.get("method") == "awq"

    with page.expect_response(is_of_awq):
        choose_method(page, "awq")
    page.wait_for_selector("[data-testid=start]:enabled")
    assert page.is_checked("[data-testid=methods] input[value=awq]")


@pytest.mark.thorough
def test_a_model_that_is_not_there_is_refused_before_a_text_is_asked_for(open_page):
    page = open_page("/calibrate")
    page.watch.expected.append("404")
    page.wait_for_selector("[data-testid=start]:enabled")
    page.fill("#field-model input", "no-such-model")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-testid=refusal]")
    assert "No model “no-such-model”" in page.text_content("[data-testid=refusal]")
    assert page.locator("[data-testid=text-question]").count() == 0
    assert page.text_content("[data-testid=start]") == "Start calibration"
    assert page.is_disabled("[data-testid=start]")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.inner_text("[data-part=budget-words]") == "No model “no-such-model”"  # far from the plan
    assert page.evaluate(OVER_THE_BUTTONS) == []


@pytest.mark.thorough
def test_lambda_is_typed_chosen_or_left_empty(open_form):
    page = open_form()
    page.watch.expected.append("422")

    def after(act):
        with page.expect_request("**/api/plan") as asked:
            act()
        page.wait_for_function("!document.querySelector('[data-testid=plan]').classList.contains('is-stale')")
        return asked.value.post_data_json

    assert after(lambda: page.fill("#field-lam input", "0.3"))["lambda"] == 0.3
    recipe = after(lambda: page.fill("#field-lam input", "auto"))
    assert recipe["lambda"] == "auto"
    assert "sweep" not in recipe  # a curve is drawn beside one λ
    page.wait_for_selector("[data-testid=start]:enabled")
    assert page.text_content("[data-testid=auto-note]").startswith("auto: ")
    assert "lambda" not in after(lambda: page.fill("#field-lam input", ""))
    after(lambda: page.fill("#field-lam input", "abc"))
    page.wait_for_selector("[data-testid=refusal]")
    assert page.get_attribute("#field-lam input", "aria-invalid") == "true"
    assert page.get_attribute("#field-lam input", "aria-describedby") == "refusal"
    after(lambda: page.fill("#field-lam input", "-1"))
    page.get_by_role("button", name="Use 0").click()
    page.wait_for_selector("[data-testid=start]:enabled")
    assert page.input_value("#field-lam input") == "0"
    assert page.get_attribute("#field-lam input", "aria-invalid") is None


# A text put into a field at once, as a paste, a drop, dictation or the browser's own filling in does: one input event.
PUT = """
(field, text) => {
  field.focus();
  Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value").set.call(field, text);
  field.dispatchEvent(new InputEvent("input", { bubbles: true, inputType: "insertFromPaste", data: text }));
}
"""
ENTERED = {
    "model": "tiny-moe", "group_size": "64", "lam": "0.3", "gamma": "0.2", "calibration": "tiny-llama-calibration",
    "samples": 5, "length": 48, "held_out_samples": 3, "refine": 2, "test": "tiny-llama-test",
    "tasks": "tiny-moe-continuations", "prompts": "Once upon a time\nThe king, said", "sweep": "0, 0.5",
}  # fmt: skip


@pytest.mark.thorough
def test_every_field_is_taken_up_with_one_input_event(open_form):
    page = open_form()
    page.watch.expected.append("422")  # on the way
    page.wait_for_selector("#field-samples input")
    for name, value in ENTERED.items():
        field = page.locator(f"#field-{name.replace('_', '-')} :is(textarea, input)")
        with page.expect_request("**/api/plan"):
            field.evaluate(PUT, str(value))
    offered = page.locator(
        ".recipe-form .field:visible :is(textarea, input:not([type=radio], [type=checkbox], [readonly]))"
    )
    names = offered.evaluate_all("(all) => all.map((input) => input.closest('.field').id.slice(6).replace(/-/g, '_'))")
    assert {*names} == {*ENTERED, "quantized_checkpoint"}  # none was left out; the last one takes a checkpoint
    page.wait_for_selector("[data-testid=start]:enabled")
    entered = {"lambda" if name == "lam" else name: ENTERED[name] for name in ENTERED}
    wanted = Recipe.parse(entered).to_json()
    address = page.evaluate("Object.fromEntries(new URLSearchParams(location.search))")
    assert address["prompts"] == ENTERED["prompts"]
    with page.expect_response("**/api/runs") as posted:
        page.click("[data-testid=start]")
    run = posted.value.json()
    assert {name: run["recipe"][name] for name in entered} == {name: wanted[name] for name in entered}
    page.evaluate("(id) => fetch(`api/runs/${id}/cancel`, { method: 'POST' })", run["id"])


@pytest.mark.thorough
def test_a_run_is_of_what_the_form_shows(open_form):
    """Whatever writes into a field without a word, as some that fill in forms do."""
    page = open_form()
    sent = []
    page.on("request", lambda request: sent.append(request.url) if request.url.endswith("/api/runs") else None)
    page.evaluate("document.querySelector('#field-samples input').value = '3'")
    with page.expect_request("**/api/plan") as asked:
        page.click("[data-testid=start]")
    assert asked.value.post_data_json["samples"] == 3
    page.wait_for_selector("[data-testid=start]:enabled")
    assert "Samples had changed unnoticed" in page.text_content("[data-part=plan-note]")
    assert sent == []


@pytest.mark.thorough
def test_what_was_entered_outlives_another_model_and_a_reload(open_form):
    page = open_form()
    assert page.evaluate("location.search") == ""
    page.fill("#field-samples input", "16")
    page.fill("#field-lam input", "0.37")
    page.click("#field-model input")
    page.get_by_role("option", name="tiny-moe").click()
    page.wait_for_function("location.search.includes('model=tiny-moe')")
    page.reload()
    page.wait_for_selector("[data-testid=start]:enabled")
    assert [page.input_value(f"#field-{name} input") for name in ("samples", "lam")] == ["16", "0.37"]
    assert page.evaluate("new URLSearchParams(location.search).get('calibration')") == "tiny-moe-calibration"


@pytest.mark.thorough
def test_an_answer_to_an_earlier_question_is_not_awaited(open_form):
    page = open_form()
    page.watch.expected.append("404")
    asked = []

    def answered(route):
        """All but the first question."""
        asked.append(route.request)
        if len(asked) > 1:
            route.continue_()

    page.route("**/api/plan", answered)
    page.fill("#field-samples input", "3")
    page.wait_for_function("document.querySelector('[data-testid=checking]').textContent === 'Checking tiny-llama …'")
    assert page.is_disabled("[data-testid=start]")
    while not asked:
        page.wait_for_timeout(50)
    page.fill("#field-samples input", "4")
    page.wait_for_selector("[data-testid=start]:enabled")
    assert asked[0].failure == "net::ERR_ABORTED"
    assert "1,024 tokens" in page.text_content("[data-testid=plan]")
    assert page.text_content("[data-testid=checking]") == ""
    page.click("#field-model input")
    page.keyboard.type("some")
    page.wait_for_function("document.querySelector('[data-testid=checking]').textContent === 'Checking some …'")


@pytest.mark.thorough
def test_several_lambdas_are_chips_and_one_batch(app, open_form):
    page = open_form(SMALL)
    fill_small(page)
    page.fill("#field-sweep textarea, #field-sweep input", "")
    page.fill("#field-lam input", "0, 0.05, 0.1")
    page.wait_for_selector("[data-testid=start]:has-text('Start 3 calibrations')")
    assert "for all 3 on" in page.text_content("[data-testid=plan]")
    chips = page.get_by_role("group", name="Values of λ").get_by_role("button")
    assert chips.count() == 3
    page.get_by_role("button", name="Remove λ = 0.05").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-testid=start]:has-text('Start 2 calibrations')")
    page.wait_for_function("document.querySelector('#field-lam input').value === '0, 0.1'")
    page.click("[data-testid=copy-plan] summary")
    said = yaml.safe_load(page.text_content("[data-testid=copy-plan] pre"))
    assert said["lambda"] == [0, 0.1]
    page.wait_for_selector("[data-testid=start]:enabled")
    page.click("[data-testid=start]")
    page.wait_for_url("**/runs?filter=batch-*")
    batch = page.url.partition("filter=")[2]
    runs = app.json(f"/runs?batch={batch}")["runs"]
    assert sorted(run["recipe"]["lambda"] for run in runs) == [0, 0.1]
    for run in runs:
        assert run["recipe"] | {"lambda": None} == Recipe.parse(said | {"lambda": None}).to_json()
    page.wait_for_selector(f"[data-run='{runs[0]['id']}']")
    for run in runs:
        app.json(f"/runs/{run['id']}/cancel", method="POST")


@pytest.mark.thorough
def test_four_questions_and_an_effort_stand_beside_the_plan(open_page):
    page = open_page("/calibrate")
    page.wait_for_selector("[data-testid=start]:enabled")
    page.wait_for_function("document.querySelectorAll('.effort-time:not(:empty)').length === 3")
    efforts = page.get_by_role("group", name="How much effort").get_by_role("radio")
    assert [one.get_attribute("value") for one in efforts.all()] == ["quick", "balanced", "best"]
    assert page.is_checked("[data-testid=efforts] [value=balanced]")
    assert page.locator("#settings").is_hidden()
    for name in ("#field-model", "#field-bits", "[data-testid=methods]", "#field-lam", "#field-gamma", "#field-test"):
        assert page.locator(name).bounding_box()["y"] < 790
    assert "study tiny-llama" in page.text_content("[data-testid=lam-ruler]")
    for name in ("start", "tune", "ladder"):
        box = page.locator(f"[data-testid={name}]").bounding_box()
        assert box["y"] + box["height"] <= 800
    page.focus("[data-testid=efforts] [value=balanced]")
    with page.expect_response(lambda answer: "/api/plan" in answer.url):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-testid=start]:enabled")
    assert page.is_checked("[data-testid=efforts] [value=best]")
    address = page.evaluate("Object.fromEntries(new URLSearchParams(location.search))")
    assert {name: address[name] for name in ("range", "order", "refine", "refit", "distill")} == {
        "range": "joint", "order": "activation", "refine": "3", "refit": "3", "distill": "5",
    }  # fmt: skip
    all_settings(page)
    assert page.text_content("[data-testid=also-set]").strip() == ""  # an effort’s own fields are not set beside it
    page.fill("#field-refine input", "2")
    page.wait_for_selector("[data-testid=own-fitting]")
    assert page.locator("[data-testid=efforts] :checked").count() == 0
    page.wait_for_selector("[data-testid=start]:enabled")
    assert findings(page) == []


def test_fields_follow_the_method(open_form):
    page = open_form()
    page.wait_for_selector("#field-order", state="visible")
    assert page.locator("#field-gamma").is_visible()
    assert page.locator("#field-validation-share").is_hidden()
    choose_method(page, "sarqc-omniquant")
    page.wait_for_selector("#field-epochs", state="visible")
    assert page.locator("#field-order").is_hidden()
    assert page.locator("#field-mode").is_hidden()
    page.fill("#field-lam input", "auto")
    page.wait_for_selector("#field-validation-share", state="visible")
    assert page.locator("#field-sweep").is_hidden()


# Controls in sight, with those of the bar above; a choice of one among several counts as many.
CONTROLS = """() => [...document.querySelectorAll("input, select, textarea, button, a[href], summary, [role=slider]")]
  .filter((one) => {
    const { width, height } = (one.closest("label") ?? one).getBoundingClientRect();
    return one.checkVisibility({ visibilityProperty: true }) && width > 2 && height > 2 && !one.matches(".skip");
  })
  .map((one) => one.closest(".field")?.id ?? one.textContent.trim())"""


def test_the_form_has_few_controls(open_page):
    page = open_page("/calibrate")
    page.wait_for_selector("[data-testid=start]:enabled")
    page.wait_for_function("document.querySelectorAll('.effort-time:not(:empty)').length === 3")
    first = page.evaluate(CONTROLS)
    assert len(first) <= 25, first
    all_settings(page)
    page.wait_for_selector("#field-samples", state="visible")
    every = page.evaluate(CONTROLS)
    assert len(every) <= 40, every


def test_a_decimal_comma_and_a_long_text_are_asked_about_before_anything_is_sent(open_form):
    page = open_form()
    sent = []
    page.on("request", lambda request: sent.append(len(request.post_data or "") + len(request.url)))
    page.fill("#field-lam input", "0,3")
    page.wait_for_selector("[data-testid=refusal]")
    assert page.is_disabled("[data-testid=start]")
    assert page.get_attribute("#field-lam input", "aria-describedby") == "refusal"
    with page.expect_request("**/api/plan") as asked:
        page.get_by_role("button", name="One value, 0.3").click()
    assert asked.value.post_data_json["lambda"] == 0.3
    page.wait_for_selector("[data-testid=start]:enabled")
    page.fill("#field-prompts textarea", "x" * 100_000)
    page.wait_for_selector("[data-testid=refusal]:has-text('100,000 characters, 8,192 fit')")
    assert max(sent) < 20_000
    assert page.evaluate("location.href.length") < 2000


def test_what_the_form_has_no_field_for_is_kept_and_told(open_form):
    page = open_form("/calibrate?seed=3&exclude=*.down_proj")
    page.wait_for_selector("[data-testid=also-set]:has-text('Seed 3')")
    assert "Excluded layers *.down_proj" in page.text_content("[data-testid=also-set]")
    with page.expect_request("**/api/plan") as asked:
        page.fill("#field-samples input", "5")
    assert (asked.value.post_data_json["seed"], asked.value.post_data_json["exclude"]) == (3, ["*.down_proj"])

    def is_without_them(sent):
        return sent.url.endswith("/api/plan") and {"seed": 0}.items() <= sent.post_data_json.items()

    with page.expect_request(is_without_them) as asked:
        page.click("[data-testid=also-set-remove]")
    assert not asked.value.post_data_json.get("exclude")


@pytest.mark.soak
def test_a_run_outlives_its_tab_and_is_found_again(app, open_page, open_form):
    first = open_form(SMALL)
    fill_small(first)
    first.click("[data-testid=start]")
    first.wait_for_function("location.search.startsWith('?run=')")
    run_id = first.evaluate("new URLSearchParams(location.search).get('run')")
    first.wait_for_selector("[data-testid=matrix] .cell", timeout=60_000)
    first.close()

    second = open_page(f"/calibrate?run={run_id}")
    second.wait_for_selector("[data-testid=report]", timeout=200_000)
    run = app.json(f"/runs/{run_id}")
    assert run["state"] == "finished"
    second.wait_for_timeout(1500)  # the server has closed the stream by now, as it should
    assert "does not answer" not in second.text_content("[data-testid=run]")
    total = run["progress"]["total"]
    filled = "cells => cells.filter(cell => cell.style.backgroundColor).length"
    assert second.eval_on_selector_all("[data-testid=matrix] .cell", filled) == total
    assert second.text_content("[data-testid=progress]").startswith(f"All {total} layers")
    second.click("[data-testid=how-it-ran] > summary")
    assert second.locator("[data-testid=matrix] .cell").first.is_visible()
    assert second.locator("[data-plot^=run-]").count() == 0  # the Lab is a click away
    assert second.get_attribute("[data-testid=open-lab]", "href") == f"/?study={run['study_id']}"


@pytest.mark.thorough
def test_the_recipe_can_be_taken_elsewhere(app, small_run, open_page):
    page = open_page(f"/calibrate?run={small_run['id']}")
    page.wait_for_selector("[data-testid=report]")
    page.click("[data-testid=copy-run] summary")
    panel = page.locator("[data-testid=copy-run] [role=tabpanel]")
    assert Recipe.parse(yaml.safe_load(panel.text_content())) == Recipe.parse(small_run["recipe"])
    tabs = page.locator("[data-testid=copy-run] [role=tab]")
    tabs.first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "CLI"
    assert panel.get_attribute("aria-labelledby") == page.evaluate("document.activeElement.id")
    page.keyboard.press("End")
    assert "damp_percent" in panel.text_content()  # GPTQModel's program
    tabs.nth(2).click()
    address, _ = recipe_of_request(panel.text_content())
    assert address == f"{app.url}/api/runs"
    page.click("[data-testid=leave]")
    page.wait_for_selector("[data-testid=start]")
    assert "run=" not in page.url


@pytest.mark.thorough
def test_a_plan_can_be_taken_elsewhere(open_form):
    page = open_form()
    page.watch.expected.append("422")
    page.click("[data-testid=copy-plan] summary")
    panel = page.locator("[data-testid=copy-plan] [role=tabpanel]")
    assert "samples" in panel.text_content()
    page.fill("#field-samples input", "7")
    page.wait_for_function("document.querySelector('[data-testid=copy-plan] pre').textContent.includes('samples: 7')")
    with page.expect_download() as saved:
        page.click("text=Save as recipe.yaml")
    assert Recipe.from_file(saved.value.path()).samples == 7
    page.fill("#field-samples input", "1000000")
    page.locator("[data-testid=copy-plan]").wait_for(state="hidden")


@pytest.mark.thorough
def test_what_another_engine_lacks_is_mended_in_the_form(open_form):
    page = open_form(SMALL)
    fill_small(page)
    page.click("[data-testid=copy-plan] summary")
    page.get_by_role("tab", name="llm-compressor").click()
    page.get_by_role("button", name="Fit the grid as they do").click()  # the effort does more
    panel = page.locator("[data-testid=copy-plan] [role=tabpanel]")
    page.wait_for_function("document.querySelector('[data-testid=copy-plan] pre')?.textContent.includes('oneshot')")
    assert "from llmcompressor import oneshot" in panel.text_content()


@pytest.mark.thorough
def test_texts_and_speed_of_a_run(app, open_page):
    asked = {"method": "rtn", "lambda": None, "bits": 4, "samples": 1, "sweep": [], "test": None, "speed": True}
    prompts = ["Once, upon a time", "<b>The</b> king <script>alert(1)</script>"]
    run = app.run({**SMALL_RUN, **asked, "prompts": prompts, "new_tokens": 8})
    told = [event for event in events_of(app, run["id"]) if event["type"] == "texts_compared"]
    page = open_page(f"/calibrate?run={run['id']}", width=390)
    page.wait_for_selector("[data-testid=text-pair]")
    said = [text.strip() for text in page.locator(".prompt").all_text_contents()]
    assert said == [f"Prompt {text}" for text in prompts]
    page.click(".texts-switch button:has-text('Sampled')")
    columns = page.locator("[data-testid=text-pair] >> nth=1").locator(".text-column p").all_text_contents()
    for column, which in zip(columns, ("float", "quantized"), strict=True):
        assert column.replace("first different token: ", "") == "".join(told[1]["sampled"][which]["pieces"])
    page.focus("[data-testid=kl-strip] >> nth=1")
    page.keyboard.press("End")
    assert page.locator("[data-testid=kl-strip] >> nth=1").get_attribute("aria-valuenow") == "8"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click("[data-testid=leave]")
    page.wait_for_selector("[data-testid=texts]", state="hidden")


@pytest.mark.thorough
def test_cancel_keeps_what_is_done_and_continue_goes_on(app, open_page):
    run = app.json("/runs", {**SMALL_RUN, "blocks": [], "samples": 8, "length": 256, "seed": 3})
    page = open_page(f"/calibrate?run={run['id']}")
    page.wait_for_selector("[data-testid=matrix] .cell[style*=background]", timeout=60_000)
    page.click("[data-testid=cancel]")
    page.wait_for_selector("[data-testid=state][data-state=cancelled]", timeout=60_000)
    assert "finished layers are kept" in page.text_content("[data-testid=progress]")
    kept = app.json(f"/runs/{run['id']}")["progress"]["done"]
    page.click("[data-testid=continue]")
    page.wait_for_selector("[data-testid=log]:has-text('already on disk')", state="attached", timeout=60_000)
    until(lambda: app.json(f"/runs/{run['id']}")["progress"]["done"] > kept)
    with suppress(HTTPError):  # it may have finished
        app.json(f"/runs/{run['id']}/cancel", method="POST")


@pytest.mark.thorough
def test_a_run_that_is_not_there(open_page):
    page = open_page("/calibrate?run=01HZZZZZZZZZZZZZZZZZZZZZZZ")
    page.watch.expected.append("404")
    page.wait_for_selector("[data-testid=problem]")
    page.click("[data-testid=leave]")
    page.wait_for_selector("[data-testid=start]")


@pytest.mark.thorough
@pytest.mark.parametrize("width", [1280, 390])
def test_the_form_appears_whole_and_nothing_moves(open_page, width):
    """It is made field by field out of sight; and without any script's help it is seen in the end."""
    page = open_page("/calibrate", width=width, script=SHIFTS)
    page.wait_for_selector(".workbench.is-built")
    assert page.locator(".recipe-form input").first.is_visible()
    page.wait_for_selector("[data-testid=start]:enabled")
    assert page.evaluate("window.shifts") < 0.02
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.evaluate("document.querySelector('.workbench').classList.remove('is-built')")
    hidden = page.locator(".recipe-form").evaluate(
        "(form) => [getComputedStyle(form).visibility, form.getAnimations()[0].effect.getTiming().delay]"
    )
    assert hidden == ["hidden", 8000]
