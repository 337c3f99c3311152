"""A run on a terminal that meets a full disk: it says so, waits, and goes on from what is kept."""

import subprocess
import sys
from pathlib import Path

import pytest

from sarqc.events import Warned
from sarqc.terminal import waiting_for_room
from tests.http.test_full_disk import WAITS, fill, small_disk

RUN = """
import sys
from pathlib import Path
from sarqc.events import Stage
from sarqc.terminal import ProgressBar, waiting_for_room

def begin():
    for number in range(12):
        part = folder / str(number)
        if not part.exists():
            (folder / "partial").write_bytes(bytes([number]) * (1 << 20))
            (folder / "partial").rename(part)
        yield Stage("kept", str(number))
        if number == 5 and sys.stdin.readline() == "":
            return

folder = Path(sys.argv[1])
with ProgressBar(sys.stdout) as progress:
    for event in waiting_for_room(begin, folder):
        progress.tell(event)
"""


@pytest.mark.thorough
def test_a_run_on_a_terminal_waits_for_room_and_goes_on(tmp_path):
    folder = tmp_path / "disk"
    run = subprocess.Popen(
        [*small_disk(folder), sys.executable, "-u", "-c", RUN, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with run:
        assert [run.stdout.readline() for _ in range(6)] == [f"kept: {number}\n" for number in range(6)]
        filler = Path(f"/proc/{run.pid}/root{folder}/filler")
        fill(filler)
        run.stdin.write("go on\n")
        run.stdin.flush()
        assert WAITS in run.stdout.readline()
        filler.unlink()
        run.stdin.write("go on\n")
        run.stdin.close()
        assert run.stdout.read() == "".join(f"kept: {number}\n" for number in range(12))
    assert run.returncode == 0


def test_other_errors_are_not_waited_for(tmp_path):
    def begin():
        yield Warned("before")
        raise FileNotFoundError("gone")

    events = waiting_for_room(begin, tmp_path)
    assert next(events) == Warned("before")
    with pytest.raises(FileNotFoundError):
        next(events)
