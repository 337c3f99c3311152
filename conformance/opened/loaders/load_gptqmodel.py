"""GPTQModel with its kernels in PyTorch: what each of its linears dequantizes to."""

import json
import os
from pathlib import Path

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # it takes no fewer, and on two cores would not start

import torch
from decoding import decode_all
from gptqmodel import BACKEND, GPTQModel
from gptqmodel.nn_modules.qlinear import BaseQuantLinear
from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
from safetensors.torch import save_file


def decoded(folder: str) -> dict[str, torch.Tensor]:
    said = json.loads((Path(folder) / "config.json").read_text())["quantization_config"]
    is_awq = said["quant_method"] == "awq"
    backend = BACKEND.AWQ_TORCH if is_awq else BACKEND.TORCH
    model = GPTQModel.load(folder, device="cpu", dtype=torch.float16, backend=backend).model
    weights = {}
    for name, module in model.named_modules():
        if isinstance(module, BaseQuantLinear):
            if is_awq:
                weight = dequantize_gemm(module.qweight, module.qzeros, module.scales, module.bits, module.group_size)
            else:
                weight = module.dequantize_weight()
            weights[name] = weight.T[: module.out_features].contiguous()
    return weights


if __name__ == "__main__":
    decode_all(decoded, save_file, ("gptqmodel", "transformers", "torch"))
