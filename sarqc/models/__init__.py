"""Checkpoints, families of architectures, and walks through their blocks; no torch in this module."""

# A processor gains nothing from larger batches, and memory for activations grows with them.
_ON_PROCESSOR, _ON_GPU = 2048, 8192  # tokens
_FOR_EXPERTS = 4  # times as many on a GPU: an expert gets a small part of each batch, for dozens of operations


def batch_tokens(*, on_processor: bool, mixture: bool) -> int:
    """Return the number of tokens that go through a block at once."""
    if on_processor:
        return _ON_PROCESSOR
    return _ON_GPU * (_FOR_EXPERTS if mixture else 1)
