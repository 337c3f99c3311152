"""Each card of a published site beside the same card of the app: the same pictures, in windows of the same size.

By design the site lacks what needs a server: *Use these settings*, *Compute here*, and
the links to Calibrate and Runs.
"""

import io
import os
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sarqc.web.page_names import DOORS
from tests.browser.conftest import OPEN, running, watched
from tests.extras.publish.sites import host_of_two, served_site

pytestmark = pytest.mark.thorough

STEP, SHARE = 24, 0.001  # of 255 in a colour, and of all pixels: how many may differ by more
NEEDS_A_SERVER = ".lab [data-part=use], .lab [data-part=compute] { display: none !important; }"
CARDS = """() => [...document.querySelectorAll("[data-plot]")].filter((card) => card.offsetParent !== null)
  .map((card) => card.dataset.plot)"""
DRAWN = """() => [...document.querySelectorAll("[data-plot]")].filter((card) => card.offsetParent !== null)
  .every((card) => card.dataset.drawn || card.querySelector(".is-empty"))"""
STOPS = 10
NO_LADDER = 9  # the stop that this study has no answer for


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Addresses of an app and of a site with the same studies."""
    folder = tmp_path_factory.mktemp("host")
    host = host_of_two(folder / "app", tour=True)
    state = tmp_path_factory.mktemp("state")
    with served_site(tmp_path_factory.mktemp("www"), folder / "site") as site:
        own = {"SARQC_ASSETS_DIR": os.fspath(host.assets_dir)}
        with running(state, **own) as app:
            yield f"{app.url}/", site


@pytest.fixture
def pages(browser, both):
    """Opens a page of each, in windows of one size."""
    with watched(browser) as make:

        def made(paths, width):
            opened = [make(root + path, width=width, height=900) for root, path in zip(both, paths, strict=True)]
            for page in opened:
                page.add_style_tag(content=NEEDS_A_SERVER)
            return opened

        yield made


def pixels(locator) -> np.ndarray:
    image = Image.open(io.BytesIO(locator.screenshot(animations="disabled")))
    return np.asarray(image.convert("RGB"), dtype=int)


def compare(name: str, places: list[Any]) -> str | None:
    """What differs between two elements; None for nothing."""
    ours, theirs = map(pixels, places)
    if ours.shape != theirs.shape:
        return f"{name}: {ours.shape[1::-1]} in the app, {theirs.shape[1::-1]} in the site"
    share = float((np.abs(ours - theirs).max(axis=-1) > STEP).mean())
    return None if share <= SHARE else f"{name}: {share:.2%} of its pixels"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("study", ["small", "steps"])
def test_the_cards_of_the_lab(pages, study, width):
    query = f"lambda=0.1&{OPEN}"
    opened = pages((f"?study={study}&{query}", f"{study}/?{query}"), width)
    for page in opened:
        page.wait_for_selector("#content.is-open")
        page.wait_for_selector("[data-plot=lab-hero] svg.flat")
        page.wait_for_timeout(300)
        page.wait_for_function(DRAWN)
    names = [page.evaluate(CARDS) for page in opened]
    assert names[0] == names[1]
    assert len(names[0]) > (4 if study == "steps" else 7)
    assert len({page.inner_text("[data-testid=sentence]") for page in opened}) == 1
    places = [f"[data-plot={name}]" for name in names[0]]
    places += [
        f"[data-{name}]" for name in ("testid=equation", "testid=sentence", "control=numbers", "control=measured")
    ]
    places += [f"[data-door={name}]" for name in DOORS]
    differences = [
        compare(place, [page.locator(place).first for page in opened])
        for place in places
        if opened[0].locator(place).first.is_visible()
    ]
    assert [found for found in differences if found] == []


def test_the_stops_of_learn(pages):
    opened = pages(("learn", "learn/"), 1280)
    differences = []
    for number in range(1, STOPS + 1):
        places = [page.get_by_test_id(f"step-{number}") for page in opened]
        for page, place in zip(opened, places, strict=True):
            place.wait_for()
            page.mouse.move(0, 0)
            if number != NO_LADDER:
                place.get_by_test_id("show").click()
                place.locator("[data-testid=answer] >> text=/./").first.wait_for()
            page.wait_for_timeout(300)
            page.mouse.move(0, 0)
        differences.append(compare(f"stop {number}", places))
        for page in opened if number < STOPS else ():
            page.get_by_test_id("next").click()
    assert [found for found in differences if found] == []
