"""The real app in a process of its own, and a real Chromium that is watched: every request, every complaint.

``page`` fails its test when a request left this machine or when the console had an error, whatever the test looked at.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
import pytest

from tests.synthetic_study import write_mixture, write_study

ROOT = Path(__file__).resolve().parents[2]
# The shell draws no window of its own, which halves what a page costs. None: Playwright's own.
CHROMIUM = os.environ.get("SARQC_CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--disable-gpu-compositing",  # by SwiftShader it takes more than all else
    "--disable-gpu-rasterization",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"  # an accessibility checker, as a script
START_SECONDS = 120
TOKENS = np.array([[[40, 0, 9, 64], [30, 20, 3, 12]]])  # of the made-up mixture: draw, block, expert
SMALL_RUN = {
    "model": "tiny-llama", "bits": 2, "method": "rqc-gbs", "lambda": 0.1, "calibration": "tiny-llama-calibration",
    "samples": 2, "length": 64, "held_out_samples": 2, "test": "tiny-llama-test", "baseline": False,
    "test_tokens": 1024, "sweep": [0, 0.1, 1],
}  # fmt: skip


SHARED = []  # the app of the package, once it is started


@pytest.hookimpl(tryfirst=True)  # before tests are left out by their marks
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker("browser")


class App:
    """Where the app is, and its REST interface from the outside."""

    def __init__(self, url, state):
        self.url, self.state = url, state

    def json(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/api{path}", data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            text = response.read()
        return json.loads(text) if text else None

    def finished(self, run_id, seconds=200):
        """The run once it is finished; any other ending fails the test."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            run = self.json(f"/runs/{run_id}")
            if run["state"] == "finished":
                return run
            assert run["state"] in ("queued", "running"), run["error"]
            time.sleep(0.3)
        raise AssertionError(f"run {run_id} is not finished after {seconds} s")

    def run(self, recipe):
        """A finished run of a recipe."""
        return self.finished(self.json("/runs", recipe)["id"])

    def stop_all(self):
        """Cancels all runs that wait or work, and returns when they have ended."""
        while active := [
            run["id"] for run in self.json("/runs")["runs"] if run["state"] in ("queued", "running", "cancelling")
        ]:
            for run_id in active:
                with suppress(urllib.error.HTTPError):  # it has ended by itself
                    self.json(f"/runs/{run_id}/cancel", method="POST")
            time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def running(state: Path, **settings: str) -> Iterator[App]:
    """The app in a process of its own, with further settings of its environment."""
    port = _free_port()
    log = (state / "app.log").open("w")
    own = {"SARQC_PORT": str(port), "SARQC_STATE_DIR": str(state), "SARQC_HOST": "127.0.0.1"}
    environment = {**os.environ, **own, **settings}
    process = subprocess.Popen(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT
    )
    app = App(f"http://127.0.0.1:{port}", state)
    try:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"{app.url}/healthz", timeout=30).close()
                break
            except (urllib.error.URLError, ConnectionError):
                if process.poll() is not None or time.monotonic() > end:
                    pytest.fail(f"the app did not start:\n{(state / 'app.log').read_text()[-2000:]}")
                time.sleep(0.2)
        yield app
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
        log.close()


@pytest.fixture(scope="package")
def app(tmp_path_factory):
    """The app with made-up studies: “toy”, “chosen” with lines of “auto” and three γ, “mixture” with experts."""
    state = tmp_path_factory.mktemp("state")
    write_study(state / "studies" / "toy")
    write_study(state / "studies" / "chosen", auto=True, sizes=True, gammas=(0.1, 0.5, 1.0))
    write_mixture(state / "studies" / "mixture", tokens=TOKENS)
    with running(state) as started:
        SHARED.append(started)
        yield started
        SHARED.remove(started)


@pytest.fixture(autouse=True, scope="module")
def nothing_left():
    """What a file began and does not need ends with it: runs of the next file would wait behind it."""
    yield
    for each in SHARED:
        each.stop_all()


@pytest.fixture(scope="package")
def small_run(app):
    """A finished run of ``SMALL_RUN``."""
    return app.run(SMALL_RUN)


@pytest.fixture(scope="package")
def browser():
    """A headless Chromium; tests are skipped with the reason where none starts.

    It ends with this folder: while it lives, Playwright keeps an event loop in the main thread, and no other can run.
    """
    playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright_api.sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        except playwright_api.Error as error:
            pytest.skip(f"Chromium does not start: {str(error).splitlines()[0]}")
        yield chromium
        chromium.close()


OPEN = "open=where,trade_off,steps,text,proof"  # of the Lab's address: all its parts


def all_settings(page):
    """Opens the fold of the form of Calibrate, which has all but its first questions."""
    fold = page.locator("[data-testid=advanced]")
    if fold.get_attribute("aria-expanded") != "true":
        fold.click()


def figure_menu(page, name: str):
    """Opens the menu of a figure of the Lab, which has its settings."""
    if not page.locator(f"#menu-lab-{name}").is_visible():
        page.click(f"[data-testid=save-lab-{name}]")
    return page.locator(f"#menu-lab-{name}")


class Watch:
    """What a page asked for and complained about."""

    def __init__(self):
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.expected: list[str] = []  # parts of complaints that the test provokes

    def attach(self, page):
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))

    def foreign(self, own):
        host = urlparse(own).netloc
        return [
            url for url in self.requests if urlparse(url).scheme.startswith("http") and urlparse(url).netloc != host
        ]

    def unexpected(self):
        return [text for text in self.complaints if not any(part in text for part in self.expected)]


# Adds up by how much things on the page moved without having been asked to.
SHIFTS = """
window.shifts = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


def findings(page) -> list[str]:
    """What an accessibility checker says of a page that is whole, of any level: the content that its link leads to is
    the last to come."""
    page.wait_for_function("!document.querySelector('a.skip') || document.querySelector('#content')")
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations)")
    return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]


@contextmanager
def watched(browser) -> Iterator[Callable[..., Any]]:
    """Opens watched pages, each in a context of its own, of which none may complain."""
    opened = []

    def make(address: str, *, width: int = 1280, height: int = 800, script: str = "", **options):
        options = {"reduced_motion": "reduce"} | options  # what changes is there at once, unless motion is the question
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(30_000)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        page.watch = Watch()
        page.watch.attach(page)
        opened.append((context, page.watch))
        page.goto(address)
        return page

    yield make
    for context, watch in opened:
        context.close()
        assert watch.unexpected() == []


@pytest.fixture
def open_page(app, browser):
    """Opens watched pages of the app of the package or ``of`` another; checks what they asked for at the end."""
    opened = []

    with watched(browser) as make:

        def made(path="/", *, of=app, **options):
            page = make(of.url + path, **options)
            opened.append((page.watch, of.url))
            return page

        yield made
    for watch, url in opened:
        assert watch.foreign(url) == []


@pytest.fixture
def open_form(open_page):
    """Opens Calibrate, and all settings of its form once it can begin a run."""

    def made(path="/calibrate", **options):
        page = open_page(path, **options)
        page.wait_for_selector("[data-testid=start]:enabled")
        all_settings(page)
        return page

    return made


@pytest.fixture
def open_lab(open_page):
    """Opens the Lab at a line of a study, with all its parts, once a figure is drawn."""

    def made(query="study=toy&method=sarqc-gbs&bits=2&lambda=0.1&gamma=0.1", *, drawn="map", **options):
        page = open_page(f"/?{query}&{OPEN}", **options)
        page.wait_for_selector(".lab.is-open")
        page.wait_for_selector(f'[data-plot="lab-{drawn}"][data-drawn]')
        return page

    return made


def drag(page, place: tuple[float, float], by: tuple[float, float]):
    """Presses the mouse at a place, moves it, and lets it go."""
    page.mouse.move(*place)
    page.mouse.down()
    page.mouse.move(place[0] + by[0], place[1] + by[1], steps=6)
    page.mouse.up()


def inside(locator, across: float = 0.5, down: float = 0.5) -> tuple[float, float]:
    """A place in an element, by shares of its width and height."""
    box = locator.bounding_box()
    return box["x"] + across * box["width"], box["y"] + down * box["height"]
