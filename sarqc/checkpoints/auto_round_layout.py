"""Places of codes in AutoRound's own format: words as in GPTQ's or AWQ's, with its own configuration; no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sarqc.checkpoints.gptq_layout import Words
from sarqc.checkpoints.patterns import by_pattern
from sarqc.checkpoints.stored_linear import Headers

_AGAIN = "Quantize it again for weights alone, with the data type int."


def auto_round(headers: Headers, said: Mapping[str, Any]) -> Words:
    """Return the linears of a checkpoint by the ``packing_format`` of its ``quantization_config``.

    “auto_round:auto_gptq” is GPTQ's format in its first convention, “auto_round” and “auto_round:gptqmodel” are that in
    its second one, “auto_round:auto_awq” is AWQ's. Other kinds are refused.
    """
    kind = str(said.get("data_type", "int"))
    if kind != "int":
        raise headers.refused(f"its weights are stored as “{kind}”", _AGAIN)
    activations = said.get("act_bits")
    if isinstance(activations, int) and activations < 16:
        raise headers.refused(f"activations are quantized to {activations} bits beside weights", _AGAIN)
    for name in ("rotation_config", "hadamard_config", "transform_config"):
        if said.get(name):
            raise headers.refused(f"its weights were rotated ({name} in its configuration)", _AGAIN)
    packing = str(said.get("packing_format", "auto_round:auto_gptq"))
    own = packing.removeprefix("auto_round").removeprefix(":")
    settings_of = by_extra_config(headers, said)
    if "awq" in own:
        return Words(headers, "awq", settings_of)
    if own.startswith(("auto_gptq", "gptq:")) or own == "gptq":
        return Words(headers, "gptq", settings_of, less_one=True, any_zero_point=False)
    if own in ("", "exllamav2", "tritonv2", "triton", "torch", "marlin") or own.startswith("gptqmodel"):
        return Words(headers, "gptq", settings_of)
    raise headers.refused(f"its codes are packed as “{packing}”", "Export it as auto_round, auto_gptq or auto_awq.")


def by_extra_config(headers: Headers, said: Mapping[str, Any]) -> Callable[[str], Mapping[str, Any]]:
    """Return a function that gives the settings of a linear.

    These are the settings for all, overridden by those of ``extra_config`` under the linear's name, or else under the
    first pattern that matches in it. Entries under the names of linears are not patterns.
    """
    extra = said.get("extra_config")
    own: dict[str, Mapping[str, Any]] = {
        name: settings
        for name, settings in (extra.items() if isinstance(extra, dict) else ())
        if isinstance(settings, dict) and settings
    }
    others = ((name, settings) for name, settings in own.items() if not _is_linear(headers, name))
    # AutoRound passes over invalid patterns too.
    by_name = by_pattern(others, headers.modules, headers.refused, anywhere=True, skips_invalid=True)

    def settings_of(module: str) -> Mapping[str, Any]:
        settings = own.get(module) or by_name.get(module) or {}
        return {**said, **{name: value for name, value in settings.items() if value is not None}}

    return settings_of


def _is_linear(headers: Headers, name: str) -> bool:
    return any(f"{name}.{part}" in headers for part in ("qweight", "weight"))
