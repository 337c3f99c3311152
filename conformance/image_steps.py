"""The steps of the image, run without Docker: ``python -m conformance.image_steps [--install]``, some minutes.

Each instruction of the Dockerfile is done in an empty folder as far as this host lets it be, by another user where this
one is root; what is not done is said. Then the image's command is started, asked by its health check, ended as Docker
ends it in the midst of a run, killed in the midst of it, and started again: the run must end.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tests.images import ROOT, Instruction, context, environment, instructions

USER = 1000  # as in the image
STOP_SECONDS = 10  # that Docker gives
RUN = {
    "model": "tiny-llama", "bits": 2, "method": "sarqc-gbs", "lambda": "auto", "gamma": "auto",
    "calibration": "tiny-llama-calibration", "samples": 32, "length": 256, "test": "tiny-llama-test",
    "baseline": False, "test_tokens": 1024,
}  # fmt: skip


class Image:
    """A folder that stands for the root of a container."""

    def __init__(self, root: Path, steps: list[Instruction], install: bool) -> None:
        self.root, self.steps, self.install = root, steps, install
        self.as_user: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        self.environment = {"PATH": os.environ["PATH"], "HOME": self.inside("/home/user")}
        (root / "home" / "user").mkdir(parents=True)
        self.give(root)

    def inside(self, text: str) -> str:
        """Paths of the image as paths of this host."""
        return text.replace("/home/user", f"{self.root}/home/user")

    def give(self, folder: Path) -> None:
        if self.as_user:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, USER, USER)

    def do(self, step: Instruction) -> str:
        """Does an instruction; returns what came of it, in words."""
        match step.name:
            case "RUN" if "apt-get" in step.text:
                return "not run: it would change this host" + ("" if shutil.which("tini") else ", which lacks tini")
            case "RUN" if "useradd" in step.text:
                return f"not run: it would change this host; user {USER} is taken"
            case "RUN" if "pip install" in step.text:
                return self.pip(step)
            case "RUN" if "fetch_models" in step.text:
                return "not run: make pretrained does the same"
            case "RUN":
                subprocess.run(self.inside(step.text), shell=True, check=True, **self.as_user)
                return "run"
            case "COPY":
                app = Path(self.inside("/home/user/app"))
                app.mkdir(exist_ok=True)
                named = [ROOT / word for word in step.text.split()[:-1] if not word.startswith("--")]
                for source in context() if step.text.endswith(". .") else named:
                    if source.is_dir():
                        shutil.copytree(source, app / source.name, ignore=shutil.ignore_patterns("__pycache__"))
                    else:
                        shutil.copy(source, app)
                self.give(app)
                return "copied"
            case "ENV":
                told = {name: self.inside(value) for name, value in environment([step]).items()}
                self.environment |= {name: value.replace("$PATH", os.environ["PATH"]) for name, value in told.items()}
                return "set"
        return "read"

    def pip(self, step: Instruction) -> str:
        """Finds and downloads nothing but lists, unless everything is to be installed."""
        texts = {one.text.partition("=")[0]: one.text.partition("=")[2] for one in self.steps if one.name == "ARG"}
        command = step.text.replace("pip install", f"{sys.executable} -m pip install -q")
        if not self.install:
            command = command.replace("pip install", "pip install --dry-run").replace("--user", "--no-deps")
        folder = self.inside("/home/user/app") if "requirements" in step.text else str(ROOT)
        done = subprocess.run(command, shell=True, cwd=folder, env=os.environ | texts, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return "run" if self.install else "run as --dry-run: every version is there to be had"

    def command(self, name: str) -> list[str]:
        """The words of an instruction, with a Python of this host that the user may run."""
        words = next(step for step in self.steps if step.name == name).words()
        return [python() if word == "python" else word for word in words]

    def start(self, port: int) -> subprocess.Popen[bytes]:
        own = self.environment | {
            "SARQC_PORT": str(port), "PYTHONPATH": libraries(self.root), "HF_HUB_OFFLINE": "1",
            "SARQC_ACCESS": "open", "SARQC_STRANGERS": "runner", "SARQC_HOSTS": "127.0.0.1",
        }  # fmt: skip
        log = (self.root / "app.log").open("ab")
        return subprocess.Popen(
            [*self.command("ENTRYPOINT"), *self.command("CMD")], cwd=self.inside("/home/user/app"), env=own, stdout=log,
            stderr=log, start_new_session=True, umask=0o022, **self.as_user,
        )  # fmt: skip

    def is_healthy(self, port: int) -> bool:
        asked = self.environment | {"SARQC_PORT": str(port)}
        return (
            subprocess.run(self.command("HEALTHCHECK"), env=asked, capture_output=True, **self.as_user).returncode == 0
        )


def python() -> str:
    """An interpreter of this one's version that everybody may run."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return f"/usr/bin/{name}" if Path(f"/usr/bin/{name}").exists() else sys.executable


def libraries(root: Path) -> str:
    """Where the libraries of this environment are, which stand for those that the image would install."""
    return next(path for path in sys.path if path.endswith("site-packages"))


def asked(port: int, path: str, body: Any = None, jar: dict[str, str] | None = None) -> Any:
    """An answer of the app, to one and the same guest."""
    jar = {} if jar is None else jar
    headers = {"Content-Type": "application/json", "Cookie": "; ".join(jar.values())}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api{path}", data, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        if cookie := answer.headers.get("Set-Cookie"):
            jar["cookie"] = cookie.partition(";")[0]
        return json.load(answer)


def until(condition: Callable[[], Any], seconds: float = 300) -> Any:
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)
    return answer


def main() -> None:
    steps = instructions(ROOT / "Dockerfile")
    root = Path(tempfile.mkdtemp(prefix="sarqc-image-"))
    root.chmod(0o755)
    image = Image(root, steps, "--install" in sys.argv)
    for step in steps:
        print(f"{step.name:<12}{image.do(step):<55}{step.text[:60]}", flush=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    jar: dict[str, str] = {}
    process = image.start(port)
    try:
        until(lambda: image.is_healthy(port))
        print("healthy, as user", USER if image.as_user else os.getuid())
        run_id = asked(port, "/runs", RUN, jar)["id"]

        def run() -> Any:
            return asked(port, f"/runs/{run_id}", jar=jar)

        def is_past(layers: int) -> bool:
            return run()["state"] == "running" and run()["progress"]["done"] > layers

        for layers, number in {2: signal.SIGTERM, 9: signal.SIGKILL}.items():
            until(partial(is_past, layers))
            began = time.monotonic()
            if number is signal.SIGTERM:
                process.send_signal(number)
                assert process.wait(STOP_SECONDS) in (0, 128 + number, -number)
            else:
                for one in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
                    one.kill()  # with the first of a container all go
                process.wait()
            print(f"{number.name}: ended within {time.monotonic() - began:.1f} s; started again")
            process = image.start(port)
            until(lambda: image.is_healthy(port))
        until(lambda: run()["state"] not in ("queued", "running"))
        assert (run()["state"], run()["attempt"]) == ("finished", 3), run()["error"]
        print(f"the run ended in attempt {run()['attempt']}, with perplexity {run()['summary']['perplexity']:.4f}")
        state = Path(image.environment["SARQC_STATE_DIR"])
        assert {path.stat().st_uid for path in state.rglob("*")} == {USER if image.as_user else os.getuid()}
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
