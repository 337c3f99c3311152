"""Workers and the app are killed while a run, and the repair of a checkpoint that was opened, are written to files.

Nothing is offered before it is whole, and what is offered is what an undisturbed export gives, bit for bit.
"""

import hashlib
import io
import random
import shutil
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from conformance.torture import kills
from conformance.torture.figures import Figures
from tests.jobs.conftest import until

EXPORTS, UNFINISHED, OTHER = "exports under kills", "exports lost", "exports with other bits"
RUN = kills.SMALL | {"method": "rtn", "bits": 3, "grid": "symmetric"}
OPENED = "opened"
# Enough text for a gain that is clear: without one nothing is written.
REPAIR = kills.SMALL | {
    "method": "gptq",
    "quantized_checkpoint": OPENED,
    "samples": 8,
    "length": 128,
    "test_tokens": 2048,
}
CARD = "README.md"  # says how long it took

Files = dict[str, str]  # hashes by name


def play(folder: Path, figures: Figures, number: int, seed: int) -> None:
    """An undisturbed export of a run and of a repair, then the same under ``number`` kills, shared between the two."""
    figures.expect(EXPORTS, UNFINISHED, OTHER)
    if not number:
        return
    exports = _Exports(folder, figures, random.Random(seed), 1.0)
    try:
        run_id = kills._submit(exports.app, RUN)
        kills._finished(exports.app, run_id)
        whole = exports.undisturbed(run_id, "packed")
        exports.unpack(run_id, folder / "models" / OPENED)
        for _ in range(number // 2):
            exports.disturbed(run_id, "packed", whole)
        run_id = kills._submit(exports.app, REPAIR)
        kills._finished(exports.app, run_id)
        whole = exports.undisturbed(run_id, "as-found")
        for _ in range(number - number // 2):
            exports.disturbed(run_id, "as-found", whole)
    finally:
        exports.app.end()


class _Exports(kills._Round):
    """One state folder, in which runs are exported again and again."""

    def undisturbed(self, run_id: str, checkpoint_format: str) -> Files:
        export_id = self._export(run_id, checkpoint_format)
        began = time.monotonic()
        kills._finished(self.app, export_id)
        self.pace = time.monotonic() - began
        files = self._offered(run_id, checkpoint_format)
        assert files
        self.app.http.delete(f"{self.app.address}/api/runs/{export_id}", timeout=60)
        return files

    def disturbed(self, run_id: str, checkpoint_format: str, whole: Files) -> None:
        """An export that is killed at a random time, and removed again."""
        export_id = self._export(run_id, checkpoint_format)
        time.sleep(self.dice.uniform(0.0, self.pace))
        self._kill(self.dice.choice([kind for kind in kills.KINDS if not kind.endswith("STOP")]))
        self.figures.count(EXPORTS)

        def is_over() -> bool:
            offered = self._offered(run_id, checkpoint_format)
            if offered and offered != whole:
                self.figures.complain(OTHER, f"{checkpoint_format}: {sorted(offered.items() ^ whole.items())[:4]}")
            return self._run(export_id)["state"] in ("finished", "failed")

        with suppress(AssertionError):
            until(is_over, seconds=kills.FINISH_SECONDS)
        run = self._run(export_id)
        if run["state"] != "finished" or self._offered(run_id, checkpoint_format) != whole:
            self.figures.complain(UNFINISHED, f"{checkpoint_format} is {run['state']}: {run['error']}")
        if left := [path.name for path in (self.folder / "state" / "exports").glob("*/.*")]:
            self.figures.complain(OTHER, f"left behind: {left}")
        self.app.http.delete(f"{self.app.address}/api/runs/{export_id}", timeout=60)

    def unpack(self, run_id: str, folder: Path) -> None:
        """Exports once more, as a checkpoint among the models of the host."""
        export_id = self._export(run_id, "packed")
        kills._finished(self.app, export_id)
        content = self._archive(run_id, "packed")
        assert content is not None
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(folder.parent / ".new", filter="data")
        (inner,) = (folder.parent / ".new").iterdir()
        inner.rename(folder)
        shutil.rmtree(folder.parent / ".new")
        self.app.http.delete(f"{self.app.address}/api/runs/{export_id}", timeout=60)

    def _export(self, run_id: str, checkpoint_format: str) -> str:
        answer = self.app.post(f"/api/runs/{run_id}/export?format={checkpoint_format}")
        assert answer.status_code in (200, 201), answer.text
        return answer.json()["id"]

    def _archive(self, run_id: str, checkpoint_format: str) -> bytes | None:
        """What is offered for download; None: nothing."""
        address = f"{self.app.address}/api/runs/{run_id}/checkpoint?format={checkpoint_format}"
        answer = self.app.http.get(address, timeout=60)
        return answer.content if answer.ok else None

    def _offered(self, run_id: str, checkpoint_format: str) -> Files:
        content = self._archive(run_id, checkpoint_format)
        if content is None:
            return {}
        found: dict[str, Any] = {}
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive.getmembers():
                file = archive.extractfile(member)
                if file is not None and Path(member.name).name != CARD:
                    found[member.name] = hashlib.sha256(file.read()).hexdigest()
        return found
