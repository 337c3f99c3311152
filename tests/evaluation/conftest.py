"""What tests of evaluation share."""

from pathlib import Path

import pytest
import torch

from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, load


@pytest.fixture(scope="module")
def loaded(tiny_llama: Path) -> LoadedModel:
    return load(read_checkpoint(tiny_llama), torch.device("cpu"))


@pytest.fixture
def random_model(random_llama: Path) -> LoadedModel:
    """One that a test may change."""
    return load(read_checkpoint(random_llama), torch.device("cpu"))
