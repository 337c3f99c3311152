"""A run as a program for GPTQModel: its GPTQ, with λ by linear as ``dynamic``, or our penalty in it.

Read in GPTQModel 7.7: ``damp_percent`` times the mean of the Gram's diagonal is added to each of its entries, and has
to lie between 0 and 1; columns are solved in blocks of 128, and a group that begins within one has the scales of
weights that lack the share of the block's earlier columns; the symmetric grid is absmax / ((2^b - 1)/2).
"""

import json

from sarqc.errors import Fix
from sarqc.extras.engines.engine_request import EngineRequest
from sarqc.extras.engines.program import (
    assemble,
    check_grid,
    folder_of,
    from_pretrained,
    match_exactly,
    match_other_blocks,
    refusal,
    token_lines,
)

ENGINE = "GPTQModel"
BLOCK = 128  # columns
NEXT_TO_NOTHING = 1e-6  # damping beside a penalty
INSTALL = "pip install gptqmodel==7.7.0"
IDENTITY = (
    "λ is damp_percent: that share of the mean of the Gram's diagonal is added to each of its entries.",
    "Weights of channels that no token excites become 0, where sarqc rounds them to nearest.",
)
PLUGIN = "from sarqc.extras.engines.gptqmodel import saliency_penalty"
SALIENCY = ("The saliency penalty is a solver of sarqc, which takes the place of GPTQModel's own meanwhile.",)
NOTES = (
    "Experts that no token reaches stay float, where sarqc rounds them to nearest.",
    "Without a Cholesky factor of a Gram it raises λ by 1 % at a time; sarqc adds to the diagonal and says so.",
)


def program(request: EngineRequest) -> str:
    """Return the program for GPTQModel. Raises ``Refused`` for a setting that it does not have."""
    recipe = request.recipe
    _check(request)
    tokens = token_lines(recipe)
    by_order = recipe.order == "activation"
    body = f"""\
config = QuantizeConfig(
    bits={recipe.bits},
    group_size={recipe.group_size or -1},
    sym={recipe.grid == "full_range"},
    desc_act={by_order},
    act_group_aware=False,
    static_groups={request.has_static_scales and recipe.group_size is not None},
    damp_percent={request.usual.lam if request.is_identity else NEXT_TO_NOTHING!r},
    true_sequential=False,  # all linears of a block are solved on the same pass
    fallback=None,  # experts with few tokens are calibrated as well
{_dynamic(request)})

tokenizer = AutoTokenizer.from_pretrained({from_pretrained(request)})
{tokens.body}
# Left to itself, GPTQModel takes bfloat16 on a processor, and rounds the weights.
dtype = AutoConfig.from_pretrained({from_pretrained(request)}).dtype
model = GPTQModel.load({from_pretrained(request)}, quantize_config=config, dtype=dtype)
rows = [{{"input_ids": row, "attention_mask": torch.ones_like(row)}} for row in torch.from_numpy(tokens)]
{_quantize_call(request)}
model.save({folder_of(request)})
"""
    imports = (
        *tokens.imports,
        "import torch",
        "from gptqmodel import GPTQModel, QuantizeConfig",
        "from transformers import AutoConfig, AutoTokenizer",
    )
    notes = [*(IDENTITY if request.is_identity else SALIENCY), *NOTES]
    return assemble(request, f"{ENGINE} 7.7", INSTALL, notes, (*imports, *[PLUGIN] * (not request.is_identity)), body)


def _quantize_call(request: EngineRequest) -> str:
    call = "model.quantize(rows, batch_size=1)"
    if request.is_identity:
        return call
    points = [f"{penalty.lam!r}, {penalty.gamma!r}" for penalty in request.penalties]
    names = [json.dumps(match_exactly(names)) for names in request.penalties.values()]
    others = "".join(f"    {name}: ({point}),\n" for name, point in list(zip(names, points, strict=True))[1:])
    exceptions = f", {{\n{others}}}" if others else ""
    return f"with saliency_penalty({points[0]}{exceptions}):\n    {call}"


def _check(request: EngineRequest) -> None:
    recipe = request.recipe
    check_grid(ENGINE, request)
    if recipe.inputs_from == "float":
        raise refusal(
            ENGINE,
            f"{ENGINE} gives each block the inputs that the quantized blocks before it make, never the float model's",
            "Set inputs_from to quantized.",
        ).about("inputs_from", Fix("Use the quantized blocks’ inputs", {"inputs_from": "quantized"}))
    if not request.has_static_scales and recipe.group_size is not None and recipe.group_size % BLOCK:
        raise refusal(
            ENGINE,
            f"{ENGINE} takes the scales of a group that begins within a block of {BLOCK} columns without what "
            "that block's earlier columns have left",
            f"Use static_groups, or groups of {BLOCK}.",
        ).about("static_groups", Fix("Use static groups", {"static_groups": True}))
    for penalty in request.penalties if request.is_identity else ():
        if not 0 < penalty.lam < 1:
            lam = f"{penalty.lam:g}"
            raise refusal(
                ENGINE,
                f"{ENGINE} takes λ between 0 and 1 and not {lam}",
                "llm-compressor takes every λ.",
            ).about("lambda")


def _dynamic(request: EngineRequest) -> str:
    """Return exceptions by linear: other λ, float blocks."""
    exceptions = {} if request.blocks is None else {f"-:{match_other_blocks(request.blocks)}": "{}"}
    for penalty, names in list(request.penalties.items())[1:] if request.is_identity else ():
        exceptions[match_exactly(names)] = f'{{"damp_percent": {penalty.lam!r}}}'
    if not exceptions:
        return ""
    lines = "".join(f"        {json.dumps(pattern)}: {value},\n" for pattern, value in exceptions.items())
    return f"    dynamic={{\n{lines}    }},\n"
