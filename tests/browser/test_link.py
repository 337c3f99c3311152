"""The address of the Lab as a lesson: locked, hidden, in a frame; the menus; and what an accessibility checker says."""

import csv
import io
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest

from tests.browser.conftest import SHIFTS, findings, inside

pytestmark = pytest.mark.thorough

LINE = "study=toy&method=sarqc-gbs&bits=2"


@pytest.fixture
def open_lab(open_lab):
    return partial(open_lab, drawn="plane")


def test_a_lesson_by_link(open_lab):
    """Locked controls are seen and stay, hidden ones are not there, and the address keeps it all."""
    link = "hide=methods,deciles,surfaces,measured&lock=lambda,layer,bits&embed=1"
    page = open_lab(f"{LINE}&lambda=0.1&gamma=0.5&{link}", script=SHIFTS)
    assert page.locator(".bar").is_hidden()
    for name in ("lab-methods", "lab-deciles", "lab-surfaces", "lab-surfaces_flat"):
        assert page.locator(f'[data-plot="{name}"]').is_hidden()
    assert page.locator("[data-testid=measured]").is_hidden()
    for name in ("lambda", "pick-layer", "pick-bits"):
        assert page.locator(f"[data-testid={name}]").is_disabled()
        assert page.get_attribute(f"[data-testid={name}]", "aria-description") == "Set by the link"
    assert page.locator("[data-testid=knob-lambda]").is_disabled()
    assert page.locator("[data-testid=knob-gamma]").is_enabled()
    assert page.is_hidden("[data-testid=play]")

    page.keyboard.press("ArrowRight")
    page.locator("[data-testid=numbers] tbody tr").first.click()  # asks for another λ and another γ
    page.wait_for_function("document.querySelector('[data-testid=knob-gamma]').value === '0.1'")
    page.mouse.click(*inside(page.locator('[data-plot="lab-map"] .plot-canvas'), 0.25, 0.25))
    page.wait_for_timeout(300)
    assert page.input_value("[data-testid=knob-lambda]") == "0.1"
    assert page.input_value("[data-testid=pick-layer]") == "all"
    assert page.get_attribute("[data-testid=radius]", "aria-disabled") == "true"
    given = parse_qs(urlparse(page.url).query)
    assert (given["lock"], given["embed"]) == (["lambda,layer,bits"], ["1"])
    assert given["lambda"] == ["0.1"]
    assert page.evaluate("history.length") <= 2
    assert page.evaluate("window.shifts") < 0.1


def test_sharing_and_saving(open_lab):
    """The menus by keyboard: a link with a locked and a hidden thing, a table, CSV and SVG; R moves λ."""
    page = open_lab(f"{LINE}&lambda=0.1")
    page.focus("[data-testid=share]")
    page.keyboard.press("Enter")
    page.click(".share-each summary")
    page.check("[aria-label='Lock λ']")
    page.check("[aria-label='Hide Every layer']")
    page.check("[aria-label='Hide λ']")  # one thing is either kept or left out
    assert not page.is_checked("[aria-label='Lock λ']")
    given = parse_qs(urlparse(page.input_value("[data-testid=share-link]")).query)
    assert given == {
        "study": ["toy"], "method": ["sarqc-gbs"], "bits": ["2"], "lambda": ["0.1"], "gamma": ["0.1"],
        "quantity": ["held_out"], "open": ["where,trade_off,steps,text,proof"],
        "hide": ["map,lambda"],
    }  # fmt: skip
    page.keyboard.press("Escape")
    assert page.locator("[data-testid=share-menu]").is_hidden()
    assert page.evaluate("document.activeElement.dataset.testid") == "share"

    page.focus("[data-testid=save-lab-deciles]")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # the first item, “Table”
    rows = page.locator("[data-testid=figure-table] tbody tr")
    rows.first.wait_for()
    assert rows.count() == 100  # γ × λ × deciles
    page.keyboard.press("Escape")
    with page.expect_download() as saved:
        page.click("[data-testid=save-lab-map]")
        page.click("#menu-lab-map [data-save=CSV]")
    lines = list(csv.DictReader(io.StringIO(Path(saved.value.path()).read_text())))
    assert len(lines) == 40  # layers × γ × λ
    with page.expect_download() as saved:
        page.click("[data-testid=save-lab-surfaces]")
        page.click("#menu-lab-surfaces [data-save=PNG]")
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    page.focus("[data-testid=radius]")
    words = page.get_attribute("[data-testid=radius]", "aria-valuetext")
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    assert page.get_attribute("[data-testid=radius]", "aria-valuetext") != words
    assert page.input_value("[data-testid=knob-lambda]") == "1"  # the least drift leaves one point


def test_share_and_what_a_link_locks_have_no_finding_of_any_level_in_either_theme(open_page):
    path = f"/?{LINE}&lock=lambda,bits&nonsense=1"
    page = open_page(path, color_scheme="light", reduced_motion="reduce")  # no colour is on its way to another
    page.wait_for_selector(".lab.is-open")
    assert "nonsense" in page.text_content("[data-testid=link-note]")
    page.wait_for_timeout(400)
    for theme in ("light", "dark"):
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        page.click("[data-testid=share]")
        assert findings(page) == [], theme
        page.keyboard.press("Escape")
        page.click("[data-testid=theme]")
        page.wait_for_timeout(200)


def test_a_link_for_a_purpose_is_seen_before_it_is_sent(open_page, open_lab):
    page = open_lab(f"{LINE}&lambda=0.1", height=900)
    page.click("[data-testid=share]")
    box = page.locator("[data-testid=share-menu]").bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 900
    page.click("[data-preset='Figure only']")
    address = page.input_value("[data-testid=share-link]")
    page.click("[data-testid=preview]")
    small = page.frame_locator(".share-preview iframe")
    small.locator("[data-plot=lab-hero] .plot-canvas svg.flat").wait_for()
    assert small.locator("[data-testid=sentence]").is_hidden()
    shown = open_page(urlparse(address).path + "?" + urlparse(address).query, width=600, height=500)
    hero = shown.locator("[data-plot=lab-hero]")
    hero.wait_for()
    shown.wait_for_selector(".lab.is-open")
    assert hero.bounding_box()["x"] == 8  # clear of the frame
    assert not shown.locator(".bar, [data-testid=sentence], [data-plot=lab-map], [data-control=play]").evaluate_all(
        "all => all.some((one) => one.checkVisibility())"
    )
