"""How fast the Lab answers: milliseconds from a step of λ to its frame, and from the address to the first picture.

python -m tests.benchmarks.bench_page [URL]

Without an address the app is started for it. Milliseconds mean something on a quiet machine only.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.browser.conftest import ARGUMENTS, CHROMIUM, ROOT
from tests.browser.probe import STEPS, median_and_high

LOADS = 5
FIRST = """
window.first = {};
(function look() {
  if (document.querySelector('[data-part=sentence]')?.textContent) first.sentence ??= performance.now();
  for (const name of ['hero', 'surfaces']) {
    if (document.querySelector(`[data-plot="lab-${name}"]`)?.dataset.drawn) first[name] ??= performance.now();
  }
  if (!first.surfaces) requestAnimationFrame(look);
})();
"""


@contextmanager
def served() -> Iterator[str]:
    """The app on a port of its own, with an empty state."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    with tempfile.TemporaryDirectory() as state:
        own = {"SARQC_PORT": str(port), "SARQC_STATE_DIR": state, "SARQC_HOST": "127.0.0.1"}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=os.environ | own, **quiet)
        try:
            while process.poll() is None:
                try:
                    urllib.request.urlopen(f"{url}api/health", timeout=5).close()
                    break
                except (urllib.error.URLError, ConnectionError):
                    time.sleep(0.2)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def measure(browser: Any, url: str) -> None:
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
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
        texts = [f"{part} {median_and_high([one[part] for one in found])[0]:.0f} ms" for part in found[0]]
        print(f"{name}, from the address to: {', '.join(texts)}")
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(url)
    page.wait_for_selector('[data-plot="lab-surfaces"][data-drawn]')
    page.wait_for_timeout(2000)
    for pause in (150, 0):
        times = page.evaluate(STEPS, {"steps": 200, "pause": pause})
        for name in ("handler", "line", "surface"):
            middle, high = median_and_high(times[name])
            print(f"200 steps {pause} ms apart, {name}: median {middle:.1f} ms, 95 % within {high:.1f} ms")


if __name__ == "__main__":
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        if len(sys.argv) > 1:
            measure(chromium, sys.argv[1])
        else:
            with served() as address:
                measure(chromium, address)
        chromium.close()
