"""GPTQModel's linears as it decodes them, in a model that computes in float32: its kernels know 16 bits alone, and
rounding would part tokens that are none the worse for it.
"""

from gptqmodel.nn_modules.qlinear import BaseQuantLinear
from torch import nn


def in_float32(model: nn.Module) -> nn.Module:
    """The model with every quantized linear replaced by the weight that the library decodes. Raises ``ValueError``
    where there is none.
    """
    linears = {name: module for name, module in model.named_modules() if isinstance(module, BaseQuantLinear)}
    if not linears:
        raise ValueError("no linear was taken as quantized")
    for name, module in linears.items():
        weight = module.dequantize_weight().T  # (out_features, in_features)
        bias = getattr(module, "bias", None)
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
        linear.weight.data.copy_(weight)
        if bias is not None:
            linear.bias.data.copy_(bias)
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, linear)
    return nn.Module.float(model).eval()  # transformers refuses its own where a model came quantized
