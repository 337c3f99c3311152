"""The doctor on this host."""

import os
import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

from sarqc.__main__ import app
from sarqc.engine import device_check
from sarqc.evaluation import speed
from sarqc.extras.host import doctor


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """The same trials on few tokens."""
    few = device_check.RECIPE | {"samples": 2, "length": 64, "steps": 2}
    for module in (device_check, doctor):
        monkeypatch.setattr(module, "RECIPE", few)


@pytest.mark.thorough
def test_a_kernel_that_fails_becomes_a_reason(fresh_settings, monkeypatch):
    def failing(codes):
        raise RuntimeError("not implemented for this device\nand more")

    monkeypatch.setattr(speed, "_pack", failing)
    (finding,) = doctor._kernel(fresh_settings)
    assert not finding.is_sound
    assert finding.words == "No 4-bit kernel: PyTorch's 4-bit kernel failed: not implemented for this device."


@pytest.mark.thorough
def test_the_command_says_what_the_host_can_do(tmp_path):
    answer = CliRunner().invoke(app, ["doctor"], env={"SARQC_DEVICE": "cpu", "SARQC_STATE_DIR": str(tmp_path)})
    assert answer.exit_code == 0, answer.output
    lines = answer.stdout.splitlines()
    assert any(line.startswith("ok    Runs compute on the CPU") for line in lines)
    assert any(line.startswith("embedded models") and "tiny-llama" in line for line in lines)
    assert any("A whole run: perplexity" in line for line in lines)
    assert not any(line.startswith("WRONG") for line in lines)
    assert not any(tmp_path.iterdir())  # what it tried is not kept


@pytest.mark.thorough
def test_a_device_that_is_not_there_is_said(fresh_settings):
    if torch.cuda.is_available():
        pytest.skip("this host has a GPU")
    (finding,) = doctor.examine(fresh_settings.model_copy(update={"device": "cuda"}), fresh_settings)
    assert not finding.is_sound
    assert "there is none" in finding.words
    answer = subprocess.run(
        [sys.executable, "-m", "sarqc", "doctor"], capture_output=True, text=True,
        env=os.environ | {"SARQC_DEVICE": "cuda"},
    )  # fmt: skip
    assert answer.returncode == 1
    assert "WRONG CUDA was asked for and there is none (device cuda). Set SARQC_DEVICE" in answer.stdout


@pytest.mark.thorough
def test_object_storage_is_tried(fresh_settings, object_storage):
    found = [
        [(one.is_sound, one.words) for one in doctor._host(fresh_settings.model_copy(update={"storage": storage}))]
        for storage in ("", object_storage, "s3://no-such-bucket")
    ]
    assert found[:2] == [[], [(True, f"{object_storage} can be written and read.")]]
    ((is_sound, words),) = found[2]
    assert not is_sound
    assert "no-such-bucket" in words
