"""What must be true of every answer, whatever was asked."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import requests

from conformance.torture.figures import Figures
from conformance.torture.served import SECRET, Served
from sarqc.settings import SITE

SLOW_SECONDS = 5.0
GIVE_UP_SECONDS = 30.0
WRITTEN_FOR_IT = "/site.zip"  # by a process of its own, after the sites that wait: together half the time of a core
WRITTEN_SECONDS = 120.0
PARTS = ["kind", "what", "where", "remedy"]
OF_A_FIELD = ["field", "fixes"]  # of refusals that are about a field of the recipe
PAGES = ("/sign-in", "/sign-out", "/share/")  # for people: their errors are pages
REQUESTS, SLOWEST = "requests", "slowest answer"
ERROR_500, WRONG_SHAPE, SLOW, LEAK = "500s", "wrong shapes", "later than 5 s", "paths or secrets"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes  # empty for a stream without an end
    seconds: float


class Judge:
    """Sends requests to an app and holds what comes back against the rules."""

    def __init__(self, app: Served, figures: Figures) -> None:
        self.app, self.figures = app, figures
        figures.expect(ERROR_500, WRONG_SHAPE, SLOW, LEAK)
        secret = app.folder / "state" / "secret"
        self.hidden = [SECRET.encode(), *(str(path).encode() for path in (app.folder, SITE, Path.home(), sys.prefix))]
        self.hidden += [secret.read_bytes()] if secret.exists() else []

    def send(self, request: requests.Request | requests.PreparedRequest) -> Answer | None:
        """The judged answer; None where none came, which is a complaint too."""
        prepared = request if isinstance(request, requests.PreparedRequest) else self.app.http.prepare_request(request)
        headers, body = (str(part)[:300] for part in (dict(prepared.headers), prepared.body))
        asked = f"{prepared.method} {prepared.path_url[:200]} {headers} {body}"
        began = time.monotonic()
        try:
            answer = self._answer(prepared, began)
        except requests.RequestException as error:
            self.figures.count(REQUESTS)
            self.figures.took(SLOWEST, time.monotonic() - began)
            self.figures.complain(SLOW, f"{asked}: no answer: {error}")
            return None
        self.judge(asked, str(prepared.method), prepared.path_url, answer)
        return answer

    def _answer(self, prepared: requests.PreparedRequest, began: float) -> Answer:
        seconds = WRITTEN_SECONDS if _is_written_for_it(str(prepared.path_url)) else GIVE_UP_SECONDS
        got = self.app.http.send(prepared, stream=True, allow_redirects=False, timeout=seconds)
        with got:
            is_stream = got.headers.get("content-type", "").startswith("text/event-stream")
            body = b"" if is_stream else got.content
        return Answer(got.status_code, got.headers, body, time.monotonic() - began)

    def judge(self, asked: str, method: str, path: str, answer: Answer) -> None:
        self.figures.count(REQUESTS)
        self.figures.took(SLOWEST, answer.seconds)
        said = f"{asked} → {answer.status} {answer.body[:300]!r}"
        if answer.status == 500:
            self.figures.complain(ERROR_500, said)
        if answer.status >= 400 and method != "HEAD" and not _has_the_shape(answer, path):
            self.figures.complain(WRONG_SHAPE, said)
        if answer.seconds > SLOW_SECONDS and not _is_written_for_it(path):
            self.figures.complain(SLOW, f"{answer.seconds:.1f} s: {said}")
        if secrets := [hidden for hidden in self.hidden if _holds(answer, hidden)]:
            self.figures.complain(LEAK, f"{secrets}: {said}")


def _is_written_for_it(path: str) -> bool:
    return path.split("?")[0].endswith(WRITTEN_FOR_IT)


def _holds(answer: Answer, hidden: bytes) -> bool:
    return hidden in answer.body or any(
        hidden in value.encode("latin-1", "replace") for value in answer.headers.values()
    )


def _has_the_shape(answer: Answer, path: str) -> bool:
    kind = answer.headers.get("content-type", "")
    if kind.startswith("text/html"):
        return path.startswith(PAGES)
    if path.startswith("/healthz"):  # for a machine that reads the status
        return True
    try:
        document = json.loads(answer.body)
        error = document["error"]
        fixes = error.get("fixes", [])
        return (
            kind == "application/json"
            and list(document) == ["error"]
            and list(error) in (PARTS, [*PARTS, *OF_A_FIELD])
            and all(isinstance(part, str) for name, part in error.items() if name != "fixes")
            and all(isinstance(one["words"], str) and isinstance(one["values"], dict) for one in fixes)
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
