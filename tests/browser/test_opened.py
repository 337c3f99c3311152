"""Models of one's own, and checkpoints that others quantized, on the pages: asked for their text; opened, measured,
repaired and saved."""

import os
import shutil
import tarfile

import pytest

from sarqc.engine.execute import execute
from sarqc.recipe import EFFORTS, Recipe
from sarqc.settings import SITE, Settings
from tests.browser.conftest import SMALL_RUN, all_settings, findings, running


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """tiny-llama rounded to nearest in GPTQ's format, in a folder of such checkpoints."""
    folder = tmp_path_factory.mktemp("models") / "rounded-by-others"
    recipe = {**SMALL_RUN, "bits": 3, "group_size": 64, "method": "rtn", "lambda": None, "sweep": [], "test": None}
    settings = Settings(state_dir=tmp_path_factory.mktemp("state"))
    for _ in execute(Recipe.parse(recipe), settings, checkpoint_dir=folder, checkpoint_format="gptq"):
        pass
    return folder


@pytest.fixture(scope="module")
def host(made, tmp_path_factory):
    """With what was made, a float model of one's own beside it, and a text."""
    ours, texts = SITE / "assets" / "models" / "tiny-llama", tmp_path_factory.mktemp("texts")
    mine = made.parent / "mine"
    mine.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ours / name, mine / name)
    shutil.copy(ours / "calibration.txt", texts / "letters.txt")
    shutil.copy(ours / "held_out.txt", texts / "short.txt")
    folders = {"SARQC_MODEL_DIRS": str(made.parent), "SARQC_TEXT_DIRS": str(texts)}
    with running(tmp_path_factory.mktemp("host"), **folders) as app:
        yield app


@pytest.mark.soak
def test_a_checkpoint_of_others_is_opened_measured_repaired_and_saved(host, made, open_page):
    short = "samples=4&length=64&held_out_samples=2&test_tokens=2048&window=256&baseline=false&tasks=&sweep="
    page = open_page(
        f"/calibrate?model=tiny-llama&{short}&calibration=tiny-llama-calibration&test=tiny-llama-test", of=host,
        accept_downloads=True,
    )  # fmt: skip
    page.context.set_default_timeout(120_000)
    page.select_option("[data-testid=open-checkpoint]", made.name)
    page.wait_for_selector(f".plan-body :text('{made.name}, GPTQ')")
    assert "measured unchanged" in page.text_content("[data-testid=opened]")
    assert page.locator("[data-testid=opened-size]").is_visible()
    assert not page.locator("#field-bits").is_visible()
    assert not page.locator("[data-testid=tune]").is_enabled()
    assert findings(page) == []
    page.click("[data-testid=start]")
    page.click("[data-testid=repair-it]")

    page.wait_for_selector("[data-testid=opened]:has-text('its codes are solved again')")
    page.click("[data-testid=start]:has-text('Start the repair'):enabled")
    words = page.text_content("[data-testid=repair]")
    assert "KL from the original" in words
    assert "rounded-by-others repaired, 3 bits" in page.text_content(".run-title")
    page.click("[data-testid=save-as-found]")
    with page.expect_download() as saved:
        page.click("[data-testid=download-as-found]")
    with tarfile.open(saved.value.path()) as archive:
        files = {os.path.basename(name) for name in archive.getnames()}
    assert {path.name for path in made.iterdir()} <= files
    assert findings(page) == []


@pytest.mark.thorough
def test_the_original_is_a_click_away(host, made, open_page):
    page = open_page(f"/calibrate?quantized_checkpoint={made.name}&method=as-found", of=host, width=390)
    page.wait_for_selector(f".plan-body :text('{made.name}, GPTQ')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click("[data-testid=close-opened]")
    page.wait_for_selector("[data-testid=open-checkpoint]")
    assert page.locator("#field-bits").is_visible()
    page.wait_for_function("!location.search.includes('quantized_checkpoint=')")
    page.wait_for_selector("[data-testid=start]:has-text('Start calibration'):enabled")


@pytest.mark.thorough
def test_a_model_of_ones_own_is_asked_for_its_text_and_takes_the_best_grid(host, open_page):
    page = open_page("/calibrate", of=host)
    page.wait_for_selector("[data-testid=start]:enabled")
    page.click("#field-model input")
    page.get_by_role("option", name="mine").click()
    page.wait_for_selector("[data-testid=text-question]")
    assert "used?" in page.text_content("[data-testid=text-question] h3")
    assert page.text_content("[data-testid=start]") == "Choose a text first"
    assert page.is_disabled("[data-testid=start]")
    assert page.is_disabled("[data-testid=tune]")
    changed = page.text_content("[data-testid=changed-with-model]")
    assert "Bits 2 → 3" in changed
    assert "Samples" not in changed
    assert page.locator(".effort-time:not(:empty)").count() == 0  # those of the model before
    choices = page.locator("[data-testid=text-choice]")
    assert not any("tiny-" in name for name in choices.evaluate_all("(all) => all.map((one) => one.dataset.text)"))
    page.wait_for_function("getComputedStyle(document.querySelector('[data-testid=plan]')).opacity === '1'")
    assert findings(page) == []
    asked = []
    page.on("request", lambda request: asked.append(request.post_data_json) if "/api/plan" in request.url else None)
    page.click("[data-testid=text-choice][data-text='letters.txt']")
    page.wait_for_selector("[data-testid=start]:enabled")
    kinds = {one.get("kind", "run"): one for one in asked if "effort" not in one}
    assert {*kinds} == {"run", "tune", "ladder"}
    for kind, one in kinds.items():
        if kind != "ladder":  # what is tuned is what is run; the steps of a ladder are their own
            assert all(
                getattr(Recipe.parse(one), name) == EFFORTS["balanced"][name]
                for name in ("range", "order", "refine", "refit")
            )
        assert (one["calibration"], one["test"], one["bits"]) == ("letters.txt", "letters.txt", 3)
    page.click("[data-testid=undo-changes]")
    page.wait_for_function("document.querySelector('#field-samples input').value === '8'")
    all_settings(page)
    page.fill("#field-refine input", "2")
    page.wait_for_selector("[data-testid=own-fitting]")
    page.wait_for_selector("[data-testid=start]:enabled")


@pytest.mark.thorough
def test_a_text_that_is_too_short_for_finding_lambda_is_mended_with_a_click(host, open_page):
    page = open_page("/calibrate?model=mine", of=host)
    page.watch.expected.append("422")
    page.click("[data-testid=text-choice][data-text='short.txt']")
    page.click("[data-testid=refusal] [data-testid=fix]:has-text('samples')")
    page.wait_for_selector("[data-testid=start]:enabled")  # a run has enough now, tuning needs unseen text besides
    assert page.is_disabled("[data-testid=tune]")
    page.click("[data-testid=tune-refusal] [data-testid=tune-fix]:has-text('samples')")
    page.wait_for_selector("[data-testid=tune]:enabled")


@pytest.mark.thorough
def test_a_text_that_another_model_wrote_is_said_at_the_head_of_the_plan(host, open_page):
    texts = "calibration=tiny-llama-calibration&test=tiny-llama-test&samples=2"
    page = open_page(f"/calibrate?model=mine&{texts}", of=host)
    page.wait_for_selector("[data-testid=start]:enabled")
    first = page.locator("[data-testid=plan] > :first-child")
    assert "written by tiny-llama, another model" in first.text_content()
    box = first.bounding_box()
    assert box["y"] + box["height"] < 300  # of 800
    page.click("[data-testid=plan] summary:has-text('2 of 4 export formats')")
    page.click("[data-format=mlx] [data-testid=format-fix]:has-text('Use symmetric')")
    page.wait_for_selector("[data-testid=plan] summary:has-text('4 of 4 export formats')")


@pytest.mark.thorough
def test_a_checkpoint_is_inspected_from_the_page_of_runs(host, made, open_page):
    page = open_page("/runs", of=host)
    page.click("[data-testid=inspect]")
    page.wait_for_selector("[data-testid=open-checkpoint]:focus")
    page.select_option("[data-testid=open-checkpoint]", f"tiny-llama: {made.name}")
    page.wait_for_selector(f".plan-body :text('{made.name}, GPTQ')")
    assert page.text_content("[data-testid=start]") == "Start measuring"
