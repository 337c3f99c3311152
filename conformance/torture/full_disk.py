"""A real run whose disk is filled under it again and again: it waits, says so, and ends at the same bits."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from conformance.torture import kills
from conformance.torture.figures import Figures
from conformance.torture.served import Served
from sarqc.jobs.workers import EXECUTE
from tests.http.test_full_disk import WAITS, fill, small_disk
from tests.jobs.conftest import until

FILLED, BITS, ATTEMPTS, LOUD = "full disks", "runs with other bits", "further attempts", "lines of the log too many"
DISK_MIB = 64
RUN = kills.SMALL | {"method": "gptq", "bits": 3, "samples": 4, "length": 128}


def play(folder: Path, figures: Figures, times: int) -> None:
    """Fills the disk ``times`` times, each later in the run."""
    figures.expect(FILLED, BITS, ATTEMPTS, LOUD)
    if not times:
        return
    app = Served(folder / "undisturbed", EXECUTE).wait()
    run_id = kills._submit(app, RUN)
    right = kills._result(app, run_id, kills._finished(app, run_id))
    app.end()
    app = Served(folder / "full", EXECUTE, within=small_disk(folder / "full" / "state", DISK_MIB)).wait()
    try:
        seen = Path(f"/proc/{app.process.pid}/root{folder / 'full'}")  # as the app sees it
        run_id = kills._submit(app, RUN)

        def run() -> dict[str, Any]:
            return app.get(f"/api/runs/{run_id}")

        def is_past(layers: int) -> bool:
            return run()["progress"]["done"] > layers or run()["state"] == "finished"

        for number in range(times):
            until(partial(is_past, 8 * number))
            if run()["state"] == "finished":
                break
            fill(seen / "state" / "filler")
            until(lambda: run()["waits_for_room"] or run()["state"] == "finished")
            figures.count(FILLED, int(run()["waits_for_room"]))
            (seen / "state" / "filler").unlink()
        found = kills._finished(app, run_id)
        if found["attempt"] != 1:
            figures.complain(ATTEMPTS, f"attempt {found['attempt']}")
        if kills._result(SimpleNamespace(folder=seen), run_id, found) != right:
            figures.complain(BITS, str(RUN))
        if (lines := app.log.read_text().count(WAITS)) > 2 * times:
            figures.complain(LOUD, f"{lines} that a run waits")
    finally:
        app.end()
