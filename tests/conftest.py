"""What every test shares: no network, no state outside the test, no threads that starve each other."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# Before torch and the Hub's client are imported: both read these once.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["SARQC_STATE_DIR"] = tempfile.mkdtemp(prefix="sarqc-tests-")

import pytest

from sarqc.settings import Settings


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The host's settings with a state folder that only this test run uses."""
    return Settings()


@pytest.fixture(scope="session")
def tiny_llama(settings: Settings) -> Path:
    """Folder of the embedded model."""
    return settings.assets_dir / "models" / "tiny-llama"


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """The tensors here are small: a second thread would only wait for a core."""
    import torch

    torch.set_num_threads(1)
