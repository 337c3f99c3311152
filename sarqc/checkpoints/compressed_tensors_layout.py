"""Places of codes in compressed-tensors: packed, or one to a byte; no torch."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from sarqc.checkpoints.patterns import by_pattern
from sarqc.checkpoints.stored_linear import TOGETHER, Headers, Scheme, StoredLinear, groups_of
from sarqc.files.names import shortened
from sarqc.models.architecture import Strict, first_problem

_WEIGHTS_ALONE = "Quantize it again for weights alone, with integers."
_FORMATS = ("pack-quantized", "int-quantized", "naive-quantized", "mixed-precision", "dense")
_TARGETS = "Correct config_groups in its config.json, so that a target names the linear or its class."
_WRITE_AGAIN = "Save it again in the format pack-quantized."
_FLOATS = ("F16", "BF16", "F32", "F64")


class _Weights(Strict):
    num_bits: int
    type: str = "int"
    symmetric: bool = True
    strategy: str | None = None
    group_size: int | None = None
    dynamic: bool | str = False


class _Group(Strict):
    format: str | None = None
    targets: list[str]
    weights: _Weights | None = None
    input_activations: dict[str, Any] | None = None
    output_activations: dict[str, Any] | None = None


class _Config(Strict):
    format: str | None = None
    config_groups: dict[str, _Group] = Field(min_length=1)
    kv_cache_scheme: dict[str, Any] | None = None
    transform_config: dict[str, Any] | None = None
    sparsity_config: dict[str, Any] | None = None


class CompressedTensors:
    """Linears by the scheme of the first target that names them: by their name, by a pattern, by their class.

    Args:
        headers: Headers of the checkpoint.
        settings: Its ``quantization_config``.

    Raises:
        Refused: For anything beside integer weights.
    """

    def __init__(self, headers: Headers, settings: Mapping[str, Any]) -> None:
        self._headers = headers
        try:
            config = _Config.model_validate({name: value for name, value in settings.items() if value != {}})
        except ValidationError as error:
            what = f"quantization_config is not one that is read here: {first_problem(error)}"
            raise headers.refused(what, "Give a checkpoint with integer weights.") from None
        if config.kv_cache_scheme:
            raise headers.refused("the cache of keys and values is quantized beside weights", _WEIGHTS_ALONE)
        if config.transform_config:
            raise headers.refused("its weights were transformed (transform_config)", _WEIGHTS_ALONE)
        if config.sparsity_config and config.sparsity_config.get("format", "dense") != "dense":
            raise headers.refused("its weights are stored as sparse ones (sparsity_config)", _WEIGHTS_ALONE)
        targets: list[tuple[str, _Weights]] = []
        for group in config.config_groups.values():
            if group.input_activations or group.output_activations:
                raise headers.refused("activations are quantized beside weights", _WEIGHTS_ALONE)
            if group.weights is None:
                continue
            if group.weights.type != "int" or group.weights.dynamic:
                raise headers.refused(f"its weights are stored as {group.weights.type}", _WEIGHTS_ALONE)
            targets += [(target, group.weights) for target in group.targets]
        for layout in (config.format, *(group.format for group in config.config_groups.values())):
            if layout is not None and layout not in _FORMATS:
                raise headers.refused(f"its weights are stored in the format “{shortened(layout)}”", _WRITE_AGAIN)
        self._named = dict(reversed(targets))  # the first of a name counts
        patterns = ((target.removeprefix("re:"), weights) for target, weights in targets if target.startswith("re:"))
        self._by_pattern = by_pattern(patterns, headers.modules, headers.refused)

    def place(self, module: str, shape: tuple[int, int], expert: int | None = None) -> StoredLinear | None:
        """Return the place of a linear's codes, see ``Reader.place``."""
        headers, (out, width) = self._headers, shape
        layout: Literal["packed", "bytes"] = "packed" if f"{module}.weight_packed" in headers else "bytes"
        if layout == "bytes" and not self._is_in_bytes(f"{module}.weight"):
            return None
        weights = self._weights_of(module)
        if weights is None:
            raise headers.refused("no target of quantization_config is meant for it", _TARGETS, module)
        bits = weights.num_bits
        if not 2 <= bits <= 8:
            raise headers.refused(f"{bits} bits are not read here", "2 to 8 bits are.", module)
        strategy = weights.strategy or ("group" if weights.group_size else "channel")
        if strategy not in ("group", "channel"):
            remedy = "Those for groups or for whole rows are read."
            raise headers.refused(f"its scales are one for each {strategy}", remedy, module)
        codes, scales, zeros, sides, order = (
            f"{module}.{part}"
            for part in (
                "weight_packed" if layout == "packed" else "weight",
                "weight_scale",
                "weight_zero_point",
                "weight_shape",
                "weight_g_idx",
            )
        )
        scheme = Scheme(bits, weights.group_size if strategy == "group" else None, weights.symmetric)
        entry = headers.tensors.get(scales)
        groups = entry.shape[1] if entry is not None and len(entry.shape) == 2 else 1
        headers.check(scales, (out, groups), _FLOATS)
        if layout == "packed":
            self._check_words(codes, out, width, bits)
        if not weights.symmetric:
            packed = (-(-out * bits // 32), groups)
            headers.check(zeros, *(((out, groups), ("I8",)) if self._is_in_bytes(zeros) else (packed, ("I32",))))
        if sides in headers and tuple(headers.integers(sides).tolist()) != shape:
            raise headers.refused(f"{sides} is not the {out} × {width} of the original", TOGETHER)
        size, run = groups_of(headers, module, width, scheme, groups, order)
        return StoredLinear(
            layout,
            module,
            shape,
            bits,
            size,
            "full_range" if weights.symmetric else "asymmetric",
            tuple(name for name in (codes, scales, zeros, sides, order) if name in headers),
            expert,
            run,
        )

    def _weights_of(self, module: str) -> _Weights | None:
        module_class = "Embedding" if module.endswith("embed_tokens") else "Linear"
        return self._named.get(module) or self._by_pattern.get(module) or self._named.get(module_class)

    def _is_in_bytes(self, name: str) -> bool:
        return name in self._headers and self._headers.tensors[name].dtype == "I8"

    def _check_words(self, codes: str, out: int, width: int, bits: int) -> None:
        headers, in_each = self._headers, 32 // bits
        if headers.tensors[codes].shape == (out, -(-width // in_each)) != (out, -(-width * bits // 32)):
            what = f"its {bits} bits are laid out as in compressed-tensors before 0.18, {in_each} numbers a word"
            raise headers.refused(what, "Write it again with a newer compressed-tensors.")
        headers.check(codes, (out, -(-width * bits // 32)), ("I32",))
