"""transformers, with what it uses for compressed-tensors."""

import torch
from reading import answer_all, greedy
from transformers import AutoModelForCausalLM


def continued(folder: str, prompt: list[int], count: int) -> list[int]:
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    wrong = {name: sorted(map(str, found))[:2] for name, found in info.items() if found}
    if wrong:
        raise ValueError(f"tensors were not taken: {wrong}")
    return greedy(model.eval(), prompt, count)


if __name__ == "__main__":
    answer_all(continued, ("transformers", "compressed-tensors", "torch"))
