"""Titles of methods, and how they are fitted to a layer, in words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sarqc.quantization.methods import entry_of

# Words of each value, or of all with the value in them.
FITTING_WORDS: dict[str, str | dict[str, str]] = {
    "grid": {  # of a survey's line on another grid than its study
        "symmetric": "symmetric grid",
        "full_range": "full-range grid",
        "asymmetric": "asymmetric grid",
        "affine": "affine grid",
    },
    "range": {"search": "searched range", "joint": "jointly searched range"},
    "order": {"activation": "activation order"},
    "refine": "refined × {value}",
    "refit": "scales refitted × {value}",
    "expert_damping": "starved experts damped",
    "distill": "scales distilled",
    "distill_by": {"block": "block by block"},
    "distill_codes": "codes distilled",
    "distill_norms": "norms distilled",
    "distill_lambda": "distilled at λ = {value}",
    "warm_start": {
        "gptq": "started from GPTQ's codes",
        "column_solver": "started from the column solver's codes",
    },
    "stopping": {"early": "stopped early"},
    "rotate": {"r1": "residual stream rotated", "r1+r2": "residual stream and values rotated"},
    "first_order": "β {value}",
}


def fitting_text(fitting: Mapping[str, str | int | float]) -> str:
    """Return a ``Method.fitting`` in words as “searched range, activation order”; empty for the plain one."""
    parts = []
    for name, value in fitting.items():
        words, shown = FITTING_WORDS[name], str(value)
        parts.append(words.replace("{value}", shown) if isinstance(words, str) else words.get(shown, shown))
    return ", ".join(parts)


def title_of(name: str, fitting: Mapping[str, str | int | float] = MappingProxyType({})) -> str:
    """Return the title of a method with its ``Method.fitting`` as “GPTQ 1 %, searched range”.

    An unknown method is called by its public name.
    """
    entry = entry_of(name)
    return ", ".join(filter(None, [name if entry is None else entry.title, fitting_text(fitting)]))
