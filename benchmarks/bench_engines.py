"""Calibration by us and by llm-compressor on the same tokens, alternating, both with activation order."""

import statistics as middle
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.measured import Figure
from benchmarks.quality.jobs import Job, Left, drawn, run_job
from benchmarks.random_models import TINYLLAMA, made
from sarqc.models.catalogue import checkpoint_of, embedded_models
from sarqc.settings import Settings

ROUNDS = 3
PRETRAINED = "smollm2-135m-instruct"
OURS = {"method": "gptq", "order": "activation"}


def engines(folder: Path) -> Iterator[Figure]:
    """Seconds on the wall and memory, medians of some rounds; the other engine has an environment of its own there."""
    wide = made(folder / "tinyllama", **TINYLLAMA)
    cases = [
        ("tiny-llama, W2, 32 × 256 tokens", "tiny-llama", 2, 128, 32, 256, 1 / 3),
        ("tiny-moe, W2, 32 × 256 tokens", "tiny-moe", 2, 128, 32, 256, 1 / 3),
        ("two blocks of TinyLlama, W4, 8 × 512 tokens", str(wide), 4, 128, 8, 512, 1 / 2),
    ]
    settings = Settings(models_dir=folder)
    if PRETRAINED in embedded_models(settings):  # make pretrained has fetched it
        cases.append(("SmolLM2, W4, groups of 64, 16 × 512 tokens", PRETRAINED, 4, 64, 16, 512, 1 / 2))
    for name, model, bits, group_size, samples, length, goal in cases:
        checkpoint = checkpoint_of(model, None, settings)
        text = f"{model if model.startswith('tiny') else 'tiny-llama'}-calibration"
        sequences = drawn(text, checkpoint, samples=samples, length=length, draw=0)
        rounds: dict[str, list[Left]] = {"sarqc": [], "llmcompressor": []}
        for _ in range(ROUNDS):
            for engine, runs in rounds.items():
                job = Job(engine, checkpoint.folder, bits, group_size, OURS if engine == "sarqc" else {})
                runs.append(run_job(job, sequences, folder, torch.get_num_threads()))
        ours, theirs = (middle.median(run.wall for run in runs) for runs in rounds.values())
        yield Figure(f"{name}: ours", ours, "s")
        yield Figure(f"{name}: llm-compressor", theirs, "s")
        yield Figure(f"{name}: ours of llm-compressor's", ours / theirs, "×", goal)
        ours, theirs = (middle.median(run.peak_bytes for run in runs) / 2**20 for runs in rounds.values())
        yield Figure(f"{name}: memory, ours", ours, "MiB")
        yield Figure(f"{name}: memory, ours of llm-compressor's", ours / theirs, "×", 1.0)
