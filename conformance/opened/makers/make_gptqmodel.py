"""A checkpoint by GPTQModel, in GPTQ's format or in AWQ's."""

import os

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # it takes no fewer, and on two cores would not start

import torch
from gptqmodel import BACKEND, GPTQModel, QuantizeConfig
from making import job, rows
from transformers import AutoTokenizer


def main() -> None:
    given = job()
    tokenizer = AutoTokenizer.from_pretrained(given["model"])
    config = QuantizeConfig(device="cpu", offload_to_disk=False, **given["settings"])
    backend = BACKEND.AWQ_TORCH if given["settings"].get("method") == "awq" else BACKEND.TORCH
    model = GPTQModel.load(given["model"], config, dtype=torch.float16, backend=backend)
    batches = [{"input_ids": row, "attention_mask": torch.ones_like(row)} for row in rows(given, tokenizer)]
    model.quantize(batches, batch_size=1)
    model.save(given["target"])


if __name__ == "__main__":
    main()
