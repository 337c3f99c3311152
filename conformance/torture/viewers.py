"""Many who watch: every listener of every kind hears each event once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil

from conformance.torture.figures import Figures
from tests.http.conftest import App, events_of, submit
from tests.http.test_streams import messages
from tests.jobs.conftest import until

HEARD, LOST, DOUBLED, LISTENERS, QUEUED = "events heard", "events lost", "events doubled", "viewers", "queued runs"
GREW = "what grew with viewers"
LAYERS = 20
TOGETHER = 50  # viewers from one address, which may not have many more streams
VIEWER_BYTES = 256 << 10  # of memory that the allocator may keep for each


def listen(folder: Path, figures: Figures, viewers: int, queued: int) -> None:
    """``viewers`` follow the runs of a full queue from their beginning to their end, spread over them."""
    figures.expect(LISTENERS, QUEUED, HEARD, LOST, DOUBLED, GREW)
    if not viewers:
        return
    folder.mkdir(parents=True, exist_ok=True)
    app = App(folder, "slow")
    process = psutil.Process(app.process.pid)
    try:
        app.http.get("/api/runs")
        memory, descriptors = process.memory_info().rss, process.num_fds()
        ids = [submit(app.http, LAYERS if n < 3 else 1)["id"] for n in range(queued)]

        def follow(index: int) -> list[int]:
            address = f"http://127.0.0.1:{app.port}/api/runs/{ids[index % len(ids)]}/events"
            transport = httpx.HTTPTransport(local_address=f"127.0.0.{1 + index // TOGETHER}")
            with httpx.Client(transport=transport) as client, client.stream("GET", address, timeout=300) as answer:
                return [number for number, _ in messages(answer)]

        with ThreadPoolExecutor(viewers) as watching:
            heard = list(watching.map(follow, range(viewers)))
        until(lambda: app.http.get("/api/health").json()["runs"].get("finished") == queued, seconds=300)
        for index, numbers in enumerate(heard):
            run_id = ids[index % len(ids)]
            written = [event["seq"] for event in events_of(app.http, run_id)]
            figures.count(HEARD, len(numbers))
            if lost := set(written) - set(numbers):
                figures.complain(LOST, f"run {run_id}: {sorted(lost)}")
            if len(numbers) != len(set(numbers)):
                figures.complain(DOUBLED, f"run {run_id}: {numbers}")
        try:
            until(lambda: process.num_fds() <= descriptors + 2)
        except AssertionError:
            figures.complain(GREW, f"{process.num_fds()} descriptors, {descriptors} before")
        if (more := process.memory_info().rss - memory) > viewers * VIEWER_BYTES:
            figures.complain(GREW, f"{more >> 20} MiB of memory")
        figures.count(LISTENERS, viewers)
        figures.count(QUEUED, queued)
    finally:
        app.http.close()
        app.end(9)
