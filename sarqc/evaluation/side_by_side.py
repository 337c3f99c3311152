"""Text side by side: one prompt continued by the float and by the quantized model, and the distance of the two.

Axes: T tokens of a continuation, V vocabulary.
"""

from typing import Any

import numpy as np
import torch
from safetensors.numpy import load, save
from torch import Tensor

from sarqc.documents import Comparison, Continuations, TextProtocol
from sarqc.errors import NumericalError
from sarqc.evaluation import TEMPERATURE, TOP_P
from sarqc.models.loading import LoadedModel

MODES = ("greedy", "sampled")


def continue_float(loaded: LoadedModel, ids: np.ndarray, new_tokens: int, seed: int) -> bytes:
    """Return the float model's part of a comparison, before it is quantized in place, as bytes of a safetensors file.

    For each mode the file has the continuation ``<mode>`` (T,) int64, and ``<mode>_log_probabilities`` (T, V) float32
    at temperature 1, of each token given the prompt and the continuation before it.

    Args:
        loaded: The float model.
        ids: Tokens of the prompt.
        new_tokens: Largest number of tokens to add.
        seed: Seed of the sampling.

    Raises:
        NumericalError: If the model's predictions are not finite.
    """
    arrays = {}
    for mode in MODES:
        chosen = continuation(loaded, ids, new_tokens, mode, seed)
        arrays[mode] = np.array(chosen, dtype=np.int64)  # (T,)
        arrays[f"{mode}_log_probabilities"] = log_probabilities(loaded, ids, arrays[mode]).numpy()  # (T, V)
    return save(arrays)


def compare_texts(loaded: LoadedModel, ids: np.ndarray, new_tokens: int, seed: int, float_part: bytes) -> Comparison:
    """Return both continuations of one prompt, greedy and sampled, with the protocol, as in ``events.TextsCompared``.

    Args:
        loaded: The quantized model.
        ids: Tokens of the prompt.
        new_tokens: Largest number of tokens to add.
        seed: Seed of the sampling.
        float_part: The result of ``continue_float`` for the same prompt, number and seed.

    Raises:
        NumericalError: If the model's predictions are not finite.
    """
    float_texts, compared = load(float_part), dict[str, Continuations]()
    for mode in MODES:
        original, quantized = float_texts[mode].tolist(), continuation(loaded, ids, new_tokens, mode, seed)
        forced = log_probabilities(loaded, ids, float_texts[mode])  # (T, V)
        kl = kl_divergence(torch.from_numpy(float_texts[f"{mode}_log_probabilities"]), forced)  # (T,)
        compared[mode] = {
            "float": {"ids": original, "pieces": pieces(loaded.tokenizer, ids, original)},
            "quantized": {"ids": quantized, "pieces": pieces(loaded.tokenizer, ids, quantized)},
            "divergence": divergence(original, quantized),
            "kl": kl.tolist(),
        }
    protocol: TextProtocol = {
        "prompt_tokens": len(ids),
        "new_tokens": new_tokens,
        "kl": "KL(float ‖ quantized) in nats at temperature 1, both models reading the float model's own text",
        "sampled": f"temperature {TEMPERATURE}, top-p {TOP_P}; one uniform number a step for both models, inverted "
        "through the cumulative probabilities in order of token id",
        "seed": seed,
        "dtype": str(next(loaded.model.parameters()).dtype).removeprefix("torch."),
        "device": str(loaded.device),
    }
    return {"greedy": compared["greedy"], "sampled": compared["sampled"], "protocol": protocol}


def continuation(
    loaded: LoadedModel, ids: np.ndarray, new_tokens: int, mode: str, seed: int, *, to_the_end: bool = False
) -> list[int]:
    """Return the tokens that the model adds to a prompt; an end of text is the last.

    ``greedy`` takes the most probable token. ``sampled`` inverts a uniform number for each step, which depends on the
    seed and the prompt only: two models with equal distributions take equal tokens.

    Args:
        loaded: The model.
        ids: Tokens of the prompt.
        new_tokens: Largest number of tokens to add.
        mode: ``greedy`` or ``sampled``.
        seed: Seed of the sampling.
        to_the_end: Continue after an end of text.
    """
    noise = np.random.default_rng([seed, *(int(token) for token in ids)]).random(new_tokens)
    ends = set() if to_the_end else _ends_of_text(loaded)
    tokens = torch.from_numpy(np.array(ids, dtype=np.int64)).to(loaded.device)[None]
    chosen: list[int] = []
    cache = None
    with torch.no_grad():
        while len(chosen) < new_tokens:
            output = loaded.model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache, logits = output.past_key_values, _check_finite(output.logits[0, -1]).double().cpu()  # (V,)
            is_greedy, uniform = mode == "greedy", float(noise[len(chosen)])
            chosen.append(int(logits.argmax()) if is_greedy else invert(nucleus(logits), uniform))
            if chosen[-1] in ends:
                break
            tokens = torch.tensor([chosen[-1:]], device=loaded.device)
    return chosen


def log_probabilities(loaded: LoadedModel, ids: np.ndarray, continued: np.ndarray) -> Tensor:
    """Return ln p of every token of the vocabulary at each place of a given continuation: (T, V) float32 on the CPU.

    It takes one pass without a cache, in both models alike, so that a model differs from itself by exactly 0.
    """
    tokens = torch.from_numpy(np.concatenate([ids, continued])).to(loaded.device)[None]
    with torch.no_grad():
        logits = loaded.model(tokens, use_cache=False, logits_to_keep=len(continued) + 1).logits[0, :-1]  # (T, V)
    return _check_finite(logits).float().log_softmax(dim=-1).cpu()


def kl_divergence(original: Tensor, quantized: Tensor) -> Tensor:
    """Return KL(original ‖ quantized) in nats at each place, (T,) float64, of log-probabilities (T, V)."""
    p, q = original.double(), quantized.double()
    return (p.exp() * (p - q)).sum(dim=-1).clamp(min=0)


def divergence(original: list[int], quantized: list[int]) -> int | None:
    """Return the first position, from 0, at which two continuations differ; None if one begins with the other."""
    return next((at for at, pair in enumerate(zip(original, quantized, strict=False)) if pair[0] != pair[1]), None)


def nucleus(logits: Tensor) -> Tensor:
    """Return probabilities (V,) at ``TEMPERATURE``, cut to the fewest likely tokens that hold ``TOP_P``, with sum 1."""
    p = (logits / TEMPERATURE).softmax(dim=-1)  # (V,)
    ordered, order = p.sort(descending=True, stable=True)
    outside = ordered.cumsum(dim=-1) - ordered >= TOP_P  # those before hold enough already
    p[order[outside]] = 0
    return p / p.sum()


def invert(p: Tensor, uniform: float) -> int:
    """Return the token at which the cumulative probabilities (V,), in order of token id, pass a number in [0, 1)."""
    cumulative = p.cumsum(dim=-1)
    passed = torch.searchsorted(cumulative, uniform * float(cumulative[-1]), right=True)
    return min(int(passed), int(p.nonzero()[-1]))  # rounding may leave the number beyond the last one


def pieces(tokenizer: Any, ids: np.ndarray, continued: list[int]) -> list[str]:
    """Return the text of each token in its place; together they are the text of the continuation.

    Decoding tokens one by one would lose blanks and break characters made of several tokens: a token that only begins a
    character is empty here, and the token that ends it has the whole.
    """

    def text(count: int) -> str:
        tokens = [int(ids[-1]), *continued[:count]]
        decoded: str = tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return decoded

    parts, before = [], text(0)
    for count in range(1, len(continued) + 1):
        now = text(count)
        if now.endswith("\N{REPLACEMENT CHARACTER}") and count < len(continued):
            parts.append("")
            continue
        parts.append(now[len(before) :])
        before = now
    return parts


def _ends_of_text(loaded: LoadedModel) -> set[int]:
    """Return the end-of-text tokens of the model's own generation settings."""
    settings: Any = loaded.model.generation_config
    ends: int | list[int] | None = settings.eos_token_id
    return set() if ends is None else set(ends) if isinstance(ends, list) else {ends}


def _check_finite(logits: Tensor) -> Tensor:
    if not torch.isfinite(logits).all():
        raise NumericalError("the model's predictions are not finite", "text side by side", "Load a sound model.")
    return logits
