"""GPTQModel with its kernel in PyTorch."""

import os

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # it takes no fewer, and on two cores would not start

import torch
from decoded import in_float32
from gptqmodel import BACKEND, GPTQModel
from reading import answer_all, greedy


def continued(folder: str, prompt: list[int], count: int) -> list[int]:
    loaded = GPTQModel.load(folder, device="cpu", dtype=torch.float16, backend=BACKEND.TORCH)
    return greedy(in_float32(loaded.model), prompt, count)


if __name__ == "__main__":
    answer_all(continued, ("gptqmodel", "transformers", "torch"))
