"""A run as a program for NNCF, which quantizes models of OpenVINO.

Read in NNCF 3.4: ``damp_percent`` times the mean of the Gram's diagonal is added to each of its entries; 4 bits alone;
INT4_ASYM is (max - min)/(2^b - 1), its range not widened to hold 0, INT4_SYM is absmax / 2^(b-1) with a sign; scales
are taken where a group begins, which has what earlier columns left where blocks are as wide as groups; columns are
taken as they are stored.
"""

from __future__ import annotations

from sarqc.errors import Fix
from sarqc.integrations.engine_request import EngineRequest
from sarqc.integrations.program import PENALTY_REMEDY, assembled, folder_of, from_pretrained, refused
from sarqc.integrations.token_lines import token_lines

ENGINE = "NNCF"
NOTES = (
    "λ is damp_percent: that share of the mean of the Gram's diagonal is added to each of its entries.",
    "Codes are not those of sarqc: each linear gets its inputs from all quantized linears before it, in its own block",
    "too, and the range of a group whose weights have one sign does not hold 0.",
)


def program(wanted: EngineRequest) -> str:
    """Raises ``Refused`` for what NNCF has no setting for."""
    recipe = wanted.recipe
    _check(wanted)
    tokens = token_lines(recipe)
    body = f"""\
tokenizer = AutoTokenizer.from_pretrained({from_pretrained(wanted)})
{tokens.body}
model = OVModelForCausalLM.from_pretrained({from_pretrained(wanted)}, export=True, load_in_8bit=False, compile=False)


def inputs(row):
    named = {{"input_ids": row[None], "attention_mask": np.ones_like(row)[None]}}
    named |= {{"position_ids": np.arange(len(row))[None], "beam_idx": np.zeros(1, dtype=np.int32)}}
    return {{name: named[name] for port in model.model.inputs for name in port.get_names() if name in named}}


model.model = nncf.compress_weights(
    model.model,
    mode=nncf.CompressWeightsMode.INT4_ASYM,
    ratio=1.0,
    group_size={recipe.group_size or -1},
    dataset=nncf.Dataset(list(tokens), inputs),
    subset_size=len(tokens),
    gptq=True,
    backup_mode=nncf.BackupMode.NONE,  # the head and the embedding stay float
    advanced_parameters=AdvancedCompressionParameters(
        gptq_params=AdvancedGPTQParameters(
            damp_percent={wanted.usual.lam!r}, block_size={recipe.group_size or 128}, subset_size=len(tokens)
        )
    ),
)
model.save_pretrained({folder_of(wanted)})
tokenizer.save_pretrained({folder_of(wanted)})
"""
    imports = (
        *tokens.imports, "import nncf", "from transformers import AutoTokenizer",
        "from nncf.quantization.advanced_parameters import AdvancedCompressionParameters, AdvancedGPTQParameters",
        "from optimum.intel import OVModelForCausalLM",
    )  # fmt: skip
    return assembled(wanted, ENGINE, "pip install nncf optimum-intel[openvino]", NOTES, imports, body)


def _check(wanted: EngineRequest) -> None:
    recipe = wanted.recipe
    if not wanted.is_identity:
        raise refused(ENGINE, "has no saliency penalty", PENALTY_REMEDY).about("method")
    if len(wanted.penalties) > 1:
        raise refused(
            ENGINE, "takes one λ for the whole model, and layers here have their own", "Give λ as a number."
        ).about("lambda")
    if recipe.bits != 4:
        raise refused(ENGINE, f"has no {recipe.bits} bits", "Take 4 bits.").about("bits", Fix("4 bits", {"bits": 4}))
    if recipe.grid != "asymmetric":
        raise refused(
            ENGINE, f"has no {recipe.grid} grid: INT4_SYM is absmax / 8 with a sign", "Take grid asymmetric."
        ).about("grid", Fix("Take the asymmetric grid", {"grid": "asymmetric"}))
    if recipe.order != "natural":
        raise refused(ENGINE, "takes columns as they are stored", "Take order natural.").about(
            "order", Fix("Take columns as they are stored", {"order": "natural"})
        )
    if recipe.static_groups and recipe.group_size is not None:
        raise refused(
            ENGINE, "takes the scales of a group where the group begins, the run from the original weights",
            "Leave static_groups out.",
        ).about("static_groups", Fix("Leave static groups out", {"static_groups": False}))  # fmt: skip
    if recipe.inputs_from == "float":
        raise refused(
            ENGINE, "gives each linear the inputs that the quantized ones before it make",
            "Set inputs_from to quantized.",
        ).about("inputs_from", Fix("Use the quantized blocks’ inputs", {"inputs_from": "quantized"}))  # fmt: skip
    if wanted.blocks is not None:
        raise refused(
            ENGINE, "calls linears by names of OpenVINO's graph, so a part of the blocks can't be named",
            "Leave blocks and share out.",
        ).about("blocks")  # fmt: skip
