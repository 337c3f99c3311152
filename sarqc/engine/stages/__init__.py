"""Stages of runs, each a function of the run that yields its events."""
