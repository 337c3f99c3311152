"""Recipes run by other engines: a recipe as a program for an engine, and saliency as a plugin of it.

A module ``to_…`` writes text and knows its engine by name alone; a module with an engine's own name needs that engine.
"""
