"""What the images promise, read from their recipes. Their steps are run by ``python -m conformance.image_steps``."""

import re
import subprocess
import sys

import pytest
import yaml

from app import check_settings
from sarqc.settings import Settings
from tests.code_names import setting_names
from tests.images import ROOT, Instruction, environment, instructions

IMAGE, SPACE = ROOT / "Dockerfile", ROOT / "deploy" / "space" / "Dockerfile"
PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?")
DEPLOY = ROOT / "deploy"


@pytest.fixture(params=[IMAGE, SPACE], ids=["image", "space"])
def steps(request):
    return instructions(request.param)


def place(steps: list[Instruction], name: str, part: str = "") -> int:
    return next(number for number, step in enumerate(steps) if step.name == name and part in step.text)


def test_the_rules_of_a_good_recipe(steps):
    """Those of hadolint that apply here."""
    names = [step.name for step in steps]
    assert PINNED.fullmatch(steps[place(steps, "FROM")].text)
    assert "MAINTAINER" not in names
    assert "ADD" not in names
    for once in ("CMD", "ENTRYPOINT", "HEALTHCHECK"):
        assert names.count(once) == 1
    for name in ("CMD", "ENTRYPOINT", "HEALTHCHECK"):
        assert steps[place(steps, name)].words()  # not through a shell that would swallow signals
    for step in steps:
        if step.name == "RUN" and "apt-get" in step.text:
            assert {"update", "--yes", "--no-install-recommends"} <= set(step.text.split())
            assert step.text.endswith("rm -rf /var/lib/apt/lists/*")
        if step.name == "RUN":
            assert "sudo" not in step.text
            assert step.text.count("pip install") == step.text.count("--no-cache-dir")
        if step.name == "WORKDIR":
            assert step.text.startswith("/")
        if step.name == "USER":
            assert step.text not in ("root", "0")
    assert place(steps, "USER") < min(place(steps, "CMD"), place(steps, "RUN", "pip install"))


def test_an_edit_of_the_code_leaves_the_large_layers(steps):
    torch, requirements = place(steps, "RUN", "download.pytorch.org"), place(steps, "COPY", "requirements.txt")
    assert torch < requirements < place(steps, "RUN", "-r requirements.txt") < place(steps, "COPY", ". .")


def test_every_file_that_is_installed_has_a_known_hash(steps):
    installing = [step.text for step in steps if step.name == "RUN" and "pip install" in step.text]
    assert len(installing) == 2
    assert all("--require-hashes --no-deps" in text for text in installing)


def test_the_state_and_models_of_the_hub_belong_to_the_user_and_outlive_the_container(steps):
    """Docker makes a volume's folder as root, unless the image has it already."""
    told = environment(steps)
    volume = next((step.text for step in steps if step.name == "VOLUME"), "/data")
    assert told["HF_HOME"].startswith(f"{told['SARQC_STATE_DIR']}/")
    assert told["SARQC_STATE_DIR"].startswith(volume)
    made = place(steps, "RUN", f"mkdir -p {volume}")
    assert place(steps, "USER") < made or f"chown user {volume}" in steps[made].text
    assert "/healthz" in steps[place(steps, "HEALTHCHECK")].text
    assert steps[place(steps, "ENTRYPOINT")].words() == ["tini", "--"]


def test_settings_are_those_that_there_are(steps):
    for name in environment(steps):
        assert not name.startswith("SARQC_") or name.removeprefix("SARQC_").lower() in setting_names()


def test_a_space_needs_no_edit(tmp_path, monkeypatch):
    """What is pushed has a head that a Space reads, and settings with which the app starts."""
    subprocess.run([sys.executable, DEPLOY / "make_space.py", tmp_path / "space"], check=True)
    _, head, _ = (tmp_path / "space" / "README.md").read_text().split("---\n", 2)
    front = yaml.safe_load(head)
    steps = instructions(tmp_path / "space" / "Dockerfile")
    told = environment(steps)
    assert (front["sdk"], front["app_port"], front["hf_oauth"]) == ("docker", int(told["SARQC_PORT"]), True)
    assert len(front["short_description"]) <= 60
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    for name, value in {"OAUTH_CLIENT_ID": "id", "OAUTH_CLIENT_SECRET": "of-the-space"}.items():
        monkeypatch.setenv(name, value)  # which a Space with hf_oauth sets
    monkeypatch.setenv("SARQC_HOSTS", "ann-sarqc.hf.space")  # as the command sets it
    check_settings(Settings())
    assert {"app.py", "sarqc", "pages", "assets", "requirements-cpu.txt", "requirements.txt"} <= {
        path.name for path in (tmp_path / "space").iterdir()
    }
    assert not list((tmp_path / "space").rglob("__pycache__"))


def test_the_composition_is_pinned_and_its_parts_speak_of_each_other():
    host, oauth = (yaml.safe_load((DEPLOY / name).read_text()) for name in ("compose.yaml", "compose.oauth.yaml"))
    services = host["services"] | {"oauth2-proxy": oauth["services"]["oauth2-proxy"]}
    for name, service in services.items():
        assert name == "sarqc" or PINNED.fullmatch(service["image"]), name
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith("./") else source in host["volumes"]
    app, proxy = services["sarqc"]["environment"], services["proxy"]
    for name in app:
        assert name.removeprefix("SARQC_").lower() in setting_names()
    assert app["SARQC_PROXY_ADDRESSES"] == proxy["networks"]["inside"]["ipv4_address"]
    assert "ports" not in services["sarqc"]  # people come by way of the proxy alone
    for name in ("Caddyfile", "Caddyfile.oauth"):
        assert app["SARQC_PROXY_HEADER"] in (DEPLOY / name).read_text()
    scraped = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ["sarqc:7860"]
    assert scraped["authorization"]["credentials_file"] == "/run/secrets/metrics_token"
    asked = set(re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose.yaml").read_text()))
    told = {line.partition("=")[0] for line in (DEPLOY / "host.env.example").read_text().splitlines()}
    assert asked <= told
