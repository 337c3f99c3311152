"""What is tuned here, run elsewhere: a recipe as a program for another engine, and saliency as a plugin of it.

A module ``to_…`` writes text and knows its engine by name alone; one with an engine's own name needs that engine.
"""
