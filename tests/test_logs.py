"""Log lines as they are written: what they are about, and what must never be in them."""

import json
import logging
import os
import subprocess
import sys

import pytest

from sarqc import logs
from sarqc.files.kept_out import without_secrets
from sarqc.settings import Settings

SECRET = "s3cr3t-Value-of-24-chars"
HUB = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"

# What libraries and exceptions really say, each with SECRET or HUB in it.
SAID = (
    f"GET https://user:{SECRET}@huggingface.co/api/models failed",
    f"Client error '401 Unauthorized' for url 'https://huggingface.co/api/x?token={SECRET}&rev=main'",
    f"/share/{SECRET}?study=a",
    f"postgres://sarqc:{SECRET}@host/db",
    f"Invalid user token: {HUB}",
    f"{{'Authorization': 'Bearer {SECRET}', 'user-agent': 'x'}}",
    f"[(b'host', b'x'), (b'authorization', b'Basic {SECRET}'), (b'accept', b'*/*')]",
    f"Authorization: token {SECRET}",
    f"Cookie: theme=dark; sarqc_visitor={SECRET}",
    f"set-cookie: sarqc_visitor={SECRET}; Path=/; HttpOnly",
    f"Settings(access_token='{SECRET}', port=7860)",
    f'{{"oauth_client_secret": "{SECRET}"}}',
    f"SARQC_METRICS_TOKEN={SECRET}",
    f"api_key={SECRET}, model=tiny",
    f"/sign-in/callback?state=abc&code={SECRET}",
    f"password={SECRET}",
)


@pytest.mark.parametrize("said", SAID)
def test_what_is_secret_by_where_it_stands_is_not_there(said):
    cleaned = without_secrets(said)
    assert SECRET not in cleaned
    assert HUB not in cleaned
    assert "…" in cleaned


@pytest.mark.parametrize(
    "said",
    [
        "run 01J9ZK of “ann” took 512 tokens, new_tokens=512, max_new_tokens: 64",
        "GET /api/runs/01J9ZK8Q6Z/events?after=17&limit=20 200",
        "the token file was not found at https://huggingface.co/docs#tokens",
        "Basic arithmetic is fine, and so is the bearer of bad news.",
        "layer model.layers.0.self_attn.q_proj at λ = 0.1: key=value",
    ],
)
def test_everything_else_stays(said):
    assert without_secrets(said) == said


PROGRAM = """
import asyncio, logging, sys, warnings
from sarqc import logs
from sarqc.settings import Settings
logs.configure(Settings())
log = logging.getLogger("sarqc.trial")
def fetch():
    said = "https://user:%s@hub.example/x?token=%s refused, Authorization: Bearer %s"
    raise ConnectionError(said % ((sys.argv[1],) * 3))
with logs.about(owner="ann"), logs.about(run="01RUN"):
    log.info("a line\\nand what looks like another")
    try:
        fetch()
    except ConnectionError:
        log.exception("the Hub said no to %s", {"token": sys.argv[1]})
log.warning("known by its value: " + sys.argv[2])
warnings.warn("warned of " + sys.argv[2])
log.debug("too little")
"""


def lines(form: str) -> list[str]:
    """What a process writes that logs as the app does."""
    environment = os.environ | {
        "SARQC_LOG_FORMAT": form,
        "SARQC_ACCESS_TOKEN": f"x{SECRET}",
        "TRIAL_PASSWORD": "letmein-now",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, SECRET, f"x{SECRET} and letmein-now"], env=environment, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert SECRET not in done.stderr
    assert "letmein" not in done.stderr
    return done.stderr.splitlines()


def test_lines_for_people_say_when_how_bad_and_about_whom():
    first, second, *trace = lines("text")
    assert first.endswith(r" INFO sarqc.trial [run 01RUN, ann]: a line\nand what looks like another")
    assert first[:4].isdigit()
    assert "ERROR sarqc.trial [run 01RUN, ann]: the Hub said no to {'token': '…'}" in second
    assert trace[0] == "Traceback (most recent call last):"
    assert any("ConnectionError: https://…@hub.example/x" in line for line in trace)


def test_lines_for_programs_are_objects():
    first, second, third, warned = map(json.loads, lines("json"))
    assert {"level": "INFO", "logger": "sarqc.trial", "run": "01RUN", "owner": "ann"}.items() <= first.items()
    assert first["message"] == "a line\nand what looks like another"
    assert "fetch" in second["exception"]
    assert "run" not in third
    assert (third["level"], third["message"]) == ("WARNING", "known by its value: … and …")
    assert warned["logger"] == "py.warnings"


def test_a_line_names_the_innermost(caplog):
    form = logs.TextLines(logs.known_secrets(Settings()))
    with logs.about(owner="ann"), logs.about(owner="bob"):
        logging.getLogger("sarqc.trial").warning("words")
        assert "[bob]: words" in form.format(caplog.records[-1])
