"""GGUF files that lie about themselves, planned by a running app: each is refused in a sentence, soon and in little
memory."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import requests

from sarqc.settings import SITE
from tests.models.cases import make_checkpoint
from tests.models.gguf_files import write_gguf
from tests.torture.answers import Judge
from tests.torture.figures import Figures
from tests.torture.served import Served

MOST_BYTES = 100 << 20
SLOW_SECONDS = 5.0  # generous: a busy host is slow and not frozen
PLANS, SLOWEST = "plans of malformed GGUF files", "slowest plan of a GGUF file"
REFUSED, GROWN = "refused", "memory that grew, MiB"
ODD, LATE, LARGE = "other answers than 200 and 422", "plans later than 5 s", "memory beyond 100 MiB"
_VALUES = [0, 1, 7, 8, 9, 12, 13, 255, 2**16, 2**31 - 1, 2**32 - 1, 2**40, 2**63, 2**64 - 1]
Damage = Callable[[bytearray, random.Random], bytes]


def _numbers(content: bytearray, rng: random.Random) -> bytes:
    """Some numbers of the header replaced: counts, lengths, types, shapes, offsets."""
    for _ in range(rng.randint(1, 4)):
        layout = rng.choice(["<B", "<I", "<Q"])
        size = struct.calcsize(layout)
        place = rng.choice([rng.randrange(4, 1200), rng.randrange(4, len(content) // 2)])
        struct.pack_into(layout, content, place, rng.choice(_VALUES) % 2 ** (8 * size))
    return bytes(content)


def _cut(content: bytearray, rng: random.Random) -> bytes:
    return bytes(content[: rng.randrange(4, len(content))])


def _noise(content: bytearray, rng: random.Random) -> bytes:
    return b"GGUF" + struct.pack("<I", rng.choice([1, 2, 3, 4])) + rng.randbytes(rng.randrange(0, 5000))


def _mixed(content: bytearray, rng: random.Random) -> bytes:
    """A piece of the file moved over another."""
    size = rng.randrange(1, 2000)
    source, target = rng.randrange(4, len(content) - size), rng.randrange(4, 4000)
    content[target : target + size] = content[source : source + size]
    return bytes(content)


def _many(content: bytearray, rng: random.Random) -> bytes:
    """Counts as large as the bounds allow, or a little more, and nothing behind them."""
    key = struct.pack("<Q", 1) + b"k"
    kind, count = rng.choice([8, 9, 4, 12]), rng.choice([2**20, 2**20 + 1, 2**24, 2**34])
    listed = key + struct.pack("<IIQ", 9, kind, count)
    return b"GGUF" + struct.pack("<IQQ", 3, rng.choice([0, 2**16, 2**17]), 1) + listed + bytes(8 * min(count, 2**20))


DAMAGES: list[Damage] = [_numbers, _numbers, _numbers, _cut, _noise, _mixed, _many]


def play(folder: Path, figures: Figures, number: int, seed: int) -> None:
    """Plans ``number`` of them, and a sound one at the end."""
    figures.expect(ODD, LATE, LARGE)
    rng = random.Random(seed)
    source = make_checkpoint("llama", folder / "source", SITE / "assets" / "models" / "tiny-llama", hidden_size=64,
                             num_hidden_layers=1)  # fmt: skip
    (folder / "models").mkdir()
    path = folder / "models" / "damaged.gguf"
    sound = write_gguf(source, path, "Q4_0").read_bytes()
    app = Served(folder, "tests.torture.no_work:execute").wait()
    try:
        judge = Judge(app, figures)
        _plan(judge, figures, must_work=True)
        before = _most_memory(app)
        for _ in range(number):
            path.write_bytes(rng.choice(DAMAGES)(bytearray(sound), rng))
            _plan(judge, figures)
        with path.open("wb") as file:  # huge, and nothing in it
            file.write(sound[:400])
            file.truncate(1 << 40)
        _plan(judge, figures)
        grown = _most_memory(app) - before
        figures.count(GROWN, grown >> 20)
        if grown > MOST_BYTES:
            figures.complain(LARGE, f"{grown >> 20} MiB")
        path.write_bytes(sound)
        _plan(judge, figures, must_work=True)
    finally:
        app.end()


def _most_memory(app: Served) -> int:
    """The most bytes that the app has had so far."""
    lines = Path(f"/proc/{app.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def _plan(judge: Judge, figures: Figures, *, must_work: bool = False) -> None:
    recipe = {"model": "damaged.gguf", "bits": 4, "group_size": 32, "method": "rtn", "indivisible": "per_channel",
              "samples": 1, "length": 16, "calibration": "tiny-llama-calibration"}  # fmt: skip
    began = time.monotonic()
    answer = judge.send(requests.Request("POST", f"{judge.app.address}/api/plan", json=recipe))
    seconds = time.monotonic() - began
    figures.count(PLANS)
    figures.took(SLOWEST, seconds)
    if answer is None or seconds > SLOW_SECONDS:
        figures.complain(LATE, f"{seconds:.1f} s")
    elif answer.status not in ((200,) if must_work else (200, 404, 422)):
        figures.complain(ODD, f"{answer.status} {answer.body[:300]!r}")
    figures.count(REFUSED, answer is not None and answer.status != 200)
