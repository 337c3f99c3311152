"""The real app in its own process: ``python -m conformance.torture.served FOLDER EXECUTE SETTINGS``.

Models, texts and the plan are the real ones; what a worker runs is named, and pages are there where they are asked for.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import requests

from sarqc.settings import SITE, Settings
from tests.jobs.conftest import settings_in

SECRET = "hf_TheOperatorsOwnTokenOfTheHub0000000"
PUBLIC = {"access": "open", "strangers": "runner", "hosts": "sarqc.example"}
# Limits that a flood from one address meets at once, and which have tests of their own.
ROOMY = {"requests_per_minute": 10**6, "max_queued_each": 50, "text_uploads_each": 10**6, "study_uploads_each": 10**6}
START_SECONDS = 600.0  # a busy host is slow; an app that ends is seen at once


def settings_of(folder: Path, given: dict[str, Any]) -> Settings:
    """Settings of the app under torture: the real assets, and a state folder of its own."""
    return settings_in(folder, **({"assets_dir": SITE / "assets"} | ROOMY | given))


class Served:
    """A running app. A second one on the same folder finds the state of the first. ``within``: a command that becomes
    it, such as one that mounts a disk.
    """

    def __init__(
        self, folder: Path, execute: str, *, with_pages: bool = False, within: Sequence[str] = (), **given: Any
    ) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.log = folder, folder / "app.log"
        document = {"with_pages": with_pages, "settings": given | {"port": self.port}}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *within,
                    sys.executable,
                    "-m",
                    "conformance.torture.served",
                    str(folder),
                    execute,
                    json.dumps(document),
                ],
                env=os.environ | {"HF_TOKEN": SECRET, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(SITE)},
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self.http = requests.Session()
        self.http.trust_env = False
        self.address = f"http://127.0.0.1:{self.port}"

    def wait(self) -> Served:
        """Returns when the app answers. Raises ``AssertionError`` where it ends, or takes too long."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the app ended: {self.log.read_text()[-2000:]}"
            try:
                if self.http.get(f"{self.address}/healthz", timeout=10).ok:
                    return self
            except requests.RequestException:  # nobody listens yet, or nobody has time to answer
                time.sleep(0.05)
        raise AssertionError("the app did not start in time")

    def get(self, path: str, **headers: str) -> Any:
        """The JSON of an answer."""
        answer = self.http.get(f"{self.address}{path}", headers=headers, timeout=60)
        assert answer.ok, answer.text
        return answer.json()

    def post(self, path: str, document: Any = None) -> requests.Response:
        return self.http.post(f"{self.address}{path}", json=document, timeout=60)

    def end(self) -> None:
        self.http.close()
        self.process.kill()
        self.process.wait()


def main() -> None:
    from app import create_app, prepare_process, serve

    folder, execute, document = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    settings = settings_of(folder, document["settings"])
    prepare_process(settings)
    serve(create_app(settings, execute=execute, with_pages=document["with_pages"]), settings)


if __name__ == "__main__":
    main()
