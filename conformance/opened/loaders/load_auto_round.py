"""AutoRound by way of transformers: what its linears make of the unit vectors, which is their weight bit for bit.

Packed as AWQ's, they are linears of other libraries: of these, what AutoRound's own function decodes.
"""

import json
from pathlib import Path

import auto_round  # noqa: F401 - makes its format known to transformers
import torch
from auto_round.export.export_to_awq.utils import dequantize_gemm
from decoding import decode_all
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM


def decoded(folder: str) -> dict[str, torch.Tensor]:
    said = json.loads((Path(folder) / "config.json").read_text())["quantization_config"]
    return decoded_awq(folder, said) if "awq" in said["packing_format"] else loaded(folder)


def decoded_awq(folder: str, said: dict[str, int]) -> dict[str, torch.Tensor]:
    tensors = {}
    for path in Path(folder).glob("*.safetensors"):
        tensors |= load_file(path)
    weights = {}
    for name in [one.removesuffix(".qweight") for one in tensors if one.endswith(".qweight")]:
        parts = [tensors[f"{name}.{part}"] for part in ("qweight", "qzeros", "scales")]
        weights[name] = dequantize_gemm(*parts, said["bits"], said["group_size"]).T.contiguous()
    return weights


def loaded(folder: str) -> dict[str, torch.Tensor]:
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
