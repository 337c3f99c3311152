"""GPTQModel's GPTQ on one job: its own checkpoint, and the seconds that its calibration took.

Run by the interpreter of an environment that has GPTQModel; it knows nothing of this repository.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # it takes no fewer, and on two cores would not start

from gptqmodel import BACKEND, GPTQModel, QuantizeConfig

PACKAGES = ("gptqmodel", "torch", "transformers")


def main(folder: Path) -> None:
    job = json.loads((folder / "job.json").read_text())
    config = QuantizeConfig(
        bits=job["bits"], group_size=job["group_size"] or -1, sym=False, device="cpu", offload_to_disk=False,
        **job["settings"],
    )  # fmt: skip
    model = GPTQModel.load(job["model"], config, dtype=torch.float32, backend=BACKEND.TORCH)
    tokens = torch.from_numpy(np.load(folder / "tokens.npy"))
    rows = [{"input_ids": row, "attention_mask": torch.ones_like(row)} for row in tokens]
    wall, processor = time.perf_counter(), time.process_time()
    model.quantize(rows, batch_size=1)
    seconds = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    model.save(str(folder / "checkpoint"))
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    (written,) = (folder / "checkpoint").rglob("*.safetensors")
    done = {
        "seconds": seconds, "format": "gptq", "weights": str(written.relative_to(folder)), "versions": versions
    }  # fmt: skip
    (folder / "done.json").write_text(json.dumps(done))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
