"""AutoRound on one job: its own checkpoint in GPTQ's format, and the seconds that its calibration took.

Run by the interpreter of an environment that has AutoRound; it knows nothing of this repository.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from auto_round import AutoRound
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGES = ("auto-round", "torch", "transformers")


def main(folder: Path) -> None:
    job = json.loads((folder / "job.json").read_text())
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    tokens = torch.from_numpy(np.load(folder / "tokens.npy"))
    rounder = AutoRound(
        model, tokenizer=tokenizer, bits=job["bits"], group_size=job["group_size"] or -1, sym=False,
        dataset=list(tokens.split(8)), nsamples=len(tokens), seqlen=tokens.shape[1], device_map="cpu",
        enable_torch_compile=False,  # compiling takes minutes before the first step
        **job["settings"],
    )  # fmt: skip
    wall, processor = time.perf_counter(), time.process_time()
    rounder.quantize()
    seconds = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    rounder.save_quantized(str(folder / "checkpoint"), format="auto_gptq")
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    (written,) = (folder / "checkpoint").rglob("*.safetensors")
    done = {
        "seconds": seconds, "format": "gptq", "weights": str(written.relative_to(folder)), "versions": versions
    }  # fmt: skip
    (folder / "done.json").write_text(json.dumps(done))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
