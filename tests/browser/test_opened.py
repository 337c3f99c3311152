"""A checkpoint that others quantized, on the pages: opened, measured, repaired and saved."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sarqc.engine.execute import execute
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from tests.browser.conftest import SMALL_RUN, App, findings, running

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiny-llama rounded to nearest in GPTQ's format, in a folder of such checkpoints."""
    folder = tmp_path_factory.mktemp("models") / "rounded-by-others"
    recipe = {**SMALL_RUN, "bits": 3, "group_size": 64, "method": "rtn", "lambda": None, "sweep": [], "test": None}
    settings = Settings(state_dir=tmp_path_factory.mktemp("state"))
    for _ in execute(Recipe.parse(recipe), settings, checkpoint_dir=folder, checkpoint_format="gptq"):
        pass
    return folder


@pytest.fixture(scope="module")
def host(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with running(tmp_path_factory.mktemp("host"), SARQC_MODEL_DIRS=str(made.parent)) as app:
        yield app


def test_a_checkpoint_of_others_is_opened_measured_repaired_and_saved(
    host: App, made: Path, open_page: Any, tmp_path: Path
) -> None:
    short = "samples=4&length=64&held_out_samples=2&test_tokens=2048&window=256&baseline=false&tasks=&sweep="
    page = open_page(
        f"/calibrate?model=tiny-llama&{short}&calibration=tiny-llama-calibration&test=tiny-llama-test", of=host,
        accept_downloads=True,
    )  # fmt: skip
    page.context.set_default_timeout(120_000)
    page.select_option("[data-testid=open-checkpoint]", made.name)
    page.wait_for_selector(f".plan-body :text('{made.name}, GPTQ')")
    assert "measured as it was found" in page.text_content("[data-testid=opened]")
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


def test_the_original_is_a_click_away(host: App, made: Path, open_page: Any) -> None:
    page = open_page(f"/calibrate?opened={made.name}&method=as-found", of=host, width=390)
    page.wait_for_selector(f".plan-body :text('{made.name}, GPTQ')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click("[data-testid=close-opened]")
    page.wait_for_selector("[data-testid=open-checkpoint]")
    assert page.locator("#field-bits").is_visible()
    page.wait_for_function("!location.search.includes('opened=')")
    page.wait_for_selector("[data-testid=start]:has-text('Start calibration'):enabled")
