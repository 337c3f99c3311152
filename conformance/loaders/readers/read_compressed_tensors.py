"""compressed-tensors itself: every linear decompressed by the library, and the weights given to transformers."""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.quantization import QuantizationScheme
from reading import answer_all, greedy
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

PARTS = ("weight_packed", "weight_scale", "weight_shape", "weight_zero_point")


def continued(folder: str, prompt: list[int], count: int) -> list[int]:
    with tempfile.TemporaryDirectory() as made:
        decompress(Path(folder), Path(made))
        model = AutoModelForCausalLM.from_pretrained(made, dtype=torch.float32)
        return greedy(model.eval(), prompt, count)


def decompress(folder: Path, target: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (group,) = config.pop("quantization_config")["config_groups"].values()
    scheme = QuantizationScheme(**group)
    library = BaseCompressor.get_value_from_registry("pack-quantized")
    tensors = load_file(folder / "model.safetensors")
    weights = {name: tensor for name, tensor in tensors.items() if not name.endswith(PARTS)}
    for name in tensors:
        if name.endswith(".weight_packed"):
            prefix = name.removesuffix("weight_packed")
            parts = {part: tensors[prefix + part] for part in PARTS if prefix + part in tensors}
            weights[f"{prefix}weight"] = library.decompress(parts, scheme)["weight"].contiguous()
    (target / "config.json").write_text(json.dumps(config))
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(folder / "generation_config.json", target)


if __name__ == "__main__":
    answer_all(continued, ("compressed-tensors", "transformers", "torch"))
