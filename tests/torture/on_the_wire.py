"""Bytes that are no HTTP, or only nearly: what a client library would never send."""

from __future__ import annotations

import re
import socket
import time

from hypothesis import strategies as st

from tests.torture.answers import ERROR_500, REQUESTS, SLOW, SLOW_SECONDS, SLOWEST, Judge
from tests.torture.drawing import draw

BODY = b'{"model": "tiny-llama", "calibration": "tiny-llama-calibration"}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
# What is said of the body, and the body.
BODIES = [
    (LENGTH, BODY),
    (LENGTH + b"Content-Length: 3\r\n", BODY),
    (LENGTH + LENGTH, BODY),
    (b"Content-Length: -1\r\n", BODY),
    (b"Content-Length: 0x40\r\n", BODY),
    (b"Content-Length: 99999999999999999999\r\n", BODY),
    (b"Content-Length: 1000\r\n", BODY),
    (b"Transfer-Encoding: chunked\r\n", b"40\r\n" + BODY + b"\r\n0\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\n", b"zz\r\n" + BODY),
    (b"Transfer-Encoding: chunked\r\n", b"-5\r\nhello\r\n0\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\n", b"ffffffffffffffff\r\n" + BODY),
    (b"Transfer-Encoding: chunked\r\n" + LENGTH, b"0\r\n\r\n" + BODY),
    (b"Transfer-Encoding: gzip, chunked\r\n", BODY),
    (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", BODY),
    (b"Expect: 100-continue\r\n" + LENGTH, BODY),
    (b"Expect: magic\r\n" + LENGTH, BODY),
]  # fmt: skip
LINES = [
    b"X: \x00\r\n", b"X : y\r\n", b" folded\r\n", b"X\r\n", b": y\r\n", b"X: " + b"y" * 70_000 + b"\r\n", b"X: y\n",
    b"X: y\r\n" * 3000, b"\xff: \xff\r\n", b"Connection: upgrade\r\nUpgrade: websocket\r\n", b"Upgrade: h2c\r\n",
    b"Host: evil.example\r\n", b"Cookie: " + b"a=b; " * 2000 + b"\r\n", b"Range: bytes=" + b"0-1," * 500 + b"\r\n",
]  # fmt: skip
STARTS = [
    b"POST /api/plan HTTP/1.1", b"GET /api/runs HTTP/1.1", b"GET http://evil.example/ HTTP/1.1", b"GET * HTTP/1.1",
    b"OPTIONS * HTTP/1.1", b"CONNECT x:1 HTTP/1.1", b"GET /api/runs HTTP/9.9", b"GET /api/runs HTTP/1.0",
    b"GET /api/runs", b"PRI * HTTP/2.0", b"GET  /api/runs  HTTP/1.1", b"G\xc3\x89T / HTTP/1.1",
    b"GET /\xff\xfe HTTP/1.1", b"GET /a b HTTP/1.1", b"GET /api/runs?%zz=%00 HTTP/1.1", b"GET //api//runs HTTP/1.1",
    b"GET /api/../api/runs HTTP/1.1", b"\r\n\r\nGET / HTTP/1.1", b"GET /" + b"a" * 70_000 + b" HTTP/1.1",
    b"\x16\x03\x01\x02\x00\x01", b"", b"TRACE /api/runs HTTP/1.1",
]  # fmt: skip
STATUS = re.compile(rb"^HTTP/1\.1 (\d{3})", re.MULTILINE)


@st.composite
def messages(drawn: st.DrawFn) -> bytes:
    """A request that is broken in its first line, a header, its body, or anywhere by a cut or a wrong byte."""
    length, body = drawn(st.sampled_from(BODIES))
    lines = b"".join(drawn(st.lists(st.sampled_from(LINES), max_size=2)))
    type_of_body = b"Content-Type: application/json\r\n"
    start = drawn(st.sampled_from(STARTS))
    message = start + b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + type_of_body + lines + length + b"\r\n" + body
    place = drawn(st.integers(0, min(len(message), 400)))
    wrong = drawn(st.binary(max_size=3))
    return drawn(st.sampled_from([message, message, message[:place], message[:place] + wrong + message[place:]]))


def ask(judge: Judge, count: int, seed: int) -> None:
    """``count`` messages, each on a connection of its own. The server's parser may answer in words of its own."""
    draw(messages(), count, seed, lambda message: _say(judge, message))


def _say(judge: Judge, message: bytes) -> None:
    began, received = time.monotonic(), b""
    with socket.create_connection(("127.0.0.1", judge.app.port), timeout=SLOW_SECONDS) as connection:
        try:
            connection.sendall(message)
            if not _is_whole(message):  # it would be waited for
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65_536):
                received += chunk
        except (ConnectionError, OSError) as error:
            if isinstance(error, TimeoutError):
                judge.figures.complain(SLOW, f"{message[:400]!r}: no answer")
    judge.figures.count(REQUESTS)
    judge.figures.took(SLOWEST, time.monotonic() - began)
    if b"500" in STATUS.findall(received):
        judge.figures.complain(ERROR_500, f"{message[:400]!r} → {received[:400]!r}")


def _is_whole(message: bytes) -> bool:
    """Whether a server could take it for a request that has arrived, so that it has to answer and to close."""
    head, end, body = message.partition(b"\r\n\r\n")
    return bool(end) and bool(head) and LENGTH in head and b"chunked" not in head and body == BODY
