"""A small checkpoint of every kind, and what the model that was exported says.

The models have random weights in float32: what a reader computes otherwise than it should can't hide behind rounding.
GPTQ's format is for readers that know 16 bits alone, so its checkpoints are in float16.
"""

import json
import shutil
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, Qwen3MoeConfig

from sarqc.checkpoints.formats import PACKED_BITS, Format, kind_of, why_not
from sarqc.engine.execute import execute
from sarqc.evaluation.side_by_side import continuation
from sarqc.events import Finished
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import load
from sarqc.quantization.storage import KINDS
from sarqc.recipe import Recipe
from sarqc.settings import Settings

GROUP = 32
TOKENS = 64
PROMPT = 32
_SIZES = {
    "vocab_size": 4096, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 256, "tie_word_embeddings": False,
}  # fmt: skip
_EXPERTS = {"moe_intermediate_size": 64, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True}
MODELS: dict[bool, PreTrainedConfig] = {
    False: LlamaConfig(**_SIZES),
    True: Qwen3MoeConfig(**_SIZES, **_EXPERTS),
}


DTYPES: dict[torch.dtype, tuple[Format, ...]] = {
    torch.float32: ("plain", "packed", "mlx"),
    torch.float16: ("gptq",),
}


@dataclass(frozen=True)
class Kind:
    """One checkpoint. ``expected``: what the exported model says after ``prompt``, both token ids."""

    name: str  # as in the table
    format: str
    folder: Path
    prompt: tuple[int, ...]
    expected: tuple[int, ...]


def make_kinds(folder: Path) -> list[Kind]:
    """Every kind that can be written, under a folder; what an earlier call has made there is taken."""
    settings = Settings().model_copy(update={"state_dir": folder / "state"})
    kinds = []
    for (is_mixture, config), (dtype, formats) in product(MODELS.items(), DTYPES.items()):
        source = _float_model(folder, config, dtype, settings.assets_dir / "models" / "tiny-llama")
        for bits, grid in product(PACKED_BITS, KINDS):
            recipe = Recipe.parse({
                "model": str(source), "bits": bits, "grid": grid, "group_size": GROUP, "method": "gptq",
                "calibration": "tiny-llama-calibration", "samples": 8, "length": 64, "baseline": False,
            })  # fmt: skip
            kinds += _written(recipe, settings, source.parent / f"{source.name}-{bits}-{grid}", is_mixture, formats)
    return list({kind.name: kind for kind in reversed(kinds)}.values())[::-1]  # one plain one for all widths and grids


def _float_model(folder: Path, config: PreTrainedConfig, dtype: torch.dtype, tokenizer: Path) -> Path:
    source = folder / f"{config.model_type}-{str(dtype).removeprefix('torch.')}"
    if not source.exists():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.data.normal_(std=0.2)
        model.to(dtype).save_pretrained(source)
        described = json.loads((source / "config.json").read_text())
        described["rope_theta"] = described["rope_parameters"]["rope_theta"]  # as published checkpoints have them
        if "num_local_experts" in described:
            described["num_experts"] = described["num_local_experts"]
        (source / "config.json").write_text(json.dumps(described))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(tokenizer / name, source / name)
    return source


def _written(
    recipe: Recipe, settings: Settings, place: Path, is_mixture: bool, formats: tuple[Format, ...]
) -> list[Kind]:
    """One recipe's model in those of the formats that can carry it, below a folder. What they should say is asked of
    the plain one, read by sarqc itself.
    """
    wanted = [one for one in formats if why_not(recipe, one) is None]
    if not wanted:
        return []
    places = {one: place / one for one in dict.fromkeys([*wanted, "plain"])}
    for checkpoint_format, target in places.items():
        if not target.exists():
            *_, finished = execute(recipe, settings, checkpoint_dir=target, checkpoint_format=checkpoint_format)
            assert isinstance(finished, Finished)
            written = finished.summary["written"]
            if written["other_tensors"] or written["parts_at"] is not None:
                raise AssertionError(written["words"])
    said = place / "expected.json"
    if not said.exists():
        loaded = load(read_checkpoint(places["plain"]), torch.device("cpu"))
        text = (settings.assets_dir / "models" / "tiny-llama" / "test.txt").read_text(encoding="utf-8")[:2000]
        prompt = loaded.tokenizer(text)["input_ids"][:PROMPT]
        expected = continuation(loaded, prompt, TOKENS, "greedy", 0, to_the_end=True)
        said.write_text(json.dumps({"prompt": prompt, "expected": expected}))
    document = json.loads(said.read_text())
    prompt, expected = tuple(document["prompt"]), tuple(document["expected"])
    names = {one: kind_of(one, recipe.bits, recipe.grid, is_mixture=is_mixture) for one in wanted}
    return [Kind(name, one, places[one], prompt, expected) for one, name in names.items()]
