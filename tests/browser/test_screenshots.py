"""The pictures of the README, from the running app: SARQC_SCREENSHOTS=1 python -m pytest tests/browser -k pictures"""

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not os.environ.get("SARQC_SCREENSHOTS"), reason="SARQC_SCREENSHOTS=1 writes docs/images"
)
IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"


def picture(page, name: str, *, full: bool = False):
    page.wait_for_timeout(1500)
    IMAGES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=IMAGES / f"{name}.png", full_page=full)


def test_pictures_of_the_lab(open_page):
    page = open_page("/", height=830, color_scheme="light")
    page.wait_for_selector('[data-plot="lab-surfaces"][data-drawn]')
    picture(page, "lab-light")


def test_pictures_of_a_finished_calibration(app, open_page):
    entry = next(model for model in app.json("/models")["models"] if model["where"] == "embedded")
    run = app.json("/runs", entry["suggested"])
    app.finished(run["id"], seconds=170)
    page = open_page(f"/calibrate?run={run['id']}", height=1000, color_scheme="light")
    page.wait_for_selector("[data-testid=report]")
    picture(page, "calibrate")
