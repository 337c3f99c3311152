"""Requests that nobody sends who means well: recipes, ids, query values, headers and uploads."""

from __future__ import annotations

import io
import json
import zipfile
from urllib.parse import quote

import requests
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sarqc.recipe import Recipe
from tests.torture.answers import Judge
from tests.torture.drawing import draw
from tests.torture.served import FOREIGN_HOST

RECIPE = {"model": "tiny-llama", "method": "rtn", "calibration": "tiny-llama-calibration", "samples": 2, "length": 64}
HUGE = 10**400
# Text as it may come out of a JSON document: halves of characters and NULs too.
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.text(st.characters(), min_size=1, max_size=3).map(lambda text: text * 700),
    st.sampled_from(
        ["\ud800", "a\0b", "../../etc/passwd", "/etc/passwd", "~root/x", "~nosuchuser/x", "file:///etc/passwd", "a/b.",
         "a--b/c", "a/b\n", "http://169.254.169.254/", "/proc/self/environ", "x" * 300, "\u202e", "text-" + "0" * 24]
    ),
)  # fmt: skip
NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([HUGE, -HUGE, 2**63, 2**64, -1, 10**18]),
    st.floats(allow_nan=True, allow_infinity=True),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
FIELDS = sorted(field.alias or name for name, field in Recipe.model_fields.items())
METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "QUERY", "get", "X-Y"]
ROUTES = [
    "/api", "/api/", "/api/runs", "/api/runs/{}", "/api/runs/{}/events", "/api/runs/{}/log", "/api/runs/{}/cancel",
    "/api/runs/{}/continue", "/api/runs/{}/export", "/api/runs/{}/checkpoint", "/api/runs/{}/link", "/api/studies",
    "/api/studies/{}", "/api/studies/{}/view", "/api/studies/{}/tables/{}", "/api/studies/{}/download",
    "/api/studies/{}/study.safetensors", "/api/studies/{}/arrays/{}", "/api/compare", "/api/events", "/api/texts",
    "/api/texts/{}", "/api/plan", "/api/visitor", "/api/health", "/api/models", "/api/nothing/{}", "/assets/js/{}",
    "/assets/css/{}", "/assets/vendor/{}", "/assets/v-{}/js/{}", "/assets/{}", "/sign-in", "/sign-out", "/share/{}",
    "/healthz", "/", "/{}", "/runs", "/gradio_api/{}", "/config", "/gradio_api/file={}", "/static/{}",
]  # fmt: skip
KNOWN = ["tiny-llama", "tiny-moe", "hero", "base.css", "tiny-llama-methods"]  # ids and files that are there
QUERIES = [
    "limit", "before", "after", "format", "lane", "ids", "method", "bits", "layer", "scale", "draw", "quantity", "v",
    "title", "to", "state", "study", "run",
]  # fmt: skip
# What a header may hold at all: everything else is refused by the parser of the server.
HEADER_TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f")).map(str.strip)
HEADERS = ["Accept", "Accept-Encoding", "If-None-Match", "Range", "Last-Event-ID", "Cookie", "Authorization", "Origin",
           "Sec-Fetch-Site", "X-Forwarded-Host", "X-Forwarded-For", "Content-Type", "If-Range"]  # fmt: skip
ODD_HEADERS = [
    "text/html", "application/json, text/event-stream", "*/*;q=x", "gzip;q=0", "bytes=0-", "bytes=5-2,-1", "bytes=-0",
    "bytes=" + ",".join(["0-0"] * 200), "1e9", str(2**64), "null", "cross-site", 'W/"x", *', "sarqc_visitor=x.y.z",
    "Bearer \xff", "Basic ====", "multipart/form-data; boundary=", "application/json; charset=utf-7",
]  # fmt: skip


@st.composite
def recipes(drawn: st.DrawFn) -> bytes:
    """A recipe with some wrong values, or another document altogether, as JSON and not quite JSON."""
    changes = drawn(st.dictionaries(st.one_of(st.sampled_from(FIELDS), TEXTS), VALUES, min_size=1, max_size=3))
    document = drawn(st.one_of(st.just(RECIPE | changes), st.just(RECIPE | changes), VALUES))
    body = json.dumps(document).encode()  # NaN, Infinity and “\ud800” as Python writes and reads them
    return drawn(st.one_of(st.just(body), st.just(body), st.binary(max_size=40).map(lambda end: body[:-3] + end)))


def _part(value: str) -> str:
    return quote(value, safe="", errors="surrogatepass")


@st.composite
def addresses(drawn: st.DrawFn) -> str:
    """A path with ids and a query, each of any text, encoded as an address has to be."""
    path = drawn(st.sampled_from(ROUTES))
    while "{}" in path:
        path = path.replace("{}", drawn(st.one_of(st.sampled_from(KNOWN), TEXTS.map(_part))), 1)
    pairs = drawn(st.lists(st.tuples(st.sampled_from(QUERIES), st.one_of(TEXTS, NUMBERS.map(_short))), max_size=3))
    query = "&".join(f"{name}={_part(value)}" for name, value in pairs)
    return f"{path}?{query}" if query else path


def _short(number: float) -> str:
    return "1" * 401 if number == HUGE else "-" + "1" * 401 if number == -HUGE else str(number)


@st.composite
def headers(drawn: st.DrawFn) -> dict[str, bytes]:
    values = st.one_of(st.sampled_from(ODD_HEADERS), HEADER_TEXTS)
    return {
        n: v.encode("latin-1") for n, v in drawn(st.dictionaries(st.sampled_from(HEADERS), values, max_size=3)).items()
    }


@st.composite
def archives(drawn: st.DrawFn) -> bytes:
    """A zip file with wrong names and documents, or one that is broken."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        names = st.one_of(
            st.sampled_from(["x/study.json", "study.json", "x/study.safetensors", "../study.json", "/study.json"]),
            # zipfile cuts a name at a null by itself, and one with nothing before it is not a name.
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20),
        )
        documents = st.one_of(VALUES.map(lambda value: json.dumps(value).encode()), st.binary(max_size=200))
        for name, content in drawn(st.dictionaries(names, documents, max_size=4)).items():
            archive.writestr(name, content)
    content = buffer.getvalue()
    cut = drawn(st.integers(0, len(content)))
    return drawn(st.sampled_from([content, content[:cut], content[:cut] + b"\xff" + content[cut + 1 :]]))


def texts() -> SearchStrategy[bytes]:
    return st.one_of(st.binary(max_size=400), st.text(max_size=200).map(lambda text: text.encode()))


def ask(judge: Judge, count: int, seed: int) -> None:
    """``count`` requests: recipes, addresses with odd headers and methods, uploads, and foreign names."""
    address = judge.app.address
    half = {"Content-Type": "application/json"}

    def recipe(drawn: tuple[str, bytes]) -> None:
        path, body = drawn
        judge.send(requests.Request("POST", address + path, headers=half, data=body))

    def anything(drawn: tuple[str, str, dict[str, bytes], bytes]) -> None:
        method, path, odd, body = drawn
        prepared = requests.Request(method, address, headers=odd, data=body).prepare()
        prepared.method, prepared.url = method, address + path  # as they are
        judge.send(prepared)

    def upload(drawn: tuple[str, bytes]) -> None:
        path, body = drawn
        judge.send(requests.Request("POST", address + path, data=body))

    def foreign_host(drawn: tuple[str, str, str]) -> None:
        method, path, host = drawn
        judge.must_refuse(requests.Request(method, address + path, headers={"Host": host}, json=RECIPE), (421,))

    def foreign_site(drawn: tuple[str, str, dict[str, str]]) -> None:
        method, path, who = drawn
        judge.must_refuse(requests.Request(method, address + path, headers=who, json=RECIPE), (403, 404, 405))

    paths = st.sampled_from([route for route in ROUTES if "{}" not in route and route not in ("/healthz", "/sign-out")])
    draw(st.tuples(st.sampled_from(["/api/plan", "/api/runs", "/api/runs?lane=preview"]), recipes()), count * 35 // 100,
         seed, recipe)  # fmt: skip
    everything = st.tuples(st.sampled_from(METHODS), addresses(), headers(), st.sampled_from([b"", b"{}", b"\xff{"]))
    draw(everything, count * 45 // 100, seed + 1, anything)
    draw(st.tuples(st.just("/api/studies"), archives()), count * 6 // 100, seed + 2, upload)
    draw(st.tuples(st.just("/api/texts?title=x"), texts()), count * 6 // 100, seed + 3, upload)
    hosts = st.sampled_from([FOREIGN_HOST, f"{FOREIGN_HOST}:80", f"127.0.0.1.{FOREIGN_HOST}", "[::2]", "a b", "*"])
    draw(st.tuples(st.sampled_from(METHODS[:7]), paths, hosts), count * 4 // 100, seed + 4, foreign_host)
    writes = st.sampled_from(["POST", "PUT", "PATCH", "DELETE"])
    sites = st.sampled_from(
        [{"Origin": f"https://{FOREIGN_HOST}"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
    )
    ours = st.sampled_from(["/api/runs", "/api/plan", "/api/studies", "/api/texts", "/gradio_api/upload"])
    draw(st.tuples(writes, ours, sites), count * 4 // 100, seed + 5, foreign_site)
