"""Checkpoints, families of architectures, and walks through their blocks. No torch here."""

BATCH_TOKENS = 8192  # tokens that go through a block at once
# Times as many on a GPU where there are experts: of each batch an expert gets a small part, for dozens of operations.
BATCHES_FOR_EXPERTS = 4
