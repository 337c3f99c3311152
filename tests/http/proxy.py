"""A reverse proxy of a site that shows the app below a path: what a test needs of nginx, streams included."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOP = ("connection", "transfer-encoding", "keep-alive", "server", "date")
HEADER_BYTES = 4096  # of an answer, as nginx takes them


@contextmanager
def proxied(port: int, path: str, *, strips: bool) -> Iterator[int]:
    """A proxy before the app at ``port``; ``strips``: whether it takes the path off. Gives its own port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.close_connection = True
            super().handle_one_request()

        def answer(self) -> None:
            if not self.path.startswith(f"{path}/"):
                self.send_error(404)
                return
            inner = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = dict(self.headers) | {"X-Forwarded-For": "192.0.2.1", "Connection": "close"}
            inner.request(self.command, self.path[len(path) :] if strips else self.path, body, headers)
            said = inner.getresponse()
            if sum(len(name) + len(value) + 4 for name, value in said.getheaders()) > HEADER_BYTES:
                self.send_error(502, "upstream sent too big header")
                return
            self.send_response(said.status)
            for name, value in said.getheaders():
                if name.lower() not in HOP:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):  # a page that was left
                while chunk := said.read1(65_536):
                    self.wfile.write(chunk)
                    self.wfile.flush()
            inner.close()

        do_GET = do_HEAD = do_POST = do_DELETE = do_PATCH = answer

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
