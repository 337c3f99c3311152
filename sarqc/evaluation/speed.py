"""Tokens per second of the float model, and of the quantized model if torch has a kernel for its 4-bit codes.

The kernel is PyTorch's own, ``_weight_int4pack_mm``: weights stay packed in memory, products are in bfloat16. It is
given our codes, zero points or biases, and scales as they are; its formula is (code - 8) · scale + zero with 16 codes
from 0.

Axes: O out_features, I in_features, G groups, N tokens.
"""

import copy
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from sarqc.documents import Rates, SpeedProtocol
from sarqc.evaluation import DECODED_TOKENS, SPEED_REPEATS
from sarqc.events import SpeedMeasured
from sarqc.models.loading import LoadedModel
from sarqc.quantization.grid import Grid
from sarqc.quantization.quantized_layer import QuantizedLayer

KERNEL_GROUPS = (32, 64, 128, 256)  # that the kernel takes
TOLERANCE = 0.02  # relative difference of outputs that rounding to bfloat16 explains
DTYPE = torch.bfloat16


@dataclass(frozen=True)
class _Device:
    """Conditions of the kernel on a kind of device, and its name there."""

    kernel: str
    rows: int  # divisor of the outputs
    columns: int  # divisor of the inputs


_DEVICES = {
    "cpu": _Device("torch _weight_int4pack_mm_for_cpu", rows=16, columns=2),
    "cuda": _Device("torch _weight_int4pack_mm", rows=8, columns=32),
}


class Int4Linear(nn.Module):
    """A linear whose 4-bit codes stay packed; ``forward`` multiplies with them in bfloat16.

    Inputs are (…, I), outputs (…, O).

    Args:
        layer: The quantized layer.
        grid: Its grid.
        column_scale: (I,), divisor of the inputs, for scales that no operation before the layer took up; None for 1.
        bias: Bias of the linear.
    """

    def __init__(self, layer: QuantizedLayer, grid: Grid, column_scale: Tensor | None, bias: Tensor | None) -> None:
        super().__init__()
        codes = layer.codes.to(torch.int32) - grid.lowest  # (O, I), 0 … 15
        scales, zero_points = layer.scales.double(), layer.zero_points.double() - grid.lowest  # (O, G)
        zeros = (8 - zero_points) * scales
        if layer.biases is not None:
            zeros = zeros + layer.biases.double()
        pairs = torch.stack([scales, zeros], dim=-1)  # (O, G, 2)
        self.group_size = grid.group_size_for(codes.shape[1])
        self.column_scale: Tensor | None
        self.bias: Tensor | None
        self.register_buffer("packed", _pack(codes))
        self.register_buffer("scales_and_zeros", pairs.transpose(0, 1).to(DTYPE).contiguous())  # (G, O, 2)
        self.register_buffer("column_scale", None if column_scale is None else column_scale.to(DTYPE))
        self.register_buffer("bias", None if bias is None else bias.to(DTYPE))

    def forward(self, inputs: Tensor) -> Tensor:
        x = inputs if self.column_scale is None else inputs / self.column_scale
        on_cuda = x.is_cuda
        multiply = torch.ops.aten._weight_int4pack_mm if on_cuda else torch.ops.aten._weight_int4pack_mm_for_cpu
        flat: Tensor = multiply(x.flatten(0, -2), self.packed, self.group_size, self.scales_and_zeros)  # (N, O)
        outputs: Tensor = flat.unflatten(0, x.shape[:-1])
        return outputs if self.bias is None else outputs + self.bias


def _pack(codes: Tensor) -> Tensor:
    """Return codes (O, I) from 0 to 15 in the kernel's own order for the device that they are on."""
    if not codes.is_cuda:
        packed: Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
        return packed
    tiles = next(tiles for tiles in (8, 4, 2) if codes.shape[1] % (16 * tiles) == 0)
    pairs = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)  # (O, I / 2)
    packed = torch.ops.aten._convert_weight_to_int4pack(pairs, tiles)
    return packed


def why_no_kernel(loaded: LoadedModel, grids: Mapping[str, Grid]) -> str:
    """Return the reason why no kernel takes the quantized model; empty if one does."""
    device = _DEVICES.get(loaded.device.type)
    if device is None:
        return f"PyTorch has no 4-bit kernel for {loaded.device.type}"
    if loaded.device.type == "cuda" and torch.cuda.get_device_capability(loaded.device) < (8, 0):
        return "PyTorch's 4-bit kernel needs a GPU of compute capability 8.0 or more"
    modules = dict(loaded.model.named_modules())
    for name, grid in grids.items():
        linear = modules.get(name)
        if not isinstance(linear, nn.Linear):
            return f"PyTorch's 4-bit kernel takes linears, and {name} is a slice of a tensor with several"
        rows, columns = linear.weight.shape
        size = grid.group_size_for(columns)
        if grid.bits != 4:
            return f"PyTorch has a kernel for 4 bits, not for {grid.bits}"
        if size not in KERNEL_GROUPS:
            sizes = ", ".join(map(str, KERNEL_GROUPS))
            return f"PyTorch's 4-bit kernel takes groups of {sizes}; {name} has groups of {size}"
        if rows % device.rows or columns % device.columns:
            return (
                f"PyTorch's 4-bit kernel takes outputs in multiples of {device.rows} and inputs in multiples of "
                f"{device.columns}; {name} has {rows} and {columns}"
            )
    return ""


def int4_linear(linear: nn.Linear, layer: QuantizedLayer, grid: Grid) -> Int4Linear:
    """Return the kernel's form of a linear that holds the quantized weight of ``layer``."""
    weight = linear.weight.detach()
    # Scales that the operation before has taken up are not in the weight any more.
    taken_up = layer.channel_scale is None or torch.equal(layer.stored().to(weight), weight)
    # Solved layers may lie on the CPU, finished ones from disk among them.
    names = ("codes", "scales", "zero_points", "biases")
    parts = {name: part.to(weight.device) for name in names if (part := getattr(layer, name)) is not None}
    column_scale = None if taken_up or layer.channel_scale is None else layer.channel_scale.to(weight.device)
    return Int4Linear(replace(layer, **parts), grid, column_scale, linear.bias)


def kernel_difference(linear: nn.Linear, fast: Int4Linear) -> float:
    """Return ‖kernel's output - the evaluated weight's‖ / ‖the latter‖ on the same 16 random inputs, in float32."""
    inputs = torch.randn(16, linear.in_features, generator=torch.Generator().manual_seed(0)).to(linear.weight.device)
    inputs = inputs.to(DTYPE)  # (N, I)
    bias = None if linear.bias is None else linear.bias.float()
    expected = nn.functional.linear(inputs.float(), linear.weight.float(), bias)  # (N, O)
    return float((fast(inputs).float() - expected).norm() / expected.norm().clamp(min=1e-30))


def measure_speed(
    loaded: LoadedModel,
    layers: Mapping[str, QuantizedLayer],
    grids: Mapping[str, Grid],
    length: int,
    decoded: int = DECODED_TOKENS,
    repeats: int = SPEED_REPEATS,
) -> SpeedMeasured:
    """Measure prefill and decoding of one sequence, whose last tokens are decoded one by one.

    The quantized weights as floating-point numbers take as long as the originals, so both models are measured in turn,
    under the same conditions. The model itself stays as it is. Each measurement is repeated after one that does not
    count.

    Args:
        loaded: The model with the quantized weights as floating-point numbers.
        layers: Quantized layers by name.
        grids: Grids by layer name.
        length: Tokens of the sequence.
        decoded: Tokens decoded one by one, at most half of the sequence.
        repeats: Number of measurements.
    """
    decoded = min(decoded, length // 2)
    if any(parameter.is_meta for parameter in loaded.model.parameters()):
        return SpeedMeasured(None, None, None, "the model is not in memory as a whole", {"device": str(loaded.device)})
    models, reason, difference = {"float": _to_bfloat16(loaded.model)}, why_no_kernel(loaded, grids), None
    if not reason:
        linears = {name: cast(nn.Linear, loaded.model.get_submodule(name)) for name in layers}  # as why_no_kernel says
        try:
            fast = {name: int4_linear(linear, layers[name], grids[name]) for name, linear in linears.items()}
            difference = max(kernel_difference(linear, fast[name]) for name, linear in linears.items())
        except RuntimeError as error:  # a device whose kernel does not do what PyTorch promises
            reason = f"PyTorch's 4-bit kernel failed: {next(iter(str(error).splitlines()), 'RuntimeError')[:200]}"
        if difference is not None and difference > TOLERANCE:
            reason = f"the kernel's outputs differ by {difference:.2g} from those of our weights: more than rounding"
        if not reason:
            models["quantized"] = _to_bfloat16(loaded.model, fast)
    prompt = torch.randint(loaded.vocabulary, (1, length - decoded), generator=torch.Generator().manual_seed(0))
    seconds: dict[str, list[tuple[float, float]]] = {which: [] for which in models}
    for _ in range(repeats + 1):
        for which, model in models.items():  # in turn, so that whatever else the host does hits both
            seconds[which].append(_seconds(model, prompt.to(loaded.device), decoded))
    rates = {which: _rates(counted, length - decoded, decoded) for which, (_, *counted) in seconds.items()}
    protocol: SpeedProtocol = {
        "sequence_length": length,
        "prompt_tokens": length - decoded,
        "decoded_tokens": decoded,
        "batch": 1,
        "repeats": repeats,
        "of_repeats": "median, with the smallest and the largest",
        "dtype": str(DTYPE).removeprefix("torch."),
        "device": torch.cuda.get_device_name(loaded.device) if loaded.device.type == "cuda" else loaded.device.type,
        "threads": torch.get_num_threads() if loaded.device.type == "cpu" else None,
        "float_model": "the quantized weights as floating-point numbers, as fast as the originals",
        "torch": torch.__version__,
    }
    if difference is not None:
        protocol["fed"] = "our codes and zero points; scales, biases, head, embeddings and norms rounded to bfloat16"
        protocol["largest_relative_difference"] = difference
    kernel = None if reason else _DEVICES[loaded.device.type].kernel
    return SpeedMeasured(rates["float"], rates.get("quantized"), kernel, reason, protocol)


def _rates(seconds: list[tuple[float, float]], prompt_tokens: int, decoded: int) -> Rates:
    prefill = [prompt_tokens / prompt_seconds for prompt_seconds, _ in seconds]
    decode = [decoded / token_seconds for _, token_seconds in seconds]
    return {
        "prefill": statistics.median(prefill),
        "prefill_spread": [min(prefill), max(prefill)],
        "decode": statistics.median(decode),
        "decode_spread": [min(decode), max(decode)],
    }


def _to_bfloat16(model: nn.Module, replaced: Mapping[str, nn.Module] | None = None) -> nn.Module:
    """Return a copy of the model in the kernel's precision, with some linears replaced; weights are not held twice."""
    replaced = replaced or {}
    memo: dict[int, Any] = {id(model.get_submodule(name)): module for name, module in replaced.items()}
    dropped = {id(model.get_submodule(name).weight) for name in replaced}
    for parameter in model.parameters():
        if id(parameter) not in dropped:  # nothing is allocated for the weights that the kernel has packed
            memo[id(parameter)] = nn.Parameter(parameter.detach().to(DTYPE), requires_grad=False)
    return copy.deepcopy(model, memo)


def _seconds(model: nn.Module, prompt: Tensor, decoded: int) -> tuple[float, float]:
    """Return the seconds of the prompt (1, N) in one pass, and of ``decoded`` most probable tokens one by one."""

    def now() -> float:
        if prompt.is_cuda:
            torch.cuda.synchronize(prompt.device)
        return time.perf_counter()

    with torch.no_grad():
        started = now()
        output = model(prompt, use_cache=True, logits_to_keep=1)
        read = now()
        for _ in range(decoded):
            token = output.logits[:, -1:].argmax(dim=-1)
            output = model(token, past_key_values=output.past_key_values, use_cache=True, logits_to_keep=1)
        return read - started, now() - read
