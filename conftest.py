"""What every test shares: no network, no state outside the test, no threads that starve each other."""

import os
import secrets
import shutil
import tempfile
from pathlib import Path

# Before torch and the Hub's client are imported: both read these once, here and in every process that a test starts.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["OMP_NUM_THREADS"] = "1"  # the tensors here are small: a second thread would only wait for a core
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["SARQC_STATE_DIR"] = tempfile.mkdtemp(prefix="sarqc-tests-")
os.environ["SARQC_PRETRAINED_DIR"] = os.environ["SARQC_STATE_DIR"]  # none: what a host has changes no test

if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels run without a GPU; read where they are defined

import hypothesis
import pytest

from sarqc.settings import Settings
from tests.object_storage import is_installed, s3_server

hypothesis.settings.register_profile("sarqc", deadline=None)  # a busy host is not an error
hypothesis.settings.load_profile("sarqc")


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["SARQC_STATE_DIR"], ignore_errors=True)


@pytest.fixture(scope="session")
def settings():
    """The host's settings with a state folder that only this test run uses."""
    return Settings()


@pytest.fixture(scope="session")
def tiny_llama(settings):
    """Folder of the embedded model."""
    return settings.assets_dir / "models" / "tiny-llama"


@pytest.fixture(scope="session")
def random_llama(tmp_path_factory, tiny_llama):
    """A LLaMA with random weights and odd sizes: 3 blocks, hidden 32, intermediate 48, 4 heads over 2 KV heads."""
    import shutil

    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=4096, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=True,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("models") / "random-llama"
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data.normal_(std=0.2)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_llama / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def text_file(tmp_path_factory, tiny_llama):
    """About 3,000 tokens of text."""
    path = tmp_path_factory.mktemp("texts") / "text.txt"
    path.write_text((tiny_llama / "test.txt").read_text()[:12_000])
    return path


@pytest.fixture(scope="session")
def small(random_llama, text_file):
    """A small recipe without method and bits."""
    return {
        "model": str(random_llama), "group_size": 16, "calibration": str(text_file), "samples": 6, "length": 32,
        "test": str(text_file), "window": 64,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def umask():
    """Commands that write backups forbid others to read, and would forbid it to the tests after them."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture
def fresh_settings(settings, tmp_path):
    """Settings whose finished layers nobody else has."""
    return settings.model_copy(update={"state_dir": tmp_path / "state"})


@pytest.fixture(scope="session")
def bucket():
    """The address of a bucket of a real S3 server."""
    if not is_installed():
        pytest.skip("no object storage is installed: pip install s3fs 'moto[s3]' flask flask-cors")
    with s3_server() as address:
        yield address


@pytest.fixture
def object_storage(bucket):
    """An address in it that no other test has."""
    return f"{bucket}/{secrets.token_hex(8)}"
