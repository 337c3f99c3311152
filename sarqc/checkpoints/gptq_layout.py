"""Places of codes in GPTQ's format, which GPTQModel and AutoGPTQ write, in AWQ's and in AutoRound's; no torch.

Both have ``qweight``, ``qzeros`` and ``scales`` for a linear. GPTQ packs codes along the columns of a weight and zero
points along its rows, AWQ both along rows of the transposed weight, at 4 bits in an order of its own. AutoRound has
either under a configuration of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from sarqc.checkpoints.patterns import by_pattern
from sarqc.checkpoints.stored_linear import Headers, Layout, Scheme, StoredLinear, groups_of
from sarqc.models.architecture import Strict, first_problem

GPTQ_BITS = (2, 3, 4, 8)
AWQ_BITS = tuple(range(2, 9))
_AGAIN = "Export it as auto_round, which has room for all zero points, or quantize it symmetrically."
_INTEGERS = "Quantize it again for weights alone, with the data type int."


class GPTQConfig(Strict):
    """Settings of a linear that all of these formats have."""

    bits: int
    group_size: int = -1
    sym: bool = True


@dataclass(frozen=True)
class Words:
    """Linears stored as ``qweight``, ``qzeros`` and ``scales``."""

    headers: Headers
    layout: Layout  # GPTQ's or AWQ's
    settings_of: Callable[[str], Mapping[str, Any]]  # of a linear by its name
    less_one: bool = False  # zero points are stored less one, as in the first convention of GPTQ's format
    any_zero_point: bool = True  # its readers accept other zero points than that of a symmetric grid

    def place(self, module: str, shape: tuple[int, int], expert: int | None = None) -> StoredLinear | None:
        """Return the place of a linear's codes, see ``Reader.place``."""
        headers = self.headers
        weight, zeros, scales, order = (f"{module}.{part}" for part in ("qweight", "qzeros", "scales", "g_idx"))
        if weight not in headers:
            return None
        try:
            settings = GPTQConfig.model_validate(self.settings_of(module))
        except ValidationError as error:
            raise headers.refused(
                f"quantization_config: {first_problem(error)}", "Correct it in its config.json.", module
            ) from None
        bits = settings.bits
        known = GPTQ_BITS if self.layout == "gptq" else AWQ_BITS
        if bits not in known:
            raise headers.refused(f"{bits} bits are not read here", f"{', '.join(map(str, known))} bits are.", module)
        if not settings.sym and not self.any_zero_point:
            what = "its zero points are stored less one, and its readers know one zero point throughout then"
            raise headers.refused(what, _AGAIN, module)
        out, width = shape
        scheme = Scheme(bits, None if settings.group_size < 1 else settings.group_size, settings.sym)
        entry = headers.tensors.get(scales)
        groups = entry.shape[0] if entry is not None and len(entry.shape) == 2 else 0
        headers.check(scales, (groups, out), ("F16", "BF16", "F32"))
        sides = (_words(width, bits), out) if self.layout == "gptq" else (width, _words(out, bits))
        headers.check(weight, sides, ("I32",))
        headers.check(zeros, (groups, _words(out, bits)), ("I32",))
        size, run = groups_of(headers, module, width, scheme, groups, order)
        return StoredLinear(
            self.layout,
            module,
            shape,
            bits,
            size,
            "full_range" if settings.sym else "asymmetric",
            tuple(name for name in (weight, zeros, scales, order) if name in headers),
            expert,
            run,
            self.less_one,
        )


def _words(numbers: int, bits: int) -> int:
    return -(-numbers * bits // 32)


def gptq(headers: Headers, config: Mapping[str, Any]) -> Words:
    """Return the linears of a checkpoint in GPTQ's format by its configuration; other dialects are refused."""
    dialect = config.get("checkpoint_format") or config.get("format") or "gptq"
    if dialect not in ("gptq", "gptq_v2"):
        raise headers.refused(
            f"its codes are laid out as “{dialect}”", "Quantize it again with checkpoint_format gptq or gptq_v2."
        )
    check_config(headers, config)
    return Words(headers, "gptq", settings_by_rules(headers, config), less_one=dialect == "gptq")


def awq(headers: Headers, config: Mapping[str, Any]) -> Words:
    """Return the linears of a checkpoint in AWQ's format by its configuration; other dialects are refused."""
    dialect = config.get("checkpoint_format") or config.get("format") or config.get("version") or "gemm"
    if str(dialect).lower() != "gemm":
        raise headers.refused(f"its codes are laid out as “{dialect}”", "Quantize it again with version gemm.")
    check_config(headers, config)
    settings_of = settings_by_rules(
        headers, {"sym": not config["zero_point"]} | dict(config) if "zero_point" in config else config
    )
    return Words(headers, "awq", settings_of)


def check_config(headers: Headers, config: Mapping[str, Any]) -> None:
    """Refuse settings that change the meaning of codes or add to them."""
    if (words := config.get("pack_dtype", "int32")) != "int32":
        raise headers.refused(f"its codes are packed in words of {words}", "Quantize it again with pack_dtype int32.")
    for name, what in (
        ("rotation", "its weights were rotated"),
        ("adapter", "there is an adapter beside its codes"),
        ("preprocessors", "its weights were changed before they were quantized"),
    ):
        if config.get(name):
            raise headers.refused(f"{what} ({name} in its configuration)", f"Quantize it again without {name}.")


def quantizers(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the quantizing programs in GPTQModel's ``meta``: names and versions with a colon between."""
    meta = config.get("meta")
    names = meta.get("quantizer") if isinstance(meta, dict) else None
    names = [names] if isinstance(names, str) else names
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def settings_by_rules(headers: Headers, config: Mapping[str, Any]) -> Callable[[str], Mapping[str, Any]]:
    """Return a function that gives the settings of a linear.

    These are the settings for all, overridden by those of the first of GPTQModel's ``dynamic`` rules that matches the
    beginning of the linear's name. Rules that are invalid or take too long are refused.
    """
    dynamic = config.get("dynamic")
    rules = (
        (pattern.removeprefix("+:").removeprefix("-:"), settings if isinstance(settings, dict) else {})
        for pattern, settings in (dynamic.items() if isinstance(dynamic, dict) else ())
    )
    by_name = by_pattern(rules, headers.modules, headers.refused)

    def settings_of(module: str) -> Mapping[str, Any]:
        return {**config, **by_name.get(module, {})}

    return settings_of


def auto_round(headers: Headers, config: Mapping[str, Any]) -> Words:
    """Return the linears of a checkpoint by the ``packing_format`` of its ``quantization_config``.

    “auto_round:auto_gptq” is GPTQ's format in its first convention, “auto_round” and “auto_round:gptqmodel” are that in
    its second one, “auto_round:auto_awq” is AWQ's. Other kinds are refused.
    """
    kind = str(config.get("data_type", "int"))
    if kind != "int":
        raise headers.refused(f"its weights are stored as “{kind}”", _INTEGERS)
    activations = config.get("act_bits")
    if isinstance(activations, int) and activations < 16:
        raise headers.refused(f"activations are quantized to {activations} bits beside weights", _INTEGERS)
    for name in ("rotation_config", "hadamard_config", "transform_config"):
        if config.get(name):
            raise headers.refused(f"its weights were rotated ({name} in its configuration)", _INTEGERS)
    packing = str(config.get("packing_format", "auto_round:auto_gptq"))
    own = packing.removeprefix("auto_round").removeprefix(":")
    settings_of = settings_by_extra_config(headers, config)
    if "awq" in own:
        return Words(headers, "awq", settings_of)
    if own.startswith(("auto_gptq", "gptq:")) or own == "gptq":
        return Words(headers, "gptq", settings_of, less_one=True, any_zero_point=False)
    if own in ("", "exllamav2", "tritonv2", "triton", "torch", "marlin") or own.startswith("gptqmodel"):
        return Words(headers, "gptq", settings_of)
    raise headers.refused(f"its codes are packed as “{packing}”", "Export it as auto_round, auto_gptq or auto_awq.")


def settings_by_extra_config(headers: Headers, config: Mapping[str, Any]) -> Callable[[str], Mapping[str, Any]]:
    """Return a function that gives the settings of a linear.

    These are the settings for all, overridden by those of ``extra_config`` under the linear's name, or else under the
    first pattern that matches in it. Entries under the names of linears are not patterns.
    """
    extra = config.get("extra_config")
    own: dict[str, Mapping[str, Any]] = {
        name: settings
        for name, settings in (extra.items() if isinstance(extra, dict) else ())
        if isinstance(settings, dict) and settings
    }
    parts = ("qweight", "weight")  # of a linear
    others = (entry for entry in own.items() if not any(f"{entry[0]}.{part}" in headers for part in parts))
    # AutoRound passes over invalid patterns too.
    by_name = by_pattern(others, headers.modules, headers.refused, anywhere=True, skips_invalid=True)

    def settings_of(module: str) -> Mapping[str, Any]:
        settings = own.get(module) or by_name.get(module) or {}
        return {**config, **{name: value for name, value in settings.items() if value is not None}}

    return settings_of
