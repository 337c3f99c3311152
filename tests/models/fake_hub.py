"""A server that answers as the Hugging Face Hub does, for the Hub's own client: models out of folders."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

SHA = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeHub:
    """Folders by the names of models; ``sizes`` are what is said of files instead of what they have."""

    models: dict[str, Path]
    gated: frozenset[str] = frozenset()
    sizes: dict[str, int] = field(default_factory=dict)  # by “owner/name/file”
    asked: list[str] = field(default_factory=list)  # method and path of each request
    tokens: list[str | None] = field(default_factory=list)  # that came with them
    endpoint: str = ""


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    """Let the hub answer at its ``endpoint`` within the context."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def log_message(self, *_given: object) -> None:
            """Says nothing."""

        def _answer(self, *, body: bool) -> None:
            path = unquote(urlsplit(self.path).path).strip("/")
            hub.asked.append(f"{self.command} {path}")
            hub.tokens.append(self.headers.get("Authorization"))
            parts = path.split("/")
            if parts[:2] == ["api", "models"] and parts[4:5] == ["tree"]:
                self._list("/".join(parts[2:4]), body=body)
            elif parts[:2] == ["api", "models"]:
                self._describe("/".join(parts[2:4]), body=body)
            elif "resolve" in parts:
                at = parts.index("resolve")
                self._send_file("/".join(parts[:at]), "/".join(parts[at + 2 :]), body=body)
            else:
                self._send(404, b"", {"X-Error-Code": "RepoNotFound"}, body=body)

        def _files(self, name: str) -> list[str]:
            folder = hub.models[name]
            return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())

        def _describe(self, name: str, *, body: bool) -> None:
            if name not in hub.models:
                self._send(404, b"", {"X-Error-Code": "RepoNotFound"}, body=body)
                return
            files = [
                {"rfilename": path, "size": hub.sizes.get(f"{name}/{path}", (hub.models[name] / path).stat().st_size)}
                for path in self._files(name)
            ]
            answer = {"id": name, "modelId": name, "sha": SHA, "private": False, "tags": [], "siblings": files}
            self._send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"}, body=body)

        def _list(self, name: str, *, body: bool) -> None:
            files = [
                {"type": "file", "path": path, "size": (hub.models[name] / path).stat().st_size, "oid": SHA}
                for path in self._files(name)
            ]
            self._send(200, json.dumps(files).encode(), {"Content-Type": "application/json"}, body=body)

        def _send_file(self, name: str, file: str, *, body: bool) -> None:
            if name in hub.gated:
                self._send(403, b"", {"X-Error-Code": "GatedRepo"}, body=body)
                return
            path = hub.models.get(name, Path("/nowhere")) / file
            if not path.is_file():
                self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, body=body)
                return
            content = path.read_bytes()
            tag = hashlib.sha256(content).hexdigest()
            self._send(200, content, {"ETag": f'"{tag}"', "X-Repo-Commit": SHA}, body=body)

        def _send(self, status: int, content: bytes, headers: dict[str, str], *, body: bool) -> None:
            self.send_response(status)
            for header, value in headers.items():
                self.send_header(header, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
