"""A run as a program for NVIDIA's ModelOpt.

Read in ModelOpt 0.47: ``perc_damp`` times the mean of the Gram's diagonal is added to each of its entries, more than 0
and at most 1; scales are those of the original weights; the grid of integers is absmax / (2^(b-1) - 1); columns are
taken as they are stored; ``layerwise`` gives each block the inputs that the quantized blocks before it make.
"""

from __future__ import annotations

import json
from typing import Any

from sarqc.errors import Fix
from sarqc.integrations.engine_request import EngineRequest
from sarqc.integrations.program import PENALTY_REMEDY, assembled, folder_of, from_pretrained, refused
from sarqc.integrations.token_lines import token_lines

ENGINE = "ModelOpt"
BLOCK = 128  # columns that pass between two updates of the rest; a multiple of the group
NOTES = (
    "λ is perc_damp: that share of the mean of the Gram's diagonal is added to each of its entries.",
    "Where a Gram has no Cholesky factor it rounds to nearest, where sarqc adds to the diagonal and says so.",
)


def program(wanted: EngineRequest) -> str:
    """Raises ``Refused`` for what ModelOpt has no setting for."""
    recipe = wanted.recipe
    _check(wanted)
    tokens = token_lines(recipe)
    quantizers = "".join(f"        {_python(one)},\n" for one in _quantizers(wanted))
    group, is_in_turn = recipe.group_size or BLOCK, recipe.inputs_from == "quantized"
    body = f"""\
CONFIG = {{
    "quant_cfg": [
{quantizers}    ],
    "algorithm": {{
        "method": "gptq",
        "perc_damp": {wanted.usual.lam!r},
        "block_size": {max(1, BLOCK // group) * group},
        "layerwise": {{"enable": {is_in_turn}}},  # inputs from the {recipe.inputs_from} blocks before
    }},
}}

tokenizer = AutoTokenizer.from_pretrained({from_pretrained(wanted)})
{tokens.body}
model = AutoModelForCausalLM.from_pretrained({from_pretrained(wanted)}, dtype="auto", device_map="auto")


def calibrate(model):
    with torch.no_grad():
        for row in torch.from_numpy(tokens).to(model.device):
            model(row[None])


mtq.quantize(model, CONFIG, forward_loop=calibrate)
mtq.fold_weight(model)  # the levels that were chosen, as ordinary weights
model.save_pretrained({folder_of(wanted)})
tokenizer.save_pretrained({folder_of(wanted)})
"""
    imports = (
        *tokens.imports, "import torch", "import modelopt.torch.quantization as mtq",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
    )  # fmt: skip
    return assembled(wanted, ENGINE, "pip install nvidia-modelopt[hf]", NOTES, imports, body)


def _quantizers(wanted: EngineRequest) -> list[dict[str, Any]]:
    """Which weights are quantized and how; a later entry overrules those before."""
    recipe = wanted.recipe
    cfg: dict[str, Any] = {"num_bits": recipe.bits}
    cfg |= {"axis": 0} if recipe.group_size is None else {"block_sizes": {-1: recipe.group_size}}
    blocks = [""] if wanted.blocks is None else [f"layers.{block}.*" for block in wanted.blocks]
    return [
        {"quantizer_name": "*", "enable": False},
        *({"quantizer_name": f"*{block}weight_quantizer", "cfg": cfg} for block in blocks),
        *({"quantizer_name": name, "enable": False} for name in ("*lm_head*", "*mlp.gate.*")),
    ]


def _python(value: object) -> str:
    """As Python writes it, with the quotes of the program."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_python(name)}: {_python(one)}" for name, one in value.items()) + "}"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _check(wanted: EngineRequest) -> None:
    recipe = wanted.recipe
    if not wanted.is_identity:
        raise refused(ENGINE, "has no saliency penalty", PENALTY_REMEDY).about("method")
    if len(wanted.penalties) > 1:
        raise refused(
            ENGINE, "takes one λ for the whole model, and layers here have their own", "Give λ as a number."
        ).about("lambda")
    if not 0 < wanted.usual.lam <= 1:
        raise refused(
            ENGINE, f"takes λ above 0 and at most 1 and not {wanted.usual.lam:g}", "llm-compressor takes every λ."
        ).about("lambda")
    if recipe.grid != "symmetric":
        raise refused(
            ENGINE, f"has no {recipe.grid} grid: its integers are symmetric, absmax / (2^(b-1) - 1)",
            "Take grid symmetric.",
        ).about("grid", Fix("Take the symmetric grid", {"grid": "symmetric"}))  # fmt: skip
    if recipe.order != "natural":
        raise refused(ENGINE, "takes columns as they are stored", "Take order natural, with static_groups.").about(
            "order", Fix("Take columns as they are stored", {"order": "natural", "static_groups": True})
        )
    if not wanted.has_static_scales:
        raise refused(
            ENGINE,
            "takes the scales of groups from the original weights, the run from what earlier columns made of them",
            "Take static_groups.",
        ).about("static_groups", Fix("Take static groups", {"static_groups": True}))
