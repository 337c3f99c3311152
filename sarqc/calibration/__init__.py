"""Calibration: statistics of the inputs of linears, and the solution of a model block by block."""
