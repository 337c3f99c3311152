"""A run as a program for llm-compressor: its GPTQ, or ours in it, in one group of modifiers for each penalty.

Read in llm-compressor 0.14: ``dampening_frac`` times the mean of the Gram's diagonal is added to each of its entries;
scales are those of the original weights, of the extremes of a group; the order is that of the diagonal, largest first
(``static``), or none; the symmetric grid is absmax / ((2^b - 1)/2).
"""

import math
from typing import Any

import yaml

from sarqc.errors import Fix
from sarqc.extras.engines.engine_request import EngineRequest, Penalty
from sarqc.extras.engines.program import (
    assemble,
    check_grid,
    folder_of,
    from_pretrained,
    match_other_blocks,
    refusal,
    token_lines,
)

ENGINE = "llm-compressor"
INSTALL = "pip install llmcompressor==0.14.0"
PLUGIN = "import sarqc.extras.engines.llmcompressor  # makes SARQCModifier known to recipes"
IDENTITY = (
    "λ is dampening_frac: that share of the mean of the Gram's diagonal is added to each of its entries.",
    "Weights of channels that no token excites, and of experts that none reaches, become 0; sarqc rounds to nearest.",
)
SALIENCY = (
    "The saliency penalty is a modifier of sarqc; --no-deps, as the two want different versions of transformers.",
)
NOTES = ("Without a Cholesky factor of a Gram it rounds to nearest, where sarqc adds to the diagonal and says so.",)


def program(request: EngineRequest) -> str:
    """Return the program for llm-compressor. Raises ``Refused`` for a setting that it does not have."""
    recipe = request.recipe
    _check(request)
    tokens = token_lines(recipe)
    modifiers = yaml.dump(
        {"quant_stage": _groups(request)}, sort_keys=False, width=math.inf, default_flow_style=None, allow_unicode=True
    )
    body = f'''\
RECIPE = r"""
{modifiers}"""

tokenizer = AutoTokenizer.from_pretrained({from_pretrained(request)})
{tokens.body}
model = AutoModelForCausalLM.from_pretrained({from_pretrained(request)}, dtype="auto")
rows = [{{"input_ids": row, "attention_mask": torch.ones_like(row)}} for row in torch.from_numpy(tokens)]
if hasattr(model.config, "num_experts_per_tok"):
    # Tracing a mixture, llm-compressor 0.14 loses the mask, and attention would look ahead: it is given whole.
    lowest, size = torch.finfo(model.dtype).min, tokens.shape[1]
    causal = torch.full((1, size, size), lowest, dtype=model.dtype).triu(1)
    rows = [row | {{"attention_mask": causal}} for row in rows]
oneshot(
    model=model,
    dataset=DataLoader(rows, batch_size=1),
    recipe=RECIPE,
    num_calibration_samples=len(rows),
    pipeline="sequential",  # one pass for all modifiers; by itself each would see what the one before has quantized
    propagate_error={recipe.inputs_from == "quantized"},  # inputs from the {recipe.inputs_from} blocks before
    moe_calibrate_all_experts=False,  # an expert is calibrated on the tokens that are routed to it
)
model.save_pretrained({folder_of(request)}, save_compressed=True)
tokenizer.save_pretrained({folder_of(request)})
'''
    imports = (
        *tokens.imports,
        "import torch",
        "from llmcompressor import oneshot",
        "from torch.utils.data import DataLoader",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
    )
    notes = [*(IDENTITY if request.is_identity else SALIENCY), *NOTES]
    return assemble(request, f"{ENGINE} 0.14", INSTALL, notes, (*imports, *[PLUGIN] * (not request.is_identity)), body)


def _check(request: EngineRequest) -> None:
    check_grid(ENGINE, request)
    if not request.has_static_scales:
        raise refusal(
            ENGINE,
            f"{ENGINE} takes the scales of groups from the original weights, the run from what earlier columns "
            "made of them",
            "Use static_groups, or order activation, which has them too.",
        ).about("static_groups", Fix("Use static groups", {"static_groups": True}))


def _groups(request: EngineRequest) -> dict[str, Any]:
    """Return the groups of modifiers by their names, which have to end with “_modifiers”."""
    several = len(request.penalties) > 1
    return {
        f"{f'penalty_{number}' if several else 'quant'}_modifiers": _modifier(request, penalty, names)
        for number, (penalty, names) in enumerate(request.penalties.items())
    }


def _modifier(request: EngineRequest, penalty: Penalty, names: tuple[str, ...]) -> dict[str, Any]:
    recipe = request.recipe
    ignored = ["lm_head"] + ([] if request.blocks is None else [f"re:{match_other_blocks(request.blocks)}"])
    weights: dict[str, Any] = {"num_bits": recipe.bits, "type": "int", "symmetric": recipe.grid == "full_range"}
    weights |= (
        {"strategy": "channel"} if recipe.group_size is None else {"strategy": "group", "group_size": recipe.group_size}
    )
    settings = {
        "actorder": None if recipe.order == "natural" else "static",
        "ignore": ignored,
        "config_groups": {"group_0": {"targets": [*names] or ["Linear"], "weights": weights}},
    }
    if penalty.gamma is None:
        return {"GPTQModifier": {"dampening_frac": penalty.lam} | settings}
    return {"SARQCModifier": {"lam": penalty.lam, "gamma": penalty.gamma} | settings}
