"""transformers with GPTQModel, which it asks for GPTQ's format."""

import os

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # it takes no fewer, and on two cores would not start

import torch
from decoded import in_float32
from reading import answer_all, greedy
from transformers import AutoModelForCausalLM


def continued(folder: str, prompt: list[int], count: int) -> list[int]:
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float16, device_map="cpu", output_loading_info=True
    )
    wrong = {name: sorted(map(str, found))[:2] for name, found in info.items() if found}
    if wrong:
        raise ValueError(f"tensors were not taken: {wrong}")
    return greedy(in_float32(model), prompt, count)


if __name__ == "__main__":
    answer_all(continued, ("transformers", "gptqmodel", "optimum", "torch"))
