"""What the host is said to have."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from sarqc.engine import costs as host
from sarqc.engine import gpus
from sarqc.engine.execute import execute
from sarqc.engine.plan import plan, together
from sarqc.evaluation import LOGIT_BYTES, loss_bytes, task_batch
from sarqc.files import memory
from sarqc.models.checkpoint import read_checkpoint
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from tests.http.test_full_disk import small_disk


@pytest.fixture
def two_gpus(tmp_path, monkeypatch):
    """A program that answers as nvidia-smi does, and writes down how often it was asked."""
    program = tmp_path / "nvidia-smi"
    rows = "GPU-aa11, NVIDIA H100 80GB HBM3, 24000, 81559, 570.1\\nGPU-bb22, Quadro, 1000, 16000, 570.1\\n"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nprintf "{rows}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for cached in (gpus._nvidia_smi, gpus._query):
        cached.cache_clear()
    yield tmp_path / "asked"
    gpus._nvidia_smi.cache_clear()
    gpus._query.cache_clear()


def test_memory_of_gpus(two_gpus):
    for device, free in (("auto", 24000), ("cuda", 24000), ("cuda:1", 1000)):
        settings = Settings(device=device)
        assert host.free_bytes(settings) == free * 2**20
        assert not host.on_processor(settings)
    assert host.free_bytes(Settings(device="cuda:2")) is None
    assert host.on_processor(Settings(device="cpu"))
    assert host.free_bytes(Settings(device="cuda:1", memory_gib=3)) == 3 * 2**30
    assert len(two_gpus.read_text().splitlines()) <= 2  # not for every question
    assert "memory.free" in two_gpus.read_text()


@pytest.mark.parametrize(
    ("visible", "free"),
    [("1", [1000]), ("1,0", [1000, 24000]), ("GPU-bb", [1000]), ("0,7,1", [24000]), ("GPU", []), ("", []), ("-1", [])],
)
def test_only_the_gpus_that_cuda_shows_count(two_gpus, monkeypatch, visible, free):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.free for gpu in gpus.visible_gpus()] == [mib * 2**20 for mib in free]
    assert host.free_bytes(Settings(device="cuda")) == (free[0] * 2**20 if free else None)


def test_candidates_take_what_the_device_has(two_gpus):
    assert host.sweep_bytes(Settings(device="cpu")) == 1 << 30
    assert host.sweep_bytes(Settings(device="cuda:0")) == 81559 * 2**20 // 8
    assert host.sweep_bytes(Settings(device="cuda:1")) == 16000 * 2**20 // 8
    assert host.sweep_bytes(Settings(device="cuda:2")) == 1 << 30  # of a GPU that nobody knows
    assert host.sweep_bytes(Settings(device="cuda:0", sweep_gib=0.5)) == 1 << 29


def test_a_gpu_that_does_not_answer_is_none(two_gpus):
    (two_gpus.parent / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert host.on_processor(Settings(device="auto"))
    assert host.free_bytes(Settings(device="cuda")) is None


def test_a_containers_limit_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    whole = host.free_bytes(Settings(device="cpu"))
    said = {"memory.max": "3000000", "memory.current": "2000000", "memory.stat": "anon 1\ninactive_file 500000\n"}
    for name, text in said.items():
        (tmp_path / name).write_text(text)
    assert host.free_bytes(Settings(device="cpu")) == 1_500_000
    (tmp_path / "memory.max").write_text("max\n")
    assert host.free_bytes(Settings(device="cpu")) == pytest.approx(whole, rel=0.5)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"sweep": [0.1, 0.2, 0.5]},
        {"prompts": ["Once", "Twice upon", "A third time"]},
        {"method": "awq"},
        {"method": "gptq"},
        {"test": "tiny-llama-test", "test_tokens": 2000, "window": 128},
    ],
)
def test_a_plan_says_what_a_run_writes(more, fresh_settings):
    recipe = Recipe.parse(
        {"model": "tiny-llama", "calibration": "tiny-llama-calibration", "samples": 1, "length": 16, "group_size": 32,
         "method": "rtn", "new_tokens": 64} | more
    )  # fmt: skip
    said = plan(recipe, fresh_settings).disk_bytes
    for _ in execute(recipe, fresh_settings, study_dir=fresh_settings.studies_dir()):
        pass
    written = sum(path.stat().st_size for path in fresh_settings.resolved_state_dir().rglob("*") if path.is_file())
    assert 0.8 * written < said < 1.5 * written


@pytest.mark.thorough
def test_a_run_that_has_no_room_on_the_disk_is_refused(tmp_path):
    """The disk is really that small, for the command alone."""
    state = tmp_path / "state"
    flags = ["--model", "tiny-llama", "--calibration", "tiny-llama-calibration", "--group-size", "32", "--json"]
    ends = {}
    for name, prompts in (("small", 1), ("large", 30)):
        more = [part for number in range(prompts) for part in ("--prompts", f"Once {number}")]
        command = [*small_disk(state), sys.executable, "-m", "sarqc", "plan", *flags, *more, "--new-tokens", "64"]
        ends[name] = subprocess.run(
            command, env=os.environ | {"SARQC_STATE_DIR": str(state)}, capture_output=True, text=True, timeout=100,
        )  # fmt: skip
    assert ends["small"].returncode == 0, ends["small"].stderr
    assert ends["large"].returncode == 2
    error = json.loads(ends["large"].stdout)["error"]
    assert "24 MiB" in error["what"] or "0.0234 GiB" in error["what"]
    assert "SARQC_STATE_DIR" in error["remedy"]


@pytest.mark.parametrize(("vocabulary", "batch"), [(512, 32), (4096, 32), (32_000, 16), (152_000, 3), (10**7, 1)])
def test_tasks_are_read_in_batches_whose_logits_the_plan_knows(vocabulary, batch, random_llama):
    assert task_batch(vocabulary, 4096) == batch
    assert task_batch(vocabulary, 128) >= batch
    whole = read_checkpoint(random_llama)
    checkpoint = replace(whole, architecture=whole.architecture.model_copy(update={"vocab_size": vocabulary}))
    plain, with_task = (
        host.memory_bytes(
            host.work_of(Recipe.parse(SHORT | asked), checkpoint), 10**7, on_processor=True, streamed=False
        )
        for asked in ({}, {"tasks": ["piqa"]})
    )
    # Logits and their logarithms; the model's 128 positions are the longest item.
    assert with_task - plain == 8 * vocabulary * 128 * task_batch(vocabulary, 128)


SHORT = {"model": "any", "calibration": "any", "group_size": 16, "samples": 1, "length": 32}
INSIDE = 4 * (4 * 32 + 3 * 48)  # bytes of a token in a block of that model


@pytest.mark.parametrize("vocabulary", [4096, 152_000])
def test_perplexity_is_planned_with_its_logits(vocabulary, random_llama):
    whole = read_checkpoint(random_llama)
    checkpoint = replace(whole, architecture=whole.architecture.model_copy(update={"vocab_size": vocabulary}))
    recipe = Recipe.parse(SHORT | {"window": 128})

    def planned(tokens, **where):
        work = host.work_of(recipe, checkpoint, test_tokens=tokens)
        return host.memory_bytes(work, 10**7, **{"on_processor": True, "streamed": False, **where})

    # Both models' logits, five numbers made of those in hand, and the float model's states as they are read.
    states, in_hand = 5 * 4 * 32, loss_bytes(on_processor=True)
    logits = 4 * vocabulary * 100
    assert planned(100) - planned(0) == 2 * logits + 5 * min(in_hand, logits) + 100 * states + 68 * INSIDE
    at_once = max(128, LOGIT_BYTES // (4 * vocabulary))
    most = 2 * LOGIT_BYTES + 5 * min(in_hand, 4 * vocabulary * 128) + (states + INSIDE) * at_once
    assert planned(10**6) - planned(0) == pytest.approx(most, rel=1e-2)
    # Of a model that is streamed the states of the whole text are held, and the logits of one window.
    held = 4 * 2 * (10**6 - 32) * 32
    most = 2 * 4 * vocabulary * 128 + 5 * min(in_hand, 4 * vocabulary * 128) + states * 128 + 2048 * INSIDE
    assert planned(10**6, streamed=True) - planned(0, streamed=True) == pytest.approx(held + most, rel=1e-2)


def test_prompts_cost_memory_as_long_as_their_texts_are(settings):
    least = {
        "model": "tiny-llama", "calibration": "tiny-llama-calibration", "group_size": 32, "samples": 2, "length": 32,
    }  # fmt: skip
    none, one, many = (
        plan(Recipe.parse(least | {"prompts": ["Once"] * count, "new_tokens": 256}), settings).memory_bytes
        for count in (0, 1, 32)
    )
    assert one - none > 20 * 256 * 4096
    assert many == one  # one is in memory at a time


def test_the_plan_of_a_batch_adds_time_and_keeps_what_all_agree_in(fresh_settings):
    least = {"model": "tiny-llama", "calibration": "tiny-llama-calibration", "samples": 1, "length": 16}
    two, three = (plan(Recipe.parse(least | {"bits": bits}), fresh_settings) for bits in (2, 3))
    batch = together([two, three, three])
    assert batch.runs == 3
    assert batch.minutes == pytest.approx(two.minutes + 2 * three.minutes)
    assert batch.disk_bytes == two.disk_bytes + 2 * three.disk_bytes
    assert batch.memory_bytes == max(two.memory_bytes, three.memory_bytes)
    assert (batch.model, batch.parameters, batch.layers) == (two.model, two.parameters, two.layers)
    assert two.bits_per_weight != three.bits_per_weight
    assert batch.bits_per_weight is None
    unknown = two.model_copy(update={"minutes": None, "warnings": ("its size is not known",)})
    assert together([three, unknown]).minutes is None
    assert together([three, unknown]).warnings == (*three.warnings, "its size is not known")
