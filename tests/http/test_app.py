"""The app around the interface: headers, files, one app per state folder, and the pages under its policy."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import plotly
import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.errors import Refused
from sarqc.settings import Settings
from sarqc.web.static import content_version
from tests.http.conftest import assert_error


def test_headers_on_every_answer(client: TestClient, settings: Settings) -> None:
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


def test_scripts_and_styles_show_edits(client: TestClient, settings: Settings) -> None:
    for path in ("js/one.js", "css/one.css"):
        file = settings.assets_dir / path
        file.parent.mkdir(parents=True)
        file.write_text("first")
        answer = client.get(f"/assets/{path}")
        assert answer.text == "first"
        assert answer.headers["cache-control"] == "no-cache"
        tag = {"If-None-Match": answer.headers["etag"]}
        assert client.get(f"/assets/{path}", headers=tag).status_code == 304
        file.write_text("second edit")
        assert client.get(f"/assets/{path}", headers=tag).text == "second edit"


def test_what_names_its_version_is_kept_for_ever_until_a_file_changes(client: TestClient, settings: Settings) -> None:
    folder = settings.assets_dir
    for path, text in (("js/one.js", "export const one = 1;\n" * 200), ("js/deep/two.js", "2"), ("css/one.css", "a{}")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    root = f"/assets/v-{content_version(folder)}"
    answer = client.get(f"{root}/js/one.js")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.text == "export const one = 1;\n" * 200
    assert client.get(f"{root}/css/one.css").headers["content-type"].startswith("text/css")
    assert client.head(f"{root}/js/deep/two.js").headers["cache-control"].endswith("immutable")
    assert client.get("/assets/v-0123456789ab/js/one.js").headers["cache-control"] == "no-cache"

    (folder / "js/deep/two.js").write_text("33")  # another file: what imports it may mean something else
    assert f"/assets/v-{content_version(folder)}" != root
    late = client.get(f"{root}/js/deep/two.js")
    assert (late.text, late.headers["cache-control"]) == ("33", "no-cache")
    for name in ("js/%2e%2e/css/one.css", "js/none.js", "js/deep", "models/tiny/config.json"):
        assert client.get(f"{root}/{name}").status_code == 404


def test_models_are_not_served(client: TestClient, settings: Settings) -> None:
    for path in ("models/tiny/model.safetensors", "studies/x/study.json"):
        (settings.assets_dir / path).parent.mkdir(parents=True)
        (settings.assets_dir / path).write_text("weights")
    (settings.assets_dir / "js").mkdir()
    for path in ("models/tiny/model.safetensors", "studies/x/study.json", "js/%2e%2e/models/tiny/model.safetensors"):
        assert client.get(f"/assets/{path}").status_code == 404


def test_plotly_is_the_installed_one(client: TestClient) -> None:
    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    answer = client.get("/assets/plotly.min.js")
    assert answer.content == script.read_bytes()
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["cache-control"] == "no-cache"
    versioned = client.get(f"/assets/plotly.min.js?v={plotly.__version__}")
    assert versioned.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert client.get("/assets/plotly.min.js?v=1").headers["cache-control"] == "no-cache"


def test_two_apps_do_not_share_a_state_folder(client: TestClient, settings: Settings) -> None:
    with pytest.raises(Refused, match="another sarqc app"):
        create_app(settings, with_pages=False)


def test_an_app_without_its_device_does_not_start(settings: Settings) -> None:
    with pytest.raises(Refused, match="no device"):
        create_app(settings.model_copy(update={"device": "abacus"}), with_pages=False)
    create_app(settings, with_pages=False).state.supervisor.store.close()  # the store was not left open


def test_main_says_in_one_line_why_it_can_not_start(settings: Settings) -> None:
    environment = {"SARQC_STATE_DIR": str(settings.state_dir), "SARQC_DEVICE": "abacus", "PATH": ""}
    answer = subprocess.run([sys.executable, "app.py"], capture_output=True, text=True, env=environment)
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert line.startswith("SARQC_DEVICE: the setting is 'abacus'")
    assert line.endswith("auto, cpu, cuda or cuda:N; auto takes CUDA where there is one.")


def test_the_whole_app_does_not_import_torch(settings: Settings) -> None:
    code = (
        "import sys; from app import create_app; from sarqc.settings import Settings; from pathlib import Path\n"
        f"create_app(Settings(state_dir=Path({str(settings.state_dir)!r}), device='cpu'))\n"
        "print({'torch', 'transformers', 'lm_eval'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


def test_pages_and_interface_live_together(settings: Settings) -> None:
    app = create_app(settings.model_copy(update={"assets_dir": Path("assets").resolve()}))
    with TestClient(app) as client:
        page = client.get("/")
        assert page.status_code == 200
        assert "gradio" in page.text
        assert page.headers["content-encoding"] == "gzip"
        (root,) = set(re.findall(r"/assets/v-[0-9a-f]{12}", page.text))  # one address for each module, with its version
        assert root == f"/assets/v-{content_version(Path('assets').resolve())}"
        assert not re.findall(r"/assets/(?:js|css)/", page.text)
        assert client.get("/runs").status_code == 200
        assert client.get("/learn").status_code == 200
        assert client.get("/api/nothing").json()["error"]["kind"] == "not_found"
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


def test_of_gradio_there_is_what_the_pages_load_alone(settings: Settings) -> None:
    """See ``tests/browser/test_policy.py`` for what that is; nothing but pages, scripts and styles."""
    app = create_app(settings.model_copy(update={"assets_dir": Path("assets").resolve()}))
    with TestClient(app) as client:
        page = client.get("/").text
        (script,) = re.findall(r'src="\.(/assets/index-[\w-]+\.js)"', page)
        assert client.get(script).status_code == 200
        assert client.get("/theme.css").status_code == 200
        for path in OF_GRADIO:
            assert_error(client.get(path), 404, "refused")
        assert_error(client.post("/gradio_api/queue/join", json={}), 405, "not_allowed")


def test_scripts_within_a_document_carry_the_nonce_of_its_answer(settings: Settings) -> None:
    app = create_app(settings.model_copy(update={"assets_dir": Path("assets").resolve()}))
    nonces = set()
    with TestClient(app) as client:
        for path in ("/", "/", "/calibrate", "/runs", "/learn", "/sign-in", "/nothing-here"):
            answer = client.get(path, headers={"Accept": "text/html"})
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


def test_browsers_get_no_error_for_the_icon_that_pages_do_without(client: TestClient) -> None:
    answer = client.get("/favicon.ico")
    assert (answer.status_code, answer.content) == (204, b"")
