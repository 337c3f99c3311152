"""What is made: an engine, a model, its settings, as its users would set them.

What repairs are judged by is calibrated on as many sequences as users take, the rest on a few.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MANY = 128


@dataclass(frozen=True)
class Case:
    """One checkpoint. ``loader``: the engine that decodes it, if not its maker; ``samples``: how many sequences."""

    name: str
    maker: str
    settings: Mapping[str, Any]
    model: str = "tiny-llama"
    loader: str = ""
    samples: int = 16

    @property
    def words(self) -> str:
        """The settings, those of llm-compressor's groups one after the other."""
        groups = self.settings.get("groups")
        if groups is None:
            return _listed(self.settings)
        return "; ".join(f"{one['targets'][0]}: {_listed(one['weights'])}" for one in groups.values())


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in settings.items())


def _groups(bits: int, size: int | None, *, symmetric: bool, targets: str = "Linear") -> dict[str, Any]:
    strategy = {"strategy": "channel"} if size is None else {"strategy": "group", "group_size": size}
    return {"targets": [targets], "weights": {"num_bits": bits, "symmetric": symmetric} | strategy}


def _llmcompressor(*groups: dict[str, Any], **gptq: object) -> dict[str, Any]:
    named = {f"group_{number}": one for number, one in enumerate(groups)}
    return {"groups": named} | ({"gptq": gptq} if gptq else {})


CASES = (
    Case("llmcompressor-4", "llmcompressor", _llmcompressor(_groups(4, 128, symmetric=True)), samples=MANY),
    Case("llmcompressor-3", "llmcompressor", _llmcompressor(_groups(3, 64, symmetric=False)), samples=MANY),
    Case("llmcompressor-2", "llmcompressor", _llmcompressor(_groups(2, 32, symmetric=False)), samples=MANY),
    Case("llmcompressor-4-rows", "llmcompressor", _llmcompressor(_groups(4, None, symmetric=False))),
    Case("llmcompressor-mixed", "llmcompressor", _llmcompressor(
        _groups(8, None, symmetric=True, targets="re:.*down_proj$"),
        _groups(4, 32, symmetric=False, targets="re:.*(q|k|v|o|gate|up)_proj$"))),
    Case("llmcompressor-moe", "llmcompressor", _llmcompressor(_groups(4, 32, symmetric=False)), "tiny-moe"),
    Case("gptqmodel-4", "gptqmodel", {"bits": 4, "group_size": 128}, samples=MANY),
    Case("gptqmodel-3", "gptqmodel", {"bits": 3, "group_size": 64}, samples=MANY),
    Case("gptqmodel-2", "gptqmodel", {"bits": 2, "group_size": 32, "sym": False}, samples=MANY),
    Case("gptqmodel-8", "gptqmodel", {"bits": 8, "group_size": -1, "act_group_aware": False}),
    Case("gptqmodel-3-v2", "gptqmodel", {"bits": 3, "group_size": 32, "sym": False, "format": "gptq_v2"}),
    Case("gptqmodel-4-order", "gptqmodel", {"bits": 4, "group_size": 32, "desc_act": True, "act_group_aware": False}),
    Case("gptqmodel-rules", "gptqmodel", {"bits": 4, "group_size": 32, "dynamic": {
        r"-:.*layers\.0\.mlp\.down_proj$": {}, r".*down_proj$": {"bits": 8, "group_size": 64}}}),
    Case("gptqmodel-moe", "gptqmodel", {"bits": 4, "group_size": 32, "sym": False}, "tiny-moe"),
    Case("gptqmodel-awq", "gptqmodel", {"method": "awq", "format": "gemm", "bits": 4, "group_size": 32, "sym": False}),
    Case("auto-round-4", "auto-round", {"bits": 4, "group_size": 128, "format": "auto_round"}, samples=MANY),
    Case("auto-round-3", "auto-round", {"bits": 3, "group_size": 64, "format": "auto_round"}, samples=MANY),
    Case("auto-round-2", "auto-round", {"bits": 2, "group_size": 32, "format": "auto_round"}, samples=MANY),
    Case("auto-round-4-asym", "auto-round", {"bits": 4, "group_size": 32, "sym": False, "iters": 20,
                                             "format": "auto_round"}),
    Case("auto-round-3-asym", "auto-round", {"bits": 3, "group_size": 32, "sym": False, "iters": 20,
                                             "format": "auto_round"}),
    Case("auto-round-awq", "auto-round", {"bits": 4, "group_size": 32, "sym": False, "iters": 20, "format": "auto_awq"},
         loader="gptqmodel"),
    Case("auto-round-gptq", "auto-round", {"bits": 4, "group_size": 32, "iters": 20, "format": "auto_gptq"},
         loader="gptqmodel"),
    Case("auto-round-llmcompressor", "auto-round", {"bits": 4, "group_size": 32, "iters": 20,
                                                    "format": "llm_compressor"}, loader="llmcompressor"),
    Case("mlx-4", "mlx-lm", {"q_bits": 4, "q_group_size": 64}),
    Case("mlx-3", "mlx-lm", {"q_bits": 3, "q_group_size": 32}),
    Case("mlx-2", "mlx-lm", {"q_bits": 2, "q_group_size": 128}),
    Case("mlx-mixed", "mlx-lm", {"q_bits": 4, "q_group_size": 64, "quant_predicate": "mixed_3_6"}),
    Case("mlx-moe", "mlx-lm", {"q_bits": 4, "q_group_size": 32}, "tiny-moe"),
)  # fmt: skip
