"""Each card of the pages beside its picture of before, in wide and narrow windows, light and dark.

A perceptual hash is compared, which changes where a figure or a layout does, hardly where a word does. The pictures
lie in ``build/golden``, to be looked at beside those of another state; ``SARQC_WRITE_GOLDEN=1`` writes the hashes.
"""

import io
import json
import os

import numpy as np
import pytest
from PIL import Image

from tests.browser.conftest import OPEN, ROOT, SMALL_RUN, running

HASHES = ROOT / "tests" / "golden" / "pictures.json"
PICTURES = ROOT / "build" / "golden"
WRITES = bool(os.environ.get("SARQC_WRITE_GOLDEN"))
CELLS = 16  # of a hash along each side
DIFFERENT = 26  # of its 256 bits: a tenth
STUDIES = ("tiny-llama", "tiny-moe", "smollm2")
STEPS = 10
CARDS = "[data-plot], .card, [data-testid=equation], [data-testid=sentence]"
DRAWN = """() => [...document.querySelectorAll("[data-plot]")].filter((card) => card.offsetParent !== null)
  .every((card) => card.dataset.drawn || card.querySelector(".is-empty"))"""
NAME = (
    "(card) => card.dataset.plot ?? card.dataset.testid ?? card.dataset.part ?? card.dataset.control ?? card.className"
)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """The app with the shipped studies, and the id of a finished run."""
    with running(tmp_path_factory.mktemp("shipped")) as app:
        yield app, app.run(SMALL_RUN)["id"]


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_cards_look_as_they_did(shipped, open_page, width, scheme):
    app, run = shipped
    seen = {}

    def opened(path):
        return open_page(path, of=app, width=width, height=900, color_scheme=scheme)

    def keep(page, place):
        page.wait_for_timeout(500)
        page.wait_for_function(DRAWN)
        page.mouse.move(0, 0)
        for card in page.locator(CARDS).all():
            box = card.bounding_box()
            if box is None or min(box["width"], box["height"]) < CELLS:
                continue
            name = f"{place}, {card.evaluate(NAME)}"
            image = Image.open(io.BytesIO(card.screenshot(animations="disabled")))
            folder = PICTURES / f"{width}-{scheme}"
            folder.mkdir(parents=True, exist_ok=True)
            image.save(folder / f"{name.replace('/', '-')}.png")
            seen.setdefault(f"{width} {scheme} {name}", hash_of(image))

    for study in STUDIES:
        page = opened(f"/?study={study}&lambda=0.1&{OPEN}")
        page.wait_for_selector("#content.is-open")
        page.wait_for_selector("[data-plot=lab-hero] svg.flat")
        keep(page, f"Lab, {study}")
    page = opened("/learn")
    for number in range(1, STEPS + 1):
        page.get_by_test_id(f"step-{number}").wait_for()
        keep(page, f"Learn, {number}")
        if number < STEPS:
            page.get_by_test_id("next").click()
    page = opened("/calibrate")
    page.get_by_test_id("plan").get_by_text("Bits per weight").wait_for()
    keep(page, "Calibrate")
    page = opened(f"/calibrate?run={run}")
    page.wait_for_selector("[data-testid=report]")
    keep(page, "run")
    page = opened("/runs")
    page.wait_for_selector("[data-testid=runs] tbody tr")
    keep(page, "Runs")

    known = json.loads(HASHES.read_text()) if HASHES.exists() else {}
    mine = {name: value for name, value in known.items() if name.startswith(f"{width} {scheme} ")}
    if WRITES:
        others = {name: value for name, value in known.items() if name not in mine}
        HASHES.write_text(json.dumps(others | seen, indent=1, sort_keys=True) + "\n")
        mine = seen
    assert seen.keys() == mine.keys()
    far = {name: bits for name, value in seen.items() if (bits := distance(value, mine[name])) > DIFFERENT}
    assert far == {}


def hash_of(image: Image.Image) -> str:
    """Return the difference hash of a picture: for each cell, whether the next one is brighter."""
    small = np.asarray(image.convert("L").resize((CELLS + 1, CELLS), Image.Resampling.BOX), dtype=int)
    return np.packbits(small[:, 1:] > small[:, :-1] + 1).tobytes().hex()


def distance(one: str, other: str) -> int:
    """Return the number of bits in which two hashes differ."""
    return (int(one, 16) ^ int(other, 16)).bit_count()


def test_a_hash_sees_a_curve_and_not_a_word():
    curve = 255 * (1 + np.sin(np.linspace(0, 12, 320) + np.linspace(0, 3, 160)[:, None])) / 2
    word = curve.copy()
    word[70:78, 100:130] = 255 - word[70:78, 100:130]
    drawn, written, moved = (hash_of(Image.fromarray(each.astype(np.uint8))) for each in (curve, word, curve[:, ::-1]))
    assert distance(drawn, written) <= DIFFERENT < distance(drawn, moved)
