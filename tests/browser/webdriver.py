"""Firefox and WebKit by the commands of WebDriver: Firefox takes them on a socket of its own (Marionette), WebKit from
the program WebKitWebDriver over HTTP.

Playwright drives only builds of its own of these two browsers; these are the builds that people have.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_SECONDS, WAIT_SECONDS = 60.0, 60.0
KEYS = {"ArrowLeft": "\ue012", "ArrowRight": "\ue014", "Enter": "\ue007"}
SIZE = {"width": 1280, "height": 900}
# To be put first into the head of a page: keeps all that goes wrong in it, whichever browser it is.
LISTENER = """<script>
document.documentElement.dataset.complaints = "[]";
const complain = (text) => {
  const { dataset } = document.documentElement;
  dataset.complaints = JSON.stringify([...JSON.parse(dataset.complaints), String(text)]);
};
addEventListener("error", ({ message, target }) => complain(message ?? target.outerHTML), true);
addEventListener("unhandledrejection", ({ reason }) => complain(reason));
addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
  complain(`${violatedDirective} ${blockedURI}`));
console.error = (...words) => complain(words.join(" "));
</script>"""


def _key_actions(key: str) -> list[dict[str, Any]]:
    value = KEYS[key]
    steps = [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
    return [{"type": "key", "id": "keyboard", "actions": steps}]


class Firefox:
    """Over Marionette: each message is its length, a colon, and a JSON list."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS)
        self._number, self._rest = 0, b""
        self._message()  # its greeting
        self._command("WebDriver:NewSession")
        self._command("WebDriver:SetWindowRect", **SIZE)

    def _message(self) -> Any:
        while b":" not in self._rest:
            self._rest += self._received()
        size, _, self._rest = self._rest.partition(b":")
        while len(self._rest) < int(size):
            self._rest += self._received()
        text, self._rest = self._rest[: int(size)], self._rest[int(size) :]
        return json.loads(text)

    def _received(self) -> bytes:
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError("Firefox has ended")
        return data

    def _command(self, name: str, **values: Any) -> Any:
        self._number += 1
        text = json.dumps([0, self._number, name, values]).encode()
        self._socket.sendall(b"%d:%s" % (len(text), text))
        _, number, error, answer = self._message()
        assert number == self._number
        assert error is None, f"{name}: {error}"
        return answer["value"] if isinstance(answer, dict) and "value" in answer else answer

    def open(self, address: str) -> None:
        self._command("WebDriver:Navigate", url=address)

    def run(self, script: str, *values: Any) -> Any:
        return self._command("WebDriver:ExecuteScript", script=script, args=values)

    def press(self, key: str) -> None:
        self._command("WebDriver:PerformActions", actions=_key_actions(key))


class WebKit:
    """Over HTTP."""

    def __init__(self, port: int, program: str) -> None:
        self._address = f"http://127.0.0.1:{port}"
        options = {"binary": program, "args": ["--automation"]}
        capabilities = {"alwaysMatch": {"webkitgtk:browserOptions": options}}
        session = self._command("POST", "/session", {"capabilities": capabilities})["sessionId"]
        self._address += f"/session/{session}"
        self._command("POST", "/window/rect", SIZE)

    def _command(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
                return json.loads(response.read())["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from None

    def open(self, address: str) -> None:
        self._command("POST", "/url", {"url": address})

    def run(self, script: str, *values: Any) -> Any:
        return self._command("POST", "/execute/sync", {"script": script, "args": values})

    def press(self, key: str) -> None:
        self._command("POST", "/actions", {"actions": _key_actions(key)})

    def close(self) -> None:
        self._command("DELETE", "")


Browser = Firefox | WebKit


def wait(browser: Browser, condition: str, *values: Any) -> Any:
    """Waits until an expression in the page is true, and returns it."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        if answer := browser.run(f"return {condition};", *values):
            return answer
        time.sleep(0.1)
    raise AssertionError(f"not true after {WAIT_SECONDS:g} s: {condition}")


def complaints(browser: Browser) -> list[str]:
    """What went wrong in a page with ``LISTENER`` since it was opened."""
    return json.loads(browser.run("return document.documentElement.dataset.complaints"))


@contextmanager
def _process(command: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a group of its own, all of which ends with the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            env=os.environ | environment,
        )  # fmt: skip
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _begun(made: Callable[[], Any], process: subprocess.Popen[bytes], log: Path) -> Any:
    """What ``made`` returns once the program is ready for it."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            return made()
        except (OSError, ValueError):
            said = log.read_text(errors="replace")[-2000:]
            assert process.poll() is None, f"it has ended: {said}"
            assert time.monotonic() < end, f"it does not start: {said}"
            time.sleep(0.1)


@contextmanager
def firefox(folder: Path) -> Iterator[Firefox]:
    """A headless Firefox with a new profile."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    profile = folder / "profile"
    profile.mkdir()
    quiet = {
        "marionette.port": 0, "app.normandy.enabled": False, "app.update.disabledForTesting": True,
        "browser.shell.checkDefaultBrowser": False, "datareporting.policy.dataSubmissionEnabled": False,
        "network.captive-portal-service.enabled": False, "network.connectivity-service.enabled": False,
        "services.settings.server": "data:,", "toolkit.telemetry.enabled": False, "ui.prefersReducedMotion": 1,
    }  # fmt: skip
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in quiet.items()]
    (profile / "user.js").write_text("\n".join(lines))
    log, port = folder / "firefox.log", profile / "MarionetteActivePort"
    command = [program, "--headless", "--marionette", "--profile", str(profile)]
    with _process(command, log, HOME=str(folder), MOZ_CRASHREPORTER_DISABLE="1") as process:
        yield _begun(lambda: Firefox(int(port.read_text())), process, log)


@contextmanager
def webkit(folder: Path) -> Iterator[WebKit]:
    """WebKit's own small browser, on a screen that nobody sees."""
    program, screen, log = _mini_browser(), folder / "screen", folder / "webkit.log"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    shown = ["sh", "-c", 'exec Xvfb -displayfd 3 -screen 0 1400x1000x24 -nolisten tcp 3>"$0"', str(screen)]
    with _process(shown, folder / "xvfb.log") as server:
        display = _begun(lambda: int(screen.read_text()), server, folder / "xvfb.log")
        environment = {
            "DISPLAY": f":{display}", "GDK_BACKEND": "x11", "GSETTINGS_BACKEND": "memory", "NO_AT_BRIDGE": "1",
            "LIBGL_ALWAYS_SOFTWARE": "1", "WEBKIT_DISABLE_DMABUF_RENDERER": "1", "HOME": str(folder),
        }  # fmt: skip
        with _process(["WebKitWebDriver", f"--port={port}"], log, **environment) as driver:
            browser: WebKit = _begun(lambda: WebKit(port, program), driver, log)
            try:
                yield browser
            finally:
                browser.close()


def _mini_browser() -> str | None:
    folders = sorted(Path("/usr").glob("lib*/*/webkit2gtk-4.*/MiniBrowser")) + sorted(
        Path("/usr").glob("lib*/webkit2gtk-4.*/MiniBrowser")
    )
    return str(folders[-1]) if folders else None


def absent(name: str) -> str | None:
    """What of a browser is not installed, with the package that has it; None for nothing."""
    if name == "firefox":
        there = shutil.which("firefox-esr") or shutil.which("firefox")
        return None if there else "Firefox is not installed (firefox-esr of Debian)"
    missing = [tool for tool in ("WebKitWebDriver", "Xvfb") if shutil.which(tool) is None]
    missing += [] if _mini_browser() else ["MiniBrowser"]
    return f"not installed: {', '.join(missing)} (webkit2gtk-driver and xvfb of Debian)" if missing else None
