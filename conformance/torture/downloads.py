"""Downloads by clients that ask for what there is not, or that never read: no file is left, also by a killed app."""

import os
import socket
from pathlib import Path

from conformance.torture.figures import Figures
from conformance.torture.served import Served
from sarqc.jobs.workers import EXECUTE

READERS, ASKED, LEFT, ODD = "slow readers", "odd ranges", "files left", "ranges with another status"
RANGES = ("x=1", "bytes=5-1", "bytes=a-b", "bytes=", "bytes=99999999999999999999-")
PATH = "/api/studies/tiny-llama/download"


def play(folder: Path, figures: Figures, readers: int) -> None:
    """As many downloads with odd ranges, and as many that are begun and not read, until the app is killed."""
    figures.expect(READERS, ASKED, LEFT, ODD)
    if not readers:
        return
    temporary = folder / "temporary"
    temporary.mkdir(parents=True)
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(temporary)
    try:
        app = Served(folder, EXECUTE).wait()
    finally:
        os.environ.pop("TMPDIR") if before is None else os.environ.update(TMPDIR=before)

    def look(when: str) -> None:
        if left := [path.name for path in temporary.rglob("*.zip")]:
            figures.complain(LEFT, f"{len(left)} {when}")

    open_ones: list[socket.socket] = []
    try:
        for number in range(readers):
            wanted = RANGES[number % len(RANGES)]
            answer = app.http.get(f"{app.address}{PATH}", headers={"Range": wanted}, timeout=60)
            figures.count(ASKED)
            if answer.status_code != 200:
                figures.complain(ODD, f"{wanted}: {answer.status_code}")
        look("after odd ranges")
        for _ in range(readers):
            open_ones.append(socket.create_connection(("127.0.0.1", app.port)))
            open_ones[-1].sendall(f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{app.port}\r\n\r\n".encode())
            open_ones[-1].recv(100)
            figures.count(READERS)
        look("while nobody reads")
    finally:
        app.end()
        for connection in open_ones:
            connection.close()
    look("after a kill")
