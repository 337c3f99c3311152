"""OpenVINO by way of optimum-intel, which traces the model that transformers loads."""

import torch
from optimum.intel import OVModelForCausalLM
from reading import answer_all, greedy


def continued(folder: str, prompt: list[int], count: int) -> list[int]:
    hint = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    model = OVModelForCausalLM.from_pretrained(
        folder, export=True, use_cache=False, load_in_8bit=False, ov_config=hint, device="CPU"
    )
    return greedy(_called(model), prompt, count)


def _called(model: OVModelForCausalLM):
    return lambda ids: model(input_ids=ids, attention_mask=torch.ones_like(ids))


if __name__ == "__main__":
    answer_all(continued, ("optimum-intel", "openvino", "transformers", "torch"))
