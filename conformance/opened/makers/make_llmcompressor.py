"""A checkpoint by llm-compressor's GPTQ."""

import torch
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from llmcompressor import oneshot
from llmcompressor.modifiers.gptq import GPTQModifier
from making import job, rows
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer


def main() -> None:
    given = job()
    tokenizer = AutoTokenizer.from_pretrained(given["model"])
    model = AutoModelForCausalLM.from_pretrained(given["model"], dtype="auto")
    batches = [{"input_ids": row[None], "attention_mask": torch.ones_like(row)[None]} for row in rows(given, tokenizer)]
    groups = {
        name: QuantizationScheme(targets=one["targets"], weights=QuantizationArgs(type="int", **one["weights"]))
        for name, one in given["settings"]["groups"].items()
    }
    modifier = GPTQModifier(
        config_groups=groups, ignore=["lm_head", "re:.*mlp.gate$"], **given["settings"].get("gptq", {})
    )
    oneshot(
        model=model, dataset=DataLoader(batches, batch_size=None), recipe=modifier, num_calibration_samples=len(batches)
    )
    model.save_pretrained(given["target"], save_compressed=True)
    tokenizer.save_pretrained(given["target"])


if __name__ == "__main__":
    main()
