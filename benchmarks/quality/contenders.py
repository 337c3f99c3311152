"""Who takes part: a name, an engine, and the settings that its script is handed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sarqc.recipe import EFFORTS, Effort


@dataclass(frozen=True)
class Contender:
    """One row of the table. ``engine`` is a name of ``ENGINES``; its script reads ``settings``."""

    title: str
    engine: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Engine:
    """What runs a contender: a script in engines/, and the packages of its environment, none for this environment."""

    script: str
    requirements: tuple[str, ...] = ()
    torch: str = "torch==2.13.0"  # this project's, unless the engine wants another


ENGINES: dict[str, Engine] = {
    "sarqc": Engine("run_sarqc.py"),
    "llmcompressor": Engine("run_llmcompressor.py", ("llmcompressor==0.14.0",)),
    "auto-round": Engine("run_auto_round.py", ("auto-round==0.16.1", "compressed-tensors")),
    "gptqmodel": Engine("run_gptqmodel.py", ("gptqmodel==7.7.0",), "torch>=2.14.1"),
}

_EVERYTHING = {"lam": 0.1, "range": "search", "order": "activation", "refine": 3}


def _effort(effort: Effort, **further: Any) -> dict[str, Any]:
    """Settings of an effort of the default method, with its own λ and γ."""
    return {"method": "sarqc-gbs", **EFFORTS[effort], **further}


BASELINE, RIVAL = "gptq", "auto-round"  # what every row is compared with

CONTENDERS: dict[str, Contender] = {
    "gptq": Contender("sarqc: GPTQ 1 %", "sarqc", {"method": "gptq"}),
    "gptq-activation": Contender(
        "sarqc: GPTQ 1 %, activation order", "sarqc", {"method": "gptq", "order": "activation"}
    ),
    "rqc-everything": Contender(
        "sarqc: GPTQ + identity penalty, everything on", "sarqc", {"method": "rqc-gbs"} | _EVERYTHING
    ),
    "rqc-natural": Contender(
        "sarqc: GPTQ + identity penalty, all but the order",
        "sarqc",
        {"method": "rqc-gbs"} | _EVERYTHING | {"order": "natural"},
    ),
    "sarqc-everything": Contender(
        "sarqc: GPTQ + saliency penalty, everything on", "sarqc", {"method": "sarqc-gbs", "gamma": 0.1} | _EVERYTHING
    ),
    "quick": Contender("sarqc: effort quick", "sarqc", _effort("quick")),
    "balanced": Contender("sarqc: effort balanced", "sarqc", _effort("balanced")),
    "best": Contender("sarqc: effort best", "sarqc", _effort("best")),
    "best-affine": Contender("sarqc: effort best, affine grid", "sarqc", _effort("best", grid="affine")),
    "best-scales": Contender("sarqc: effort best, codes kept", "sarqc", _effort("best", distill_codes=False)),
    "best-scales-affine": Contender(
        "sarqc: effort best, codes kept, affine grid", "sarqc", _effort("best", distill_codes=False, grid="affine")
    ),
    "signround": Contender("sarqc: SignRound, 200 steps", "sarqc", {"method": "signround"}),
    "sarqc-signround": Contender("sarqc: SignRound + saliency penalty, λ 0.05", "sarqc", {"method": "sarqc-signround"}),
    "llmcompressor-gptq": Contender("llm-compressor: GPTQ, its default", "llmcompressor", {}),
    "auto-round": Contender("AutoRound: default, 200 iterations", "auto-round", {"iters": 200}),
    "auto-round-1000": Contender("AutoRound: 1,000 iterations", "auto-round", {"iters": 1000}),
    "auto-round-light": Contender("AutoRound: light, 50 iterations", "auto-round", {"iters": 50, "lr": 5e-3}),
    "gptqmodel": Contender("GPTQModel: GPTQ, its default", "gptqmodel", {}),
}
