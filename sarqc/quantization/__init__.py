"""Grids, losses and solvers on plain tensors; needs torch and nothing else.

This module imports nothing, so that ``sarqc.quantization.methods`` (data only) can be read without torch.
"""
