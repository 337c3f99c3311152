"""compressed-tensors: every linear decompressed by the library, with the scheme that it gives it."""

import json
from pathlib import Path

import torch
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config
from decoding import decode_all
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

PARTS = ("weight", "weight_packed", "weight_scale", "weight_shape", "weight_zero_point")


def decoded(folder: str) -> dict[str, torch.Tensor]:
    said = json.loads((Path(folder) / "config.json").read_text())["quantization_config"]
    known = {name: value for name, value in said.items() if name in QuantizationConfig.model_fields}
    config = AutoConfig.from_pretrained(folder)
    del config.quantization_config
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    tensors = {}
    for path in Path(folder).glob("*.safetensors"):
        tensors |= load_file(path)
    names = {name.removesuffix(".weight_scale") for name in tensors if name.endswith(".weight_scale")}
    for name in names:
        model_has(model, name)
    apply_quantization_config(model, QuantizationConfig.model_validate(known))
    weights = {}
    for name in names:
        scheme = model.get_submodule(name).quantization_scheme
        library = BaseCompressor.get_value_from_registry(scheme.format or said["format"])
        parts = {part: tensors[f"{name}.{part}"] for part in PARTS if f"{name}.{part}" in tensors}
        weights[name] = library.decompress(parts, scheme)["weight"].contiguous()
    return weights


def model_has(model: torch.nn.Module, name: str) -> None:
    """Gives the model the linear of an expert under its name in the file: transformers keeps all in one tensor."""
    container, _, last = name.rpartition(".")
    parent = model
    for part in container.split("."):
        if part not in parent._modules:
            parent.add_module(part, torch.nn.Module())
        parent = parent._modules[part]
    if last not in parent._modules:
        parent.add_module(last, torch.nn.Linear(1, 1, bias=False, device="meta"))


if __name__ == "__main__":
    decode_all(decoded, save_file, ("compressed-tensors", "llmcompressor", "transformers", "torch"))
