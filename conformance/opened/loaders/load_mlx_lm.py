"""mlx-lm on the processor: what ``mx.dequantize`` makes of each module that it holds as quantized."""

from pathlib import Path

import mlx.core as mx
from decoding import decode_all
from mlx_lm.utils import load_model


def decoded(folder: str) -> dict[str, mx.array]:
    model, _ = load_model(Path(folder))
    weights = {}
    for name, module in model.named_modules():
        if "scales" in module and "biases" in module:
            weights[name] = mx.dequantize(
                module["weight"], module["scales"], module["biases"], group_size=module.group_size, bits=module.bits
            )
    mx.eval(weights)
    return weights


def save(weights: dict[str, mx.array], target: str) -> None:
    mx.save_safetensors(target, weights)


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    decode_all(decoded, save, ("mlx-lm", "mlx"))
