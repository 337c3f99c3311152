"""What an engine left, as weights: by the definition of each format, with numpy and nothing of the engines.

Bits are packed into 32-bit words, the least significant first, and a number may lie across two words.

Axes: O out_features, I in_features, G groups of a row.
"""

from collections.abc import Callable, Mapping

import numpy as np

Tensors = Mapping[str, np.ndarray]


def unpacked(words: np.ndarray, bits: int, count: int) -> np.ndarray:
    """The first ``count`` unsigned numbers of ``bits`` bits in each row of 32-bit words: (R, words) -> (R, count)."""
    stream = np.unpackbits(np.ascontiguousarray(words.astype("<i4")).view(np.uint8), axis=-1, bitorder="little")
    numbers = stream[:, : count * bits].reshape(len(words), count, bits)
    return (numbers.astype(np.int32) << np.arange(bits)).sum(axis=-1)


def levels(codes: np.ndarray, scales: np.ndarray, zero_points: np.ndarray) -> np.ndarray:
    """(codes - zero points) · scales, groups being equal parts of a row: (O, I), (O, G), (O, G) -> (O, I) float32."""
    size = codes.shape[1] // scales.shape[1]
    wide_scales, wide_zeros = (np.repeat(part.astype(np.float32), size, axis=1) for part in (scales, zero_points))
    return (codes - wide_zeros) * wide_scales


def from_parts(tensors: Tensors, name: str, bits: int) -> np.ndarray:
    """Codes, scales and zero points as they are; biases, which are added in their place, for an affine grid."""
    if f"{name}.biases" in tensors:
        codes, scales, biases = (tensors[f"{name}.{part}"].astype(np.float32) for part in ("codes", "scales", "biases"))
        size = codes.shape[1] // scales.shape[1]
        return codes * np.repeat(scales, size, axis=1) + np.repeat(biases, size, axis=1)
    return levels(*(tensors[f"{name}.{part}"].astype(np.float32) for part in ("codes", "scales", "zero_points")))


def from_compressed_tensors(tensors: Tensors, name: str, bits: int) -> np.ndarray:
    """compressed-tensors, pack-quantized: codes packed along rows of the weight, zero points along columns of theirs.

    Both are stored as signed numbers plus 2^(bits-1). A grid without zero points is symmetric.
    """
    rows, columns = (int(size) for size in tensors[f"{name}.weight_shape"])
    scales = tensors[f"{name}.weight_scale"].reshape(rows, -1)
    half = 1 << (bits - 1)
    codes = unpacked(tensors[f"{name}.weight_packed"], bits, columns) - half
    zero_points = np.zeros_like(scales)
    if f"{name}.weight_zero_point" in tensors:
        zero_points = unpacked(tensors[f"{name}.weight_zero_point"].T, bits, rows).T - half
    return levels(codes, scales, zero_points)


def from_gptq(tensors: Tensors, name: str, bits: int) -> np.ndarray:
    """GPTQ's format: codes packed along columns of the weight, zero points, less one, along rows; groups by g_idx.

    Where a word holds whole numbers, one is taken from each by one subtraction, and a 0 borrows from the number above.
    """
    return _from_gptq(tensors, name, bits, less=1)


def from_gptq_v2(tensors: Tensors, name: str, bits: int) -> np.ndarray:
    """The same with zero points as they are."""
    return _from_gptq(tensors, name, bits, less=0)


def _from_gptq(tensors: Tensors, name: str, bits: int, *, less: int) -> np.ndarray:
    qweight, scales = tensors[f"{name}.qweight"], tensors[f"{name}.scales"].astype(np.float32).T  # (O, G)
    columns = qweight.shape[0] * 32 // bits
    codes = unpacked(qweight.T, bits, columns)  # (O, I)
    words = tensors[f"{name}.qzeros"].astype(np.int64)
    if less and 32 % bits == 0:
        words = (words + sum(1 << start for start in range(0, 32, bits))).astype(np.uint32).view(np.int32)
        less = 0
    zero_points = (unpacked(words, bits, len(scales)).T + less) & ((1 << bits) - 1)  # (O, G)
    size = columns // scales.shape[1]
    groups = tensors.get(f"{name}.g_idx", np.arange(columns) // size).astype(np.int64)
    return (codes - zero_points[:, groups]) * scales[:, groups]


def from_plain(tensors: Tensors, name: str, bits: int) -> np.ndarray:
    """Weights that were dequantized by the engine itself."""
    return tensors[f"{name}.weight"].astype(np.float32)


FORMATS: dict[str, Callable[[Tensors, str, int], np.ndarray]] = {
    "parts": from_parts,
    "compressed-tensors": from_compressed_tensors,
    "gptq": from_gptq,
    "gptq_v2": from_gptq_v2,
    "plain": from_plain,
}
