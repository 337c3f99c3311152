"""What the Hub offers is judged before its download, by the Hub's own client against a server that answers like it."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sarqc.errors import Unreachable
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.hub import ask, within
from sarqc.models.tokenizing import text_files
from tests.models.fake_hub import FakeHub, serving

ROOT = Path(__file__).resolve().parent.parent.parent
# Plans each recipe of a list and prints what came of it; a last “download” fetches the first one's model.
SCRIPT = """
import json, sys, time
from sarqc.engine.plan import plan
from sarqc.errors import SarqcError
from sarqc.models.catalogue import checkpoint_of
from sarqc.recipe import Recipe
from sarqc.settings import Settings

wanted = json.load(sys.stdin)
for document in wanted["plans"]:
    settings, began = Settings(**document.pop("settings", {})), time.monotonic()
    try:
        planned = plan(Recipe.parse(document), settings)
        answer = {"warnings": planned.warnings, "parameters": planned.parameters, "layers": planned.layers}
    except SarqcError as error:
        answer = error.to_json()
    print(json.dumps(answer | {"seconds": time.monotonic() - began}), flush=True)
if wanted.get("download"):
    checkpoint = checkpoint_of(wanted["download"], None, Settings(), download=True)
    print(json.dumps({"name": checkpoint.name, "layers": len(checkpoint.layers)}), flush=True)
"""


def answers(home: Path, endpoint: str, plans: list[dict], **more: str) -> list[dict]:
    environment = os.environ | {
        "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1",
        "SARQC_STATE_DIR": str(home / "state"),
    }  # fmt: skip
    asked = json.dumps({"plans": plans, **more})
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=asked, cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def recipe(model: str, text: Path | str, **settings: float) -> dict:
    return {
        "model": model, "method": "rtn", "group_size": 16, "calibration": str(text), "samples": 2, "length": 32,
        "settings": {"hub_timeout": 20, **settings},
    }  # fmt: skip


@pytest.fixture
def hub(random_llama: Path, tmp_path: Path) -> FakeHub:
    """Return a good model and several bad ones."""
    models = {}
    changes = {
        "good": {}, "large": {}, "gated": {}, "pickled": {}, "wordless": {}, "unknown": {"model_type": "gpt9"},
        "quantized": {"quantization_config": {}}, "damaged": {"num_hidden_layers": "three"},
        "code": {"auto_map": {"AutoModel": "a.B"}},
    }  # fmt: skip
    for name, change in changes.items():
        folder = Path(shutil.copytree(random_llama, tmp_path / "hub" / name))
        document = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(document | change))
        models[f"somebody/{name}"] = folder
    (models["somebody/pickled"] / "model.safetensors").rename(models["somebody/pickled"] / "pytorch_model.bin")
    (models["somebody/wordless"] / "tokenizer.json").unlink()
    (models["somebody/good"] / "evil.py").write_text("raise SystemExit('run')")
    return FakeHub(
        models, frozenset({"somebody/gated"}), {"somebody/large/model.safetensors": 3 << 30} | {
            "somebody/pickled/pytorch_model.bin": 1 << 20
        },
    )  # fmt: skip


@pytest.mark.thorough
def test_the_unusable_is_refused_before_its_download(hub, tmp_path, text_file):
    wrong = {
        "unknown": ("refused", "type “gpt9”"), "code": ("refused", "code from the checkpoint"),
        "quantized": ("refused", "quantized already"), "damaged": ("refused", "num_hidden_layers"),
        "pickled": ("refused", "no safetensors"), "wordless": ("refused", "no tokenizer"),
        "gated": ("refused", "refuses access"),
        "missing": ("not_found", "no “somebody/missing”"),
    }  # fmt: skip
    plans = [recipe(f"somebody/{name}", text_file) for name in wrong]
    plans += [recipe("somebody/large", text_file, download_gib=2), recipe("somebody/good", text_file)]
    with serving(hub):
        *refusals, large, good = answers(tmp_path / "home", hub.endpoint, plans)
        for name, said in zip(wrong, refusals, strict=True):
            kind, words = wrong[name]
            assert said["kind"] == kind, said
            assert words in said["what"]
            assert said["where"] == f"somebody/{name}"
            assert str(tmp_path) not in json.dumps(said)
        assert "3 GiB" in large["what"]
        assert "SARQC_DOWNLOAD_GIB" in large["remedy"]
        assert good["warnings"] == ["somebody/good is not on this host yet: it will be downloaded. Sizes are those of "
                                    "its configuration, and time is without the measurements"]  # fmt: skip
        assert good["parameters"] == read_checkpoint(hub.models["somebody/good"]).parameters
        assert good["layers"] == 21
        fetched = {asked.rpartition("/")[2] for asked in hub.asked if "/resolve/" in asked}
        assert fetched == {"config.json"}


@pytest.mark.thorough
def test_a_model_larger_than_the_disk(hub, tmp_path, text_file):
    hub.sizes["somebody/large/model.safetensors"] = 1 << 60
    with serving(hub):
        (said,) = answers(tmp_path / "home", hub.endpoint, [recipe("somebody/large", text_file, download_gib=1e12)])
    assert "are free for downloads" in said["what"]


@pytest.mark.thorough
def test_a_download_brings_data_only_and_a_broken_one_goes_on(hub, tmp_path, text_file):
    home, good = tmp_path / "home", "somebody/good"
    with serving(hub):
        (got,) = answers(home, hub.endpoint, [], download=good)
        assert got == {"name": good, "layers": 21}
        folder = next(home.rglob("snapshots/*"))
        assert {path.name for path in folder.iterdir()} == {
            path.name for path in hub.models[good].iterdir() if path.suffix in (".json", ".safetensors")
        }
        (folder / "model.safetensors").unlink()  # as after a connection that was cut
        said, again = answers(home, hub.endpoint, [recipe(good, text_file)], download=good)
        assert "not on this host yet" in said["warnings"][0]
        assert again == got
        hub.asked.clear()
        (whole,) = answers(home, hub.endpoint, [recipe(good, text_file)])
        assert whole["warnings"] == []
        assert hub.asked == []


def test_every_file_of_a_tokenizer_and_its_chats_comes_along(hub, tmp_path):
    good = hub.models["somebody/good"]
    others = {
        "merges.txt", "vocab.txt", "cl100k_base.tiktoken", "spiece.model", "chat_template.jinja",
        "chat_template.json", "generation_config.json", "additional_chat_templates/tools.jinja",
    }  # fmt: skip
    for name in others:
        (good / name).parent.mkdir(exist_ok=True)
        (good / name).write_text("{}")
    for name in ("tokenization.py", "tokenizer.py", "tokenizer.pkl"):
        (good / name).write_text("raise SystemExit('run')")
    home = tmp_path / "home"
    with serving(hub):
        answers(home, hub.endpoint, [], download="somebody/good")
    folder = next(home.rglob("snapshots/*"))
    wanted = {path.relative_to(good) for path in text_files(good)}
    assert {path.as_posix() for path in wanted} == others | {"tokenizer.json", "tokenizer_config.json"}
    assert {path.relative_to(folder) for path in text_files(folder)} == wanted
    assert not [*folder.glob("*.py"), *folder.glob("*.pkl")]
    assert (folder / "chat_template.jinja").read_bytes() == b"{}"


@pytest.mark.thorough
def test_a_hub_that_swallows_packets(tmp_path, text_file):
    """It takes connections and never answers: models and texts are given up in time, both."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        plans = [
            recipe("somebody/good", text_file, hub_timeout=1),
            recipe("tiny-llama", "wikitext2", hub_timeout=1),
            recipe("tiny-llama", "c4", hub_timeout=1),
        ]
        for said in answers(tmp_path / "home", endpoint, plans):
            assert said["kind"] == "unreachable", said
            assert said["seconds"] < 45  # of them one for the question; a client left alone takes more than a minute


class TestWithin:
    def test_an_answer_and_an_error(self):
        assert within(10, "answer", lambda: 3) == 3
        with pytest.raises(ZeroDivisionError):
            within(10, "error", lambda: 1 / 0)

    def test_work_that_never_ends_is_done_once(self):
        began, go_on = [], threading.Event()

        def work() -> str:
            began.append(1)
            go_on.wait(60)
            return "late"

        for _ in range(5):
            with pytest.raises(TimeoutError):
                within(0.01, "slow", work)
        go_on.set()
        assert within(60, "slow", work) == "late"
        assert len(began) <= 2  # the first one, and at most one after it was over

    def test_a_question_without_an_answer_is_unreachable(self, settings):
        never = threading.Event()
        with pytest.raises(Unreachable, match="TimeoutError") as refused:
            ask("never", lambda: never.wait(60), "somebody/good", settings.model_copy(update={"hub_timeout": 0.01}),
                remedy="Wait.")  # fmt: skip
        never.set()
        assert (refused.value.where, refused.value.remedy) == ("somebody/good", "Wait.")
