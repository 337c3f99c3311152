"""What the host is said to have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sarqc.engine import costs as host
from sarqc.settings import Settings


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that answers as nvidia-smi does, and writes down how often it was asked."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nprintf "24000\\n1000\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for cached in (host._nvidia_smi, host._asked):
        cached.cache_clear()
    yield tmp_path / "asked"
    host._nvidia_smi.cache_clear()
    host._asked.cache_clear()


def test_memory_of_gpus(two_gpus: Path) -> None:
    for device, free in (("auto", 24000), ("cuda", 24000), ("cuda:1", 1000)):
        settings = Settings(device=device)
        assert host.free_bytes(settings) == free * 2**20
        assert not host.on_processor(settings)
    assert host.free_bytes(Settings(device="cuda:2")) is None
    assert host.on_processor(Settings(device="cpu"))
    assert host.free_bytes(Settings(device="cuda:1", memory_gib=3)) == 3 * 2**30
    assert len(two_gpus.read_text().splitlines()) <= 2  # not for every question
    assert "memory.free" in two_gpus.read_text()


def test_a_gpu_that_does_not_answer_is_none(two_gpus: Path) -> None:
    (two_gpus.parent / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert host.on_processor(Settings(device="auto"))
    assert host.free_bytes(Settings(device="cuda")) is None


def test_a_containers_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_CGROUP", tmp_path)
    whole = host.free_bytes(Settings(device="cpu"))
    said = {"memory.max": "3000000", "memory.current": "2000000", "memory.stat": "anon 1\ninactive_file 500000\n"}
    for name, text in said.items():
        (tmp_path / name).write_text(text)
    assert host.free_bytes(Settings(device="cpu")) == 1_500_000
    (tmp_path / "memory.max").write_text("max\n")
    assert host.free_bytes(Settings(device="cpu")) == pytest.approx(whole, rel=0.5)
