"""GPTQModel's GPTQ on one job: its own checkpoint, and what its calibration took.

Run by the interpreter of an environment that has GPTQModel; it knows nothing of this repository.
"""

import os
import sys
from pathlib import Path

import torch

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # it takes no fewer, and on two cores would not start

from engine_job import measured, read_job, versions_of, write_done
from gptqmodel import BACKEND, GPTQModel, QuantizeConfig

PACKAGES = ("gptqmodel", "torch", "transformers")


def main(folder: Path) -> None:
    job, tokens = read_job(folder)
    config = QuantizeConfig(
        bits=job["bits"], group_size=job["group_size"] or -1, sym=False, device=job["device"], offload_to_disk=False,
        **job["settings"],
    )  # fmt: skip
    dtype = torch.float32 if job["device"] == "cpu" else "auto"
    model = GPTQModel.load(job["model"], config, dtype=dtype, backend=BACKEND.TORCH)
    rows = [{"input_ids": row, "attention_mask": torch.ones_like(row)} for row in torch.from_numpy(tokens)]
    with measured(job["device"]) as costs:
        model.quantize(rows, batch_size=1)
    model.save(str(folder / "checkpoint"))
    write_done(folder, "gptq", costs, versions_of(PACKAGES))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
