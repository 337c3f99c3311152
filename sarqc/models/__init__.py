"""Checkpoints, families of architectures, and walks through their blocks; no torch in this module."""

BATCH_TOKENS = 8192  # tokens that go through a block at once
# Times as many on a GPU where there are experts: of each batch an expert gets a small part, for dozens of operations.
BATCHES_FOR_EXPERTS = 4
