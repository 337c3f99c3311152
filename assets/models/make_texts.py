"""Makes the texts and the multiple-choice task of an embedded model by sampling from the model itself.

    python assets/models/make_texts.py assets/models/tiny-llama

Perplexity on text that a model wrote measures how far a quantized copy is from it. Documents are sampled from the
beginning-of-text token at temperature 1, computed in float64 with one seed, so that the files can be made again bit
for bit.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

SEED = 20261120
DOCUMENT_TOKENS = 256
BATCH = 64
TOKENS = {"calibration": 52_000, "held_out": 12_500, "test": 17_500}  # before tokenising anew; a few are lost
ITEMS, CONTEXT_TOKENS, CONTINUATION_TOKENS = 120, 20, 8
END = "�"  # what bytes that are no text decode to


def sample_documents(model: torch.nn.Module, start: int, count: int, random: np.random.Generator) -> np.ndarray:
    """``count`` documents of DOCUMENT_TOKENS token ids, by inverse transform sampling: (count, tokens)."""
    ids = torch.full((count, 1), start)
    cache, documents = None, []
    with torch.no_grad():
        for _ in range(DOCUMENT_TOKENS):
            out = model(ids, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            cumulative = out.logits[:, -1].softmax(-1).cumsum(-1)  # (count, vocabulary)
            draws = torch.from_numpy(random.random((count, 1)))
            ids = torch.searchsorted(cumulative, draws).clamp_(max=cumulative.shape[-1] - 1)
            documents.append(ids)
    return torch.cat(documents, dim=1).numpy()


def main(folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, local_files_only=True, experts_implementation="eager"
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    random = np.random.default_rng(SEED)
    start, end = model.config.bos_token_id, model.config.eos_token_id

    def clean_documents(n_tokens: int) -> list[str]:
        """Documents with at least ``n_tokens`` tokens in all, cut at the end-of-text token, without broken bytes."""
        found: list[str] = []
        total = 0
        while total < n_tokens:
            for ids in sample_documents(model, start, BATCH, random):
                stop = int(np.argmax(ids == end)) if (ids == end).any() else len(ids)
                text = tokenizer.decode(ids[:stop], skip_special_tokens=True).strip()
                if END not in text and stop > 2 * (CONTEXT_TOKENS + CONTINUATION_TOKENS) and total < n_tokens:
                    found.append(text)
                    total += stop
        return found

    for name, n_tokens in TOKENS.items():
        path = folder / f"{name}.txt"
        path.write_text("\n\n".join(clean_documents(n_tokens)) + "\n", encoding="utf-8")
        print(path, path.stat().st_size, "bytes")

    contexts, continuations = [], []
    for text in clean_documents(ITEMS * DOCUMENT_TOKENS * 2)[:ITEMS]:
        ids = tokenizer(text)["input_ids"]
        contexts.append(tokenizer.decode(ids[:CONTEXT_TOKENS]))
        continuations.append(tokenizer.decode(ids[CONTEXT_TOKENS : CONTEXT_TOKENS + CONTINUATION_TOKENS]))
    with (folder / "continuations.jsonl").open("w", encoding="utf-8") as file:
        for position, context in enumerate(contexts):
            others = random.choice([other for other in range(len(contexts)) if other != position], 3, replace=False)
            order = random.permutation([position, *others])
            item = {
                "context": context,
                "choices": [continuations[choice] for choice in order],
                "answer": int(np.flatnonzero(order == position)[0]),
            }
            file.write(json.dumps(item, ensure_ascii=False) + "\n")
    print(folder / "continuations.jsonl", len(contexts), "items")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
