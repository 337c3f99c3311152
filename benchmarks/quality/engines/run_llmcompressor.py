"""llm-compressor's GPTQ on one job: its own packed checkpoint, and what its calibration took.

Run by the interpreter of an environment that has llm-compressor; it knows nothing of this repository.
"""

import sys
from pathlib import Path

import torch
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from engine_job import measured, read_job, versions_of, write_done
from llmcompressor import oneshot
from llmcompressor.modifiers.gptq import GPTQModifier
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

PACKAGES = ("llmcompressor", "compressed-tensors", "torch", "transformers")


def main(folder: Path) -> None:
    job, tokens = read_job(folder)
    settings = dict(job["settings"])
    on_cpu = job["device"] == "cpu"  # on a GPU the dtype of the checkpoint, as users would have it
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32 if on_cpu else "auto")
    rows = [{"input_ids": row, "attention_mask": torch.ones_like(row)} for row in torch.from_numpy(tokens)]
    if hasattr(model.config, "num_experts_per_tok"):
        # Tracing a mixture, llm-compressor 0.14 loses the mask, and attention would look ahead: it is given whole.
        lowest, size = torch.finfo(model.dtype).min, tokens.shape[1]
        causal = torch.full((1, size, size), lowest, dtype=model.dtype).triu(1)
        rows = [row | {"attention_mask": causal} for row in rows]
    weights = QuantizationArgs(
        num_bits=job["bits"], type="int", symmetric=settings.pop("symmetric", False),
        strategy="group" if job["group_size"] else "channel", group_size=job["group_size"],
    )  # fmt: skip
    recipe = GPTQModifier(
        config_groups={"group_0": QuantizationScheme(targets=["Linear"], weights=weights)},
        ignore=["lm_head", "re:.*mlp.gate$"], **settings.pop("gptq", {}),
    )  # fmt: skip
    with measured(job["device"]) as costs:
        batches = DataLoader(rows, batch_size=1)
        oneshot(model=model, dataset=batches, recipe=recipe, num_calibration_samples=len(rows), **settings)
    model.save_pretrained(folder / "checkpoint", save_compressed=True)
    write_done(folder, "compressed-tensors", costs, versions_of(PACKAGES))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
