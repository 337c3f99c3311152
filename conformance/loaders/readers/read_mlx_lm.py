"""mlx-lm, on the processor."""

from pathlib import Path

import mlx.core as mx
from mlx_lm.utils import load_model
from reading import answer_all


def continued(folder: str, prompt: list[int], count: int) -> list[int]:
    model, _ = load_model(Path(folder))
    ids = list(prompt)
    for _ in range(count):
        logits = model(mx.array([ids]))[0, -1]
        ids.append(int(mx.argmax(logits)))
    return ids[len(prompt) :]


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    answer_all(continued, ("mlx-lm", "mlx"))
