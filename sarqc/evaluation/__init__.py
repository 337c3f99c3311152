"""Measuring a model: perplexity, tasks, texts side by side, speed. The constants here need no torch."""

from __future__ import annotations

TEMPERATURE = 0.8  # of sampled text
TOP_P = 0.95
SPEED_REPEATS = 5  # of each measurement of speed, after one that does not count
DECODED_TOKENS = 32  # in each of them, at the end of the sequence
