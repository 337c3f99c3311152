"""Checkpoints of quantized models: formats written here, and formats read from other tools."""
