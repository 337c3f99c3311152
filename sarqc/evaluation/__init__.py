"""Measurements of a model: perplexity, tasks, texts side by side, speed. The constants here need no torch."""

TEXTS = "text side by side"  # the stage of a run that continues prompts
TEMPERATURE = 0.8  # of sampled text
TOP_P = 0.95
SPEED_REPEATS = 5  # of each measurement of speed, after one that does not count
DECODED_TOKENS = 32  # in each of them, at the end of the sequence
LOGIT_BYTES = 1 << 28  # float32 logits that perplexity holds at once

_TASK_BATCH, _TASK_TOKENS, _TASK_BYTES = 32, 512, 2 << 30


def loss_bytes(*, on_processor: bool) -> int:
    """Return the bytes of float32 logits whose softmax is computed at once.

    Few fit into the cache of a processor; many are better for a GPU, where each operation costs a launch.
    """
    return 1 << 22 if on_processor else 1 << 27


def task_batch(vocabulary: int, positions: int) -> int:
    """Return the number of items of a task that a model reads at once; fewer for a large vocabulary."""
    return max(1, min(_TASK_BATCH, _TASK_BYTES // _item_bytes(vocabulary, positions)))


def task_bytes(vocabulary: int, positions: int) -> int:
    """Return the bytes of their float32 logits and log-probabilities, which lm-eval makes of whole batches."""
    return task_batch(vocabulary, positions) * _item_bytes(vocabulary, positions)


def _item_bytes(vocabulary: int, positions: int) -> int:
    """Return the bytes of a long item; few are longer than that."""
    return 2 * 4 * vocabulary * min(positions, _TASK_TOKENS)
