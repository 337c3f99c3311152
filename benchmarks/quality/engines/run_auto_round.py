"""AutoRound on one job: its checkpoint in GPTQModel's layout of its own format, and what its calibration took.

Its export to GPTQ's format has no place for a zero point of 0 and writes 1, which moves a whole group by a step. Its
own format by itself is AWQ's layout at 4 bits, which 0.16.1 can't write.

Run by the interpreter of an environment that has AutoRound; it knows nothing of this repository.
"""

import sys
from pathlib import Path

import torch
from auto_round import AutoRound
from engine_job import measured, read_job, versions_of, write_done
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGES = ("auto-round", "torch", "transformers")


def _dtype(device: str) -> torch.dtype | str:
    """On a GPU, where it computes in the dtype of the weights, that of the checkpoint, which is its own default."""
    return torch.float32 if device == "cpu" else "auto"


def main(folder: Path) -> None:
    job, tokens = read_job(folder)
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=_dtype(job["device"]))
    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    rounder = AutoRound(
        model, tokenizer=tokenizer, bits=job["bits"], group_size=job["group_size"] or -1, sym=False,
        dataset=list(torch.from_numpy(tokens).split(8)), nsamples=len(tokens), seqlen=tokens.shape[1],
        device_map=job["device"], enable_torch_compile=False,  # compiling takes minutes before the first step
        **job["settings"],
    )  # fmt: skip
    with measured(job["device"]) as costs:
        rounder.quantize()
    rounder.save_quantized(str(folder / "checkpoint"), format="auto_round:gptqmodel")
    write_done(folder, "gptq_v2", costs, versions_of(PACKAGES))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
