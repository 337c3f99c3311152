"""The app around the interface: headers, files, one app per state folder, and the pages under its policy."""

import asyncio
import json
import re
import shutil
import subprocess
import sys

import pytest
from fastapi.testclient import TestClient

from app import create_app
from pages import build
from sarqc.errors import Refused
from sarqc.settings import SITE
from sarqc.web.static import content_version
from tests.event_loops import run_apart
from tests.http.conftest import assert_error


@pytest.fixture
def whole(settings):
    """Settings of an app with all that its pages load."""
    return settings.model_copy(update={"assets_dir": SITE / "assets"})


@pytest.fixture
def site(whole):
    with TestClient(create_app(whole)) as client:
        yield client


def test_headers_on_every_answer(client, settings):
    (settings.assets_dir / "js").mkdir(parents=True)
    for path in ("/api/health", "/api/nothing", "/assets/js/none.js", "/nowhere"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'self'"
        assert policy["object-src"] == "'none'"
        assert "frame-ancestors" in policy
        for name, sources in policy.items():
            assert name == "frame-ancestors" or not any("://" in source or "*" in source for source in sources.split())


@pytest.mark.thorough
def test_scripts_and_styles_are_kept_for_ever_until_a_file_changes(settings):
    without = shutil.ignore_patterns("models", "studies")
    shutil.copytree("assets", settings.assets_dir, ignore=without, dirs_exist_ok=True)
    with TestClient(create_app(settings)) as client:
        root = f"/assets/v-{content_version(settings.assets_dir)}"
        styles = [
            line
            for line in (settings.assets_dir / "css" / "base.css").read_text().splitlines()
            if line.startswith("  --")
        ]
        for name, kind in (("lab.js", "text/javascript"), ("pages.css", "text/css"), ("sign_in.css", "text/css")):
            answer = client.get(f"{root}/{name}")
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["content-encoding"] == "gzip"
            assert answer.headers["content-type"].startswith(kind)
            assert client.get(f"{root}/{name}", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
            assert kind != "text/css" or all(line in answer.text for line in styles)
        assert client.head(f"{root}/runs.js").headers["cache-control"].endswith("immutable")
        assert client.get("/assets/v-0123456789ab/runs.js").headers["cache-control"] == "no-cache"

        changed = settings.assets_dir / "js/base/format.js"
        changed.write_text(f"{changed.read_text()}export const edited = 1;\n")
        assert f"/assets/v-{content_version(settings.assets_dir)}" != root
        late = client.get(f"{root}/runs.js")
        assert "edited" in late.text
        assert late.headers["cache-control"] == "no-cache"
        for name in ("js/%2e%2e/css/base.css", "none.js", "js", "models/tiny/config.json"):
            assert client.get(f"{root}/{name}").status_code == 404


@pytest.mark.thorough
def test_models_are_not_served(client, settings):
    for path in ("models/tiny/model.safetensors", "studies/x/study.json"):
        (settings.assets_dir / path).parent.mkdir(parents=True)
        (settings.assets_dir / path).write_text("weights")
    (settings.assets_dir / "js").mkdir()
    for path in ("models/tiny/model.safetensors", "studies/x/study.json", "js/%2e%2e/models/tiny/model.safetensors"):
        assert client.get(f"/assets/{path}").status_code == 404


def test_two_apps_do_not_share_a_state_folder(client, settings):
    with pytest.raises(Refused, match="another sarqc app"):
        create_app(settings, with_pages=False)


def test_an_app_without_its_device_does_not_start(settings):
    with pytest.raises(Refused, match="no device"):
        create_app(settings.model_copy(update={"device": "abacus"}), with_pages=False)
    create_app(settings, with_pages=False).state.supervisor.store.close()  # the store was not left open


@pytest.mark.thorough
def test_the_whole_app_does_not_import_torch(settings):
    code = (
        "import sys; from app import create_app; from sarqc.settings import Settings; from pathlib import Path\n"
        f"create_app(Settings(state_dir=Path({str(settings.state_dir)!r}), device='cpu'))\n"
        "print({'torch', 'transformers', 'lm_eval'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


@pytest.mark.thorough
def test_pages_and_interface_live_together(site):
    page = site.get("/")
    assert page.status_code == 200
    assert "gradio" in page.text
    assert page.headers["content-encoding"] == "gzip"
    (root,) = set(re.findall(r"/assets/v-[0-9a-f]{12}", page.text))  # one address for each module, with its version
    assert root == f"/assets/v-{content_version(SITE / 'assets')}"
    assert site.get("/runs").status_code == 200
    assert site.get("/learn").status_code == 200
    assert site.get("/api/nothing").json()["error"]["kind"] == "not_found"
    config = json.loads(page.text.partition("window.gradio_config = ")[2].partition(";</script>")[0])
    assert config["run_history"] is False
    assert config["analytics_enabled"] is False
    assert config["show_error"] is False
    assert config["footer_links"] == []


# Gradio's routes, as its source lists them; with a queue, “queue/data” answers for as long as somebody listens.
OF_GRADIO = (
    "/config", "/config/", "/svelte/x.js", "/robots.txt", "/manifest.json", "/pwa_icon", "/monitoring",
    "/monitoring/summary", "/logout", "/login", "/user",
    *(f"/gradio_api/{name}" for name in (
        "info", "info/", "openapi.json", "heartbeat/x", "queue/data?session_hash=x", "queue/status", "app_id", "token",
        "user", "login_check", "dev/reload", "file=/etc/passwd", "file/x", "proxy=https://x.example/", "startup-events",
        "upload_progress?upload_id=x", "stream/a/b/c/playlist.m3u8", "call/x/y", "runs", "deep_link", "vibe-code",
        "theme.css", "profiling/traces", "custom_component/a/b/c/d", "run-history/buckets",
    )),
)  # fmt: skip


@pytest.mark.thorough
def test_of_gradio_there_is_what_the_pages_load_alone(site):
    """See ``tests/browser/test_policy.py`` for what that is; nothing but pages, scripts and styles."""
    page = site.get("/").text
    (script,) = re.findall(r'src="\.(/assets/index-[\w-]+\.js)"', page)
    assert site.get(script).status_code == 200
    assert site.get("/theme.css").status_code == 200
    for path in OF_GRADIO:
        assert_error(site.get(path), 404, "refused")
    assert_error(site.post("/gradio_api/queue/join", json={}), 405, "not_allowed")


def test_with_nothing_to_do_the_app_waits(whole):
    """Nothing that the app starts asks its loop to be woken again within a second: it would be so for ever."""
    delays = []

    class Loop(asyncio.SelectorEventLoop):
        def call_later(self, delay, *more, **given):
            delays.append(delay)
            return super().call_later(delay, *more, **given)

    async def waits():
        async with app.router.lifespan_context(app):
            delays.clear()
            for _ in range(500):  # turns of the loop, in which whoever waits for nothing waits again
                await asyncio.to_thread(int)

    app = create_app(whole)
    run_apart(waits(), Loop)
    assert [delay for delay in delays if delay < 1] == []


def test_no_element_of_a_page_calls_python(whole):
    """So Gradio's queue, which is never started, has nothing to do: a click is answered in the browser."""
    pages = build(whole)
    assert [fn.fn for fn in pages.fns.values() if fn.fn is not None] == []


@pytest.mark.thorough
def test_scripts_within_a_document_carry_the_nonce_of_its_answer(site):
    nonces = set()
    for path in ("/", "/", "/calibrate", "/runs", "/learn", "/sign-in", "/nothing-here"):
        answer = site.get(path, headers={"Accept": "text/html"})
        policy = answer.headers["content-security-policy"]
        scripts = next(part for part in policy.split("; ") if part.startswith("script-src "))
        (nonce,) = re.findall(r"'nonce-([\w-]{22})'", scripts)
        evaluates = path not in ("/sign-in", "/nothing-here")
        assert scripts == f"script-src 'self' 'nonce-{nonce}'" + (" 'unsafe-eval'" if evaluates else "")
        inside = re.findall(r"<script((?:(?! src=)[^>])*)>", answer.text)
        assert inside
        assert all(f'nonce="{nonce}"' in attributes for attributes in inside)
        assert answer.headers["permissions-policy"].startswith("accelerometer=()")
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        nonces.add(nonce)
    assert len(nonces) == 7


def test_browsers_get_no_error_for_the_icon_that_pages_do_without(client):
    answer = client.get("/favicon.ico")
    assert (answer.status_code, answer.content) == (204, b"")
