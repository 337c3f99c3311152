"""llm-compressor's GPTQ on one job: its own packed checkpoint, and the seconds that its calibration took.

Run by the interpreter of an environment that has llm-compressor; it knows nothing of this repository.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from llmcompressor import oneshot
from llmcompressor.modifiers.gptq import GPTQModifier
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

PACKAGES = ("llmcompressor", "compressed-tensors", "torch", "transformers")


def main(folder: Path) -> None:
    job = json.loads((folder / "job.json").read_text())
    settings = dict(job["settings"])
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32)
    tokens = torch.from_numpy(np.load(folder / "tokens.npy"))
    rows = [{"input_ids": row, "attention_mask": torch.ones_like(row)} for row in tokens]
    weights = QuantizationArgs(
        num_bits=job["bits"], type="int", symmetric=settings.pop("symmetric", False),
        strategy="group" if job["group_size"] else "channel", group_size=job["group_size"],
    )  # fmt: skip
    recipe = GPTQModifier(
        config_groups={"group_0": QuantizationScheme(targets=["Linear"], weights=weights)},
        ignore=["lm_head", "re:.*mlp.gate$"], **settings.pop("gptq", {}),
    )  # fmt: skip
    wall, processor = time.perf_counter(), time.process_time()
    batches = DataLoader(rows, batch_size=1)
    oneshot(model=model, dataset=batches, recipe=recipe, num_calibration_samples=len(rows), **settings)
    seconds = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    model.save_pretrained(folder / "checkpoint", save_compressed=True)
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    done = {
        "seconds": seconds, "format": "compressed-tensors", "weights": "checkpoint/model.safetensors",
        "versions": versions,
    }  # fmt: skip
    (folder / "done.json").write_text(json.dumps(done))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
