"""AutoRound by way of transformers: what its linears make of the unit vectors, which is their weight bit for bit."""

from __future__ import annotations

import auto_round  # noqa: F401 - makes its format known to transformers
import torch
from decoding import decode_all
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM


def decoded(folder: str) -> dict[str, torch.Tensor]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float16, device_map="cpu")
    weights = {}
    for name, module in model.named_modules():
        if hasattr(module, "qweight"):
            width = getattr(module, "infeatures", None) or module.in_features
            with torch.no_grad():
                weights[name] = module(torch.eye(width, dtype=torch.float16)).T.contiguous()
    return weights


if __name__ == "__main__":
    decode_all(decoded, save_file, ("auto-round", "transformers", "torch"))
