"""Work in a process with limits: what it refuses keeps its kind, and it ends with whoever asked for it."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from sarqc.errors import NoRoom, Refused, TooLarge, Unwritable
from sarqc.files.limited import Exhausted, answer_of
from sarqc.files.once import once
from tests.jobs.conftest import is_alive, until

HERE = "tests.test_limited"


def refuse(request: bytes) -> bytes:
    raise {
        b"large": TooLarge("many bytes", "there", "Send fewer."),
        b"full": OSError(errno.ENOSPC, "No space left on device"),
        b"read-only": OSError(errno.EROFS, "Read-only file system"),
        b"limit": Exhausted("a limit within"),
    }[request]


def note_and_wait(request: bytes) -> bytes:
    Path(request.decode()).write_text(str(os.getpid()))
    time.sleep(600)
    return b""


@pytest.mark.parametrize(("request_", "kind"), [(b"large", TooLarge), (b"full", NoRoom), (b"read-only", Unwritable)])
def test_a_refusal_keeps_its_kind(request_, kind):
    with pytest.raises(kind) as caught:
        answer_of(f"{HERE}:refuse", request_, cpu_seconds=10)
    assert caught.value.http_status == kind.http_status
    assert caught.value.remedy


def test_a_long_request_arrives_at_a_process_that_starts_slowly(tmp_path, monkeypatch):
    (tmp_path / "slow_to_start.py").write_text(
        "import time\ntime.sleep(1.2)\ndef size(request):\n    return b'%d' % len(request)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert answer_of("slow_to_start:size", bytes(1 << 23), cpu_seconds=2) == b"%d" % (1 << 23)


def noted(path: Path) -> int:
    until(lambda: path.exists() and path.read_text())
    return int(path.read_text())


def test_what_nobody_waits_for_ends(tmp_path):
    unwanted, path = threading.Event(), tmp_path / "pid"

    def leave():
        noted(path)
        unwanted.set()

    threading.Thread(target=leave, daemon=True).start()
    with pytest.raises(Exhausted, match="nobody waits"):
        answer_of(f"{HERE}:note_and_wait", str(path).encode(), cpu_seconds=60, unwanted=unwanted)
    assert not is_alive(noted(path))


@pytest.mark.skipif(sys.platform != "linux", reason="a death signal is Linux's")
def test_it_ends_with_a_process_that_is_killed(tmp_path):
    path = tmp_path / "pid"
    program = f"from sarqc.files.limited import answer_of; answer_of('{HERE}:note_and_wait', {str(path).encode()!r}, "
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(os.path.abspath(part) for part in sys.path)}
    process = subprocess.Popen([sys.executable, "-c", program + "cpu_seconds=60)"], env=environment)
    child = noted(path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not is_alive(child))


def test_a_remembered_refusal_holds_nothing_else():
    calls = []

    @once(8)
    def refuse_with(number: int) -> None:
        content = bytes(10 << 20)
        calls.append(len(content))
        raise Refused("it is damaged", "there", "Mend it.").about("model")

    tracemalloc.start()
    for number in range(8):
        for _ in range(3):
            with pytest.raises(Refused, match="it is damaged") as caught:
                refuse_with(number)
            assert caught.value.field == "model"
    del caught
    assert tracemalloc.get_traced_memory()[0] < 10 << 20
    tracemalloc.stop()
    assert len(calls) == 8
