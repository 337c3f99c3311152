"""How fast the Lab answers: milliseconds from a step of λ to its frame, and from the address to the first picture;
and what it keeps in use.

python -m benchmarks.bench_page [URL] [--minutes M]

Without an address the app is started for it. Milliseconds mean something on a quiet machine only. With minutes the Lab
is then used at random for so long, and its heap after a collection is printed once a minute.
"""

import argparse
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measured import Figure
from tests.browser.conftest import ARGUMENTS, CHROMIUM, ROOT, figure_menu
from tests.browser.probe import STEPS, median_and_high

LOADS = 5
IDLE_SECONDS = 60.0
# The sentence comes with the document; “hero” and “surfaces” are the figures.
FIRST = """
window.first = {};
(function look() {
  if (document.querySelector('.skeleton .sentence, [data-part=sentence]')?.textContent)
    first.sentence ??= performance.now();
  for (const name of ['hero', 'surfaces']) {
    if (document.querySelector(`[data-plot="lab-${name}"]`)?.dataset.drawn) first[name] ??= performance.now();
  }
  if (!first.surfaces) requestAnimationFrame(look);
})();
"""


@contextmanager
def serving(state: Path | None = None, **settings: str) -> Iterator[tuple[str, int]]:
    """The app on a port of its own, with an empty state where none is given: its address and its process."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    with tempfile.TemporaryDirectory() as empty:
        own = {"SARQC_PORT": str(port), "SARQC_STATE_DIR": str(state or empty), "SARQC_HOST": "127.0.0.1"}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=os.environ | own | settings, **quiet)
        try:
            while process.poll() is None:
                try:
                    urllib.request.urlopen(f"{url}api/health", timeout=5).close()
                    break
                except (urllib.error.URLError, ConnectionError):
                    time.sleep(0.2)
            yield url, process.pid
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def served() -> Iterator[str]:
    """The address of the app with an empty state."""
    with serving() as (url, _):
        yield url


def idle() -> Iterator[Figure]:
    """The share of a core that the app takes with nothing to do, over a minute."""
    with serving() as (url, pid):
        urllib.request.urlopen(url, timeout=60).close()
        process = psutil.Process(pid)
        time.sleep(IDLE_SECONDS / 4)
        before, began = sum(process.cpu_times()[:2]), time.monotonic()
        time.sleep(IDLE_SECONDS)
        share = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)
    yield Figure("of a core, the share of an app with nothing to do", 100 * share, "%", 0.5)


def measure(browser: Any, url: str) -> Iterator[tuple[str, float]]:
    """What was looked at, and its milliseconds."""
    for name in ("empty cache", "warm cache"):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        found: list[dict[str, float]] = []
        for _ in range(LOADS):
            if name == "empty cache":
                context.close()
                context = browser.new_context(viewport={"width": 1280, "height": 800})
            page = context.new_page()
            page.add_init_script(FIRST)
            page.goto(url)
            page.wait_for_function("first.surfaces")
            found.append(page.evaluate("first"))
            page.close()
        context.close()
        for part in found[0]:
            yield f"{name}, from the address to {part}", median_and_high([one[part] for one in found])[0]
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(url)
    page.wait_for_selector('[data-plot="lab-surfaces"][data-drawn]')
    page.wait_for_timeout(2000)
    for pause in (150, 0):
        times = page.evaluate(STEPS, {"steps": 200, "pause": pause})
        for name in ("handler", "line", "surface"):
            middle, high = median_and_high(times[name])
            steps = f"200 steps of λ {pause} ms apart, {name}"
            yield f"{steps}, median", middle
            yield f"{steps}, 95 % within", high
    page.close()


def watch_heap(browser: Any, url: str, minutes: float) -> None:
    """Keys, layers, quantities and drawings at random, the same each time; what is alive after each minute."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{url}?open=where,trade_off")
    page.wait_for_selector('[data-plot="lab-surfaces"][data-drawn]')
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    chance, start, steps, told = random.Random(1), time.monotonic(), 0, 0
    while time.monotonic() - start < minutes * 60:
        for _ in range(15):
            page.keyboard.press(chance.choice(["ArrowLeft", "ArrowRight"]))
            page.wait_for_timeout(60)
            steps += 1
        kind = chance.random()
        if kind < 0.3:
            page.select_option("[data-testid=pick-layer]", chance.choice(["all", "3", "12", "27"]))
        elif kind < 0.45:
            page.select_option("[data-testid=pick-quantity]", chance.choice(["held_out", "recon", "drift"]))
        elif kind < 0.55:
            for card, name in (("surfaces", "flat"), ("surfaces_flat", "surface")):
                figure_menu(page, card).locator(f"[data-drawing={name}]").click()
                page.keyboard.press("Escape")
                page.wait_for_timeout(300)
        page.wait_for_timeout(500)
        if time.monotonic() - start >= 60 * (told + 1):
            told += 1
            session.send("HeapProfiler.collectGarbage")
            counts = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
            heap = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
            print(
                f"{told} min, {steps} steps: heap {heap:.2f} MB, {counts['Nodes']:.0f} nodes, "
                f"{counts['JSEventListeners']:.0f} listeners",
                flush=True,
            )
    page.close()


if __name__ == "__main__":
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--minutes", type=float, default=0.0)
    wanted = parser.parse_args()
    with sync_playwright() as playwright, nullcontext(wanted.url) if wanted.url else served() as address:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        for what, milliseconds in measure(chromium, address):
            print(f"{what}\t{milliseconds:.2f}\tms", flush=True)
        if wanted.minutes:
            watch_heap(chromium, address, wanted.minutes)
        chromium.close()
