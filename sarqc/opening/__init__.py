"""Checkpoints that others quantized, beside their float original: which linears have codes, and what they stand for."""
