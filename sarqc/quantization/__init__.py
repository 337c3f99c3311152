"""The mathematics: grids, losses and solvers on plain tensors. Needs torch and nothing else.

Nothing is imported here, so that ``sarqc.quantization.methods`` (nouns only) can be read without torch.
"""
